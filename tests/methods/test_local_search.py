"""LocalSearch: the optimum where rows can be counted, near it where not; rules, directions, seeds and clocks kept."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from turnabout.core import Problem, Status
from turnabout.costs import L0, L1, L2
from turnabout.methods.bundles import Aims, bundle
from turnabout.methods.local_search import LocalSearch
from turnabout.methods.single_changes import ManyCuts, SingleChanges
from turnabout.models import Trees, wrap
from turnabout.rules import AtMost, Implies, Linear, Rises
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.solvers.legal_rows import LegalRows

MIXED = Schema(
    (
        Number("income", 0, 5, step=1),
        Number("debt", 0, 3, step=1, moves="down"),
        Ordinal("school", ("none", "some", "full"), moves="up"),
        Binary("owner", ("no", "yes")),
        Category("job", ("a", "b", "c"), missing=True),
        Number("age", 0, 9, step=1, moves="fixed"),
    )
)


def people_of(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """People of MIXED, some with an income off the grid, some without a job."""
    job = rng.choice(["a", "b", "c"], n).astype(object)
    job[rng.random(n) < 0.2] = None
    return pd.DataFrame(
        {
            "income": (rng.integers(0, 6, n) + np.where(rng.random(n) < 0.3, 0.5, 0.0)).clip(max=5.0),
            "debt": rng.integers(0, 4, n),
            "school": rng.choice(["none", "some", "full"], n),
            "owner": rng.choice(["no", "yes"], n),
            "job": job,
            "age": rng.integers(0, 10, n),
        }
    )


def bumpy(seed: int, cut: float = 0.6):
    """A function with interactions of all features: P(yes) of a table."""
    weights = np.random.default_rng(seed).normal(size=(3, 6))

    def ask(table: pd.DataFrame) -> np.ndarray:
        x = np.column_stack(
            [
                table["income"].to_numpy(float) / 5,
                table["debt"].to_numpy(float) / 3,
                table["school"].map({"none": 0.0, "some": 0.5, "full": 1.0}).to_numpy(float),
                (table["owner"] == "yes").to_numpy(float),
                table["job"].map({"a": 0.0, "b": 0.4, "c": 1.0}).fillna(0.2).to_numpy(float),
                table["age"].to_numpy(float) / 9,
            ]
        )
        return 1 / (1 + np.exp(-(np.sin(3 * x @ weights.T).sum(1) - cut)))

    return ask


def legal_values(feature, own):
    """All values a person may have, their own first; written without the package's own projections."""
    if feature.moves == "fixed" or pd.isna(own):
        return [own]
    if isinstance(feature, Number):
        values = [v for v in np.arange(feature.low, feature.high + 1e-9, feature.step) if v != own]
        values = [v for v in values if feature.moves == "free" or (v > own) == (feature.moves == "up")]
    else:
        place = feature.levels.index(own)
        values = [
            v
            for k, v in enumerate(feature.levels)
            if k != place and (feature.moves == "free" or (k > place) == (feature.moves == "up"))
        ]
    return [own, *values]


def optimum(problem: Problem, person: pd.Series) -> tuple[float, int]:
    """Least cost of an accepted row (inf if none) and the number of legal rows, by brute force on raw values."""
    names = list(problem.schema.names)
    rows = pd.DataFrame(itertools.product(*(legal_values(problem.schema[n], person[n]) for n in names)), columns=names)
    people = pd.DataFrame([person.to_dict()] * len(rows))[names]
    x, x_new = problem.schema.encode(people), problem.schema.encode(rows)
    good = (problem.model.judge(rows) >= 1e-9) & (problem.violation(x, x_new) <= 0).numpy()
    cost = problem.cost(x, x_new).numpy()
    return (float(cost[good].min()) if good.any() else np.inf), len(rows)


def least_costs(answer) -> pd.Series:
    return answer.options["cost"].groupby("person").min()


