"""GenRe: the pairs it learns from, its density on a table where it is known, what is drawn, odd tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from earners import SCHEMA, earners, question
from turnabout.methods.confidence import confident_margin
from turnabout.methods.genre import GenRe
from turnabout.methods.recourse_pairs import RecoursePairs, accepted_rows, adapted
from turnabout.metrics import broken_limits
from turnabout.rules import AtMost

PEOPLE = earners(30, seed=2, refused=True)

LINE = ta.Schema((ta.Number("place", 0, 10, step=1), ta.Category("home", ("x", "y"), moves="fixed")))


def line(background: pd.DataFrame, labels=None) -> ta.Problem:
    """People on a line, of whom those from 6 on are accepted, the surer the further."""
    table = pd.DataFrame({"place": np.arange(11), "home": ["x"] * 11})
    model = ta.models.wrap(lambda rows: np.clip(0.5 + (rows["place"] - 5.5) / 10, 0, 1), LINE, background=table)
    return ta.Problem(LINE, model, ta.costs.L1(), background=background, labels=labels)


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_pairs_by_hand():
    background = pd.DataFrame({"place": [1, 3, 7, 8, 9, 10], "home": ["x", "y", "x", "y", "y", "x"]})
    problem = line(background, labels=np.array([False, False, True, True, False, True]))
    pairs = RecoursePairs.of(problem, confidence=0.7, k=2)  # P(yes) of 0.7 from 7.5 on, so 7 is no target, nor is 9
    assert LINE.decode(pairs.sources)["place"].tolist() == [1, 3]
    assert LINE.decode(pairs.pool)["place"].tolist() == [8, 10]
    assert pairs.cost.tolist() == [pytest.approx([0.7, 0.9]), pytest.approx([0.5, 0.7])]
    rows = adapted(problem, pairs.sources[:1], pairs.pool[:1])
    assert LINE.decode(rows).iloc[0].to_dict() == {"place": 8, "home": "x"}  # what is fixed stays theirs


def test_pairs_are_the_nearest_of_all():
    problem = question()
    pairs = RecoursePairs.of(problem, 0.7, 5)
    sure = confident_margin(problem, 0.7)
    pool = accepted_rows(problem, 0.7)
    assert (problem.margin(pool) >= sure).all()
    for x, cost in zip(pairs.sources[:20], pairs.cost[:20]):
        own = x.expand_as(pool)
        rows = adapted(problem, own, pool)
        each = problem.cost(own, rows)
        each = each[each.argsort(stable=True)][:5]  # the nearest five, of whom those count that the model is sure of
        counted = cost[torch.isfinite(cost)]
        assert len(counted) and all((each - c).abs().min() < 1e-6 for c in counted)


def test_draws_follow_q():
    background = pd.DataFrame({"place": [1, 8, 9, 10], "home": ["x"] * 4})
    problem = line(background)
    pairs = RecoursePairs.of(problem, 0.7, 3)
    n, lam = 20_000, torch.tensor(5.0).double()
    uniform = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = pairs.draw(problem, torch.zeros(n, dtype=torch.long), lam.expand(n), uniform)
    share = pd.Series(LINE.decode(rows)["place"]).value_counts(normalize=True).sort_index()
    expected = np.exp(-5 * np.array([0.7, 0.8, 0.9]))
    assert share.tolist() == pytest.approx(list(expected / expected.sum()), abs=0.015)


def test_pairs_keep_rules_and_limits():
    problem = question(rules=(AtMost(3),))
    pairs = RecoursePairs.of(problem, 0.7, 10)
    n = len(pairs)
    lam = torch.full((n,), 5.0).double()
    rows = pairs.draw(problem, torch.arange(n), lam, torch.full((n,), 0.5).double())
    assert n > 50 and not broken_limits(problem, pairs.sources, rows).any(axis=None)


# -- the network -------------------------------------------------------------------------------------------------------


def test_it_learns_the_density():
    """One refused kind of person and three targets: chances of places are those of Q, smoothed by the kernels."""
    background = pd.DataFrame({"place": [2] * 60 + [8, 9, 10] * 20, "home": ["x"] * 120})
    method = GenRe(lam=5.0, neighbours=60, width=16, layers=1, training_steps=400, temperature=1.0, samples=3000)
    method.fit(line(background))
    method.run = ta.core.Run()
    places = LINE.decode(method.drawn(LINE.encode(pd.DataFrame({"place": [2], "home": ["x"]})))[0])["place"]
    q = np.exp(-5 * np.array([0.6, 0.7, 0.8]))
    q /= q.sum()
    kernel = np.exp(-0.5 * (np.subtract.outer([8, 9, 10], [8, 9, 10]) / 5) ** 2 * 100)  # half a gap is 0.05
    smoothed = q @ (kernel / kernel.sum(1, keepdims=True))
    share = places.value_counts(normalize=True).reindex([8, 9, 10])
    assert share.tolist() == pytest.approx(list(smoothed), abs=0.06)


@pytest.fixture(scope="module")
def fitted():
    return GenRe.small().fit(question())


def test_nothing_is_broken_before_the_core_mends(fitted):
    x = SCHEMA.encode(PEOPLE)
    rows = fitted.propose(x).x_new
    own = x.unsqueeze(1).expand_as(rows)
    assert not broken_limits(fitted.problem_, own.flatten(0, 1), rows.flatten(0, 1)).any(axis=None)


def test_personal_limits_are_masks(fitted):
    limits = {label: {"income": "fixed", "job": "fixed", "debt": (10, None)} for label in PEOPLE.index}
    changes = fitted.find(PEOPLE, limits=limits, refine=False).changes()
    assert not changes["feature"].isin(["income", "job"]).any()
    assert (changes.loc[changes["feature"] == "debt", "to"] >= 10).all()


def test_the_best_of_the_samples_is_proposed(fitted):
    x = SCHEMA.encode(PEOPLE)
    proposed = fitted.problem_.margin(fitted.propose(x).x_new)
    method = GenRe.small().fit(fitted.problem_)
    method.run = ta.core.Run()
    drawn = fitted.problem_.margin(method.drawn(x))
    assert torch.allclose(proposed[:, 0], drawn.max(1).values)


def test_options_are_confident_where_they_can_be(fitted):
    answer = fitted.find(PEOPLE)
    x = SCHEMA.encode(PEOPLE.loc[answer.options.index.get_level_values("person")])
    sure = fitted.criterion(x, SCHEMA.encode(answer.options[list(SCHEMA.names)]))
    assert (answer.status == "FOUND").mean() > 0.8 and sure.double().mean() > 0.5


def test_one_training_serves_limits_and_a_saved_file(fitted, tmp_path):
    fitted.save(tmp_path / "genre.safetensors")
    again = GenRe.load(tmp_path / "genre.safetensors").fit(question())
    assert again.find(PEOPLE) == fitted.find(PEOPLE)
    assert GenRe.small().fit(fitted.problem_).network_ is fitted.network_
    assert GenRe.small().set_params(lam=2.0).fit(fitted.problem_).network_ is not fitted.network_


# -- odd tables --------------------------------------------------------------------------------------------------------


def test_nobody_is_accepted():
    background = pd.DataFrame({"place": [1, 2, 3, 4], "home": ["x", "y", "x", "y"]})
    answer = GenRe.small().fit(line(background)).find(background.head(2))
    assert (answer.status == "NOT_FOUND").all()


def test_everybody_is_accepted():
    background = pd.DataFrame({"place": [8, 9, 10], "home": ["x", "y", "x"]})
    answer = GenRe.small().fit(line(background)).find(pd.DataFrame({"place": [2], "home": ["x"]}))
    assert answer.status.iloc[0] in ("FOUND", "NOT_FOUND")


def test_a_group_without_an_accepted_member():
    background = pd.DataFrame({"place": [1, 2, 3, 8, 9, 10] * 10, "home": ["x", "y", "y", "x", "x", "x"] * 10})
    method = GenRe(neighbours=20, width=16, layers=1, training_steps=200).fit(line(background))
    assert (method.find(background.head(3)).status == "FOUND").all()  # what is fixed stays theirs


def test_constant_columns_and_one_class():
    schema = ta.Schema((ta.Number("a", 0, 10, step=1), ta.Number("b", 0, 1)))
    background = pd.DataFrame({"a": np.arange(11), "b": 0.5})
    model = ta.models.wrap(lambda rows: rows["a"] / 10, schema, threshold=0.55)
    method = GenRe.small().fit(ta.Problem(schema, model, background=background))
    answer = method.find(background)
    assert set(answer.status) <= {"ACCEPTED", "FOUND", "NOT_FOUND"} and (answer.status == "FOUND").any()
    assert "b" not in set(answer.changes()["feature"])
