"""Face: edges and densities by hand, ways equal to every path tried, what no way may break, and bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.errors import MethodError
from turnabout.methods import people_graph
from turnabout.methods.face import Face
from turnabout.methods.people_graph import PointMap, RowDensity
from turnabout.models import wrap
from turnabout.rules import AtMost
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

LINE = Schema((Number("place", 0, 1, step=0.01),))
MIXED = Schema(
    (
        Number("income", 0, 10, step=1),
        Number("debt", 0, 5, step=1, moves="down"),
        Ordinal("school", ("none", "some", "full"), moves="up"),
        Binary("owner", ("no", "yes"), missing=True),
        Category("job", ("a", "b", "c"), missing=True),
        Number("age", 0, 9, step=1, moves="fixed"),
        Category("home", ("x", "y"), moves="fixed"),
    )
)


def crowd(n: int, seed: int) -> pd.DataFrame:
    """People of MIXED, some cells missing."""
    rng = np.random.default_rng(seed)
    owner, job = rng.choice(["no", "yes"], n).astype(object), rng.choice(["a", "b", "c"], n).astype(object)
    owner[rng.random(n) < 0.15] = None
    job[rng.random(n) < 0.15] = None
    return pd.DataFrame(
        {
            "income": rng.integers(0, 11, n),
            "debt": rng.integers(0, 6, n),
            "school": rng.choice(["none", "some", "full"], n),
            "owner": owner,
            "job": job,
            "age": rng.integers(0, 3, n),
            "home": rng.choice(["x", "y"], n),
        }
    )


def score(table: pd.DataFrame) -> pd.Series:
    """P(yes) of MIXED rows."""
    gain = 0.3 * table["income"] - 0.4 * table["debt"] + 0.8 * (table["school"] != "none")
    gain += 0.5 * (table["owner"] == "yes") + 0.7 * (table["job"] == "b") + 0.4 * (table["home"] == "x")
    return 1 / (1 + np.exp(2.6 - gain))


def mixed(rules=(), rows: int = 300) -> Problem:
    return Problem(MIXED, wrap(score, MIXED, threshold=0.5), rules=rules, background=crowd(rows, 1))


def refused(n: int = 60) -> pd.DataFrame:
    people = crowd(n, 7)
    return people[(score(people) < 0.5).to_numpy()].reset_index(drop=True)


def proposals(method: Face, people: pd.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
    """What a fitted method's own search proposes: rows x (m, d) and proposals (m, d), before the core mends any."""
    x = method.problem_.schema.encode(people)
    x_new = method.propose(x).x_new
    there = torch.isfinite(x_new).all(2)
    return x.unsqueeze(1).expand_as(x_new)[there], x_new[there]


def on_a_line(places: list[float], cut: float, **parameters) -> Face:
    """Fitted to people on a line of whom those right of the cut are accepted."""
    model = wrap(lambda table: (table["place"] >= cut).astype(float), LINE, threshold=0.5)
    return Face(**parameters).fit(Problem(LINE, model, background=pd.DataFrame({"place": places})))


# -- the formulas, by hand -----------------------------------------------------------------------------------------


def test_density_by_hand():
    density = RowDensity(torch.tensor([[0.0], [1.0]]).double(), torch.tensor([False]), width=0.5)
    there = math.log((1 + math.exp(-2)) / 2)  # K(1) = exp(-1 / (2 * 0.25)); without columns that are given, over s
    assert density(torch.tensor([[0.0], [0.5]]).double()).tolist() == pytest.approx([there, -0.5])
    assert density(torch.tensor([[0.0]]).double(), torch.tensor([0])).tolist() == pytest.approx([-2.0])


def test_density_given_what_nobody_can_change_by_hand():
    centres = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    density = RowDensity(centres, torch.tensor([False, True]), width=1.0)
    near, far = math.exp(-0.5), math.exp(-1.0)
    expected = math.log((1 + far) / (1 + near)), math.log((near + near) / (1 + near))
    assert density(torch.tensor([[0.0, 0.0], [1.0, 0.0]]).double()).tolist() == pytest.approx(expected)


