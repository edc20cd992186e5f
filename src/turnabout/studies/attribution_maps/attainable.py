"""Whether some allowed move ends in a yes: proved, found, or unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.models import Differentiable, LinearMargin, Model, ReluNet, Trees
from turnabout.solvers.leaf_search import LeafSearch, has_boxes
from turnabout.studies.attribution_maps.map_moves import Anywhere, AuditMoves, OneFeature, pull_back
from turnabout.studies.attribution_maps.map_questions import Decider, Margins, asking
from turnabout.studies.attribution_maps.out_of_reach import NONE, UNKNOWN, YES, split_boxes
from turnabout.studies.attribution_maps.ray import Hits, first_yes, is_traced
from turnabout.typing import Tensor

DRAWS = 128  # moves tried at random for each point
CLIMBS = 40  # gradient steps
NODES = 4000  # cells looked at for one point
ROUNDING = 16  # units in the last place of what a linear model adds up: nearer to 0, its sign may hang on rounding


@dataclass(frozen=True, eq=False)
class Attainable:
    """Whether each of n refused points has a successful move.

    Attributes
    ----------
    status : (n,) 1 for a move that was seen to succeed, 0 for a proof that none does, -1 for neither.
    place : (n, d) where a successful move ends: allowed, at most delta away, and accepted by the model that was asked
        about it; the point itself elsewhere.
    engine : how it was decided.
    """

    status: Tensor
    place: Tensor
    engine: str


def attainable(model: Decider, x: Tensor, moves: AuditMoves, delta: float, seed: int = 0) -> Attainable:
    """Look for a successful move from refused points x (n, d) with the strongest means the model allows.

    Linear models: the move of steepest ascent. Moves along one column: all breakpoints of linear models, trees and
    ReLU nets. Both are exact, and what only rounding would decide is unknown. Otherwise a search, at random and by
    gradient where there is one; and for whom it finds nothing, bounds on the margin of ReLU nets and trees over smaller
    and smaller boxes; then, of trees whose leaves are boxes, the cells where they meet, up to a number. What
    none of these settles stays unknown. Answers do not depend on the other points.
    """
    if isinstance(model, LinearMargin):
        return _linear(model, asking(model), x, moves, delta)
    if isinstance(moves, OneFeature) or x.shape[1] == 1:
        return _along_axes(model, x, moves, delta)
    status = torch.full((len(x),), UNKNOWN, dtype=torch.int8)
    axes = _along_axes(model, x, OneFeature(moves.bounds), delta)
    status[axes.status == YES] = YES
    place = axes.place.clone()
    rest = (status != YES).nonzero().squeeze(1)
    found, place[rest] = _search(model, x[rest], moves, delta, seed)
    status[rest[found]] = YES
    rest = (status != YES).nonzero().squeeze(1)
    engine = "search at random and by gradient" if isinstance(model, Differentiable) else "search at random"
    if isinstance(model, Model) and isinstance(model, (ReluNet, Trees)):
        engine += ", and bounds over boxes"
        status[rest], place[rest] = split_boxes(model, x[rest], moves, delta)
        rest = rest[status[rest] == UNKNOWN]
    if isinstance(model, Model) and isinstance(model, Trees) and has_boxes(model.forest):
        engine += ", and boxes of leaves"
        low, high = moves.room(x[rest], delta)
        least, most = moves.limits(x[rest])
        box = torch.maximum(x[rest] + low, least), torch.minimum(x[rest] + high, most)
        cells = LeafSearch(model, moves.size, whole=False)
        nearest = cells.find(x[rest], delta, box, each=NODES, stop_at_first=True)
        yes = torch.isfinite(nearest.distance)
        status[rest] = torch.where(yes, YES, torch.where(nearest.unknown, UNKNOWN, NONE)).to(torch.int8)
        place[rest] = nearest.point
    return Attainable(status, place, engine)


def _linear(model: LinearMargin, ask: Margins, x: Tensor, moves: AuditMoves, delta: float) -> Attainable:
    weights = model.weights.to(x.dtype)
    place = moves.place(x, moves.steepest(x, weights, delta), delta)
    margin = ask(place)
    unit = torch.finfo(x.dtype).eps * (place.abs() @ weights.abs() + float(abs(model.bias)))
    yes = (margin >= 0) & (moves.size(place - x) <= delta)
    status = torch.where(yes, YES, torch.where(margin < -ROUNDING * unit, NONE, UNKNOWN)).to(torch.int8)
    return Attainable(status, torch.where(yes.unsqueeze(1), place, x), "formula of the linear model")


def _along_axes(model: Decider, x: Tensor, moves: AuditMoves, delta: float) -> Attainable:
    """All moves along single columns."""
    n, d = x.shape
    columns = moves.columns(d) if isinstance(moves, OneFeature) else tuple(range(d))
    hits = axis_hits(model, x, moves, delta, torch.tensor(columns).expand(n, -1))
    at = hits.at.reshape(n, 2 * len(columns))
    best = at.argmin(1)
    rows = torch.arange(n)
    yes = torch.isfinite(at[rows, best])
    place = hits.place.reshape(*at.shape, d)[rows, best]
    sure = ~hits.unsure.reshape(at.shape).any(1) & is_traced(model)
    engine = "all breakpoints along columns" if is_traced(model) else "a grid along columns"
    return Attainable(torch.where(yes, YES, torch.where(sure, NONE, UNKNOWN)).to(torch.int8), place, engine)


def axis_hits(model: Decider, x: Tensor, moves: AuditMoves, delta: float, columns: Tensor) -> Hits:
    """The first yes down, up along some columns (n, c) of each point: n * c * 2 rays."""
    n, d = x.shape
    c = columns.shape[1]
    unit = torch.nn.functional.one_hot(columns, d).to(x.dtype)  # (n, c, d)
    rays = torch.stack([-unit, unit], 2).reshape(-1, d)
    starts = x.unsqueeze(1).expand(n, 2 * c, d).reshape(-1, d)
    return first_yes(model, starts, rays, moves.longest(starts, rays, delta))


def _search(model: Decider, x: Tensor, moves: AuditMoves, delta: float, seed: int) -> tuple[Tensor, Tensor]:
    """Whether a successful move was found from each point (n,), and where it ends (n, d), x where there is none."""
    if not len(x):
        return torch.zeros(0, dtype=torch.bool), x
    ask, rng = asking(model), np.random.default_rng(seed)
    tried = moves.draw(x, delta, DRAWS, rng)
    places = moves.place(x, tried, delta)
    margin = ask(places)
    best = margin.argmax(1)
    rows = torch.arange(len(x))
    place, top = places[rows, best], margin[rows, best]
    if isinstance(model, Differentiable) and isinstance(moves, Anywhere):
        now = tried[rows, best]
        for step in range(CLIMBS):
            slope = model.gradient(x + now).detach().to(x.dtype).nan_to_num(0.0)
            slope = slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
            now = pull_back(moves, x, now + slope * delta / (1 + step) ** 0.5, delta)
            end = moves.place(x, now, delta)
            margin = ask(end)
            better = margin > top
            place, top = torch.where(better.unsqueeze(1), end, place), torch.where(better, margin, top)
    yes = (top >= 0) & (moves.size(place - x) <= delta)
    return yes, torch.where(yes.unsqueeze(1), place, x)
