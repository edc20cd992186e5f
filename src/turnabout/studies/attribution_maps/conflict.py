"""Who stands where no continuous explanation can be right: the conflict test, and pairs of points that show it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.parameters import Positive, Whole, checked
from turnabout.stdout import stdout_for_data
from turnabout.studies.attribution_maps.attainable import attainable, axis_hits
from turnabout.studies.attribution_maps.line import OFF_CENTRE, TIES, settled
from turnabout.studies.attribution_maps.map_moves import AuditMoves, Bounds, OneFeature
from turnabout.studies.attribution_maps.map_questions import Decider, asking, read_points
from turnabout.studies.attribution_maps.number_line import Interval, without
from turnabout.studies.attribution_maps.out_of_reach import YES
from turnabout.studies.attribution_maps.ray import first_yes, is_traced
from turnabout.studies.attribution_maps.sensitivity import read_moves
from turnabout.typing import Tensor

DRAWS = 256  # moves tried at each point, to learn which succeed
LEAST = 8  # successful moves without which a point is not paired
MOST_POINTS = 512  # refused points that are compared with each other
TRIES = 32  # pairs looked at
PATH = 17  # points looked at between the two of a pair
SAME = 1e-9  # points nearer than this are one
CLEAR = 0.05  # cosine between w and every successful move on the way


@dataclass(frozen=True)
class Conflicts(Document):
    """Which people stand in a conflict, if one feature is what they may change.

    Attributes
    ----------
    column : the feature's encoded column.
    conflicted : for each point, True where no continuous explanation can serve them and all others on their line:
        there it is better to show both options, or to abstain. False for accepted points.
    down, up : distance from each point to the nearest yes on either side; None where there is none, or none within
        the horizon.
    rate : share of the refused in conflict.
    free_deltas : the lengths of moves at which nobody here is in conflict, within (0, horizon].
    exact : whether the model's breakpoints are known. Otherwise a grid may have missed a nearer yes.
    """

    delta: float
    column: int
    conflicted: tuple[bool, ...]
    down: tuple[float | None, ...]
    up: tuple[float | None, ...]
    rate: Rate
    free_deltas: tuple[Interval, ...]
    exact: bool

    keys = "delta column rate exact conflicted down up free_deltas"

    def __str__(self) -> str:
        free = ", ".join(str(i) for i in self.free_deltas) or "no length"
        how = "" if self.exact else " (yes found on a grid)"
        return f"column {self.column}, delta {self.delta:g}: in conflict {self.rate}{how}; nobody would be for {free}"


@checked(AuditError, delta=Positive())
def in_conflict(model: Decider, points: Tensor, delta: float, column: int, bounds: Bounds | None = None) -> Conflicts:
    r"""Whether each refused person stands in a conflict along one feature.

    With u and v the nearest yes below and above them, and w = v - u,

        conflict   iff   w / 2 <= delta < w                                                                   (1)

    as in `one_dimension`: every point between u and v can reach a yes, those near u only by going down, and those
    near v only by going up. A feature that may move one way only (`bounds`) is never in conflict. A delta that equals w
    or w / 2 up to rounding counts as equal to it, and everybody between u and v gets the same answer.

    Parameters
    ----------
    delta : how far the feature may move.
    column : its encoded column.
    bounds : lowest and highest values people may reach: `problem.bounds`. Without them a yes is looked for up to
        4 delta away, which decides (1), and `free_deltas` ends at 2 delta.
    """
    x = read_points(points)
    (place,) = OneFeature(column=column).columns(x.shape[1])
    refused = (asking(model)(x) < 0).nonzero().squeeze(1)
    far = 4 * float(delta) if bounds is None else math.inf
    low, high = OneFeature(bounds, column).room(x[refused], far)
    unit = torch.zeros_like(x[refused])
    unit[:, place] = 1.0
    room = [-low[:, place], high[:, place]]
    if not all(bool(torch.isfinite(r).all()) for r in room):
        raise AuditError("bounds are infinite.", hint="give every column a lowest and a highest value.")
    down = first_yes(model, x[refused], -unit, room[0]).t
    up = first_yes(model, x[refused], unit, room[1]).t
    width = _widths(x[refused], place, down, up, float(delta))
    bad = (width / 2 <= delta) & (delta < width)  # (1)
    horizon = far / 2
    ranges = {(w / 2, w) for w in width[torch.isfinite(width)].tolist()}
    whole = Interval(0.0, horizon, False, math.isfinite(horizon))
    free = without(whole, [Interval(a, b, True, False) for a, b in ranges])
    return Conflicts(
        float(delta),
        place,
        tuple(_spread(bad, refused, len(x), False)),
        tuple(_distances(down, refused, len(x))),
        tuple(_distances(up, refused, len(x))),
        Rate.among(bad.numpy()),
        free,
        is_traced(model),
    )


def _widths(x: Tensor, column: int, down: Tensor, up: Tensor, delta: float) -> Tensor:
    """(n,) from the nearest yes below to that above, inf where one is missing: one number for all between the same."""
    if not len(x):
        return down + up
    low, high = x[:, column] - down, x[:, column] + up
    scale = torch.maximum(low.abs(), high.abs()).nan_to_num(posinf=0.0)
    others = x.clone()
    others[:, column] = 0.0
    line = others.unique(dim=0, return_inverse=True)[1]
    order = torch.as_tensor(np.lexsort((low.numpy(), line.numpy())))
    tie = (TIES * torch.finfo(x.dtype).eps * (scale + delta))[order][1:]
    other = line[order].diff() != 0
    for end in (low[order], high[order]):
        other |= (end[1:] != end[:-1]) & ~((end[1:] - end[:-1]).abs() <= tie)
    group = torch.cat([torch.zeros(1, dtype=torch.long), other.cumsum(0)])
    first = torch.cat([torch.zeros(1, dtype=torch.long), other.nonzero().squeeze(1) + 1])
    head = order[first][group]
    out = torch.empty_like(down)
    out[order] = settled((down + up)[head], delta, scale[head])
    return out


def _spread(values: Tensor, rows: Tensor, n: int, other: bool) -> list[bool]:
    out = torch.full((n,), other)
    out[rows] = values
    return out.tolist()


def _distances(t: Tensor, rows: Tensor, n: int) -> list[float | None]:
    out = torch.full((n,), torch.inf, dtype=torch.float64)
    out[rows] = t
    return [float(v) if math.isfinite(v) else None for v in out.tolist()]


@dataclass(frozen=True)
class ConflictPair(Document):
    """Two refused points that ask for opposite directions.

    Attributes
    ----------
    x_a, x_b : the points; from x_a every successful move goes against `direction`, from x_b every one along it.
    direction : of length 1.
    sampled : whether "every" means every one of the moves that were tried, rather than all.
    """

    x_a: tuple[float, ...]
    x_b: tuple[float, ...]
    direction: tuple[float, ...]
    sampled: bool


@checked(AuditError, delta=Positive(), pairs=Whole(1), seed=Whole(0))
def find_conflicts(
    model: Decider,
    points: Tensor,
    delta: float,
    moves: AuditMoves | None = None,
    pairs: int = 4,
    seed: int = 0,
) -> tuple[ConflictPair, ...]:
    r"""Pairs of refused points from which a search for a witness may begin; the empty tuple where none were found.

    Along one feature, and on a line, pairs follow from `in_conflict`; where any one feature may change, a pair counts
    only if no other feature offers recourse at 17 points from one to the other. Otherwise moves are drawn, the same
    at every point, and a linear program separates those that succeed from two points,

        max s   with   w.u <= -s for u from x_a,   w.u >= s for u from x_b,   |w_j| <= 1                            (1)

    for those of the first 512 points with the most opposite mean moves, if along the way between them everybody is
    refused, somebody can succeed, and no successful move that was drawn is nearly perpendicular to w.

    Parameters
    ----------
    pairs : how many pairs to return, at most.
    """
    allowed = read_moves(moves)
    x = read_points(points)
    if isinstance(allowed, OneFeature) or x.shape[1] == 1:
        columns = allowed.columns(x.shape[1]) if isinstance(allowed, OneFeature) else (0,)
        reports = [in_conflict(model, x, delta, c, allowed.bounds) for c in columns]
        return tuple(pair for report in reports for pair in opposite_points(model, report, x, allowed, pairs))[:pairs]
    return _by_program(model, x, delta, allowed, pairs, seed)


def opposite_points(
    model: Decider, report: Conflicts, points: Tensor, moves: AuditMoves, pairs: int = 4
) -> tuple[ConflictPair, ...]:
    """Pairs on different lines of the first people in conflict, not symmetric: near each end, where one way succeeds.

    Left out are pairs of which one is accepted by rounding, and those between which `moves` offer another column.
    """
    x, column, delta = read_points(points), report.column, report.delta
    who = torch.tensor(report.conflicted, dtype=torch.bool).nonzero().squeeze(1)[:TRIES]
    down, up = (x.new_tensor([side[i] for i in who.tolist()]) for side in (report.down, report.up))
    u, v = x[who, column] - down, x[who, column] + up
    spare = v - u - delta  # the width of the parts from which one way alone succeeds
    a, b = x[who].clone(), x[who].clone()
    a[:, column], b[:, column] = u + spare / 2, v - OFF_CENTRE * spare
    good = (asking(model)(torch.stack([a, b])) < 0).all(0)
    others = [c for c in moves.columns(x.shape[1]) if c != column] if isinstance(moves, OneFeature) else []
    if others and len(who):
        way = _way(a, b)
        rays = axis_hits(model, way, moves, delta, torch.tensor(others).expand(len(way), -1))
        good &= ~rays.found.reshape(len(who), -1).any(1)
    w = torch.zeros(x.shape[1], dtype=x.dtype)
    w[column] = 1.0
    out: list[ConflictPair] = []
    seen = x.new_zeros(0, x.shape[1])
    for i in good.nonzero().squeeze(1).tolist():
        if len(out) == pairs:
            break
        if not ((seen - a[i]).abs().amax(1) <= SAME * (1 + float(a[i].abs().max()))).any():
            seen = torch.cat([seen, a[i : i + 1]])
            out.append(ConflictPair(tuple(a[i].tolist()), tuple(b[i].tolist()), tuple(w.tolist()), not report.exact))
    return tuple(out)


def _way(a: Tensor, b: Tensor) -> Tensor:
    """Points from a (m, d) to b (m, d), (m * PATH, d)."""
    share = torch.linspace(0, 1, PATH, dtype=a.dtype).reshape(-1, 1)
    return (a.unsqueeze(1) + share * (b - a).unsqueeze(1)).flatten(0, 1)


def _by_program(
    model: Decider, x: Tensor, delta: float, moves: AuditMoves, pairs: int, seed: int
) -> tuple[ConflictPair, ...]:
    ask, rng = asking(model), np.random.default_rng(seed)
    x = x[ask(x) < 0][:MOST_POINTS]
    tried = moves.draw(x, delta, DRAWS, rng)
    yes = ask(x.unsqueeze(1) + tried) >= 0
    enough = yes.sum(1) >= LEAST
    x, tried, yes = x[enough], tried[enough], yes[enough]
    mean = (tried * yes.unsqueeze(2)).sum(1)
    mean = mean / mean.norm(dim=1, keepdim=True).clamp(min=1e-300)
    alike = (mean @ mean.T).triu(1) + torch.ones(len(x), len(x), dtype=x.dtype).tril() * 2
    order = alike.flatten().topk(min(TRIES, alike.numel()), largest=False) if len(x) else None
    out: list[ConflictPair] = []
    for value, place in zip(order.values.tolist(), order.indices.tolist()) if order is not None else ():
        if value >= 0 or len(out) == pairs:
            break
        i, j = divmod(place, len(x))
        w = _separate(tried[i][yes[i]], tried[j][yes[j]])
        if w is not None and _way_is_clear(model, x[i], x[j], w, delta, moves, rng):
            out.append(ConflictPair(tuple(x[i].tolist()), tuple(x[j].tolist()), tuple(w.tolist()), True))
    return tuple(out)


@stdout_for_data()
def _separate(from_a: Tensor, from_b: Tensor) -> Tensor | None:
    """The direction of (1), of length 1; None where no plane separates the two sets."""
    from scipy.optimize import linprog

    moves = torch.cat([from_a, -from_b])
    rows = (moves / moves.norm(dim=1, keepdim=True)).numpy()
    d = rows.shape[1]
    answer = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([rows, np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        bounds=[(-1.0, 1.0)] * d + [(0.0, None)],
    )
    if answer.x is None or answer.x[-1] <= 1e-9:
        return None
    w = torch.as_tensor(answer.x[:-1], dtype=torch.float64)
    return w / w.norm()


def _way_is_clear(
    model: Decider, a: Tensor, b: Tensor, w: Tensor, delta: float, moves: AuditMoves, rng: np.random.Generator
) -> bool:
    way = _way(a.unsqueeze(0), b.unsqueeze(0))
    ask = asking(model)
    if bool((ask(way) >= 0).any()):
        return False
    tried = moves.draw(way, delta, DRAWS, rng)
    yes = ask(way.unsqueeze(1) + tried) >= 0
    cosine = (tried @ w).abs() / tried.norm(dim=2).clamp(min=1e-300)
    if bool((yes & (cosine < CLEAR)).any()):
        return False
    lost = (~yes.any(1)).nonzero().squeeze(1)
    return bool((attainable(model, way[lost], moves, delta).status == YES).all())