def test_being_rare_in_what_is_fixed_makes_nobody_unlikely():
    centres = torch.tensor([[0.5, 0.0]] * 9 + [[0.5, 1.0]]).double()
    density = RowDensity(centres, torch.tensor([False, True]), width=0.1)
    assert density(torch.tensor([[0.5, 0.0], [0.5, 1.0]]).double()).tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_points_by_hand():
    x = MIXED.encode(pd.DataFrame(crowd(2, 0).assign(owner=[None, "yes"], job=["a", "b"], age=[0, 9], home="x")))
    z = PointMap(MIXED)(x)
    owner, job = (MIXED.slices[MIXED.index(name)] for name in ("owner", "job"))
    assert float((z[0, job] - z[1, job]).norm()) == pytest.approx(1.0)  # another level counts 1
    assert z[:, owner].tolist() == [[0.5, 1.0], [1.0, 0.0]]  # missing stands in the middle


def test_weight_of_an_edge_by_hand():
    graph = on_a_line([0.0, 0.2, 1.0], cut=0.9, neighbours=1, plausible=0.0).graph_
    assert graph.density.width == pytest.approx(0.2)  # the median of 0.2, 0.2 and 0.8
    centres = np.array([0.0, 0.2, 1.0])

    def p(z):
        return np.exp(-((z - centres) ** 2) / (2 * 0.2**2)).mean()

    highest = max(p(0.0), p(0.2), p(1.0))
    whole = graph.graph.toarray()
    assert whole[0, 1] == pytest.approx(0.2 * (1 + max(0, np.log(highest / p(0.1)))))
    assert whole[1, 2] == pytest.approx(0.8 * (1 + np.log(highest / p(0.6))))
    assert (whole == whole.T).all() and whole[0, 2] == 0  # each is joined to its nearest, both ways


# -- ways equal to a reference -------------------------------------------------------------------------------------


SMOOTH = Schema(
    (
        Number("a", 0, 1, decimals=6),
        Number("b", 0, 1, decimals=6, moves="up"),
        Category("job", ("a", "b"), missing=True),
        Category("home", ("x", "y"), moves="fixed"),
    )
)


def smooth(rows: int = 40) -> Problem:
    """People with no two distances alike, up to the share of them that equal each other."""
    rng = np.random.default_rng(3)
    job = rng.choice(["a", "b"], rows).astype(object)
    job[:5] = None
    people = pd.DataFrame(
        {"a": rng.random(rows), "b": rng.random(rows), "job": job, "home": rng.choice(["x", "y"], rows)}
    )
    people = people.round(6)
    model = wrap(lambda table: (table["a"] + table["b"]) / 2, SMOOTH, threshold=0.65)
    return Problem(SMOOTH, model, background=people)


def reference(method: Face) -> np.ndarray:
    """(m, m) weights of all edges, infinite where there is none, with loops over rows and the formulas."""
    graph = method.graph_
    z, m = graph.z.numpy(), len(graph.z)
    rows = method.problem_.schema.decode(graph.rows)
    apart = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in z] for a in z])
    possible = np.array([[method.adapt or may(rows.iloc[i], rows.iloc[j]) for j in range(m)] for i in range(m)])
    if method.epsilon is not None:
        possible &= apart <= method.epsilon
    out = np.full((m, m), np.inf)
    for i in range(m):
        others = [j for j in range(m) if j != i and possible[i, j]]
        for j in sorted(others, key=lambda j: apart[i, j])[: method.neighbours]:
            middle = torch.as_tensor((z[i] + z[j]) / 2).unsqueeze(0)
            out[i, j] = apart[i, j] * (1 + max(0.0, graph.highest - float(graph.density(middle))))
    return np.minimum(out, out.T) if method.adapt else out


