"""ExactLinear against brute force: every optimum is reached, every impossibility is real."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout import costs, datasets
from turnabout.core import GUARD, Problem, Status
from turnabout.demo import credit_model
from turnabout.errors import MethodError
from turnabout.methods import LocalSearch, Wachter, choose
from turnabout.methods.exact_linear import ExactLinear
from turnabout.methods.knapsack import cover
from turnabout.methods.moves import Moves
from turnabout.methods.program import PersonProgram
from turnabout.models import Model, Terms, wrap
from turnabout.rules import AtMost, BoundRule, Changes, Falls, Implies, Is, Linear, Ordered, Rises, Rule
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SAFE = 1e-8  # brute force leaves out people for whom some row lies nearer to the boundary


class Scores:
    """An additive original: asked in tables, answers the margin of their encoded rows."""

    scale = "score"
    title = "additive score"
    rule = "score >= 0"
    noise = 1e-12

    def __init__(self, schema: Schema, terms: Terms):
        self.schema, self.terms = schema, terms

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        return self.terms.margin(self.schema.encode(table)).numpy()


class AdditiveStub(Model):
    compiled = True

    def __init__(self, schema: Schema, terms: Terms):
        super().__init__(schema, Scores(schema, terms))
        self.terms = terms

    def margin(self, x: torch.Tensor) -> torch.Tensor:
        return self.terms.margin(x)


class LinearStub(AdditiveStub):
    def __init__(self, schema: Schema, weights: torch.Tensor, bias: float):
        super().__init__(schema, Terms.straight(weights, bias))


# -- brute force ----------------------------------------------------------------------------------------------------


def legal_values(feature, own):
    """Every value the person may hold, their own first; written without the package's own projections."""
    if pd.isna(own) or feature.moves == "fixed":
        return [own]
    if isinstance(feature, Category):
        return [own, *[v for v in feature.levels if v != own]]
    if isinstance(feature, Number):
        step = feature.step if feature.step is not None else 10.0**-feature.places
        first, last = round(np.ceil(feature.low / step - 1e-6)), round(np.floor(feature.high / step + 1e-6))
        values = [round(q * step, 10) for q in range(first, last + 1)]
        ranked = {v: v for v in [*values, own]}
    else:
        values, ranked = list(feature.levels), {v: i for i, v in enumerate(feature.levels)}
    ways = {"free": lambda v: True, "up": lambda v: ranked[v] > ranked[own], "down": lambda v: ranked[v] < ranked[own]}
    return [own, *[v for v in values if v != own and ways[feature.moves](v)]]


def brute_force(problem, row):
    """One-row table -> least cost over all accepted legal rows (inf if there is none), or None if too near to call."""
    schema = problem.schema
    columns = [legal_values(f, row[f.name].iloc[0]) for f in schema.features]
    table = pd.DataFrame(list(itertools.product(*columns)), columns=list(schema.names))
    x, x_new = schema.encode(row), schema.encode(table)
    margin = problem.margin(x_new)
    if (margin.abs() < SAFE).any():
        return None
    good = (margin >= GUARD) & (problem.violation(x.expand_as(x_new), x_new) <= 0)
    return float(problem.cost(x.expand_as(x_new), x_new)[good].min()) if good.any() else np.inf


FEATURES = (
    lambda r, i: Number(f"n{i}", 0, 6, step=1, moves=_way(r)),
    lambda r, i: Number(f"h{i}", -1, 2, step=0.5, moves=_way(r), missing=True),
    lambda r, i: Number(f"c{i}", 0, 1, decimals=1, moves=_way(r)),
    lambda r, i: Binary(f"b{i}", ("no", "yes"), moves=_way(r)),
    lambda r, i: Ordinal(f"o{i}", ("low", "mid", "high", "top"), moves=_way(r), missing=True),
    lambda r, i: Category(f"k{i}", ("red", "green", "blue"), moves=r.choice(["free", "free", "fixed"])),
    lambda r, i: Category(f"m{i}", ("x", "y"), missing=True),
)


def _way(r):
    return str(r.choice(["free", "free", "up", "down", "fixed"], p=[0.3, 0.25, 0.2, 0.15, 0.1]))


