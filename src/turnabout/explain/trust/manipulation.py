"""Can an explanation be turned while the score stays? A search for the worst point near each person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.documents import Document, plain_records
from turnabout.errors import ExplainError
from turnabout.explain.explainer import Explainer
from turnabout.explain.score import Function, Output, Score, as_points
from turnabout.markup import report_html
from turnabout.models import Model
from turnabout.parameters import Finite, Instance, Positive, Whole, checked
from turnabout.schema import Scalar, Schema
from turnabout.typing import Json, Tensor

SHRINK = 0.7  # by which the search narrows from round to round
REACH = 0.1  # share of the box over which the slope of the score is measured
RETURNS = 2  # steps along that slope for candidates that change the score too much
PULLS = 3  # halvings towards the best point for those that still do
INSIDE = 0.9  # share of the tolerance at which a return aims


@dataclass(frozen=True, eq=False)
class Manipulability(Document):
    """The worst that was found near each person; lower bounds, since a better search may find worse.

    Attributes
    ----------
    table : index person:
        angle : degrees between their attribution and that of the point found; <NA> where theirs is zero.
        moved : largest change of a column on the way there.
        score_change : of the score that is explained.
        top_kept : whether the feature of largest size is the same at both.
    points : the points found, index person, a column per encoded column.
    radius, tolerance : what was allowed.
    made_by : the explainer.
    tried : points explained, all people together.
    """

    table: pd.DataFrame
    points: pd.DataFrame
    radius: float
    tolerance: float
    made_by: str
    tried: int

    keys = "radius tolerance made_by tried worst"

    @property
    def worst(self) -> float | None:
        """The largest angle found, in degrees; None where every attribution is zero."""
        angles = self.table["angle"].dropna()
        return float(angles.max()) if len(angles) else None

    _repr_html_ = report_html

    def __str__(self) -> str:
        if self.worst is None:
            return f"every attribution of {self.made_by} is zero: there is no angle to turn."
        angles = self.table["angle"].dropna().astype(float)
        changed = int((~self.table["top_kept"]).sum())
        return (
            f"within {self.radius:g} of each column and with the score changed by at most {self.tolerance:g}, "
            f"attributions of {self.made_by} turn by at least {self.worst:.1f} degrees for one person and by at least "
            f"{angles.median():.1f} in the median of {len(angles)} people; the top feature changes for {changed}. "
            f"Lower bounds, from {self.tried} points tried: a better search may find worse."
        )

    def to_frame(self) -> pd.DataFrame:
        """The table with person as a column."""
        return self.table.rename_axis("person").reset_index()

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return super().to_dict() | {"people": plain_records(self.to_frame())}


@checked(
    ExplainError,
    explainer=Instance(Explainer, "an explainer", hint="use one of turnabout.explain."),
    radius=Positive(hint="use 0.05, in units of the columns."),
    tolerance=Finite(least=0, hint="use 0.05, in units of the score."),
    rounds=Whole(1),
    draws=Whole(1),
    seed=Whole(0),
)
def manipulability(
    explainer: Explainer,
    model: Model | Score | Function,
    people: Any,
    radius: float = 0.05,
    tolerance: float = 0.05,
    *,
    rounds: int = 8,
    draws: int = 32,
    background: Any = None,
    output: Output = "margin",
    seed: int = 0,
) -> Manipulability:
    r"""How far an attribution turns nearby although the score hardly changes.

        max over x'   angle(phi(x), phi(x'))    with   |x'_j - x_j| <= radius,   |f(x') - f(x)| <= tolerance      (1)

    by random search without gradients, so that it works for every explainer: in each round `draws` points around the
    best so far, in a box that shrinks, projected onto the box of (1); points that change the score too much return
    along its slope, measured by differences, or towards the best. What it finds holds, what it does not find may
    exist: angles are lower bounds.

    With a wrapped model only numbers, ordinals and binaries move, in encoded units (1 is a feature's whole range),
    and not beyond that range; the points need not be printable rows. Explainers that draw use the same draws
    everywhere: part of an angle may be their sampling error, which more samples reduce.

    Parameters
    ----------
    explainer, model, people, background, output, seed : as for explain.
    radius : how far each column may go.
    tolerance : how much the score may change, in its units.
    rounds, draws : length and width of the search; rounds * draws points per person, at most, are explained.

    References
    ----------
    Dombrowski et al. (2019), Explanations can be manipulated and geometry is to blame.
    """
    schema = model.schema if isinstance(model, Model) else None
    index = explainer.explain(model, people, background=background, output=output, seed=seed).values.index
    points = people if isinstance(people, torch.Tensor) or schema is not None else np.array(people)
    x = as_points(points) if schema is None else schema.encode(people)
    score = Score.of(model, output)
    explain = explainer.as_map(model, background=background, output=output, seed=seed)
    low, high = _box(schema, x, float(radius))
    search = _Search(explain, score.values, x, low, high, float(tolerance))
    rng = np.random.default_rng(seed)
    for step in range(rounds):
        search.round(SHRINK**step, draws, rng)
    return _wrap(search, schema, index, float(radius), repr(explainer))


class _Search:
    """The best point so far of each of n people, for (1)."""

    def __init__(self, explain: Function, score: Function, x: Tensor, low: Tensor, high: Tensor, tolerance: float):
        self.explain, self.score = explain, score
        self.x, self.low, self.high, self.tolerance = x, low, high, tolerance
        self.here, self.value = explain(x), score(x)  # (n, m), (n,)
        self.best, self.angle = x.clone(), torch.zeros(len(x), dtype=torch.float64)
        self.tried = len(x)

    def round(self, scale: float, draws: int, rng: np.random.Generator) -> None:
        """Try `draws` points around the best of everyone who has an attribution to turn."""
        able = (self.here.norm(dim=1) > 0).nonzero().squeeze(1)
        who = able.repeat_interleave(draws)
        if not len(who):
            return
        start, low, high = self.best[who], self.low[who], self.high[who]
        step = torch.as_tensor(rng.uniform(-1.0, 1.0, (len(who), self.x.shape[1]))) * (high - low) / 2 * scale
        point = torch.minimum(torch.maximum(start + step, low), high)
        back = self._steepest(able, scale).repeat_interleave(draws, 0)
        for _ in range(RETURNS):
            point = torch.minimum(torch.maximum(point - self._excess(point, who).unsqueeze(1) * back, low), high)
        for _ in range(PULLS):
            fits = self._excess(point, who) == 0
            point = torch.where(fits.unsqueeze(1), point, (point + start) / 2)
        fits = self._excess(point, who) == 0
        angle = torch.full_like(point[:, 0], -1.0)
        if bool(fits.any()):
            angle[fits] = angle_between(self.here[who[fits]], self.explain(point[fits]))
        self.tried += int(fits.sum())
        top, place = angle.reshape(len(able), draws).max(1)
        better = top > self.angle[able]
        rows = (torch.arange(len(able)) * draws + place)[better]
        self.best[able[better]], self.angle[able[better]] = point[rows], top[better]

    def _excess(self, point: Tensor, who: Tensor) -> Tensor:
        """(R,) by how much, and which way, the score leaves the tolerance; 0 within."""
        change = self.score(point) - self.value[who]
        return torch.where(
            change.abs() <= self.tolerance, 0.0, change - INSIDE * change.clamp(-self.tolerance, self.tolerance)
        )

    def _steepest(self, who: Tensor, scale: float) -> Tensor:
        """(p, d) changes that raise the score at the best points by 1, as differences tell; 0 where it is flat."""
        width = (self.high - self.low)[who] / 2
        steps = torch.diag_embed(REACH * scale * width)  # (p, d, d)
        here = self.best[who].unsqueeze(1)
        rise = self.score(torch.cat([here + steps, here - steps], 1).flatten(0, 1)).reshape(len(who), 2, -1)
        slope = (rise[:, 0] - rise[:, 1]) / (2 * REACH * scale)  # per half-width
        size = slope.square().sum(1, keepdim=True)
        return torch.where(size > 0, slope * width / size.clamp(min=1e-300), 0.0)


def angle_between(a: Tensor, b: Tensor) -> Tensor:
    """(n, m), (n, m) -> degrees (n,); 0 where one of them is zero. Exact also for small angles."""
    size_a, size_b = a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True)
    some = ((size_a > 0) & (size_b > 0)).squeeze(1)
    u, v = a / size_a.clamp(min=1e-300), b / size_b.clamp(min=1e-300)
    angle = 2 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    return torch.where(some, torch.rad2deg(angle), 0.0)


def _box(schema: Schema | None, x: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """(n, d) lowest and highest values that the search may use."""
    low, high = x - radius, x + radius
    if schema is None:
        return low, high
    moves = torch.zeros(schema.d, dtype=torch.bool)
    for feature, s in zip(schema.features, schema.slices, strict=True):
        moves[s.start] = isinstance(feature, Scalar)
    moves = moves & ~schema.missing(x)  # (n, d)
    low, high = torch.maximum(low, x.clamp(max=0.0)), torch.minimum(high, x.clamp(min=1.0))
    return torch.where(moves, low, x), torch.where(moves, high, x)


def _wrap(search: _Search, schema: Schema | None, index: pd.Index, radius: float, made_by: str) -> Manipulability:
    there = search.explain(search.best)
    angle = angle_between(search.here, there).numpy().copy()
    angle[(search.here.norm(dim=1) == 0).numpy()] = np.nan
    same_top = (search.here.abs().argmax(1) == there.abs().argmax(1)).numpy()
    change = (search.score(search.best) - search.value).numpy()
    table = pd.DataFrame(
        {
            "angle": pd.array(angle, dtype="Float64"),
            "moved": (search.best - search.x).abs().amax(1).numpy(),
            "score_change": change,
            "top_kept": same_top,
        },
        index=index,
    )
    columns = [f"x{j}" for j in range(search.x.shape[1])] if schema is None else list(schema.columns)
    points = pd.DataFrame(search.best.numpy(), index=index, columns=columns)
    return Manipulability(table, points, radius, search.tolerance, made_by, search.tried)
