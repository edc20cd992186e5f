"""What the methods that search codes share: legal rows inside the search, a criterion that holds, odd tables."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from earners import SCHEMA, decider, earners, question
from turnabout.core import Run
from turnabout.errors import MethodError
from turnabout.methods import Cchvae, Cruds, Revise, TabsynQ, TabsynSvdd
from turnabout.methods.latent import LatentSpace, given_of, immutable
from turnabout.rules import AtMost, Linear

LATENT = (Revise, Cchvae, Cruds, TabsynQ, TabsynSvdd)
every = pytest.mark.parametrize("cls", LATENT, ids=lambda cls: cls.__name__)
PEOPLE = earners(30, seed=2, refused=True)
NAMES = list(SCHEMA.names)


@pytest.fixture(scope="module")
def fitted():
    problem = question()
    return {cls: cls.small().fit(problem) for cls in LATENT}


def searching(method, **run):
    """The method in the middle of a call of find."""
    worker = copy.copy(method)
    worker.run = Run(**run)
    return worker


def proposed(method, x):
    """Rows a search proposes, and whose each is."""
    rows = method.propose(x, options=2).x_new
    owner, slot = torch.isfinite(rows).all(-1).nonzero(as_tuple=True)
    return x[owner], rows[owner, slot]


def meets(method, answer):
    """Which options meet the criterion."""
    own = PEOPLE.loc[answer.options.index.get_level_values("person")]
    schema = method.problem_.schema
    return method.criterion(schema.encode(own), schema.encode(answer.options[NAMES]))


# -- what a person cannot do is never proposed -------------------------------------------------------------------------


@every
@pytest.mark.parametrize("rules", [(), (AtMost(3), Linear({"income": 1.0, "savings": 1.0}, "<=", 90.0))], ids=len)
def test_proposals_are_legal_before_the_core_mends_them(cls, rules):
    problem = question(rules=rules)
    own, rows = proposed(cls.small().fit(problem), SCHEMA.encode(PEOPLE))
    assert len(rows) > len(PEOPLE)
    fixed = given_of(problem, own)[:, SCHEMA.feature_of]
    assert torch.equal(rows[fixed], own[fixed])
    low, high = problem.bounds(own)
    assert ((rows >= low - 1e-12) & (rows <= high + 1e-12)).all()
    for name in ("job", "region"):
        levels = rows[:, SCHEMA.slices[NAMES.index(name)]]
        assert ((levels == 0) | (levels == 1)).all() and (levels.sum(1) == 1).all()
    assert torch.allclose(SCHEMA.snap(own, rows), rows, rtol=0, atol=1e-12)  # nothing is left to snap
    good = (problem.margin(rows) >= 0) & (problem.violation(own, rows) <= 0)
    assert len(own[good].unique(dim=0)) > len(PEOPLE) / 2  # and rules are kept, too
    if not rules:
        assert torch.allclose(problem.snap(own, rows), rows, rtol=0, atol=1e-12)


@every
def test_proposals_keep_personal_limits(cls, fitted):
    limits = {label: {"income": "fixed", "job": "fixed"} for label in PEOPLE.index}
    answer = fitted[cls].find(PEOPLE, limits=limits, refine=False)
    own = PEOPLE.loc[answer.options.index.get_level_values("person")]
    assert len(answer.options)
    assert (answer.options["income"].to_numpy() == own["income"].to_numpy()).all()
    assert (answer.options["job"].to_numpy() == own["job"].to_numpy()).all()


@every
def test_the_decoder_is_given_what_a_person_cannot_change(cls, fitted):
    method = fitted[cls]
    problem, x = method.problem_, SCHEMA.encode(PEOPLE)
    assert immutable(problem).tolist() == [f.moves == "fixed" for f in SCHEMA]
    given = given_of(problem, x)
    assert given[:, [NAMES.index("region"), NAMES.index("sex")]].all()
    assert torch.equal(given[:, NAMES.index("savings")], torch.tensor(PEOPLE["savings"].isna().tolist()))
    assert not given[:, NAMES.index("income")].any()
    width = method.coder.width
    z = 3 * torch.randn(len(x), width, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    row = method.coder.decode(z, method.coder.condition(x, given))
    cells = given[:, SCHEMA.feature_of]
    assert torch.equal(row[cells], x[cells])
    other = x.clone()  # and what is given matters for the rest
    sex = SCHEMA.slices[NAMES.index("sex")]
    other[:, sex] = 1 - other[:, sex]
    assert not torch.allclose(row[:, 1], method.coder.decode(z, method.coder.condition(other, given))[:, 1])


def test_gradients_pass_through_the_rounding(fitted):
    method, x = fitted[Revise], SCHEMA.encode(PEOPLE)
    z = torch.zeros(len(x), method.latent, dtype=x.dtype)
    space = LatentSpace(method.problem_, x, method.coder, z)
    soft, hard = z.clone().requires_grad_(), z.clone().requires_grad_()
    row = space.decode(hard)
    assert torch.allclose(row, method.problem_.snap(x, row.detach()), atol=1e-12)
    assert torch.allclose(row, space.printed(z), atol=1e-12)
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    (row * weights).sum().backward()
    (method.coder.decode(soft, space.condition) * weights).sum().backward()
    assert torch.equal(soft.grad, hard.grad) and hard.grad.abs().sum() > 0


def test_codes_stay_where_the_prior_has_people(fitted):
    method, x = fitted[Revise], SCHEMA.encode(PEOPLE)
    space = method.space(x)
    assert float(space.project(torch.full((30, 4), 9.0)).max()) == 4.0


# -- the criterion -----------------------------------------------------------------------------------------------------


@every
def test_the_threshold_is_a_quantile_of_accepted_people(cls, fitted):
    method = fitted[cls]
    problem = method.problem_
    accepted = problem.background_x[problem.background_margin >= 0]
    assert torch.equal(method.anchors_, accepted)
    share = (method.density(accepted) < method.threshold_).double().mean()
    assert float(share) == pytest.approx(0.1, abs=2 / len(accepted))
    if cls is not Cruds:  # which asks for confidence, too
        assert method.criterion(accepted, accepted).double().mean() == pytest.approx(1 - share)


@every
def test_density_does_not_depend_on_personal_limits(cls, fitted):
    method = fitted[cls]
    x = SCHEMA.encode(PEOPLE)
    tight = cls.small().fit(method.problem_.without([NAMES.index("income")]))
    assert torch.equal(method.density(x), tight.density(x))
    assert method.threshold_ == tight.threshold_


@every
def test_strange_rows_do_not_meet_the_criterion(cls, fitted):
    method, x = fitted[cls], SCHEMA.encode(earners(200, seed=7, refused=False))
    strange = x.clone()
    job = SCHEMA.slices[NAMES.index("job")]
    strange[:, 1], strange[:, 2] = 1.0, 1.0  # nobody earns most and owes most
    strange[:, job] = torch.tensor([1.0, 0.0, 0.0], dtype=x.dtype)  # without work
    assert (method.density(x) >= method.threshold_).double().mean() > 0.8
    assert method.criterion(x, strange).double().mean() < 0.1


@every
def test_the_criterion_holds_after_refinement(cls, fitted):
    method = fitted[cls]
    raw, refined = method.find(PEOPLE, refine=False), method.find(PEOPLE)
    assert (raw.status == refined.status).all()
    held = meets(method, raw)
    assert held.double().mean() > 0.8
    assert torch.equal(meets(method, refined), held)
    assert (refined.options["cost"].to_numpy() <= raw.options["cost"].to_numpy() + 1e-9).all()
    assert refined.options["cost"].mean() < 0.9 * raw.options["cost"].mean()


@every
def test_a_higher_share_asks_for_likelier_rows(cls, fitted):
    problem = fitted[cls].problem_
    low, high = (cls.small().set_params(plausible=share).fit(problem) for share in (0.02, 0.6))
    assert low.threshold_ < high.threshold_
    few = PEOPLE.iloc[:10]
    x = SCHEMA.encode(few)
    density = []
    for method in (low, high):
        options = method.find(few).options
        own = x[torch.tensor(options.index.get_level_values("person").to_numpy().tolist())]
        assert method.criterion(own, SCHEMA.encode(options[NAMES])).double().mean() > 0.7
        density.append(method.density(SCHEMA.encode(options[NAMES])).mean())
    assert density[0] < density[1]


# -- everyone the same, again and again --------------------------------------------------------------------------------


@every
def test_the_same_answers_from_a_problem_made_anew(cls, fitted):
    again = cls.small().fit(question())
    first, second = fitted[cls].network_.state_dict(), again.network_.state_dict()
    assert again.network_ is not fitted[cls].network_
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert again.find(PEOPLE, options=2) == fitted[cls].find(PEOPLE, options=2)


@every
def test_another_seed_is_another_network(cls, fitted):
    other = cls.small().set_params(seed=5).fit(fitted[cls].problem_)
    assert not torch.equal(other.network_.first.weight, fitted[cls].network_.first.weight)


@every
def test_order_does_not_matter(cls, fitted):
    straight, turned = fitted[cls].find(PEOPLE), fitted[cls].find(PEOPLE.iloc[::-1])
    pd.testing.assert_frame_equal(turned.options.sort_index(), straight.options.sort_index())


# -- odd tables --------------------------------------------------------------------------------------------------------


def plain(schema: ta.Schema, weights: list[float], bias: float) -> ta.models.Model:
    layer = torch.nn.Linear(schema.d, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        layer.bias.fill_(bias)
    return ta.models.wrap(layer, schema, threshold=0.5, output="logit")


PLANE = ta.Schema((ta.Number("a", 0, 10), ta.Number("b", 0, 10, moves="up"), ta.Number("c", 0, 1, moves="fixed")))


def points(n: int, seed: int = 0, **constant: float) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"a": draw.uniform(0, 10, n), "b": draw.uniform(0, 10, n), "c": draw.random(n)}).round(2)
    return table.assign(**constant)


def on_plane(background: pd.DataFrame, labels=None, weights=(4.0, 4.0, 1.0)) -> ta.Problem:
    return ta.Problem(PLANE, plain(PLANE, list(weights), -6.0), background=background, labels=labels)


@every
def test_numbers_alone_and_fewer_rows_than_the_code_is_wide(cls):
    for n in (200, 5):
        background = points(n, 3)
        background.loc[0, ["a", "b"]] = 9.0  # one at least is accepted
        answer = cls.small().set_params(latent=8).fit(on_plane(background)).find(points(12))
        assert answer.counts()["FOUND"] + answer.counts()["NOT_FOUND"] + answer.counts()["ACCEPTED"] == 12
        assert answer.counts()["FOUND"] >= 5


@every
def test_levels_alone(cls):
    schema = ta.Schema(
        (
            ta.Category("x", ("p", "q", "r")),
            ta.Category("y", ("u", "v"), moves="fixed"),
            ta.Binary("z", levels=("n", "m")),
        )
    )
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"x": draw.choice(["p", "q", "r"], 200), "y": draw.choice(["u", "v"], 200)})
    table["z"] = draw.choice(["n", "m"], 200)
    problem = ta.Problem(schema, plain(schema, [-1.0, 0.0, 1.0, 0.0, 0.5, 1.0], -1.2), background=table)
    answer = cls.small().fit(problem).find(table.head(20))
    assert answer.counts()["FOUND"] > 10
    assert answer.counts()["FOUND"] + answer.counts()["ACCEPTED"] == 20


@every
def test_columns_without_variation(cls):
    answer = cls.small().fit(on_plane(points(200, 3, b=5.0, c=0.5))).find(points(12))
    assert answer.counts()["FOUND"] + answer.counts()["ACCEPTED"] == 12


@pytest.mark.parametrize("cls", [Revise, Cchvae])
def test_a_background_of_one_row_many_times(cls):
    answer = cls.small().fit(on_plane(points(50, 3, a=8.0, b=5.0, c=0.5))).find(points(12))
    assert answer.counts()["FOUND"] > 0


@every
def test_one_row_cannot_be_learned_from(cls):
    with pytest.raises(MethodError, match=f"{cls.__name__} trains on the background, which has 1 row"):
        cls.small().fit(on_plane(points(1, 3), labels=None))


@pytest.mark.parametrize("cls", [Revise, Cchvae])
def test_without_accepted_people_all_of_the_background_are_the_measure(cls):
    background = points(200, 3, a=0.1, b=0.1)
    method = cls.small().fit(on_plane(background))
    assert len(method.anchors_) == 0
    share = (method.density(PLANE.encode(background)) < method.threshold_).double().mean()
    assert float(share) == pytest.approx(0.1, abs=0.01)
    answer = method.find(points(12))
    refused = answer.status[answer.status != "ACCEPTED"]
    assert refused.isin(["FOUND", "NOT_FOUND"]).all() and (refused == "NOT_FOUND").any()
    assert answer.why.reason[refused.index[refused == "NOT_FOUND"]].str.contains("refused").all()


@every
def test_a_model_that_says_yes_to_all_or_to_none(cls):
    def fit(bias):
        problem = ta.Problem(PLANE, plain(PLANE, [0.0, 0.0, 0.0], bias), background=points(100, 3))
        return cls.small().fit(problem)

    if cls is Cruds:
        with pytest.raises(MethodError, match="all 100 background rows are accepted"):
            fit(6.0)
        with pytest.raises(MethodError, match="all 100 background rows are refused"):
            fit(-6.0)
        return
    assert (fit(6.0).find(points(12)).status == "ACCEPTED").all()
    assert (fit(-6.0).find(points(12)).status == "NOT_FOUND").all()


@every
def test_nobody_may_change_anything(cls):
    schema = ta.Schema(tuple(ta.Number(f.name, 0, 10, moves="fixed") for f in PLANE))
    problem = ta.Problem(schema, plain(schema, [4.0, 4.0, 1.0], -4.0), background=points(100, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = cls.small().fit(problem).find(points(12))
    assert set(answer.status) == {"ACCEPTED", "IMPOSSIBLE"}


@every
def test_a_cell_that_should_not_be_missing(cls):
    people = points(12)
    people.loc[0, "a"] = np.nan
    background = points(200, 3)
    background.loc[3, "a"] = np.nan
    with pytest.warns(UserWarning, match="1 of 200 background rows cannot be read"):
        problem = on_plane(background)
    with pytest.warns(UserWarning, match="person 0"):
        answer = cls.small().fit(problem).find(people)
    assert answer.status.iloc[0] == "UNREADABLE"
    assert answer.counts()["UNREADABLE"] == 1 and answer.counts()["FOUND"] > 5


@every
def test_a_column_that_is_missing_everywhere(cls):
    background = earners(200, 1).assign(savings=np.nan)
    problem = ta.Problem(SCHEMA, decider(), background=background)
    answer = cls.small().fit(problem).find(PEOPLE.head(10))
    assert answer.counts()["FOUND"] >= 8


@every
def test_a_background_is_needed(cls):
    with pytest.raises(MethodError, match=f"{cls.__name__} needs a background table"):
        cls.small().fit(ta.Problem(SCHEMA, decider()))


@every
def test_a_time_limit_ends_the_search(cls, fitted):
    many = earners(400, seed=5, refused=True)
    long = {Cchvae: {"shells": 10**6}, TabsynQ: {"steps": 10**4}, TabsynSvdd: {"steps": 10**4}}
    method = fitted[cls].clone().set_params(**long.get(cls, {"steps": 10**6}))
    answer = method.fit(fitted[cls].problem_).find(many, time_limit=0.5)
    assert answer.seconds < 5
    assert set(answer.status) <= {"FOUND", "UNFINISHED", "NOT_FOUND"}
