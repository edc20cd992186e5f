"""Pare: its formula, its manners as an estimator, and what it is for."""

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ModelError, TrainingError
from turnabout.models import Differentiable, ReluNet
from turnabout.nn.inner import Corners, FineGrid, LinearStep, ProjectedSteps
from turnabout.nn.mlp import StackedMlp
from turnabout.rules import Ball, Box, Budget, Polytope
from turnabout.train import Pare, calibrate, fit_together
from turnabout.train.stack import Examples, StackSettings, _step

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 100, step=0.01),
        ta.Number("hours", 0, 60, step=0.01, moves="up"),
        ta.Number("age", 18, 90, step=1, moves="fixed"),
        ta.Category("job", ("none", "part", "full")),
        ta.Binary("owner", ("no", "yes"), "fixed"),
    )
)


def applicants(n=400, seed=0):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "income": rng.uniform(0, 100, n).round(2),
            "hours": rng.uniform(0, 60, n).round(2),
            "age": rng.integers(18, 91, n),
            "job": rng.choice(["none", "part", "full"], n),
            "owner": rng.choice(["no", "yes"], n),
        }
    )
    score = people["income"] / 25 + people["hours"] / 30 + (people["job"] == "full") + rng.normal(0, 0.5, n) - 3.5
    return people, score > 0


def small(**given):
    settings = {"region": Box({"hours": 12}), "hidden": (16,), "epochs": 6, "batch": 32, "lr": 0.01} | given
    return Pare(SCHEMA, **settings)


@pytest.fixture(scope="module")
def fitted():
    people, accepted = applicants()
    return small().fit(people, accepted)


def test_gradient_of_the_objective_is_autograds():
    """One step on numbers: (1) differentiated by torch, with the change held fixed."""
    people, accepted = applicants(8)
    x = SCHEMA.encode(people).float()
    around = Box({"hours": 12}).bind(SCHEMA).around(x)
    pares = [small(lam=0.0), small(lam=0.7, seed=1)]
    net = StackedMlp(x.shape[1], (6,), [0, 1])
    rows = torch.arange(8).expand(2, 8)
    y = torch.as_tensor(accepted.to_numpy(copy=True), dtype=torch.float32)
    lam, weights = torch.tensor([p.lam for p in pares]), torch.tensor([[1.0, 2.0], [1.5, 1.0]])
    settings = StackSettings(lam=lam, weights=weights, dropout=0.0)
    loss = _step(net, Examples(x, y, around, rows, rows), settings, rows, torch.Generator())
    for m in range(2):
        module = net.module(m).float()
        for parameter in module.parameters():
            parameter.requires_grad_()
        delta = around.steepest(net.gradient(x.expand(2, -1, -1))[m])
        own, moved = module(x).squeeze(1), module(x + delta).squeeze(1)
        bce = torch.nn.functional.binary_cross_entropy_with_logits
        weight = torch.where(y > 0, weights[m, 1], weights[m, 0])
        expected = (weight * bce(own, y, reduction="none")).mean() + lam[m] * bce(moved, torch.ones(8))
        assert float(loss[m]) == pytest.approx(float(expected.detach()), rel=1e-5)
        first = torch.autograd.grad(expected, module[0].weight)[0]
        assert torch.allclose(net.cut(net.gradients)[0][m].T, first, atol=1e-6)


def test_the_change_raises_the_score_of_a_linear_network():
    """The sign: on a logistic regression the linear step is the exact best change, never a harmful one."""
    people, accepted = applicants()
    pare = small(hidden=(), region=Box({"hours": 12, "income": 10, "job": 1})).fit(people, accepted)
    model, x = pare.model(), SCHEMA.encode(people)
    around = pare.region.bind(SCHEMA).around(x)
    best = model.margin(x + LinearStep()(model, around))
    assert (best >= model.margin(x)).all()
    assert torch.allclose(best, model.margin(x + Corners()(model, around)), atol=1e-12)


