"""Responsiveness scores: shares worked out by hand, and against trying every legal value of the original."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from turnabout.core import Problem
from turnabout.core.verify import clearance
from turnabout.errors import ExplainError
from turnabout.explain.reason_codes.responsiveness import responsiveness
from turnabout.models import Additive, LinearMargin, Trees, wrap
from turnabout.rules import AtMost, BoundRule, Box, Implies, Linear, Rises
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing import random_case
from turnabout.testing.by_hand import keeps, legal_values
from turnabout.testing.chooser import SeededDice
from turnabout.testing.deciders import EncodedFunction, affine, random_model, weighing

# -- three features by hand: margin = a + 2 b - 3 c - 0.25 in encoded units -----------------------------------------

SCHEMA = Schema(
    (
        Number("a", 0, 10, step=1),  # encoded a / 10
        Number("b", 0, 1, moves="up"),  # continuous
        Number("c", 0, 1, step=0.25, moves="fixed"),
    )
)
WEIGHTS = {"a": 1.0, "b": 2.0, "c": -3.0}
ADA = pd.DataFrame({"a": [2, 9, 4], "b": [0.0, 1.0, 1.0], "c": [0.0, 0.0, 1.0]}, index=["ada", "bea", "cle"])


def by_hand(kind: str = "linear", **rest: object) -> Problem:
    return Problem(SCHEMA, weighing(kind, SCHEMA, WEIGHTS, -0.25), **rest)  # type: ignore[arg-type]


def test_shares_of_a_linear_model_by_hand():
    # ada: margin 0.2 - 0.25 < 0. a must exceed 2.5: of the ten others 0..10 the eight 3..10 do.
    # b must exceed 0.025: of 1e6 printable values above 0, all from 0.025001 on (0.025 lies on the boundary).
    scores = responsiveness(by_hand(), ADA)
    assert scores.people == 3
    assert scores.refused == 2  # bea: 0.9 + 2 - 0.25 > 0
    assert set(scores.shares.index) == {"ada", "cle"}
    ada = scores.table.loc["ada"]
    assert ada.loc["a", "share"] == 0.8
    assert ada.loc["a", "reachable"] == 10
    assert ada.loc["a", "nearest"] == 3
    assert ada.loc["b", "share"] == 975_000 / 1_000_000
    assert ada.loc["b", "nearest"] == 0.025001
    assert ada["exact"].all()
    # cle: 0.4 + 2 - 3 - 0.25 = -0.85: a would have to reach 12.5, and b is at its top
    cle = scores.table.loc["cle"]
    assert cle.loc["a", "share"] == 0.0
    assert cle.loc["a", "nearest"] is None


def test_what_cannot_be_changed_is_not_actionable_and_has_no_share():
    table = responsiveness(by_hand(), ADA).table
    assert pd.isna(table.loc[("ada", "c"), "share"])
    assert not table.loc[("ada", "c"), "actionable"]
    assert "fixes" in table.loc[("ada", "c"), "why"]
    assert pd.isna(table.loc[("cle", "b"), "share"])
    assert "no other value" in table.loc[("cle", "b"), "why"]
    assert table.loc[("cle", "a"), "actionable"]
    assert table.loc[("cle", "a"), "why"] == ""


@pytest.mark.parametrize("kind", ["net", "function"])
def test_other_models_agree_by_trying_values(kind):
    scores = responsiveness(by_hand(kind), ADA, values=1000)
    ada = scores.table.loc["ada"]
    assert ada.loc["a", "share"] == 0.8
    assert ada.loc["a", "exact"]
    assert not ada.loc["b", "exact"]
    assert pd.isna(ada.loc["b", "reachable"])
    assert abs(ada.loc["b", "share"] - 0.975) <= 1 / 1000  # one turn: at most one value of the selection


def test_rules_take_changes_out_of_reach():
    # a <= 6 leaves 0, 1, 3, 4, 5, 6 beside their own 2, of which 3..6 flip; b <= 0.5 leaves 500,000
    rules = [Linear({"a": 1.0}, "<=", 6.0), Linear({"b": 1.0}, "<=", 0.5)]
    ada = responsiveness(by_hand(rules=rules), ADA).table.loc["ada"]
    assert ada.loc["a", "share"] == pytest.approx(4 / 6)
    assert ada.loc["b", "share"] == 475_000 / 500_000
    assert ada["exact"].all()


def test_a_region_limits_what_is_reachable():
    ada = responsiveness(by_hand(rules=[Box({"a": 1, "b": 0.1})]), ADA).table.loc["ada"]
    assert ada.loc["a", "reachable"] == 2
    assert ada.loc["a", "share"] == 0.5  # 1 and 3
    assert ada.loc["b", "share"] == 75_000 / 100_000


def test_rules_may_forbid_every_change():
    rules = [Implies(Rises("b"), Rises("a", by=1)), AtMost(0, ("a",))]
    ada = responsiveness(by_hand(rules=rules), ADA).table.loc["ada"]
    for name in ("a", "b"):
        assert not ada.loc[name, "actionable"]
        assert pd.isna(ada.loc[name, "share"])
        assert "rules forbid" in ada.loc[name, "why"]


def test_a_person_who_breaks_a_rule_must_mend_it():
    # ada has a = 2; the rule wants a >= 5: 5..10 remain, and all flip. b alone leaves the rule broken.
    ada = responsiveness(by_hand(rules=[Linear({"a": 1.0}, ">=", 5.0)]), ADA).table.loc["ada"]
    assert ada.loc["a", "reachable"] == 6
    assert ada.loc["a", "share"] == 1.0
    assert "rules forbid" in ada.loc["b", "why"]


# -- trees ------------------------------------------------------------------------------------------------------------


def stump(step: float | None) -> Problem:
    """Accepts income above 30.5 (sklearn cuts half-way between 30 and 31)."""
    from sklearn.tree import DecisionTreeClassifier

    table = pd.DataFrame({"income": [30.0, 31.0], "city": [0.0, 0.0]})
    tree = DecisionTreeClassifier(random_state=0).fit(table, [0, 1])
    schema = Schema((Number("income", 0, 100, step=step), Binary("city")))
    return Problem(schema, wrap(tree, schema))


@pytest.mark.parametrize("step", [1.0, None])
def test_a_stump(step):
    problem = stump(step)
    assert isinstance(problem.model, Trees)
    person = pd.DataFrame({"income": [20.0], "city": [0]})
    table = responsiveness(problem, person).table
    line = table.loc[(0, "income")]
    assert line["exact"]
    if step is None:  # 30.5 itself is refused: 100 - 30.5 of the length, counted in steps of the printed decimals
        steps = 10 ** problem.schema["income"].places  # type: ignore[attr-defined]
        assert line["share"] == 69.5 * steps / (100 * steps)
        assert float(line["nearest"]) == pytest.approx(30.5, abs=2 / steps)
    else:
        assert line["share"] == 70 / 100  # 31..100, of the hundred others
        assert line["nearest"] == 31
    assert table.loc[(0, "city"), "share"] == 0.0


def test_pieces_and_every_value_agree_for_a_forest():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.integers(0, 3001, 400) / 10, "q": rng.uniform(0, 1, 400).round(3)})
    yes = (np.sin(table["p"] / 30) + table["q"] + rng.normal(0, 0.2, 400)) > 0.9
    forest = RandomForestClassifier(12, max_depth=6, random_state=0).fit(table, yes)
    schema = Schema((Number("p", 0, 300, step=0.1), Number("q", 0, 1, decimals=3, moves="up")))
    problem = Problem(schema, wrap(forest, schema), rules=[Linear({"p": 1.0, "q": 100.0}, "<=", 330.0)])
    by_pieces = responsiveness(problem, table[:10])
    by_values = responsiveness(problem, table[:10], values=5000)
    tried = _every_value(problem, table[:10])
    pd.testing.assert_frame_equal(by_pieces.table, by_values.table)
    assert by_pieces.table["exact"].all()
    assert by_pieces.table["share"].fillna(-1).tolist() == tried


# -- against trying every legal value of the original -----------------------------------------------------------------


def _every_value(problem: Problem, people: pd.DataFrame) -> list[float]:
    """Shares by asking the original about each row; -1 where there is nothing to count."""
    out = []
    for i in range(len(people)):
        own = people.iloc[[i]]
        if problem.judge(problem.schema.table(own))[0] >= 0:
            continue
        for f in problem.schema:
            values = legal_values(f, own[f.name].iloc[0])[1:]
            rows = pd.concat([own] * len(values)) if values else own[:0]
            cells = pd.Series(values, index=rows.index, dtype=object)
            rows = rows.assign(**{f.name: cells.infer_objects()})
            before, after = own.astype(object), rows.astype(object)  # else a row of numbers turns levels into floats
            kept = [
                all(keeps(rule, problem.schema, before.iloc[0], after.iloc[j]) for rule in problem.declared_rules)
                for j in range(len(rows))
            ]
            rows = rows[np.asarray(kept, dtype=bool)]
            good = problem.judge(problem.schema.table(rows)) >= clearance(problem) if len(rows) else np.zeros(0)
            out.append(float(good.mean()) if len(rows) else -1.0)
    return out


@cache
def _tried(kind, seed):
    """People, a problem of theirs, and the shares found by trying every value."""
    case = random_case(SeededDice(seed), tiny=True)
    schema, rules = case.problem.schema, case.problem.declared_rules
    problem = Problem(schema, random_model(kind, schema, seed), rules=rules)
    return case.people, problem, np.asarray(_every_value(problem, case.people))


@pytest.mark.parametrize("kind", ["linear", "tree", "net", "steps", "function"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("values", [2, 10_000])  # 2: by structure, or a selection that is not called exact
def test_scores_are_those_of_trying_every_value(kind, seed, values):
    people, problem, tried = _tried(kind, seed)
    schema = problem.schema
    table = responsiveness(problem, people, values=values).table
    known = table["exact"].to_numpy(dtype=bool)
    shares = table["share"].astype("Float64").fillna(-1.0).to_numpy(dtype=float)
    assert shares[known] == pytest.approx(tried[known], abs=1e-12)
    assert known.all() or values == 2
    found = table[table["share"].fillna(0.0) > 0]
    rows = people.loc[found.index.get_level_values("person")].astype(object)
    for i, (name, value) in enumerate(zip(found.index.get_level_values("feature"), found["nearest"], strict=True)):
        rows.iloc[i, rows.columns.get_loc(name)] = value
    assert (problem.judge(schema.table(rows.infer_objects())) >= 0).all()


def test_an_additive_model_that_bends_is_counted_by_structure():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    grades = pd.DataFrame({"grade": np.tile(["a", "b", "c", "d", "e"], 40)})
    yes = grades["grade"].isin(["b", "d"]) ^ (np.arange(200) % 7 == 0)
    schema = Schema((Ordinal("grade", levels=("a", "b", "c", "d", "e")),))
    model = wrap(make_pipeline(OneHotEncoder(), LogisticRegression()).fit(grades, yes), schema, background=grades)
    assert isinstance(model, Additive)
    assert not isinstance(model, LinearMargin)
    table = responsiveness(Problem(schema, model), pd.DataFrame({"grade": ["a", "c"]}), values=2).table
    assert table["exact"].all()
    assert table["share"].tolist() == [0.5, 0.5]  # b and d, of four others
    assert table["nearest"].tolist() == ["b", "b"]


# -- the judge has the last word --------------------------------------------------------------------------------------


class Whim:
    """A function that refuses what its encoded form would accept: it reads the raw row, and dislikes 7."""

    def __init__(self, schema: Schema):
        self.inner = EncodedFunction(schema, affine(torch.tensor([1.0], dtype=torch.float64), -0.45))

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        return np.where(table["a"] == 7, 0.1, self.inner(table))


def test_flips_are_those_of_the_original():
    schema = Schema((Number("a", 0, 10, step=1),))
    scores = responsiveness(Problem(schema, wrap(Whim(schema), schema)), pd.DataFrame({"a": [2]}))
    assert scores.table["share"].tolist() == [5 / 10]  # 5, 6, 8, 9, 10


def test_a_fast_form_that_the_original_denies_is_not_believed():
    schema = Schema((Number("a", 0, 10, step=1),))
    problem = Problem(schema, weighing("linear", schema, {"a": 1.0}, -0.45))
    honest = problem.model.judge

    def strict(table: pd.DataFrame) -> np.ndarray:
        return np.where((table["a"] == 5) | (table["a"] == 9), -1.0, honest(table))

    problem.model.judge = strict
    line = responsiveness(problem, pd.DataFrame({"a": [2]})).table.iloc[0]
    assert line["share"] == 4 / 10  # 6, 7, 8, 10, all asked of the original
    assert line["nearest"] == 6


class Odd(Linear):
    """A rule of somebody's own: structure is not known of it."""

    kind = "test_odd"

    def bind(self, schema: Schema) -> BoundRule:
        return BoundOdd("b lies in the upper thousandth", schema, [1])


