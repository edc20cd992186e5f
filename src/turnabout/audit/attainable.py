"""Whether some allowed move ends in a yes: proved, found, or unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.audit.maps import Decider, asking
from turnabout.audit.moves import Anywhere, AuditMoves, OneFeature, pull_back
from turnabout.audit.out_of_reach import NONE, UNKNOWN, YES, is_plain, search_leaves, split_boxes
from turnabout.audit.ray import first_yes, is_traced
from turnabout.models import Differentiable, Linear, Model, ReluNet, Trees
from turnabout.typing import Tensor

DRAWS = 128  # moves tried at random for each point
CLIMBS = 40  # gradient steps
NODES = 2000  # boxes of leaves looked at for one point,
MOST_NODES = 20_000  # and for all points together


@dataclass(frozen=True, eq=False)
class Attainable:
    """Whether each of n refused points has a successful move.

    Attributes
    ----------
    status : (n,) 1 for a move that was seen to succeed, 0 for a proof that none does, -1 for neither.
    move : (n, d) a successful move; 0 elsewhere.
    engine : how it was decided.
    """

    status: Tensor
    move: Tensor
    engine: str


def attainable(model: Decider, x: Tensor, moves: AuditMoves, delta: float, seed: int = 0) -> Attainable:
    """Look for a successful move from refused points x (n, d) with the strongest means the model allows.

    Linear models: the move of steepest ascent, exact to rounding. Moves along one column: all breakpoints of linear
    models, trees and ReLU nets, exact. Otherwise a search, at random and by gradient where there is one; and for whom
    it finds nothing, bounds on the margin of ReLU nets and trees over smaller and smaller boxes; then, of trees with
    one score over numbers, the boxes where leaves meet, up to a number. What none of these settles stays unknown.
    """
    if isinstance(model, Linear):
        return _linear(model, x, moves, delta)
    if isinstance(moves, OneFeature) or x.shape[1] == 1:
        return _along_axes(model, x, moves, delta)
    status = torch.full((len(x),), UNKNOWN, dtype=torch.int8)
    axes = _along_axes(model, x, OneFeature(moves.bounds), delta)
    status[axes.status == YES] = YES
    move = torch.where((status == YES).unsqueeze(1), axes.move, 0.0)
    rest = (status != YES).nonzero().squeeze(1)
    found = _search(model, x[rest], moves, delta, seed)
    move[rest], status[rest[found.any(1)]] = found, YES
    rest = (status != YES).nonzero().squeeze(1)
    engine = "search at random and by gradient" if isinstance(model, Differentiable) else "search at random"
    if isinstance(model, Model) and isinstance(model, (ReluNet, Trees)):
        engine += ", and bounds over boxes"
        status[rest], move[rest] = split_boxes(model, x[rest], moves, delta)
        rest = rest[status[rest] == UNKNOWN]
    if isinstance(model, Trees) and is_plain(model.forest):
        engine += ", and boxes of leaves"
        left = MOST_NODES
        for i in rest.tolist():  # one search each: few are left here
            status[i], move[i], used = search_leaves(model.forest, x[i], moves, delta, min(NODES, left))
            left -= used
    return Attainable(status, move, engine)


def _linear(model: Linear, x: Tensor, moves: AuditMoves, delta: float) -> Attainable:
    move = moves.steepest(x, model.weights.to(x.dtype), delta)
    yes = (x + move) @ model.weights + model.bias >= 0
    return Attainable(yes.to(torch.int8), torch.where(yes.unsqueeze(1), move, 0.0), "formula of the linear model")


def _along_axes(model: Decider, x: Tensor, moves: AuditMoves, delta: float) -> Attainable:
    """All moves along single columns."""
    n, d = x.shape
    columns = moves.columns(d) if isinstance(moves, OneFeature) else tuple(range(d))
    t = axis_hits(model, x, moves, delta, torch.tensor(columns).expand(n, -1))  # (n, c, 2)
    best = t.flatten(1).argmin(1) if t.numel() else torch.zeros(n, dtype=torch.long)
    step = t.flatten(1).gather(1, best.unsqueeze(1)).squeeze(1)
    yes = torch.isfinite(step)
    signed = torch.where(yes, step, 0.0) * torch.where(best % 2 == 0, -1.0, 1.0)
    move = torch.zeros_like(x).scatter(1, torch.tensor(columns)[best // 2].unsqueeze(1), signed.unsqueeze(1))
    none = NONE if is_traced(model) else UNKNOWN
    engine = "all breakpoints along columns" if is_traced(model) else "a grid along columns"
    return Attainable(torch.where(yes, YES, none).to(torch.int8), move, engine)


def axis_hits(model: Decider, x: Tensor, moves: AuditMoves, delta: float, columns: Tensor) -> Tensor:
    """How far to go down, up along some columns (n, c) of each point to a yes: (n, c, 2), inf where there is none."""
    n, d = x.shape
    c = columns.shape[1]
    unit = torch.nn.functional.one_hot(columns, d).to(x.dtype)  # (n, c, d)
    low, high = moves.room(x, delta)
    rays = torch.stack([-unit, unit], 2).reshape(-1, d)
    room = torch.stack([-low.gather(1, columns), high.gather(1, columns)], 2)
    starts = x.unsqueeze(1).expand(n, 2 * c, d).reshape(-1, d)
    return first_yes(model, starts, rays, room.reshape(-1)).at.reshape(n, c, 2)


def _search(model: Decider, x: Tensor, moves: AuditMoves, delta: float, seed: int) -> Tensor:
    """A successful move of each point, 0 where none was found: (n, d)."""
    out = torch.zeros_like(x)
    if not len(x):
        return out
    ask, rng = asking(model), np.random.default_rng(seed)
    tried = moves.draw(x, delta, DRAWS, rng)
    margin = ask(x.unsqueeze(1) + tried)
    best = margin.argmax(1)
    rows = torch.arange(len(x))
    move, top = tried[rows, best], margin[rows, best]
    if isinstance(model, Differentiable) and isinstance(moves, Anywhere):
        now = move
        for step in range(CLIMBS):
            slope = model.gradient(x + now).detach().to(x.dtype).nan_to_num(0.0)
            slope = slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
            now = pull_back(moves, x, now + slope * delta / (1 + step) ** 0.5, delta)
            margin = ask(x + now)
            better = margin > top
            move, top = torch.where(better.unsqueeze(1), now, move), torch.where(better, margin, top)
    yes = top >= 0
    out[yes] = move[yes]
    return out