def test_stronger_inner_minimisers_reach_no_less():
    people, accepted = applicants()
    pare = small(region=Box({"hours": 12, "income": 20})).fit(people, accepted)
    model, x = pare.model(), SCHEMA.encode(people)
    around = pare.region.bind(SCHEMA).around(x)
    reach = {
        inner: model.margin(x + inner(model, around))
        for inner in (LinearStep(), ProjectedSteps(3), Corners(), FineGrid(9))
    }
    assert (reach[ProjectedSteps(3)] >= reach[LinearStep()] - 1e-12).all()
    assert (reach[FineGrid(9)] >= reach[Corners()] - 1e-9).all()  # its ends are the corners
    assert (reach[ProjectedSteps(3)] >= model.margin(x) - 1e-12).all()


def test_recourse_training_grants_more_recourse():
    people, accepted = applicants(1500)
    shares = []
    for pare in fit_together([small(lam=0.0, epochs=8), small(lam=2.0, epochs=8)], people, accepted):
        pare.threshold = 0.6
        refused = people[~pare.predict(people)]
        reached = pare.attain(refused)
        shares.append(pare.predict(reached).mean())
    assert shares[1] > shares[0] + 0.1


def test_same_seed_same_weights_to_the_bit():
    people, accepted = applicants(200)
    a, b, c = (small(seed=s, epochs=2).fit(people, accepted).predict_proba(people) for s in (3, 3, 4))
    assert (a == b).all()
    assert (a != c).any()


def test_a_stack_trains_each_member_on_its_own_rows():
    people, accepted = applicants(300)
    rows = [np.arange(0, 200), np.arange(100, 300)]
    first, second = fit_together([small(seed=1), small(seed=1)], people, accepted, rows)
    assert set(first.held_out_) <= set(range(200)) and set(second.held_out_) <= set(range(100, 300))
    assert len(first.trained_on_) == 200
    assert not np.allclose(first.predict_proba(people), second.predict_proba(people))


def test_attained_rows_are_legal_within_delta_and_no_worse(fitted):
    people, _ = applicants(200, seed=5)
    reached = fitted.attain(people)
    assert list(reached.index) == list(people.index)
    assert not SCHEMA.breaches(people, reached).any()
    assert ((reached["hours"] - people["hours"]).between(0, 12 + 1e-9)).all()
    assert (reached.drop(columns="hours") == people.drop(columns="hours")).all().all()
    assert (fitted.score_of(reached) >= fitted.score_of(people)).all()


def test_wrapped_it_is_a_relu_net_that_decides_alike(fitted):
    people, _ = applicants(200, seed=6)
    model = ta.models.wrap(fitted, SCHEMA, threshold=0.4)
    assert isinstance(model, ReluNet) and isinstance(model, Differentiable)
    assert ((model.judge(people) >= 0) == (fitted.score_of(people) >= 0.4)).all()
    problem = ta.Problem(SCHEMA, model, rules=[fitted.region])
    answer = ta.methods.OneStep().fit(problem).find(people)
    assert (answer.status == ta.Status.FOUND).any()
    other = ta.Schema((ta.Number("income", 0, 100),))
    with pytest.raises(ModelError, match="Pare was trained with another schema"):
        ta.models.wrap(fitted, other)


def test_scikit_learn_knows_it():
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import cross_val_score

    people, accepted = applicants(300)
    pare = small(epochs=12)
    assert is_classifier(pare) and repr(clone(pare)) == repr(pare)
    assert cross_val_score(pare, people, accepted, cv=2).mean() > 0.6
    assert pare.set_params(lam=0.1).lam == 0.1
    with pytest.raises(TrainingError, match="Pare has no parameter 'depth'"):
        pare.set_params(depth=2)


def test_progress_and_early_stopping():
    people, accepted = applicants(200)
    seen = []
    pare = small(epochs=50, lr=0.05, patience=2).fit(
        people, accepted, progress=lambda done, total: seen.append(done / total)
    )
    assert seen == sorted(seen) and seen[-1] == 1
    assert len(pare.history_.train) < 50
    assert pare.history_.validation[pare.history_.kept] == min(pare.history_.validation)


@pytest.mark.parametrize("keep", ["loss", "f1", "last"])
def test_every_rule_for_the_epoch_works(keep):
    people, accepted = applicants(200)
    pare = small(keep=keep, epochs=3, class_weight=(1, 2), activation="tanh").fit(people, accepted)
    assert 0 <= pare.history_.kept < 3
    assert pare.score(people, accepted) > 0.5