class BoundOdd(BoundRule):
    def _gap(self, x: torch.Tensor, x_new: torch.Tensor) -> torch.Tensor:
        return (0.999 - x_new[..., 1]).expand(torch.broadcast_shapes(x.shape[:-1], x_new.shape[:-1]))

    _relax = _snap = lambda self, x, x_new: x_new


def test_rules_of_another_kind_are_tried_and_unknown_is_said():
    problem = by_hand(rules=[Odd({"a": 1.0}, ">=", 0.0)])
    line = responsiveness(problem, ADA, values=100).table.loc[("ada", "b")]  # none of 100 values is that high
    assert line["actionable"]
    assert not line["exact"]
    assert pd.isna(line["share"])
    assert "that was tried" in line["why"]
    finer = responsiveness(problem, ADA, values=4000).table.loc[("ada", "b")]
    assert finer["share"] == 1.0
    assert not finer["exact"]


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_categories_and_missing_cells():
    schema = Schema((Category("job", levels=("x", "y", "z")), Number("n", 0, 1, missing=True)))
    model = weighing("linear", schema, {"job=y": 2.0, "job=z": 3.0, "n": 0.1}, -1.0)
    people = pd.DataFrame({"job": ["x", "x"], "n": [0.5, np.nan]})
    table = responsiveness(Problem(schema, model), people).table
    assert table.loc[(0, "job"), "share"] == 1.0
    assert table.loc[(0, "job"), "nearest"] == "z"  # accepted most clearly
    assert table.loc[(0, "n"), "share"] == 0.0
    assert "missing" in table.loc[(1, "n"), "why"]