def random_terms(r, schema, weights):
    """Terms that bend at random in every ordinal and number, at legal values and between them; bias 0."""
    bends = []
    for f, s in zip(schema.features, schema.slices):
        if isinstance(f, Ordinal):
            bends += [(s.start, k / f.span) for k in range(1, len(f.levels) - 1)]
        elif isinstance(f, Number):
            bends += [(s.start, knot) for knot in (0.5, float(r.uniform(0.1, 0.9)), -0.05)]
        else:  # a column of zeros and ones cannot bend, but a knot is no reason to refuse it
            bends += [(s.start, 0.3)]
    columns, knots = torch.tensor([c for c, _ in bends]), torch.tensor([k for _, k in bends]).double()
    return Terms(weights, 0.0, columns, knots, torch.from_numpy(r.normal(size=len(bends)) * 5))


def random_case(seed, cost, rules=(), width=4, people=12, round_weights=False, bent=False):
    r = np.random.default_rng(seed)
    kinds = r.choice(len(FEATURES), size=width)
    schema = Schema(tuple(FEATURES[k](r, i) for i, k in enumerate(kinds)))
    columns = {}
    for f in schema.features:
        if isinstance(f, Number):
            v = r.uniform(f.low - 0.4, f.high + 0.4, people)  # off the grid, some outside the bounds
            on_grid = np.clip(np.round(v / f.unit_step) * f.unit_step, f.low, f.high).round(6)
            v = np.where(r.random(people) < 0.5, on_grid, v.round(3))
            columns[f.name] = np.where(f.missing & (r.random(people) < 0.15), np.nan, v)
        else:
            v = r.choice(np.array(f.levels, dtype=object), people)
            columns[f.name] = np.where(f.missing & (r.random(people) < 0.15), None, v)
    table = pd.DataFrame(columns)
    weights = torch.tensor(r.integers(-3, 4, schema.d) if round_weights else r.normal(size=schema.d) * 2).double()
    terms = random_terms(r, schema, weights) if bent else Terms.straight(weights, 0.0)
    x = schema.encode(table)
    bias = -float(terms.margin(x).quantile(0.7)) - float(r.uniform(0.1, 1.5)) - (1e-3 if round_weights else 0)
    problem = Problem(schema, AdditiveStub(schema, replace(terms, bias=bias)), cost=cost, rules=rules, background=table)
    return problem, table


