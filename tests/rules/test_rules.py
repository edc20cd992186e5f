"""Rules on numbers done by hand, their errors, and their repairs against brute force."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings

import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from turnabout import rules
from turnabout.errors import RuleError
from turnabout.rules import AtMost, Changes, Falls, Implies, Is, Linear, Ordered, Rises, Rule
from turnabout.rules.linear import project
from turnabout.schema import Binary, Category, Feature, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("age", low=20, high=70, step=1, moves="up"),
        Number("debt", low=0, high=100, step=1, missing=True),
        Number("income", low=0, high=200, step=5),
        Ordinal("school", levels=("none", "some", "degree", "doctor"), moves="up"),
        Binary("member"),
        Category("housing", levels=("own", "rent", "free")),
        Number("children", low=0, high=10, step=1, moves="fixed"),
    )
)
ROW = {"age": 30, "debt": 40, "income": 100, "school": "some", "member": 0, "housing": "rent", "children": 2}


def rows(*changes: dict[str, object]) -> torch.Tensor:
    return SCHEMA.encode(pd.DataFrame([ROW | change for change in changes]))


X = rows({})


def cell(x: torch.Tensor, name: str) -> list[object]:
    return SCHEMA.decode(x)[name].tolist()


def close(actual: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


# -- Linear and Ordered -------------------------------------------------------------------------------------------


def test_linear_by_hand() -> None:
    rule = Linear({"debt": 1.0, "income": -0.4}, "<=", 0.0).bind(SCHEMA)
    x_new = rows({}, {"debt": 50}, {"income": 50, "debt": 20}, {"income": 50})
    # encoded: 100 debt - 80 income <= 0, of length sqrt(100^2 + 80^2)
    length = math.hypot(100, 80)
    close(rule.violation(X, x_new), [0, 10 / length, 0, 20 / length])
    form = rule.linear_form(X)
    assert form is not None
    assert form.a.shape == (1, SCHEMA.d)
    close(form.b, [[0.0]])
    close((x_new @ form.a.T - form.b)[1], [10 / length])


def test_linear_with_a_greater_sign_levels_and_positions() -> None:
    rule = Linear({"age": 1.0, "school": 2.0, "member": 10.0, "housing=own": 5.0}, ">=", 40.0).bind(SCHEMA)
    kept = rule.violation(X, rows({}, {"age": 38}, {"school": "doctor"}, {"school": "degree", "member": 1})) == 0
    assert kept.tolist() == [False, True, False, True]
    assert (rule.violation(X, rows({"age": 33, "housing": "own"})) == 0).all()  # 33 + 2 + 5


def test_linear_relaxes_to_the_nearest_point_of_the_half_space() -> None:
    rule = Linear({"debt": 1.0, "income": -0.5}, "<=", 0.0).bind(SCHEMA)
    out = rule.relax(X, rows({"debt": 60}))  # encoded 100 debt - 100 income <= 0 at (0.6, 0.5)
    close(out[0, [1, 3]], [0.55, 0.55])
    torch.testing.assert_close(rule.violation(X, out), torch.zeros(1, dtype=torch.float64))


def test_linear_relaxes_within_what_the_person_may_do() -> None:
    rule = Linear({"age": 1.0, "income": 1.0}, "<=", 100.0).bind(SCHEMA)  # age may only rise
    out = rule.relax(X, rows({"age": 30, "income": 110}))
    assert cell(out, "age") == [30]
    assert SCHEMA["income"].units(out[:, 3]).tolist() == pytest.approx([70.0])  # type: ignore[attr-defined]


def test_linear_snaps_towards_the_kept_side() -> None:
    rule = Linear({"debt": 1.0, "income": -0.5}, "<=", 0.0).bind(SCHEMA)
    out = rule.snap(X, rows({"debt": 61}))
    debt, income = cell(out, "debt")[0], cell(out, "income")[0]
    assert debt <= 0.5 * income  # type: ignore[operator]
    torch.testing.assert_close(SCHEMA.snap(X, out), out)


def test_snap_moves_numbers_before_levels_and_categories() -> None:
    rule = Linear({"age": 1.0, "school": 2.0, "member": 10.0, "housing=own": 5.0}, ">=", 40.0).bind(SCHEMA)
    assert SCHEMA.changed(X, rule.snap(X, X)).tolist() == [[True] + [False] * 6]
    coarse = Linear({"member": 1.0, "housing=own": 1.0}, ">=", 1.0).bind(SCHEMA)
    assert cell(coarse.snap(X, X), "member") == [1]
    assert cell(coarse.snap(X, X), "housing") == ["rent"]
    both = Linear({"member": 1.0, "housing=own": 1.0}, ">=", 2.0).bind(SCHEMA)
    assert cell(both.snap(X, X), "housing") == ["own"]
    only = Linear({"housing=rent": 1.0}, "<=", 0.0).bind(SCHEMA)
    assert cell(only.snap(X, X), "housing") == ["own"]
    assert (only.violation(X, SCHEMA.snap(X, only.relax(X, X))) >= 0).all()


def test_ordered_by_hand() -> None:
    rule = Ordered("debt", "income").bind(SCHEMA)
    x_new = rows({}, {"debt": 100, "income": 50})
    close(rule.violation(X, x_new), [0, 50 / math.hypot(100, 200)])
    out = rule.snap(X, x_new)
    assert cell(out, "debt")[1] <= cell(out, "income")[1]  # type: ignore[operator]
    assert rule.name == "debt <= income"


# -- Implies ------------------------------------------------------------------------------------------------------


def test_implies_by_hand() -> None:
    rule = Implies(Rises("school"), Rises("age", by=2)).bind(SCHEMA)
    x_new = rows(
        {}, {"age": 31}, {"school": "degree"}, {"school": "degree", "age": 31}, {"school": "degree", "age": 32}
    )
    close(rule.violation(X, x_new), [0, 0, 2 / 50, 1 / 50, 0])
    for repaired in (rule.relax(X, x_new), rule.snap(X, x_new)):
        assert cell(repaired, "age") == [30, 31, 32, 32, 32]
        assert cell(repaired, "school") == ["some", "some", "degree", "degree", "degree"]
    assert rule.linear_form(X) is None
    assert rule.consequence.threshold == pytest.approx(2 / 50)
    assert rule.condition.threshold is None


def test_implies_takes_the_condition_back_where_the_consequence_is_out_of_reach() -> None:
    rule = Implies(Rises("school"), Rises("age", by=2)).bind(SCHEMA)
    x, x_new = rows({"age": 69}), rows({"age": 69, "school": "degree"})
    for repaired in (rule.relax(x, x_new), rule.snap(x, x_new)):
        torch.testing.assert_close(repaired, x)


def test_implies_with_levels() -> None:
    rule = Implies(Is("housing", "own"), Is("member", 1)).bind(SCHEMA)
    close(rule.violation(X, rows({"housing": "own"}, {"member": 0}, {"housing": "own", "member": 1})), [1, 0, 0])
    assert cell(rule.snap(X, rows({"housing": "own"})), "member") == [1]
    back = Implies(Changes("housing"), Falls("income", by=7)).bind(SCHEMA)
    assert cell(back.snap(X, rows({"housing": "own"})), "income") == [90]  # 7 rounds to two steps of 5
    there = Implies(Falls("income"), Is("housing", "free")).bind(SCHEMA)
    assert cell(there.snap(X, rows({"income": 95})), "housing") == ["free"]
    away = Implies(Is("housing", "rent"), Rises("children")).bind(SCHEMA)  # children are fixed, and they rent
    assert cell(away.snap(X, X), "housing") == ["own"]


def test_implies_may_ask_for_a_least_step_of_one_feature() -> None:
    rule = Implies(Changes("age"), Rises("age", by=5)).bind(SCHEMA)
    assert cell(rule.snap(X, rows({"age": 32}, {"age": 36})), "age") == [35, 36]


# -- AtMost -------------------------------------------------------------------------------------------------------


def test_at_most_keeps_the_largest_changes() -> None:
    rule = AtMost(2).bind(SCHEMA)
    x_new = rows({"age": 40, "debt": 30, "income": 150}, {"housing": "own", "age": 35, "member": 1}, {"age": 31})
    # distances 0.2, 0.1, 0.25; 1, 0.1, 1; 0.02
    close(rule.violation(X, x_new), [0.1, 0.1, 0])
    out = rule.snap(X, x_new)
    assert cell(out, "debt") == [40, 40, 40]
    assert cell(out, "age") == [40, 30, 31]
    torch.testing.assert_close(rule.relax(X, x_new), out)
    assert rule.k == 2
    assert rule.mask.all()


def test_at_most_among_some_features() -> None:
    rule = AtMost(0, features=["age", "debt"]).bind(SCHEMA)
    out = rule.snap(X, rows({"age": 40, "debt": 30, "income": 150}))
    assert SCHEMA.changed(X, out).tolist() == [[False, False, True, False, False, False, False]]
    assert (AtMost(99).bind(SCHEMA).violation(X, rows({"age": 40})) == 0).all()


# -- all rules ----------------------------------------------------------------------------------------------------

RULES: list[Rule] = [
    Linear({"debt": 1.0, "income": -0.4}, "<=", 0.0),
    Linear({"age": 1.0, "member": 10.0, "housing=own": 5.0, "children": 1.0}, ">=", 40.0, name="grown up"),
    Ordered("debt", "income"),
    Implies(Rises("school"), Rises("age", by=2)),
    Implies(Is("housing", "own"), Falls("debt")),
    Implies(Changes("member"), Is("housing", "free")),
    AtMost(2),
    AtMost(1, ("age", "debt")),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_plain_values_round_trip(rule: Rule) -> None:
    assert rules.from_dict(yaml.safe_load(yaml.safe_dump(rules.to_dict(rule)))) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert pickle.loads(pickle.dumps(rule.bind(SCHEMA))).name == str(rule)
    hash(rule)


def test_sentences() -> None:
    assert repr(RULES[3]) == "if school rises, age rises by at least 2"
    assert str(RULES[0]) == "debt - 0.4 income <= 0"
    assert str(RULES[1]) == "grown up"
    assert str(RULES[4]) == "if housing is own, debt falls"
    assert str(AtMost(1)) == "at most 1 change"
    assert str(RULES[7]) == "at most 1 change among age, debt"


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_leading_dimensions_broadcast(rule: Rule) -> None:
    bound = rule.bind(SCHEMA)
    x = rows({}, {"age": 50, "debt": None})
    generator = torch.Generator().manual_seed(0)
    x_new = SCHEMA.relax(x.unsqueeze(1), torch.rand(2, 3, SCHEMA.d, generator=generator, dtype=torch.float64))
    assert bound.violation(x.unsqueeze(1), x_new).shape == (2, 3)
    for repair in (bound.relax, bound.snap):
        stacked = repair(x.unsqueeze(1), x_new)
        assert stacked.shape == x_new.shape
        for k in range(3):
            torch.testing.assert_close(stacked[:, k], repair(x, x_new[:, k]))
    assert bound.snap(x[:0], x_new[:0, 0]).shape == (0, SCHEMA.d)


def test_a_missing_cell_leaves_a_rule_open() -> None:
    x = rows({"debt": None})
    x_new = rows({"debt": None, "income": 0, "housing": "own"})
    for rule in (RULES[0], RULES[2]):  # both speak of income too
        bound = rule.bind(SCHEMA)
        assert bound.unknown(x, x_new).all()
        assert (bound.violation(x, x_new) > 0).all()
        assert (bound.violation(x, x) == 0).all()
        assert (bound.violation(x, bound.snap(x, x_new)) == 0).all()
        waived = rule.waivable().bind(SCHEMA)
        assert (waived.violation(x, x_new) == 0).all()
        assert waived.waived(x, x_new).all()
        torch.testing.assert_close(waived.snap(x, x_new), x_new)
    form = RULES[2].bind(SCHEMA).linear_form(torch.cat([x, X]))
    assert form is not None
    assert form.b.isinf().tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Linear({}), "no coefficients"),
        (lambda: Linear({"age": 0.0}), "are zero"),
        (lambda: Linear({"age": math.nan}), "coefficient of 'age' of a Linear rule is nan"),
        (lambda: Linear({"age": "x"}), "is 'x'"),  # type: ignore[dict-item]
        (lambda: Linear({"age": 1.0}, "<=", math.inf), "bound of a Linear rule is inf"),
        (lambda: Linear({"age": 1.0}, "=="), "sense '=='"),  # type: ignore[arg-type]
        (lambda: Linear({"agee": 1.0}).bind(SCHEMA), "'agee', which is not one of \\['age', 'debt'"),
        (lambda: Linear({"housing": 1.0}).bind(SCHEMA), "'housing=own', which is 0 or 1"),
        (lambda: Linear({"housing=boat": 1.0}).bind(SCHEMA), "level 'boat', which is not one of the levels"),
        (lambda: Linear({"x=y": 1.0}).bind(SCHEMA), "'x=y', which is not one of"),
        (lambda: Linear({"age": 1.0}, "<=", 10.0).bind(SCHEMA), "nobody satisfies"),
        (lambda: Ordered("age", "age"), "with itself"),
        (lambda: Ordered("age", "housing").bind(SCHEMA), "orders the category 'housing'"),
        (lambda: Ordered("age", "children").bind(SCHEMA), "nobody satisfies the rule 'age <= children'"),
        (lambda: Ordered("age", "agee").bind(SCHEMA), "'agee'"),
        (lambda: AtMost(-1), "k=-1"),
        (lambda: AtMost(1.5), "k=1.5"),  # type: ignore[arg-type]
        (lambda: AtMost(1, "age"), "features='age'"),  # type: ignore[arg-type]
        (lambda: AtMost(1, ()), "features=\\(\\)"),
        (lambda: AtMost(1, ("agee",)).bind(SCHEMA), "'agee'"),
        (lambda: Rises("age", by=-1), "by=-1"),
        (lambda: Falls("age", by=math.nan), "by=nan"),
        (lambda: Implies("age", Rises("age")), "Implies is given 'age'"),  # type: ignore[arg-type]
        (lambda: Implies(Rises("age"), Changes("debt")), "which way 'debt' must change"),
        (lambda: Implies(Rises("housing"), Rises("age")).bind(SCHEMA), "category 'housing' rises"),
        (lambda: Implies(Is("age", 30), Rises("debt")).bind(SCHEMA), "whether the number 'age'"),
        (lambda: Implies(Is("housing", "boat"), Rises("debt")).bind(SCHEMA), "level 'boat'"),
        (lambda: Implies(Rises("agee"), Rises("debt")).bind(SCHEMA), "'agee'"),
        (lambda: rules.from_dict({"rule": "magic"}), "does not describe a rule"),
        (lambda: rules.from_dict({"rule": "at_most", "n": 3}), "do not make a rule of kind 'at_most'"),
        (lambda: rules.from_dict({"rule": "implies", "if": {"rises": "age"}}), "do not make a rule"),
        (lambda: rules.from_dict({"rule": "implies", "if": {"grows": "a"}, "then": {}}), "describe a condition"),
    ],
)
def test_errors_say_what_to_do(make: object, text: str) -> None:
    with pytest.raises(RuleError, match=text) as caught:
        make()  # type: ignore[operator]
    assert "Hint: " in str(caught.value)


# -- against brute force ------------------------------------------------------------------------------------------

MOVES = st.sampled_from(["free", "up", "down", "fixed"])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, Rule, torch.Tensor, torch.Tensor]:
    """A tiny schema, a rule over it, one person (perhaps off the grid or out of bounds) and a proposal."""
    schema = Schema(
        (
            Number("a", low=0, high=4, step=1, moves=draw(MOVES)),
            Number("b", low=1, high=3, step=0.5, moves=draw(MOVES)),
            Ordinal("o", levels=("l", "m", "h"), moves=draw(MOVES)),
            Binary("y", moves=draw(MOVES)),
            Category("c", levels=("u", "v", "w"), moves=draw(st.sampled_from(["free", "fixed"]))),
        )
    )
    numbers = st.integers(-3, 3)
    keys = ["a", "b", "o", "y", "c=u", "c=v"]
    scalar = st.sampled_from(["a", "b", "o", "y"])
    move = st.sampled_from([Rises, Falls])
    by = st.sampled_from([None, 1, 2])
    moves = st.builds(lambda kind, name, amount: kind(name, by=amount), move, scalar, by)
    is_ = st.sampled_from([Is("o", "m"), Is("y", 1), Is("c", "u"), Is("c", "w")])
    changes = st.sampled_from(["a", "b", "c"]).map(Changes)
    rule = draw(
        st.one_of(
            st.builds(
                Linear,
                st.dictionaries(st.sampled_from(keys), numbers, min_size=1).filter(lambda c: any(c.values())),
                st.sampled_from(["<=", ">="]),
                st.integers(-4, 4),
            ),
            st.sampled_from([Ordered("a", "b"), Ordered("b", "a"), Ordered("o", "a"), Ordered("y", "o")]),
            st.builds(Implies, st.one_of(moves, changes, is_), st.one_of(moves, is_)),
            st.builds(AtMost, st.integers(0, 3), st.sampled_from([None, ("a", "b", "c")])),
        )
    )
    person = pd.DataFrame(
        {
            "a": [draw(st.sampled_from([0, 1, 2, 3, 4, 1.3, 5]))],
            "b": [draw(st.sampled_from([1, 1.5, 2, 3, 2.2, 0]))],
            "o": [draw(st.sampled_from(["l", "m", "h"]))],
            "y": [draw(st.integers(0, 1))],
            "c": [draw(st.sampled_from(["u", "v", "w"]))],
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = schema.encode(person)
    unit = st.floats(0, 1)
    proposal = torch.tensor([[draw(unit) for _ in range(schema.d)]], dtype=torch.float64)
    x_new = schema.relax(x, proposal)
    if draw(st.booleans()):
        x_new = schema.snap(x, x_new)
    return schema, rule, x, x_new


def legal_cells(schema: Schema, feature: Feature, x: torch.Tensor) -> list[torch.Tensor]:
    """Every legal code of a feature for this person, found by snapping a fine sweep."""
    part = schema.slices[schema.index(feature.name)]
    if isinstance(feature, Category):
        sweep = torch.eye(len(feature.levels), dtype=torch.float64)
    else:
        sweep = torch.linspace(0, 1, 41, dtype=torch.float64).unsqueeze(1)
    tried = x.repeat(len(sweep) + 1, 1)  # their own row first
    tried[1:, part] = sweep
    found = {tuple(code) for code in schema.snap(x, tried)[:, part].tolist()}
    return [torch.tensor([code], dtype=torch.float64) for code in found]


@settings(max_examples=80, deadline=None)
@given(cases())
def test_repairs_reach_what_brute_force_reaches(case: tuple[Schema, Rule, torch.Tensor, torch.Tensor]) -> None:
    schema, rule, x, x_new = case
    try:
        bound = rule.bind(schema)
    except RuleError:
        return  # nobody satisfies it
    snapped = schema.snap(x, x_new)
    out = bound.snap(x, x_new)
    assert bound.violation(x, out) <= bound.violation(x, snapped)
    torch.testing.assert_close(schema.snap(x, out), out, atol=0, rtol=0)  # legal, to the last bit
    own = list(bound.features)
    others = [j for j in range(schema.d) if int(schema.feature_of[j]) not in own]
    assert (out[:, others] == snapped[:, others]).all()
    choices = [legal_cells(schema, schema.features[f], x) for f in own]
    points = []
    for combination in itertools.product(*choices):
        point = snapped.clone()
        for f, code in zip(own, combination):
            point[:, schema.slices[f]] = code
        points.append(point)
    reachable = bool((bound.violation(x, torch.cat(points)) == 0).any())
    assert reachable == bool(bound.violation(x, out) == 0)


@settings(max_examples=80, deadline=None)
@given(cases())
def test_relax_helps_and_keeps_to_what_the_person_may_do(
    case: tuple[Schema, Rule, torch.Tensor, torch.Tensor],
) -> None:
    schema, rule, x, x_new = case
    try:
        bound = rule.bind(schema)
    except RuleError:
        return
    out = bound.relax(x, x_new)
    assert bound.violation(x, out) <= bound.violation(x, x_new) + 1e-9
    lo, hi = schema.bounds(x)
    assert ((out >= lo - 1e-9) & (out <= hi + 1e-9)).all()
    if bound.violation(x, x_new) == 0:
        assert (out == x_new).all()
    if bound.violation(x, out) == 0:
        assert (bound.relax(x, out) == out).all()
    fixed = torch.tensor([schema.features[int(f)].moves == "fixed" for f in schema.feature_of])
    assert (out[:, fixed] == x[:, fixed]).all()
    assert (bound.snap(x, x_new)[:, fixed] == x[:, fixed]).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_projection_is_the_nearest_point(seed: int, m: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = torch.rand(1, m, generator=generator, dtype=torch.float64)
    a = torch.randn(m, generator=generator, dtype=torch.float64)
    b = torch.randn(1, generator=generator, dtype=torch.float64)
    lo, hi = torch.zeros_like(z), torch.ones_like(z)
    out = project(z, lo, hi, a, b)
    if a.clamp(max=0).sum() > b:
        assert out @ a == pytest.approx(float(a.clamp(max=0).sum()), abs=1e-9)
        return
    assert float(out @ a - b) <= 1e-9
    others = torch.rand(2000, m, generator=generator, dtype=torch.float64)
    others = others[others @ a <= b]
    if len(others):
        assert (out - z).norm() <= (others - z).norm(dim=1).min() + 1e-9
