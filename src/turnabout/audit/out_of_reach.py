"""Proofs that no move within reach succeeds: boxes of a forest's leaves, and bounds over smaller and smaller boxes."""

from __future__ import annotations

import numpy as np
import torch

from turnabout.audit.ceiling import Boxes, bound_on
from turnabout.audit.maps import asking
from turnabout.audit.moves import AuditMoves, pull_back
from turnabout.methods.sequences.certificate.boxes import Hull
from turnabout.methods.sequences.certificate.plane import MarginBound
from turnabout.models import Model
from turnabout.models.forest import Forest
from turnabout.typing import Tensor

ROUNDS = 10  # times a box is halved
MOST_BOXES = 128  # of one point; beyond, it is left undecided
CELLS = 1 << 21  # numbers held at a time

YES, NONE, UNKNOWN = 1, 0, -1
"""A move was seen to succeed; it is proved that none does; neither."""


def is_plain(forest: Forest) -> bool:
    """Whether a forest has one score and numbers alone, so that its leaves are boxes between all encoded rows."""
    return not len(forest.sets) and not bool(forest.is_level.any()) and forest.value.shape[1] == 1


def search_leaves(forest: Forest, x: Tensor, moves: AuditMoves, delta: float, nodes: int) -> tuple[int, Tensor, int]:
    """Whether a plain forest says yes within reach of one point x (d,), a move that gets there (d,), and boxes used.

    Depth first over intersections of leaves, one tree at a time. A box is left when its point nearest to x is out of
    reach, or when the best leaves that it still meets add up to a no: then none is proved once no box is left.
    """
    leaves, start = forest.leaves, x.numpy()
    tree = leaves.tree.numpy()
    first = np.flatnonzero(np.diff(tree, prepend=-1))
    value = leaves.value[:, 0].numpy() / forest.divisor
    lower, upper = leaves.lower.numpy(), leaves.upper.numpy()
    room = moves.room(x.unsqueeze(0), delta)
    low, high = (start + side[0].numpy() for side in room)
    slack = forest.tolerance + 1e-12 * np.abs(value).max()
    # an open end is the next double; the box of all moves itself is closed
    stack = [(np.nextafter(low, -np.inf), high)]
    for used in range(nodes):
        if not stack:
            return NONE, torch.zeros_like(x), used
        box_low, box_high = stack.pop()
        a, b = np.maximum(lower, box_low), np.minimum(upper, box_high)  # open, closed
        nearest = np.minimum(np.maximum(start, np.nextafter(a, np.inf)), b)
        reach = moves.size(torch.from_numpy(nearest - start)).numpy() <= delta
        open_ = (a < b).all(1) & reach
        worth = np.where(open_, value, -np.inf)
        top = np.maximum.reduceat(worth, first)
        if top.sum() + float(forest.bias[0]) < -slack:
            continue
        count = np.add.reduceat(open_.astype(int), first)
        if (count <= 1).all():
            inside = np.minimum(np.maximum(start, np.nextafter(box_low, np.inf)), box_high)
            y = torch.from_numpy(inside)
            if float(forest.margin(y.unsqueeze(0))[0]) >= 0:
                return YES, y - x, used
            continue
        low_end = np.minimum.reduceat(np.where(open_, value, np.inf), first)
        chosen = int(np.where(count > 1, top - low_end, -np.inf).argmax())
        mine = np.flatnonzero(open_ & (tree == tree[first[chosen]]))
        for leaf in mine[np.argsort(value[mine], kind="stable")]:  # the best is looked at next
            stack.append((a[leaf], b[leaf]))
    return (UNKNOWN if stack else NONE), torch.zeros_like(x), nodes


def split_boxes(model: Model, x: Tensor, moves: AuditMoves, delta: float) -> tuple[Tensor, Tensor]:
    """Whether a ReLU net or a forest says yes within reach of points x (n, d): status (n,), and a move (n, d).

    The box of all moves is halved until an upper bound of the margin is below 0 on every part that is within reach.
    """
    n, d = x.shape
    status, move = torch.full((n,), UNKNOWN, dtype=torch.int8), torch.zeros_like(x)
    bound = bound_on(model, torch.arange(d))
    if bound is None:
        return status, move
    for part in torch.arange(n).split(max(1, CELLS // (bound.width * (d + 2)) // MOST_BOXES)):
        status[part], move[part] = _split(model, bound, x[part], moves, delta)
    return status, move


def _split(model: Model, bound: MarginBound, x: Tensor, moves: AuditMoves, delta: float) -> tuple[Tensor, Tensor]:
    ask = asking(model)
    low, high = moves.room(x, delta)
    boxes = Boxes(torch.arange(len(x)), x + low, x + high)
    move, found, given_up = torch.zeros_like(x), *(torch.zeros(len(x), dtype=torch.bool) for _ in range(2))
    for turn in range(ROUNDS + 1):
        own = x[boxes.owner]
        nearest = torch.minimum(torch.maximum(own, boxes.low), boxes.high)
        near = moves.size(nearest - own) <= delta * (1 + 1e-12)
        boxes = boxes.take(near & ~found[boxes.owner] & ~given_up[boxes.owner])
        if not len(boxes.owner) or turn == ROUNDS:
            break
        middle, radius = (boxes.low + boxes.high) / 2, (boxes.high - boxes.low) / 2
        own = x[boxes.owner]
        tried = pull_back(moves, own, middle - own, delta)
        yes = ask(own + tried) >= 0
        move[boxes.owner[yes]], found[boxes.owner[yes]] = tried[yes], True
        hull = Hull(middle, torch.diag_embed(radius), torch.zeros_like(middle), boxes.low, boxes.high)
        plane = bound.plane(bound.base(torch.zeros_like(middle)), hull)
        open_ = plane.top + plane.slope.abs().sum(1) >= 0
        worst = torch.where(radius > 0, plane.blame + plane.slope.abs(), -1.0).argmax(1)
        boxes = boxes.take(open_).halves(worst[open_])
        given_up |= torch.bincount(boxes.owner, minlength=len(x)) > MOST_BOXES
    given_up[boxes.owner] = True
    status = torch.where(found, YES, torch.where(given_up, UNKNOWN, NONE)).to(torch.int8)
    return status, move