def may(row: pd.Series, other: pd.Series) -> bool:
    """Whether somebody with one row of SMOOTH could have the other, read off the cells."""
    return bool(
        row["home"] == other["home"] and row["b"] <= other["b"] and pd.isna(row["job"]) == pd.isna(other["job"])
    )


def floyd_warshall(weight: np.ndarray) -> np.ndarray:
    """(m, m) lengths of all shortest ways."""
    length = weight.copy()
    np.fill_diagonal(length, 0.0)
    for k in range(len(length)):
        length = np.minimum(length, length[:, k : k + 1] + length[k : k + 1, :])
    return length


KINDS = pytest.mark.parametrize(
    ("adapt", "epsilon"), [(True, None), (True, 0.3), (False, None), (False, 0.3)], ids=lambda value: str(value)
)


@KINDS
def test_ways_equal_floyd_and_warshall(adapt, epsilon):
    method = Face(neighbours=4, plausible=0.0, adapt=adapt, epsilon=epsilon).fit(smooth())
    ways, weight = method.ways_, reference(method)
    own = method.graph_.graph.toarray()
    own[own == 0] = np.inf
    np.testing.assert_allclose(own, weight, atol=1e-9)

    targets = np.flatnonzero(method.targets_.numpy())
    best = floyd_warshall(weight)[:, targets].min(1)
    np.testing.assert_allclose(ways.length.numpy(), best, atol=1e-9)
    there = np.isfinite(best)
    assert there.any() and (there.all() or not adapt or epsilon is not None)
    for i in np.flatnonzero(there):
        here, gone = int(i), 0.0
        while ways.after[here] >= 0:
            gone, here = gone + weight[here, int(ways.after[here])], int(ways.after[here])
        assert gone == pytest.approx(best[i], abs=1e-9) and here == ways.end[i] and here in targets
    assert (ways.end.numpy()[~there] == -1).all()


@KINDS
def test_people_end_where_every_way_tried_ends(adapt, epsilon):
    """The first edge of a person is looked for among all nodes, with loops, and all ways are tried."""
    problem = smooth()
    method = Face(neighbours=4, plausible=0.0, adapt=adapt, epsilon=epsilon).fit(problem)
    graph, length = method.graph_, floyd_warshall(reference(method))
    targets = np.flatnonzero(method.targets_.numpy())
    nodes = problem.schema.decode(graph.rows)
    people = pd.DataFrame({"a": [0.31, 0.5], "b": [0.22, 0.4], "job": ["a", None], "home": ["x", "y"]})
    method.run = Run()
    x = problem.schema.encode(people)
    lengths, ends = method._ends(x)
    for i in range(len(people)):
        z = graph.points(x[i])
        apart = (graph.z - z).norm(dim=1).numpy()
        near = [j for j in np.argsort(apart) if adapt or may(people.iloc[i], nodes.iloc[j])][:4]
        near = [j for j in near if epsilon is None or apart[j] <= epsilon]
        best: dict[int, float] = {}
        for j, t in itertools.product(near, targets):
            middle = float(graph.density(((graph.z[j] + z) / 2).unsqueeze(0)))
            way = apart[j] * (1 + max(0.0, graph.highest - middle)) + length[j, t]
            if way < min((best[s] for s in best), default=np.inf):
                best = {int(t): way}
        if best:
            ((end, way),) = best.items()
            assert float(lengths[i, 0]) == pytest.approx(way, abs=1e-9) and int(ends[i, 0]) == end
        else:
            assert lengths.shape[1] == 0 or torch.isinf(lengths[i]).all()
    assert (torch.isfinite(lengths).sum(1) > 0).any() or epsilon is not None


def test_blocks_change_nothing(monkeypatch):
    whole = Face(neighbours=6).fit(mixed())
    answer = whole.find(refused())
    monkeypatch.setattr(people_graph, "BLOCK", 700)
    parts = Face(neighbours=6).fit(mixed())
    np.testing.assert_allclose(parts.graph_.graph.toarray(), whole.graph_.graph.toarray(), atol=1e-9)
    pd.testing.assert_frame_equal(parts.find(refused()).options, answer.options)