def test_nobody_refused_and_who_is_accepted():
    scores = responsiveness(by_hand(), ADA.loc[["bea"]])
    assert scores.refused == 0
    assert len(scores.table) == 0
    assert scores.to_dict()["scores"] == []
    assert "nobody of 1 people is refused" in str(scores)
    assert list(scores.alone) == []
    with pytest.raises(ExplainError, match="no refused person 'bea'"):
        scores.of("bea")


def test_words_and_json():
    scores = responsiveness(by_hand(), ADA)
    assert str(scores).startswith("1 of 2 refused people are accepted after a change of one feature alone; 3 of 3")
    records = json.loads(json.dumps(scores.to_dict(), allow_nan=False))["scores"]
    assert records[0] == {
        "person": "ada",
        "feature": "a",
        "actionable": True,
        "share": 0.8,
        "exact": True,
        "reachable": 10,
        "nearest": 3,
        "why": "",
    }
    assert [line["share"] for line in records if line["feature"] == "c"] == [None, None]
    assert list(scores.of("ada").index) == ["b", "a", "c"]
    assert scores.alone.to_dict() == {"ada": True, "cle": False}


def test_order_and_company_change_nothing():
    alone = responsiveness(by_hand("tree"), ADA.loc[["cle"]]).table
    together = responsiveness(by_hand("tree"), ADA.iloc[::-1]).table
    pd.testing.assert_frame_equal(alone, together.loc[["cle"]])


