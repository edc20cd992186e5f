"""Where a straight way meets the first yes: all breakpoints of linear models, trees and ReLU nets, else a fine grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from turnabout.errors import AuditError
from turnabout.models import LinearMargin, ReluNet, Trees
from turnabout.models.forest import Forest
from turnabout.models.forms import Layers, run_layers
from turnabout.studies.attribution_maps.map_questions import Decider, asking, read_points
from turnabout.studies.attribution_maps.number_line import AcceptedIntervals, check_range
from turnabout.typing import Tensor, is_whole

GRID = 128  # steps along a ray where the model's form is not known
HALVINGS = 60
ROUNDING = 1e-12  # of the largest margin on a ray: nearer to 0, its sign may hang on rounding
BEYOND = tuple(
    4.0**k for k in range(-25, 0)
)  # shares of the way past t that are tried where the model refuses t itself
CELLS = 1 << 21  # numbers held at a time

Between = Literal["straight", "flat"]
"""What a margin is between two breakpoints."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The first yes along n rays.

    Attributes
    ----------
    t : (n,) where it begins, as a multiple of the direction; inf where none was found.
    at : (n,) a multiple at or just beyond t at which the model was seen to say yes; inf where none was found.
    place : (n, d) the point x + at * direction, as it was put to the model; x where none was found.
    unsure : (n,) whether nothing was found, but the margin comes so near to 0 that rounding may hide a yes.
    exact : whether inf means that there is none, unless unsure. With trees, a single number at which a ray passes a
        corner of cells may be missed.
    """

    t: Tensor
    at: Tensor
    place: Tensor
    unsure: Tensor
    exact: bool

    @property
    def found(self) -> Tensor:
        """(n,) whether there is one."""
        return torch.isfinite(self.t)


def is_traced(model: Decider) -> bool:
    """Whether the model's breakpoints along a ray are known."""
    return isinstance(model, (LinearMargin, Trees, ReluNet))


