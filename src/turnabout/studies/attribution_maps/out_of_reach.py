"""Proofs that no move within reach succeeds: bounds over smaller and smaller boxes."""

from __future__ import annotations

import torch

from turnabout.models import Model
from turnabout.solvers.bounds import MarginBound, bound_on
from turnabout.solvers.boxes import Boxes
from turnabout.studies.attribution_maps.map_moves import AuditMoves, pull_back
from turnabout.studies.attribution_maps.map_questions import asking
from turnabout.typing import Tensor

ROUNDS = 10  # times a box is halved
MOST_BOXES = 128  # of one point; beyond, it is left undecided
CELLS = 1 << 21  # numbers held at a time

YES, NONE, UNKNOWN = 1, 0, -1
"""A move was seen to succeed; it is proved that none does; neither."""


def split_boxes(model: Model, x: Tensor, moves: AuditMoves, delta: float) -> tuple[Tensor, Tensor]:
    """Whether a ReLU net or a forest says yes within reach of points x (n, d): status (n,), and a place (n, d).

    The box of all moves is halved until an upper bound of the margin is below 0 on every part that is within reach.
    """
    n, d = x.shape
    status, place = torch.full((n,), UNKNOWN, dtype=torch.int8), x.clone()
    bound = bound_on(model, torch.arange(d), noise=model.noise)
    if bound is None:
        return status, place
    for part in torch.arange(n).split(max(1, CELLS // (bound.width * (d + 2)) // MOST_BOXES)):
        status[part], place[part] = _split(model, bound, x[part], moves, delta)
    return status, place


def _split(model: Model, bound: MarginBound, x: Tensor, moves: AuditMoves, delta: float) -> tuple[Tensor, Tensor]:
    ask = asking(model)
    low, high = moves.room(x, delta)
    boxes = Boxes(torch.arange(len(x)), x + low, x + high)
    place, found, given_up = x.clone(), *(torch.zeros(len(x), dtype=torch.bool) for _ in range(2))
    for turn in range(ROUNDS + 1):
        own = x[boxes.owner]
        nearest = torch.minimum(torch.maximum(own, boxes.low), boxes.high)
        near = moves.size(nearest - own) <= delta * (1 + 1e-12)
        boxes = boxes.take(near & ~found[boxes.owner] & ~given_up[boxes.owner])
        if not len(boxes.owner) or turn == ROUNDS:
            break
        own = x[boxes.owner]
        tried = moves.place(own, pull_back(moves, own, (boxes.low + boxes.high) / 2 - own, delta), delta)
        yes = (ask(tried) >= 0) & (moves.size(tried - own) <= delta)
        place[boxes.owner[yes]], found[boxes.owner[yes]] = tried[yes], True
        plane = bound.plane(bound.base(torch.zeros_like(own)), boxes.hull())
        open_ = plane.top + plane.slope.abs().sum(1) >= 0
        boxes = boxes.take(open_).halves(boxes.worst(plane)[open_])
        given_up |= torch.bincount(boxes.owner, minlength=len(x)) > MOST_BOXES
    given_up[boxes.owner] = True
    status = torch.where(found, YES, torch.where(given_up, UNKNOWN, NONE)).to(torch.int8)
    return status, place