def compare(problem, people, method=None, tolerance=1e-8):
    """Every person of the table against brute force; returns how many were found and how many were impossible."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="column .* holds")
        answer = (method or ExactLinear()).fit(problem).find(people)
    found = impossible = 0
    for person in people.index:
        if answer.status[person] == Status.ACCEPTED:
            continue
        best = brute_force(problem, people.loc[[person]])
        if best is None:
            continue
        if best == np.inf:
            assert answer.status[person] == Status.IMPOSSIBLE, f"person {person} has no plan"
            proof = answer.why.loc[person, "proof"]
            assert "below the 0" in proof or "keeps all rules" in proof or "may change" in proof
            impossible += 1
        else:
            assert answer.status[person] == Status.FOUND, f"person {person} has a plan of cost {best}"
            assert answer.options.loc[(person, 0), "cost"] == pytest.approx(best, abs=tolerance)
            found += 1
    return found, impossible


COSTS = {
    "L1": costs.L1(),
    "weighted": costs.L1(difficulty={"n0": 3.0, "b1": 0.0, "k2": 0.2}),
    "MAD": costs.MAD(),
    "L0": costs.L0(),
    "mixture": costs.L1() + 0.3 * costs.L0(),
    "dear entry": costs.Weighted({}, 0.2 * costs.L1() + costs.L0()),
}


def known(cost, schema_names):
    """The cost without weights on features that this schema does not have."""
    if isinstance(cost, costs.L1) and cost.difficulty:
        return costs.L1(difficulty={k: v for k, v in cost.difficulty.items() if k in schema_names})
    return cost


@pytest.mark.parametrize("bent", [False, True], ids=["straight", "bent"])
@pytest.mark.parametrize("name", COSTS)
def test_reaches_every_optimum_of_tiny_grids(name, bent):
    found = impossible = 0
    for seed in range(8):
        schema = random_case(seed, costs.L1())[0].schema
        problem, people = random_case(seed, known(COSTS[name], schema.names), bent=bent)
        more = compare(problem, people)
        found, impossible = found + more[0], impossible + more[1]
    assert found > 20
    assert impossible > 5


def test_reaches_every_optimum_where_costs_and_gains_tie():
    for seed in range(8):
        for cost in (costs.L1(), costs.L0(), costs.L1() + costs.L0()):
            compare(*random_case(seed, cost, round_weights=True))


@pytest.mark.parametrize(
    "cost",
    [
        costs.L2(squared=True),
        costs.L2(),
        costs.PercentileShift() + 0.01 * costs.L1(),
        costs.PercentileShift(reduce="max"),
    ],
    ids=["squares", "Euclidean", "percentiles", "largest percentile"],
)
def test_reaches_every_optimum_of_other_costs(cost):
    for bent in (False, True):
        cases = [random_case(seed, cost, people=6, bent=bent) for seed in range(5)]
        assert sum(compare(*case, tolerance=1.1e-5)[0] for case in cases) > 5


def test_branch_and_bound_agrees_with_the_integer_program():
    checked = 0
    for seed in range(6):
        problem, people = random_case(seed, costs.L1() + 0.2 * costs.L0(), width=6, bent=seed % 2 == 1)
        method = ExactLinear().fit(problem)
        x = problem.schema.encode(people)
        none = torch.zeros(len(x), len(problem.schema), dtype=torch.bool)
        moves = Moves.of(problem.schema, method.terms_, x, none, method.price_, method.fixed_)
        gap = method.aim_ - method._margin(x)
        rows = ((gap > 0) & (moves.reach >= gap)).nonzero().squeeze(1)
        found = cover(moves.take(rows), gap[rows], 1e-13, 1e-9, torch.zeros(len(rows)).double(), 10_000, lambda: False)
        for i, cost, bound in zip(rows.tolist(), found.cost, found.bound):
            program = PersonProgram(problem, method.terms_, x[i : i + 1], none[i].numpy(), "linear")
            plan = program.cheapest(method.aim_, 10.0, 1e-9)
            assert plan.outcome == "optimal"
            assert float(problem.cost(x[i : i + 1], plan.x_new.unsqueeze(0))) == pytest.approx(float(cost), abs=1e-8)
            assert float(bound) <= float(cost) <= float(bound) + 1.01e-9
            checked += 1
    assert checked > 20


# -- rules ----------------------------------------------------------------------------------------------------------


def ruled_schema():
    return Schema(
        (
            Number("low", 0, 6, step=1),
            Number("high", 0, 6, step=1, missing=True),
            Ordinal("school", ("none", "some", "full"), moves="up"),
            Number("age", 20, 26, step=1, moves="up"),
            Category("home", ("rent", "own", "free")),
        )
    )


RULES = {
    "ordered": [Ordered("low", "high")],
    "at most 1": [AtMost(1)],
    "at most 2 of 3": [AtMost(1, ("low", "high", "home"))],
    "linear": [Linear({"low": 1.0, "high": 1.0, "home=own": 3.0}, "<=", 7.0)],
    "implies": [Implies(Rises("school"), Rises("age", by=2))],
    "implies is": [Implies(Is("home", "own"), Rises("high", by=2)), Implies(Changes("low"), Is("school", "full"))],
    "implies falls": [Implies(Rises("high", by=3), Falls("low")), Implies(Is("school", "full"), Is("home", "rent"))],
    "all": [Ordered("low", "high"), AtMost(3), Implies(Rises("school", by=2), Rises("age", by=3))],
}


def ruled_case(seed, rules, cost, bent=False):
    r = np.random.default_rng(seed)
    schema, people = ruled_schema(), 8
    table = pd.DataFrame(
        {
            "low": r.integers(0, 7, people),
            "high": np.where(r.random(people) < 0.15, np.nan, r.integers(0, 7, people)),
            "school": r.choice(["none", "some", "full"], people),
            "age": r.choice([20, 21.5, 22, 25, 26], people),
            "home": r.choice(["rent", "own", "free"], people),
        }
    )
    weights = torch.from_numpy(r.normal(size=schema.d) * 2)
    terms = random_terms(r, schema, weights) if bent else Terms.straight(weights, 0.0)
    bias = -float(terms.margin(schema.encode(table)).quantile(0.6)) - float(r.uniform(0.1, 0.8))
    return Problem(schema, AdditiveStub(schema, replace(terms, bias=bias)), cost=cost, rules=rules), table


@pytest.mark.parametrize("bent", [False, True], ids=["straight", "bent"])
@pytest.mark.parametrize("name", RULES)
def test_reaches_every_optimum_under_rules(name, bent):
    found = 0
    for seed in range(5):
        found += compare(*ruled_case(seed, RULES[name], costs.L1() + (seed % 2) * 0.1 * costs.L0(), bent))[0]
    assert found > 0


def test_impossible_because_of_a_rule_tells_the_highest_margin():
    schema = Schema((Number("a", 0, 4, step=1), Number("b", 0, 4, step=1)))
    model = LinearStub(schema, torch.tensor([1.0, 1.0]).double(), -1.8)
    problem = Problem(schema, model, rules=[Linear({"a": 1.0, "b": 1.0}, "<=", 6.0)])
    answer = ExactLinear().fit(problem).find(pd.DataFrame({"a": [0], "b": [0]}))
    assert answer.status[0] == Status.IMPOSSIBLE
    assert "is -0.3" in answer.why.loc[0, "proof"]


# -- by hand --------------------------------------------------------------------------------------------------------


def hand_problem(cost=None):
    schema = Schema(
        (
            Number("hours", 0, 100, step=10),
            Number("gain", 0, 1),
            Category("job", ("none", "clerk", "boss")),
        )
    )
    weights = torch.tensor([1.0, 0.5, 0.0, 0.2, 0.6]).double()
    return Problem(schema, LinearStub(schema, weights, -1.0), costs.L1() if cost is None else cost)


def test_numbers_done_by_hand():
    # needs 0.85: hours alone give 0.1 a step at cost 0.1, so nine steps (0.9); eight and gain 0.1 cost 0.8 + 0.1, as
    # much, but 0.05 of it is exactly 0.1 of gain, which must clear the boundary by a printed digit
    people = pd.DataFrame({"hours": [10], "gain": [0.1], "job": ["none"]})
    answer = ExactLinear().fit(hand_problem()).find(people)
    assert answer.options["cost"].iloc[0] == pytest.approx(0.9)
    assert answer.options["hours"].iloc[0] == 100


def test_the_proof_of_impossibility_adds_up():
    hours, job = Number("hours", 0, 100, step=10), Category("job", ("none", "clerk"))
    schema = Schema((hours, job, Binary("sex", moves="fixed")))
    problem = Problem(schema, LinearStub(schema, torch.tensor([1.0, 0.0, 0.25, 5.0]).double(), -2.0))
    answer = ExactLinear().fit(problem).find(pd.DataFrame({"hours": [50], "job": ["none"], "sex": [0]}))
    assert answer.status[0] == Status.IMPOSSIBLE
    proof = answer.why.loc[0, "proof"]
    assert proof.startswith("their margin is -1.5,")
    assert "hours to 100 adds 0.5; job to clerk adds 0.25" in proof
    assert "brings it to -0.75" in proof


def test_further_options_pull_other_moves():
    people = pd.DataFrame({"hours": [70], "gain": [0.5], "job": ["none"]})  # needs 0.05
    answer = ExactLinear().fit(hand_problem()).find(people, options=3)
    assert answer.options["cost"].is_monotonic_increasing
    assert [set(c) for _, c in answer.changes().groupby("option")["feature"]] == [{"hours"}, {"gain"}, {"job"}]


def test_further_options_under_rules():
    problem, people = ruled_case(1, RULES["all"], costs.L1())
    answer = ExactLinear().fit(problem).find(people, options=3)
    one = ExactLinear().fit(problem).find(people)
    assert len(answer.options) > len(one.options)
    best = answer.options["cost"].groupby("person").min()
    assert np.allclose(best, one.options["cost"].groupby("person").min(), atol=2e-6)


def test_free_changes_come_first():
    problem = hand_problem(costs.L1(difficulty={"job": 0.0}))
    people = pd.DataFrame({"hours": [10], "gain": [0.6], "job": ["none"]})  # needs 0.6, and a little
    answer = ExactLinear().fit(problem).find(people)
    assert answer.options["cost"].iloc[0] < 1e-5
    assert answer.options["job"].iloc[0] == "boss"


def test_people_are_answered_alike_wherever_they_stand():
    problem, people = random_case(3, costs.L1() + 0.3 * costs.L0(), width=5)
    method = ExactLinear().fit(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forward, backward = method.find(people), method.find(people.iloc[::-1])
    assert (forward.status == backward.status.loc[forward.status.index]).all()
    pd.testing.assert_frame_equal(forward.options.sort_index(), backward.options.sort_index())


def test_many_people_on_fine_grids_need_no_integer_program(monkeypatch):
    r = np.random.default_rng(0)
    schema = Schema((*(Number(f"n{i}", 0, 1000) for i in range(5)), Category("c", tuple("abcdef"))))
    numbers = {f"n{i}": r.uniform(0, 500, 3000).round(2) for i in range(5)}
    table = pd.DataFrame(numbers | {"c": r.choice(list("abcdef"), 3000)})
    weights = torch.from_numpy(r.normal(size=schema.d))
    bias = -float((schema.encode(table) @ weights).max())
    method = ExactLinear().fit(Problem(schema, LinearStub(schema, weights, bias)))
    monkeypatch.setattr(ExactLinear, "_programs", lambda self, x, blocked, x_new, rows, bound: rows.tolist())
    method.run = type("R", (), {"options": 1, "expired": False})()
    rows, left = method._solve(
        x := schema.encode(table), none := torch.zeros(3000, 6, dtype=torch.bool), method._moves(x, none)
    )
    assert not left
    assert torch.isfinite(rows).all(1).sum() > 1000


# -- bends ----------------------------------------------------------------------------------------------------------


def crooked_problem(moves="free", cost=None, bias=-1.0):
    """An ordinal whose levels add 0, 0.8, 0.2, 0.5, 1.1 to the margin, and a number that adds up to 1."""
    schema = Schema((Ordinal("rank", tuple("abcde"), moves=moves), Number("hours", 0, 10, step=1)))
    adds = torch.tensor([0.0, 0.8, 0.2, 0.5, 1.1]).double()
    slope = 4 * adds.diff()
    knots = torch.tensor([0.25, 0.5, 0.75]).double()
    weights = torch.stack([slope[0], torch.ones((), dtype=torch.float64)])
    terms = Terms(weights, bias, torch.zeros(3, dtype=torch.long), knots, slope.diff())
    return Problem(schema, AdditiveStub(schema, terms), costs.L1() if cost is None else cost)


@pytest.mark.parametrize(
    ("moves", "rank", "new_rank", "new_hours"),
    [
        ("free", "a", "b", 3),  # 0.25 for 0.8 and 3 hours for the rest, 0.55 in all; e alone costs 1
        ("up", "c", "e", 0),  # two levels up add 0.9 for 0.5
        ("down", "c", "b", 3),  # one level down adds 0.6 for 0.25; hours alone would be 9
        ("up", "b", "b", 3),  # the next two levels are worse
        ("down", "d", "d", 6),  # b would add 0.3 for 0.5
    ],
)
def test_bends_done_by_hand(moves, rank, new_rank, new_hours):
    # margin: what the rank adds + hours / 10 - 1.05
    answer = ExactLinear().fit(crooked_problem(moves, bias=-1.05)).find(pd.DataFrame({"rank": [rank], "hours": [0]}))
    row = answer.options.iloc[0]
    assert (row["rank"], row["hours"]) == (new_rank, new_hours)


def test_the_ladder_of_a_bent_feature_keeps_what_no_cheaper_level_outdoes():
    problem = crooked_problem()
    method = ExactLinear().fit(problem)
    x = problem.schema.encode(pd.DataFrame({"rank": list("abcde"), "hours": 0}))
    moves = method._moves(x, torch.zeros(5, 2, dtype=torch.bool))
    assert moves.tables.moves.tolist() == [0]
    assert moves.count[:, 0].tolist() == [2, 1, 2, 1, 0]
    ladders = [row[1 : int(n) + 1].tolist() for row, n in zip(moves.tables.target[:, 0], moves.count[:, 0])]
    assert ladders == [[1, 4], [4], [1, 4], [4], []]  # from a: b, e; from c: b (one step), e (two); from d: e
    assert moves.tables.gain[2, 0, 1:3].tolist() == pytest.approx([0.6, 0.9])
    assert moves.tables.cost[2, 0, 1:3].tolist() == pytest.approx([0.25, 0.5])
    assert moves.reach.tolist() == pytest.approx([2.1, 1.3, 1.9, 1.6, 1.0])


def test_pieces_run_below_every_notch_and_are_convex():
    problem, people = random_case(11, costs.L1() + 0.2 * costs.L0(), width=8, people=40, bent=True)
    method = ExactLinear().fit(problem)
    x = problem.schema.encode(people)
    moves = method._moves(x, torch.zeros(len(x), len(problem.schema), dtype=torch.bool))
    tables = moves.tables
    hi = moves.count[:, tables.moves]
    for lo in (torch.zeros_like(hi), (hi - 2).clamp(min=0), torch.ones_like(hi).minimum(hi)):
        for most in (hi, (hi - 1).maximum(lo)):
            pieces, near = tables.segments(lo, most), tables.points(lo)
            real = pieces.gain > 0
            assert (torch.where(real, pieces.rate, pieces.rate.cummax(2).values).diff(dim=2) >= 0).all()
            begun = near.gain.unsqueeze(2) + pieces.gain.cumsum(2) - pieces.gain
            for k in range(tables.gain.shape[2]):
                filled = (tables.gain[:, :, k].unsqueeze(2) - begun).clamp(min=0).minimum(pieces.gain)
                line = near.cost + (filled * pieces.rate).sum(2)
                inside = (k >= lo) & (k <= most)
                assert (line[inside] <= tables.cost[:, :, k][inside] + 1e-12).all()
    assert tables.gain.shape[2] > 3


def test_the_proof_names_the_best_level_and_not_the_last():
    answer = ExactLinear().fit(crooked_problem("down", bias=-2.0)).find(pd.DataFrame({"rank": ["d"], "hours": [2]}))
    assert answer.status[0] == Status.IMPOSSIBLE
    proof = answer.why.loc[0, "proof"]
    assert proof.startswith("their margin is -1.3,")
    assert "rank to b adds 0.3; hours to 10 adds 0.8" in proof
    assert "brings it to -0.2" in proof


def test_many_bent_levels_need_no_integer_program(monkeypatch):
    r = np.random.default_rng(0)
    people, levels = 300, tuple(f"l{i:02}" for i in range(12))
    schema = Schema((*(Ordinal(f"o{i}", levels) for i in range(10)), Number("n", 0, 100, step=1)))
    table = pd.DataFrame({f"o{i}": r.choice(levels, people) for i in range(10)} | {"n": r.integers(0, 100, people)})
    terms = random_terms(r, schema, torch.from_numpy(r.normal(size=schema.d)))
    terms = replace(terms, bias=-float(terms.margin(schema.encode(table)).quantile(0.9)))
    method = ExactLinear().fit(Problem(schema, AdditiveStub(schema, terms)))
    monkeypatch.setattr(ExactLinear, "_programs", lambda self, x, blocked, x_new, rows, bound: rows.tolist())
    method.run = type("R", (), {"options": 1, "expired": False})()
    x = schema.encode(table)
    none = torch.zeros(people, len(schema), dtype=torch.bool)
    rows, left = method._solve(x, none, method._moves(x, none))
    assert not left
    assert torch.isfinite(rows).all(1).sum() > 250


def test_refuses_a_bend_in_too_many_values():
    schema = Schema((Number("wealth", 0, 1),))
    half, one = torch.full((1,), 0.5).double(), torch.ones(1).double()
    terms = Terms(one, -0.5, torch.tensor([0]), half, one)
    with pytest.raises(MethodError, match=r"bends in 'wealth'.*1000001 of them"):
        ExactLinear().fit(Problem(schema, AdditiveStub(schema, terms)))


def german_problem(cost):
    """The pipeline of the demo: levels one-hot, ordinals among them."""
    pytest.importorskip("sklearn")
    data = datasets.load("german")
    train, test = data.split(seed=0)
    model = wrap(credit_model(train), data.schema, background=train.people)
    people = test.people[model.judge(test.people) < 0]
    return Problem(data.schema, model, cost=cost, background=train.people), people.iloc[:40]


@pytest.mark.parametrize("cost", [costs.L1(), costs.L1() + 0.3 * costs.L0()], ids=["L1", "mixture"])
def test_nothing_is_cheaper_on_one_hot_german_credit(cost, monkeypatch):
    problem, people = german_problem(cost)
    assert isinstance(choose(problem), ExactLinear)
    left = []
    monkeypatch.setattr(ExactLinear, "_programs", lambda self, x, blocked, x_new, rows, bound: left.extend(rows) or {})
    exact = ExactLinear().fit(problem).find(people)
    assert not left  # all proved by branch and bound
    assert (exact.status == Status.FOUND).all()
    best = exact.options["cost"].groupby("person").min()
    for other in (LocalSearch(), Wachter()):
        answer = other.fit(problem).find(people)
        assert (answer.options["cost"].groupby("person").min() >= best - 1e-9).all()


# -- limits ---------------------------------------------------------------------------------------------------------


def test_out_of_time_gives_the_best_found_and_says_so():
    problem, people = ruled_case(0, RULES["at most 1"], costs.L1())
    with pytest.warns(UserWarning, match="could not prove"):
        ExactLinear(seconds=0.0).fit(problem).find(people)


def test_refuses_a_cost_that_is_no_sum():
    problem, _ = random_case(0, costs.L2() + costs.L1())
    with pytest.raises(MethodError, match="not a sum over features"):
        ExactLinear().fit(problem)


class Odd(Rule):
    kind = "odd"

    def bind(self, schema):
        return BoundOdd("odd", schema, [0])

    def __str__(self):
        return "odd"

    def to_dict(self):
        return {"rule": "odd"}

    @classmethod
    def _read(cls, spec):
        return cls()


class BoundOdd(BoundRule):
    def _gap(self, x, x_new):
        return x_new.sum(-1) * 0

    def _relax(self, x, x_new):
        return x_new

    def _snap(self, x, x_new):
        return x_new


def test_refuses_a_rule_it_cannot_write():
    schema = Schema((Number("a", 0, 4, step=1),))
    problem = Problem(schema, LinearStub(schema, torch.tensor([1.0]).double(), -0.5), rules=[Odd()])
    with pytest.raises(MethodError, match="cannot write the rule 'odd'"):
        ExactLinear().fit(problem)


@pytest.mark.parametrize("weights", [(2, 1, 1, 1), (2, 2, 1, 1), (3, 2, 1, 1), (3, 2, 2, 1)])
@pytest.mark.filterwarnings("ignore:ExactLinear could not prove")
def test_scores_that_tie_at_the_boundary(weights):
    """Whole-number weights put many rows exactly on the boundary, which the solver cannot tell from beyond it."""

    schema = Schema(tuple(Binary(name) for name in "abcd"))
    people = pd.DataFrame([[0, 0, 0, 0]], columns=list("abcd"))
    for bias in (-1.0, -2.0, -3.0):
        net = torch.nn.Linear(4, 1).double()
        with torch.no_grad():
            net.weight.copy_(torch.tensor([weights]))
            net.bias.fill_(bias)
        problem = Problem(schema, wrap(net, schema), cost=costs.L2())
        exact, counted = (cls().fit(problem).find(people) for cls in (ExactLinear, LocalSearch))
        assert exact.options.cost.tolist() == pytest.approx(counted.options.cost.tolist())
        assert len(exact.options) == 1


def test_reaches_the_optimum_of_a_network_in_single_precision():
    """The least margin of a plan is the model's noise, above the guard: nothing less may be aimed at."""
    schema = Schema([Number("rooms", 0, 6, 1), Number("rate", 0, 8), Number("years", 1, 4, 1, moves="up")])
    module = torch.nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.1227, -0.9051, 0.9769]]))
        module.bias.fill_(-0.9607)
    people = pd.DataFrame({"rooms": [1], "rate": pd.array([4.1724], dtype="float32"), "years": [4.0]})
    problem = Problem(schema, wrap(module, schema), cost=costs.L1())
    found = ExactLinear().fit(problem).find(people)
    other = LocalSearch().fit(problem).find(people)
    assert found.options["cost"].iloc[0] <= other.options["cost"].iloc[0] + 1e-5  # of the size of the noise
    assert found.options["cost"].iloc[0] < 0.26