def tree_case(seed: int, trees: int = 30, cls: type = GradientBoostingClassifier):
    """Boosted trees or a forest on six whole numbers, and refused people."""
    rng = np.random.default_rng(seed)
    moves = ["free", "up", "down", "free", "free", "fixed"]
    schema = Schema(tuple(Number(f"v{j}", 0, 4, step=1, moves=moves[j]) for j in range(6)))
    table = pd.DataFrame(rng.integers(0, 5, (500, 6)), columns=list(schema.names))
    v = table.to_numpy(float)
    score = v[:, 0] - v[:, 1] * v[:, 2] / 3 + 2 * np.sin(v[:, 3]) + v[:, 4] * v[:, 5] / 4 - v[:, 5]
    model = cls(n_estimators=trees, max_depth=3, random_state=0).fit(table, score > np.quantile(score, 0.7))
    wrapped = wrap(model, schema, background=table)
    people = table[wrapped.judge(table) < 0].iloc[:25].reset_index(drop=True)
    return Problem(schema, wrapped, background=table), people


# -- counting all rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cost", [L1(), L0(), L2(), L1({"income": 3.0}) + 0.1 * L0()])
def test_all_rows_asked_gives_the_cheapest_there_is(seed, cost):
    problem = Problem(MIXED, wrap(bumpy(seed), MIXED), cost=cost)
    people = people_of(np.random.default_rng(seed), 15)
    answer = LocalSearch().fit(problem).find(people)
    costs = least_costs(answer)
    for i, person in people.iterrows():
        if answer.status[i] == Status.ACCEPTED:
            continue
        best, _ = optimum(problem, person)
        assert costs.get(i, np.inf) == pytest.approx(best)
        assert (answer.status[i] == Status.IMPOSSIBLE) == np.isinf(best)


def test_the_number_of_rows_in_a_proof_is_that_of_brute_force():
    problem = Problem(MIXED, wrap(bumpy(1, cut=2.9), MIXED))
    people = people_of(np.random.default_rng(1), 20)
    answer = LocalSearch().fit(problem).find(people)
    proved = answer.status.index[answer.status == Status.IMPOSSIBLE]
    assert len(proved) > 3
    for i in proved:
        best, rows = optimum(problem, people.loc[i])
        assert np.isinf(best)
        assert f"all {rows:,} rows" in answer.why.loc[i, "proof"]
        assert "refused by" in answer.why.loc[i, "proof"]


def test_nothing_is_proved_without_asking_all_rows():
    problem = Problem(MIXED, wrap(bumpy(1, cut=2.9), MIXED))
    answer = LocalSearch(exhaustive=0).fit(problem).find(people_of(np.random.default_rng(1), 20))
    assert not (answer.status == Status.IMPOSSIBLE).any()


def test_choices_list_every_row_once():
    people = people_of(np.random.default_rng(3), 12)
    x = MIXED.encode(people)
    choices = LegalRows.of(MIXED, x, torch.zeros(12, len(MIXED), dtype=torch.bool))
    owner, rows = choices.every(torch.arange(12))
    for i, person in people.iterrows():
        count = int(np.prod([len(legal_values(MIXED[n], person[n])) for n in MIXED.names]))
        mine = rows[owner == i]
        assert int(choices.count[i]) == count == len(mine) == len(mine.unique(dim=0))
        assert torch.equal(MIXED.snap(x[i : i + 1], mine), mine)


# -- searching ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cls", [GradientBoostingClassifier, RandomForestClassifier])
def test_the_search_comes_near_the_cheapest_on_small_trees(seed, cls):
    problem, people = tree_case(seed, cls=cls)
    assert isinstance(problem.model, Trees)
    best = LocalSearch(exhaustive=10**6).fit(problem).find(people)
    searched = LocalSearch(exhaustive=0).fit(problem).find(people)
    exact, near = least_costs(best), least_costs(searched)
    assert set(near.index) == set(exact.index)
    assert (near >= exact - 1e-9).all()
    assert near.mean() <= 1.05 * exact.mean()


@pytest.mark.parametrize("seed", range(3))
def test_the_search_comes_near_the_cheapest_of_any_function(seed):
    problem = Problem(MIXED, wrap(bumpy(seed), MIXED))
    people = people_of(np.random.default_rng(seed), 25)
    exact = least_costs(LocalSearch().fit(problem).find(people))
    near = least_costs(LocalSearch(exhaustive=0).fit(problem).find(people))
    assert len(near) >= 0.95 * len(exact)
    assert (near >= exact[near.index] - 1e-9).all()
    assert near.mean() <= 1.1 * exact[near.index].mean()