def test_calibration_on_the_training_rows_is_refused(fitted):
    people, _ = applicants()
    with pytest.raises(TrainingError, match="train"):
        calibrate(fitted, people)
    fresh, _ = applicants(seed=9)
    certificate = calibrate(fitted, fresh)
    assert certificate.n == 400 and 0 < certificate.threshold < 1


def test_bad_input_is_explained():
    people, accepted = applicants(100)
    with pytest.raises(TrainingError, match="all 100 people are labelled accepted"):
        small().fit(people, np.ones(100))
    with pytest.raises(TrainingError, match="the labels hold 2"):
        small().fit(people, np.arange(100) % 3)
    with pytest.raises(TrainingError, match="99 labels for 100 people"):
        small().fit(people, accepted[:99])
    with pytest.raises(TrainingError, match="different indexes"):
        small().fit(people, accepted.sample(frac=1, random_state=0))
    with pytest.raises(TrainingError, match="no longer a finite number"):
        small(lr=1e30).fit(people, accepted)
    with pytest.raises(TrainingError, match="lam=-1, which is not a number from 0 up"):
        small(lam=-1).fit(people, accepted)
    with pytest.raises(TrainingError, match="not trained yet"):
        small().predict(people)
    with pytest.raises(TrainingError, match="is not a Region"):
        small(region={"hours": 3}).fit(people, accepted)
    with pytest.raises(TrainingError, match="class_weight='heavy' is not known"):
        small(class_weight="heavy").fit(people, accepted)
    with pytest.raises(TrainingError, match="differ in batch"):
        fit_together([small(), small(batch=8)], people, accepted)
    with pytest.raises(TrainingError, match="too few to train on"):
        small().fit(people[:2], np.array([0, 1]))
    with pytest.raises(TrainingError, match="validation=1, which is not a number strictly between 0 and 1"):
        small(validation=1).fit(people, accepted)
    with pytest.raises(TrainingError, match="rows must hold one array"):
        fit_together([small()], people, accepted, rows=[])
    with pytest.raises(TrainingError, match="nothing to train"):
        fit_together([], people, accepted)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"epochs": 0}, "epochs=0, which is not a whole number from 1 up"),
        ({"epochs": 2.5}, "epochs=2.5, which is not a whole number"),
        ({"batch": 0}, "batch=0, which is not"),
        ({"hidden": 100}, "hidden=100, which is not a list"),
        ({"hidden": (0,)}, "which is not a list of 0 or more, each a whole number from 1 up"),
        ({"dropout": 1.0}, "dropout=1.0, which is not a number from 0 up, below 1"),
        ({"lr": -1}, "lr=-1, which is not a number above 0"),
        ({"keep": "F1"}, "keep='F1', which is not one of 'loss', 'f1', 'last'"),
        ({"patience": -3}, "patience=-3, which is not a whole number from 1 up, or None"),
        ({"seed": 1.7}, "seed=1.7, which is not a whole number from 0 up"),
        ({"threshold": 2.0}, "threshold=2.0, which is not a number strictly between 0 and 1"),
        ({"lam": "0.8"}, "lam='0.8', which is not a number"),
        ({"inner": "x"}, "inner='x', which is not a search of Delta"),
        ({"device": "nonsense"}, "device='nonsense', which is not a device of this machine"),
        ({"class_weight": {0: 1, 1: 2}}, "class_weight={0: 1, 1: 2} is not known"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given, told):
    people, accepted = applicants(60)
    with pytest.raises(TrainingError) as refusal:
        small(**given).fit(people, accepted)
    assert told in str(refusal.value)


def test_labels_of_any_plain_kind_are_read_and_gaps_refused():
    people, accepted = applicants(120)
    whole = small(epochs=1).fit(people, accepted).score_of(people)
    for labels in (accepted.astype(object), accepted.astype(int), accepted.astype("boolean"), accepted.tolist()):
        assert (small(epochs=1).fit(people, labels).score_of(people) == whole).all()
    gaps = accepted.astype("boolean")
    gaps.iloc[3] = pd.NA
    with pytest.raises(TrainingError, match="the labels hold <NA>"):
        small().fit(people, gaps)
    with pytest.raises(TrainingError, match=r"labels have the shape \(120, 1\) for 120 people"):
        small().fit(people, accepted.to_numpy()[:, None])
    with pytest.raises(TrainingError, match="nobody to judge"):
        small(epochs=1).fit(people, accepted).score(people[:0], [])