def first_yes(model: Decider, x: Tensor, direction: Tensor, length: Tensor) -> Hits:
    """The first t in (0, length] with margin(x + t * direction) >= 0, for refused x (n, d); length (n,).

    Rays of length 0, and of direction 0, meet nothing.
    """
    t, at = (torch.full((len(x),), torch.inf, dtype=x.dtype) for _ in range(2))
    unsure = torch.zeros(len(x), dtype=torch.bool)
    live = ((length > 0) & direction.any(1)).nonzero().squeeze(1)
    for part in live.split(max(1, CELLS // _width(model, x.shape[1]))):
        t[part], at[part], unsure[part] = _first(model, x[part], direction[part], length[part])
    found = torch.isfinite(at).unsqueeze(1)
    place = torch.where(found, x + torch.where(found, at.unsqueeze(1), 0.0) * direction, x)
    return Hits(t, at, place, unsure, is_traced(model))


def line_along(model: Decider, x: Tensor, column: int, low: float, high: float) -> AcceptedIntervals:
    """The answers for one point x (d,) as one column runs from low to high; exact where breakpoints are known.

    For `one_dimension` and `conflict_free_deltas` of one feature of one person, whatever the model.
    """
    ask = asking(model)
    if torch.as_tensor(x).ndim != 1:
        raise AuditError(
            f"x has shape {tuple(torch.as_tensor(x).shape)}, not that of one point (d,).", hint="pass x[0]."
        )
    x = read_points(torch.as_tensor(x).unsqueeze(0))[0]
    if not is_whole(column, 0) or column >= len(x):
        raise AuditError(f"column {column!r} is asked for, of a point with {len(x)}.", hint=f"use 0 to {len(x) - 1}.")
    check_range(low, high)

    def f(values: Tensor) -> Tensor:
        rows = x.expand(len(values), -1).clone()
        rows[:, column] = values.to(x.dtype)
        return ask(rows)

    if not is_traced(model):
        return AcceptedIntervals.scan(f, low, high)
    start, unit = x.clone(), torch.zeros_like(x)
    start[column], unit[column] = low, 1.0
    knots, between = _knots(model, start.unsqueeze(0), unit.unsqueeze(0), torch.tensor([high - low], dtype=x.dtype))
    inner = (low + knots[0, 1:-1]).unique()
    if between == "straight":
        ends = torch.cat([x.new_tensor([low]), inner, x.new_tensor([high])])
        margin = f(ends)
        a, b = margin[:-1], margin[1:]
        crossed = a * b < 0
        roots = ends[:-1] + (ends[1:] - ends[:-1]) * (a / torch.where(crossed, a - b, 1.0))
        return AcceptedIntervals.between(f, {*roots[crossed].tolist(), *ends[margin == 0].tolist()}, low, high)
    assert isinstance(model, Trees)
    own = model.forest.cuts[column]  # the cuts themselves where the column is plain: no rounding
    near = (inner.unsqueeze(1) - own).abs().amin(1) if len(own) else torch.full_like(inner, torch.inf)
    inner = torch.cat([inner[near > 1e-12], own[(own > low) & (own < high)]]).unique()
    ends = torch.cat([x.new_tensor([low]), inner, x.new_tensor([high])])
    at, middle = f(ends) >= 0, f(ends[:-1] / 2 + ends[1:] / 2) >= 0
    return AcceptedIntervals.from_cells(ends.tolist(), at.tolist(), middle.tolist(), exact=True)


def _first(model: Decider, x: Tensor, v: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """t, at and unsure of rays that have a length."""
    ask = asking(model)
    if not is_traced(model):
        return _by_grid(model, x, v, length)
    knots, between = _knots(model, x, v, length)  # (n, k), from 0 to length
    if between == "straight":
        margin = ask(x.unsqueeze(1) + knots.unsqueeze(2) * v.unsqueeze(1))
        some, place = _leading(margin[:, 1:] >= 0)
        a, b = margin.gather(1, place), margin.gather(1, place + 1)
        left, right = knots.gather(1, place), knots.gather(1, place + 1)
        share = (a / torch.where(a < 0, a - b, 1.0)).clamp(0, 1)  # a margin of 0 at the left: the yes begins there
        t = (left + (right - left) * share).squeeze(1)
        slack = ROUNDING * margin.abs().amax(1)
        at = t.clone()
        at[some] = _seen(model, x[some], v[some], t[some], right.squeeze(1)[some], slack[some])
        unsure = ~some & (margin[:, 1:].amax(1) >= -slack)
        return torch.where(some, t, torch.inf), torch.where(some, at, torch.inf), unsure
    spots = torch.cat([knots[:, :-1] / 2 + knots[:, 1:] / 2, knots[:, -1:]], 1)
    some, place = _leading(ask(x.unsqueeze(1) + spots.unsqueeze(2) * v.unsqueeze(1)) >= 0)
    t, at = knots.gather(1, place).squeeze(1), spots.gather(1, place).squeeze(1)
    return torch.where(some, t, torch.inf), torch.where(some, at, torch.inf), torch.zeros_like(some)


def _seen(model: Decider, x: Tensor, v: Tensor, t: Tensor, right: Tensor, slack: Tensor) -> Tensor:
    """(n,) the first multiple from t to right, where it is a yes, that is one by more than rounding, or the surest."""
    share = torch.tensor([0.0, *BEYOND, 1.0], dtype=x.dtype)
    tried = t.unsqueeze(1) + share * (right - t).unsqueeze(1)
    tried[:, -1] = right
    margin = asking(model)(x.unsqueeze(1) + tried.unsqueeze(2) * v.unsqueeze(1))
    clear, first = _leading(margin >= slack.unsqueeze(1))
    return tried.gather(1, torch.where(clear.unsqueeze(1), first, margin.argmax(1, keepdim=True))).squeeze(1)


def _by_grid(model: Decider, x: Tensor, v: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The first yes on a grid, its beginning found by halving."""
    ask = asking(model)
    steps = torch.arange(GRID + 1, dtype=x.dtype) / GRID * length.unsqueeze(1)  # (n, GRID + 1)
    some, place = _leading(ask(x.unsqueeze(1) + steps[:, 1:].unsqueeze(2) * v.unsqueeze(1)) >= 0)
    no, yes = steps.gather(1, place).squeeze(1), steps.gather(1, place + 1).squeeze(1)
    for _ in range(HALVINGS):
        middle = no / 2 + yes / 2
        up = ask(x + middle.unsqueeze(1) * v) >= 0
        no, yes = torch.where(up, no, middle), torch.where(up, middle, yes)
    yes = torch.where(some, yes, torch.inf)
    return yes, yes, torch.zeros_like(some)


def _leading(yes: Tensor) -> tuple[Tensor, Tensor]:
    """(n, k) -> whether any is True (n,), and the place of the first (n, 1)."""
    return yes.any(1), yes.to(torch.int8).argmax(1, keepdim=True)


def _knots(model: Decider, x: Tensor, v: Tensor, length: Tensor) -> tuple[Tensor, Between]:
    """(n, k) where the margin bends or steps along x + t v, sorted, 0 first and length last and as padding."""
    if isinstance(model, LinearMargin):
        return torch.stack([torch.zeros_like(length), length], 1), "straight"
    if isinstance(model, Trees):
        return _tree_knots(model.forest, x, v, length), "flat"
    assert isinstance(model, ReluNet)
    return _net_knots(model.layers, x, v, length), "straight"


def _tree_knots(forest: Forest, x: Tensor, v: Tensor, length: Tensor) -> Tensor:
    inner = forest.column >= 0
    cuts = torch.stack([forest.column[inner].to(x.dtype), forest.cut[inner].to(x.dtype)], 1).unique(dim=0)
    column, cut = cuts[:, 0].long(), cuts[:, 1]
    start, speed = forest.extend(x)[:, column], forest.extend(v)[:, column]
    t = (cut - start) / torch.where(speed == 0, torch.nan, speed)
    return _sorted(t, length)


def _net_knots(layers: Layers, x: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """Layer by layer: between two bends every unit is straight, so it turns on or off at most once."""
    knots = torch.stack([torch.zeros_like(length), length], 1)
    for depth in range(1, len(layers)):
        unit = run_layers(layers[:depth], x.unsqueeze(1) + knots.unsqueeze(2) * v.unsqueeze(1))  # (n, k, width)
        a, b = unit[:, :-1], unit[:, 1:]
        share = a / torch.where(a * b < 0, a - b, torch.nan)
        left, gap = knots[:, :-1].unsqueeze(2), knots.diff(dim=1).unsqueeze(2)
        knots = _sorted(torch.cat([knots, (left + share * gap).flatten(1)], 1), length)
    return knots


def _sorted(t: Tensor, length: Tensor) -> Tensor:
    """Those of t (n, k) that lie within (0, length), sorted between 0 and length."""
    end = length.unsqueeze(1)
    kept = torch.where((t > 0) & (t < end), t, end).sort(1).values
    most = int((kept < end).sum(1).max()) if kept.numel() else 0
    return torch.cat([torch.zeros_like(end), kept[:, :most], end], 1)


def _width(model: Decider, d: int) -> int:
    """Numbers that one ray may need."""
    if isinstance(model, Trees) and not isinstance(model, LinearMargin):
        return 2 * max(1, len(model.forest.column)) * d
    if isinstance(model, ReluNet) and not isinstance(model, LinearMargin):
        widths = [len(bias) for _, bias in model.layers]
        return 4 * (2 + sum(widths)) * max([d, *widths])
    return (GRID + 2) * d
