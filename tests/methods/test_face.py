"""Face: edges and densities by hand, ways equal to every path tried, what no way may break, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run
from turnabout.methods.face import Face
from turnabout.methods.people_graph import PointMap, RowDensity
from turnabout.models import wrap
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
    method.run = Run()
    x = method.problem_.schema.encode(people)
    x_new = method._search(x).x_new
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


def reference(method: Face) -> np.ndarray:
    """(m, m) weights of all edges, infinite where there is none, with loops over rows and the formulas."""
    graph = method.graph_
    z, m = graph.z.numpy(), len(graph.z)
    apart = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in z] for a in z])
    possible = np.ones((m, m), dtype=bool)
    if not method.adapt:
        rows = method.problem_.schema.decode(graph.rows)
        possible = np.array([[may(rows.iloc[i], rows.iloc[j]) for j in range(m)] for i in range(m)])
    if method.epsilon is not None:
        possible &= apart <= method.epsilon
    out = np.full((m, m), np.inf)
    for i in range(m):
        others = [j for j in range(m) if j != i and possible[i, j]]
        for j in sorted(others, key=lambda j: round(apart[i, j] ** 2, 9))[: method.neighbours]:
            middle = torch.as_tensor((z[i] + z[j]) / 2).unsqueeze(0)
            out[i, j] = apart[i, j] * (1 + max(0.0, graph.highest - float(graph.density(middle))))
    return np.minimum(out, out.T) if method.adapt else out


def may(row: pd.Series, other: pd.Series) -> bool:
    """Whether somebody with one row of MIXED could have the other, read off the cells."""
    levels = ("none", "some", "full")
    return (
        row["age"] == other["age"]
        and row["home"] == other["home"]
        and row["debt"] >= other["debt"]
        and levels.index(row["school"]) <= levels.index(other["school"])
        and pd.isna(row["owner"]) == pd.isna(other["owner"])
        and pd.isna(row["job"]) == pd.isna(other["job"])
        and (pd.isna(row["owner"]) or not pd.isna(other["owner"]))
    )


def floyd_warshall(weight: np.ndarray) -> np.ndarray:
    length = weight.copy()
    np.fill_diagonal(length, 0.0)
    for k in range(len(length)):
        length = np.minimum(length, length[:, k : k + 1] + length[k : k + 1, :])
    return length


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("epsilon", [None, 1.1])
def test_ways_equal_floyd_and_warshall(adapt, epsilon):
    method = Face(neighbours=4, rows=60, plausible=0.0, adapt=adapt, epsilon=epsilon).fit(mixed())
    graph, ways, weight = method.graph_, method.ways_, reference(method)
    # equally near neighbours may be others than the reference's: compare the edges as a set only where no tie is
    own = graph.graph.toarray()
    own[own == 0] = np.inf
    sorted_own, sorted_reference = np.sort(own[np.isfinite(own)]), np.sort(weight[np.isfinite(weight)])
    if not adapt:
        assert len(sorted_own) == len(sorted_reference)
    shared = np.isfinite(own) & np.isfinite(weight)
    assert shared.sum() > 0.5 * np.isfinite(own).sum()
    assert own[shared] == pytest.approx(weight[shared], abs=1e-9)

    length = floyd_warshall(own)
    targets = np.flatnonzero(method.targets_.numpy())
    best = length[:, targets].min(1)
    assert np.isfinite(best).any() and (adapt or not np.isfinite(best).all())
    assert ways.length.numpy() == pytest.approx(best, abs=1e-9)
    for i in np.flatnonzero(np.isfinite(best)):
        here, gone = i, 0.0
        while ways.after[here] >= 0:
            gone, here = gone + own[here, ways.after[here]], int(ways.after[here])
        assert gone == pytest.approx(best[i], abs=1e-9) and here == ways.end[i] and here in targets
    lost = ~np.isfinite(best)
    assert (ways.end.numpy()[lost] == -1).all() and torch.isinf(ways.length[torch.as_tensor(lost)]).all()