def test_each_person_stands_once():
    people, accepted = applicants(80)
    twice = people.set_index(pd.Index([i // 2 for i in range(80)]))
    with pytest.raises(TrainingError, match="two people share the index label 0"):
        small().fit(twice, accepted.to_numpy())
    for rows in (np.zeros(40, int), np.arange(60, 100), np.linspace(0, 1, 40)):
        with pytest.raises(TrainingError, match="positions from 0 to 79, each once"):
            fit_together([small()], people, accepted, rows=[rows])
    mask = np.arange(80) < 60
    (pare,) = fit_together([small(epochs=1)], people, accepted, rows=[mask])
    assert len(pare.trained_on_) == 60


TURNS = np.linspace(0, 2 * np.pi, 36, endpoint=False)
ROUND = [({"income": np.cos(t), "hours": np.sin(t)}, 9.0) for t in TURNS]


@pytest.mark.parametrize(
    "region",
    [
        None,
        Budget(15, weights={"income": 1.0, "hours": 2.0, "job": 10.0}),
        Ball(1.0, scales={"income": 10, "hours": 6}),
        Polytope([({"income": -1.0, "hours": -1.0}, 12.0)], reach={"income": 10, "hours": 8}),
        Polytope(ROUND),  # too many vertices to list: linear programs
    ],
    ids=["schema", "budget", "ball", "vertices", "programs"],
)
def test_every_region_trains_and_holds(region):
    people, accepted = applicants(150)
    pare = small(region=region, epochs=1, batch=50).fit(people, accepted)
    reached = pare.attain(people)
    x, x_new = SCHEMA.encode(people), SCHEMA.encode(reached)
    assert not SCHEMA.breaches(people, reached).any()
    assert (pare.region_of().bind(SCHEMA).violation(x, x_new) == 0).all()
    assert (pare.score_of(reached) >= pare.score_of(people)).all() and (x_new != x).any()


def test_gradient_search_is_near_the_cheapest_of_a_fine_grid():
    """Two features that may move: found wherever a grid finds, at no more than 2 % above its cheapest."""
    people, accepted = applicants(600)
    pare = small(region=Box({"hours": 12, "income": 20}), epochs=6, seed=2).fit(people, accepted)
    problem = ta.Problem(SCHEMA, pare.model(0.6), rules=[pare.region])
    refused = people[problem.judge(people) < 0][:60]
    answer = ta.methods.Wachter(rounds=10).fit(problem).find(refused)
    x = SCHEMA.encode(refused)
    around = pare.region.bind(SCHEMA).printable(x)
    best = torch.full((len(x),), torch.inf, dtype=torch.float64)
    for a in torch.linspace(0, 1, 81):
        for b in torch.linspace(0, 1, 81):
            delta = torch.zeros_like(x)
            delta[:, 0] = around.lo[:, 0] + a * (around.hi - around.lo)[:, 0]
            delta[:, 1] = b * around.hi[:, 1]
            cost = problem.cost(x, x + delta)
            best = torch.where((problem.margin(x + delta) >= 0) & (cost < best), cost, best)
    exists = torch.isfinite(best).numpy()
    found = (answer.status == ta.Status.FOUND).to_numpy()
    assert 10 < exists.sum() < len(refused) and found[exists].all()
    costs = answer.options["cost"].groupby("person").min().reindex(refused.index[exists]).to_numpy()
    assert (
        costs <= 1.02 * best[exists].numpy() + 0.25 / 60
    ).all()  # a step of the grid is 0.5 of income, 0.15 of hours


def test_a_model_forgets_its_rows_before_it_is_given_away():
    people, accepted = applicants(200)
    pare = small(epochs=1).fit(people, accepted)
    before = pare.score_of(people)
    with pytest.raises(TrainingError, match="trained on"):
        calibrate(pare, people)
    assert (pare.forget().score_of(people) == before).all() and pare.trained_on_ is None
    assert calibrate(pare, people).n == 200
    with pytest.raises(TrainingError, match="trained on"):
        calibrate(pare, people, trained_on=people)
    with pytest.raises(TrainingError, match="not trained yet"):
        small().forget()