def test_brute_force_confirms_the_cheapest_on_trees():
    problem, people = tree_case(5)
    costs = least_costs(LocalSearch(exhaustive=10**6).fit(problem).find(people.iloc[:5]))
    for i, person in people.iloc[:5].iterrows():
        assert costs.get(i, np.inf) == pytest.approx(optimum(problem, person)[0])


def test_a_plateau_is_left_by_random_starts_and_by_neighbours():
    schema = Schema(tuple(Number(f"v{j}", 0, 1) for j in range(5)))

    def ask(table):
        return ((table[["v0", "v1", "v2"]] > 0.7).all(axis=1)).astype(float)

    people = pd.DataFrame(np.full((3, 5), 0.2) + np.arange(3)[:, None] / 50, columns=list(schema.names))
    background = pd.DataFrame(np.random.default_rng(0).random((300, 5)), columns=list(schema.names))
    for known in (None, background):
        problem = Problem(schema, wrap(ask, schema), cost=L1(), background=known)
        answer = LocalSearch(samples=400 if known is None else 1).fit(problem).find(people)
        assert (answer.status == Status.FOUND).all()
        np.testing.assert_allclose(least_costs(answer), 3 * (0.7 - people["v0"]), atol=1e-4)


def test_directions_bounds_and_missing_cells_are_kept():
    problem = Problem(MIXED, wrap(bumpy(2), MIXED))
    people = people_of(np.random.default_rng(7), 40)
    answer = LocalSearch(exhaustive=0).fit(problem).find(people, options=3)
    own = people.loc[answer.options.index.get_level_values("person")]
    rows = answer.options[list(MIXED.names)]
    assert len(rows)
    assert (rows["debt"].to_numpy() <= own["debt"].to_numpy()).all()
    assert (rows["age"].to_numpy() == own["age"].to_numpy()).all()
    assert (rows["job"].isna().to_numpy() == own["job"].isna().to_numpy()).all()
    assert not MIXED.breaches(own.reset_index(drop=True), rows.reset_index(drop=True)).any()


@pytest.mark.parametrize("exhaustive", [0, 4096])
@pytest.mark.parametrize(
    "rules",
    [
        [AtMost(1)],
        [Implies(Rises("income"), Rises("school", by=1))],
        [Linear({"income": 1.0, "debt": 1.0}, "<=", 5)],
        [AtMost(2), Linear({"income": 1.0, "debt": 1.0}, "<=", 5)],
    ],
    ids=["at most", "implies", "linear", "both"],
)
def test_rules_are_kept(rules, exhaustive):
    problem = Problem(MIXED, wrap(bumpy(0), MIXED), rules=rules)
    people = people_of(np.random.default_rng(4), 20)
    answer = LocalSearch(exhaustive=exhaustive).fit(problem).find(people)
    costs = least_costs(answer)
    refused = answer.status.index[answer.status != Status.ACCEPTED]
    best = pd.Series({i: optimum(problem, people.loc[i])[0] for i in refused})
    assert (costs >= best[costs.index] - 1e-9).all()
    if exhaustive:
        assert costs.to_dict() == pytest.approx(best[np.isfinite(best)].to_dict())
    else:
        assert len(costs) >= 0.8 * np.isfinite(best).sum()
        assert costs.mean() <= 1.25 * best[costs.index].mean()


# -- the manners of a method --------------------------------------------------------------------------------------


def test_same_seed_same_answer_in_any_order_and_company():
    problem, people = tree_case(1)
    method = LocalSearch(exhaustive=0).fit(problem)
    whole = method.find(people, options=2, seed=3)
    assert method.find(people, options=2, seed=3) == whole
    mixed = people.sample(frac=1.0, random_state=0)
    assert method.find(mixed, options=2, seed=3).options.sort_index().equals(whole.options.sort_index())
    alone = [method.find(people.iloc[[i]], options=2, seed=3).options for i in range(5)]
    pd.testing.assert_frame_equal(pd.concat(alone), whole.options.loc[:4])


@pytest.mark.parametrize("exhaustive", [0, 10**6])
def test_options_change_different_sets_of_features(exhaustive):
    problem, people = tree_case(2)
    answer = LocalSearch(exhaustive=exhaustive).fit(problem).find(people, options=3)
    changes = answer.changes().groupby(["person", "option"])["feature"].agg(frozenset)
    several = changes.groupby("person").count()
    assert (several > 1).mean() > 0.8  # for some people every plan needs the same one change
    assert (changes.groupby("person").nunique() == several).all()
    assert least_costs(answer).equals(answer.options["cost"].groupby("person").first())