def test_a_graph_is_made_once_for_each_background():
    problem = mixed()
    first = Face(neighbours=6).fit(problem)
    assert Face(neighbours=6, plausible=0.3).fit(problem.without([0])).graph_ is first.graph_
    assert Face(neighbours=7).fit(problem).graph_ is not first.graph_
    strict = Face(neighbours=6, adapt=False).fit(problem).graph_  # whose edges depend on who may do what
    assert Face(neighbours=6, adapt=False).fit(problem.without([0])).graph_ is not strict


# -- what no way may break -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("rules", [(), (AtMost(3),)], ids=["free", "at_most_3"])
def test_nothing_is_broken_before_the_core_mends(adapt, rules):
    problem = mixed(rules)
    x, x_new = proposals(Face(neighbours=8, adapt=adapt).fit(problem), refused())
    assert len(x_new) > (20 if adapt else 5)
    levels = ("none", "some", "full")
    own, new = MIXED.decode(x), MIXED.decode(x_new)
    assert (new["age"] == own["age"]).all() and (new["home"] == own["home"]).all()
    assert (new["debt"] <= own["debt"]).all() and new["debt"].between(0, 5).all() and new["income"].between(0, 10).all()
    assert (new["school"].map(levels.index) >= own["school"].map(levels.index)).all()
    assert (new["owner"].isna() == own["owner"].isna()).all() and (new["job"].isna() == own["job"].isna()).all()
    job = x_new[:, MIXED.slices[MIXED.index("job")]]
    assert ((job == 0) | (job == 1)).all() and (job.sum(1) == 1).all()
    assert (problem.violation(x, x_new) <= 0).all()
    assert torch.equal(problem.snap(x, x_new), x_new)  # all of it legal


def test_edges_keep_to_what_each_may_do():
    method = Face(neighbours=8, adapt=False).fit(mixed())
    rows = MIXED.decode(method.graph_.rows)
    start, end = method.graph_.graph.nonzero()
    assert len(start) > 200
    levels = ("none", "some", "full")
    for i, j in zip(start, end, strict=True):
        a, b = rows.iloc[i], rows.iloc[j]
        assert (a["age"], a["home"]) == (b["age"], b["home"]) and a["debt"] >= b["debt"]
        assert levels.index(a["school"]) <= levels.index(b["school"])


def test_without_adapting_the_ends_are_real_rows():
    problem = mixed()
    method = Face(neighbours=8, adapt=False, plausible=0.0).fit(problem)
    _, x_new = proposals(method, refused())
    accepted = {row.tobytes() for row in method.graph_.rows[method.targets_].numpy()}
    assert len(x_new) and all(row.tobytes() in accepted for row in x_new.numpy())


def test_rows_shown_are_dense_for_all_who_can_have_one():
    problem, people = mixed(), refused()
    method = Face(neighbours=8, plausible=0.5).fit(problem)
    x = problem.schema.encode(people)
    shown = method.find(people).options
    meets = method.criterion(x, problem.schema.encode(shown))
    assert shown.index.get_level_values("person").tolist() == people.index.tolist()
    for i in range(len(people)):
        own = x[i].expand(int(method.targets_.sum()), -1)
        could = problem.snap(own, method.graph_.rows[method.targets_])
        could = could[problem.margin(could) >= 1e-9]
        assert bool(meets[i]) == bool(method.criterion(own[: len(could)], could).any())
    assert 0.5 < meets.float().mean() < 1
    loose = Face(neighbours=8, plausible=0.0).fit(problem).find(people).options  # walked back further
    assert method.criterion(x, problem.schema.encode(loose)).sum() < meets.sum()