def test_bad_input():
    with pytest.raises(ExplainError, match="not a Problem"):
        responsiveness(SCHEMA, ADA)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="values=1 is not a whole number from 2"):
        responsiveness(by_hand(), ADA, values=1)
    with pytest.raises(ExplainError, match="there are no people"):
        responsiveness(by_hand(), ADA[:0])
    with pytest.raises(ExplainError, match="share an index label"):
        responsiveness(by_hand(), pd.concat([ADA, ADA]))


def test_a_net_is_counted_where_all_its_values_are_tried():
    net = nn.Sequential(affine(torch.tensor([4.0, 1.0, 0.0], dtype=torch.float64), -1.0))
    schema = Schema((Number("a", 0, 1, step=0.5), Number("b", 0, 1, step=0.1), Binary("c")))
    scores = responsiveness(Problem(schema, wrap(net, schema)), pd.DataFrame({"a": [0.0], "b": [0.5], "c": [0]}))
    assert scores.table["share"].tolist() == [1.0, 0.0, 0.0]


def test_levels_that_are_numbers_are_read_by_hand_whatever_their_type():
    schema = Schema((Number("f0", 0, 6, step=1), Category("f1", (10, 20, 30))))
    rule = Linear({"f0": 1.0, "f1=10": 1.2}, "<=", 4.8)  # 4 + 1.2 is too much
    row = pd.DataFrame({"f0": [4.0], "f1": [10]})
    for one in (row.iloc[0], row.astype(object).iloc[0]):  # the first holds 10.0
        assert keeps(rule, schema, one, one) is False