def test_the_time_limit_stops_the_search():
    def slow(table):
        time.sleep(2e-5 * len(table))
        return bumpy(0)(table)

    problem = Problem(MIXED, wrap(slow, MIXED))
    method = LocalSearch(rounds=50, exhaustive=0).fit(problem)
    people = people_of(np.random.default_rng(0), 400)
    start = time.monotonic()
    answer = method.find(people, time_limit=0.3)
    assert time.monotonic() - start < 3
    assert len(answer.status) == 400


def test_nobody_is_promised_anything_when_the_model_does_not_look_at_what_may_change():
    problem, people = tree_case(0)
    fixed = Schema((*tuple(Number(f.name, 0, 4, step=1, moves="fixed") for f in problem.schema), Number("extra", 0, 1)))
    model = wrap(lambda t: np.zeros(len(t)), fixed)
    answer = LocalSearch().fit(Problem(fixed, model)).find(people.assign(extra=0.5))
    assert (answer.status == Status.NOT_FOUND).all()


# -- the parts ----------------------------------------------------------------------------------------------------


def test_bundle_is_a_knapsack_done_by_hand():
    # two features: moves 0 and 1 of the first gain 2 for 1 or 5 for 4; move 2 of the second gains 3 for 2
    gain, extra = torch.tensor([[2.0, 5.0, 3.0]]), torch.tensor([[1.0, 4.0, 2.0]])
    last, targets = torch.zeros(1, 2, dtype=torch.bool), torch.tensor([[0, 2, 3, 5, 6, 9]])
    bundles = bundle(gain, extra, ((0, 0, 2), (1, 2, 3)), last, Aims(targets, 0, torch.ones(1)))
    assert bundles.extra[0].tolist() == [0.0, 1.0, 2.0, 3.0, 6.0, float("inf")]
    assert [sorted(set(m.tolist()) - {-1}) for m in bundles.moves[0][:5]] == [[], [0], [2], [0, 2], [1, 2]]


def test_bundle_takes_a_change_back_and_makes_it_good():
    # move 0 takes a change back: loses 3, saves 5; move 1 gains 3 for 2
    gain, extra = torch.tensor([[-3.0, 3.0]]), torch.tensor([[-5.0, 2.0]])
    last, targets = torch.tensor([[True, False]]), torch.tensor([[4]])
    bundles = bundle(gain, extra, ((0, 0, 1), (1, 1, 2)), last, Aims(targets, 4, torch.ones(1)))
    assert bundles.extra.item() == -3.0
    assert sorted(bundles.moves[0, 0].tolist()) == [0, 1]


def test_moves_for_trees_lead_just_beyond_each_cut():
    problem, people = tree_case(0)
    x = problem.schema.encode(people)
    moves = SingleChanges.of(problem.schema, problem.model, None, ruled=False)
    reach = moves.reach(x, x, problem.cost.per_feature)
    cuts = problem.model.forest.cuts
    for c in range(len(moves)):
        column = int(moves.column[c])
        for i in range(len(x)):
            own, value = x[i, column], reach.value[i, c]
            if not reach.legal[i, c] or value == own:
                continue
            low, high = min(own, value), max(own, value)
            assert ((cuts[column] >= low) & (cuts[column] < high)).any()
            before = value + (-0.25 if value > own else 0.25)  # the legal value before it is on the other side
            assert ((cuts[column] >= min(before, value)) & (cuts[column] < max(before, value))).any()


def test_many_cuts_are_tried_near_first():
    cut = torch.arange(100, dtype=torch.float64) / 100
    source = ManyCuts(cut, cut - 0.001, cut + 0.001, torch.tensor([0, 1, 4]))
    wanted = source.wanted(torch.tensor([[0.505], [0.0]], dtype=torch.float64), torch.zeros(2, 1))
    torch.testing.assert_close(wanted[0], torch.tensor([0.511, 0.521, 0.551, 0.499, 0.489, 0.459], dtype=torch.float64))
    torch.testing.assert_close(wanted[1], torch.tensor([0.001, 0.011, 0.041, 0.0, 0.0, 0.0], dtype=torch.float64))