def test_threshold_leaves_out_the_share_asked_for():
    problem = smooth(rows=200)
    method = Face(plausible=0.25).fit(problem)
    accepted = problem.background_margin >= 1e-9  # no row twice: nodes are the background
    assert torch.equal(method.graph_.rows, problem.background_x)
    assert (
        int(method.targets_.sum()) == math.ceil(0.75 * int(accepted.sum())) and not (method.targets_ & ~accepted).any()
    )


def test_ways_go_round_empty_places():
    """Two accepted people equally far: the one whom a row of people leads to is chosen over the one beyond a gap."""
    grid = Schema((Number("a", 0, 1, decimals=4), Number("b", 0, 1, decimals=4)))
    crowd_there = pd.DataFrame({"a": np.linspace(0.1, 0.9, 60), "b": 0.1})
    beyond = pd.DataFrame({"a": 0.1, "b": [0.88, 0.89, 0.9]})
    model = wrap(lambda t: np.maximum(t["a"], t["b"]), grid, threshold=0.85)
    background = pd.concat([crowd_there, beyond], ignore_index=True).round(4)
    problem = Problem(grid, model, background=background)
    me = pd.DataFrame({"a": [0.1], "b": [0.12]})
    for neighbours in (8, 70):  # with 70, everybody is joined to everybody: the gap is still long
        answer = Face(neighbours=neighbours, plausible=0.0).fit(problem).find(me, refine=False)
        assert answer.options["a"].iloc[0] >= 0.85 and answer.options["b"].iloc[0] < 0.2


# -- same question, same answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapt", [True, False])
def test_same_seed_same_answer_in_any_order(adapt):
    people = refused()
    first = Face(neighbours=8, adapt=adapt).fit(mixed()).find(people, options=2, seed=3)
    again = Face(neighbours=8, adapt=adapt).fit(mixed()).find(people, options=2, seed=3)
    pd.testing.assert_frame_equal(first.options, again.options)
    shuffled = people.sample(frac=1, random_state=1)
    other = Face(neighbours=8, adapt=adapt).fit(mixed()).find(shuffled, options=2, seed=3)
    pd.testing.assert_frame_equal(first.options.sort_index(), other.options.sort_index())
    alone = Face(neighbours=8, adapt=adapt).fit(mixed()).find(people.iloc[[4]], options=2, seed=3)
    mine = first.options[first.options.index.get_level_values(0) == people.index[4]]
    pd.testing.assert_frame_equal(alone.options, mine)


# -- bad input -----------------------------------------------------------------------------------------------------


def statuses(problem: Problem, people: pd.DataFrame, **parameters) -> list[Status]:
    return Face(**parameters).fit(problem).find(people).status.tolist()


@pytest.mark.parametrize("adapt", [True, False])
def test_nobody_accepted_gives_a_status(adapt):
    model = wrap(lambda table: 0.1 + 0 * table["income"], MIXED, threshold=0.5)
    problem = Problem(MIXED, model, background=crowd(50, 1))
    assert set(statuses(problem, crowd(5, 2), adapt=adapt)) == {Status.NOT_FOUND}


def test_everybody_accepted_still_answers():
    background = crowd(200, 1)
    background = background[score(background) >= 0.5]
    problem = Problem(MIXED, wrap(score, MIXED, threshold=0.5), background=background)
    assert Status.FOUND in statuses(problem, refused())


def test_a_group_without_an_accepted_member():
    """As the rows stand there is no way; adapted, the ways of others serve."""
    background = crowd(300, 1)
    background = background[(background["home"] == "x") | (score(background) < 0.5)]
    problem = Problem(MIXED, wrap(score, MIXED, threshold=0.5), background=background)
    people = refused()
    lost = (people["home"] == "y").to_numpy()
    strict = Face(neighbours=8, adapt=False).fit(problem).find(people)
    assert (strict.status[lost] == Status.NOT_FOUND).all() and (strict.status[~lost] == Status.FOUND).any()
    assert strict.why.loc[people.index[lost], "reason"].eq("the search proposed no row.").all()
    assert (Face(neighbours=8).fit(problem).find(people).status[lost] == Status.FOUND).mean() > 0.5


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("adapt", [True, False])
def test_fewer_rows_than_neighbours(rows, adapt):
    background = crowd(300, 1)
    background = background[score(background) >= 0.5].head(rows)
    problem = Problem(MIXED, wrap(score, MIXED, threshold=0.5), background=background)
    given = statuses(problem, refused(), neighbours=50, adapt=adapt)
    assert set(given) <= {Status.FOUND, Status.NOT_FOUND} and (not adapt or Status.FOUND in given)


def test_constant_columns_and_equal_rows():
    schema = Schema((Number("a", 0, 1, step=0.1), Number("same", 0, 5), Category("one", ("x", "y"))))
    background = pd.DataFrame({"a": [0.1] * 30 + [0.9] * 30, "same": 2.0, "one": "x"})
    problem = Problem(schema, wrap(lambda t: t["a"], schema, threshold=0.5), background=background)
    method = Face().fit(problem)
    assert len(method.graph_.rows) == 2  # equal rows are one node
    assert statuses(problem, background.head(1)) == [Status.FOUND]
    one = Problem(schema, wrap(lambda t: t["a"], schema, threshold=0.5), background=background.tail(30))
    assert statuses(one, background.head(1)) == [Status.FOUND]  # a single node, and no edge


@pytest.mark.parametrize("adapt", [True, False])
def test_only_categories(adapt):
    schema = Schema((Category("a", ("x", "y", "z")), Category("b", ("u", "v")), Binary("c", ("no", "yes"))))
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.choice(list("xyz"), 80), "b": rng.choice(list("uv"), 80), "c": rng.choice(["no", "yes"], 80)}
    )
    model = wrap(lambda t: 0.4 * (t["a"] == "x") + 0.4 * (t["b"] == "u"), schema, threshold=0.5)
    answer = Face(neighbours=3, adapt=adapt).fit(Problem(schema, model, background=table)).find(table.head(20))
    assert set(answer.status[answer.refused]) == {Status.FOUND}


def test_only_numbers():
    assert on_a_line([0.1, 0.2, 0.4, 0.8], cut=0.5).find(pd.DataFrame({"place": [0.15]})).status[0] == Status.FOUND


@pytest.mark.filterwarnings("ignore:1 of 41 people")
def test_missing_and_unreadable_cells():
    background = crowd(200, 1).astype({"income": object})
    background.loc[3, "income"] = np.nan
    with pytest.warns(UserWarning, match="1 of 200 background rows cannot be read"):
        problem = Problem(MIXED, wrap(score, MIXED, threshold=0.5), background=background)
    people = refused().astype({"income": object})
    people.loc[0, "income"] = np.nan
    given = statuses(problem, people)
    assert given[0] == Status.UNREADABLE and Status.FOUND in given[1:]


def test_a_model_without_an_answer_accepts_nobody():
    model = wrap(lambda t: np.where(t["income"] > 5, np.nan, 0.2), MIXED, threshold=0.5)
    people = crowd(60, 1)
    problem = Problem(MIXED, model, background=people)
    assert Status.FOUND not in statuses(problem, people[people["income"] <= 5].head(4))


def test_no_background_is_refused():
    with pytest.raises(MethodError, match="Face needs a background table"):
        Face().fit(Problem(MIXED, wrap(score, MIXED, threshold=0.5)))
    empty = Problem(MIXED, wrap(score, MIXED, threshold=0.5), background=crowd(0, 1))
    assert set(statuses(empty, refused(5))) == {Status.NOT_FOUND}


def test_an_epsilon_below_every_distance_leaves_no_way():
    method = on_a_line([0.0, 0.2, 1.0], cut=0.9, epsilon=0.01)
    assert method.graph_.graph.nnz == 0
    assert method.find(pd.DataFrame({"place": [0.1]})).status[0] == Status.NOT_FOUND
