"""What every wrapped model can do, and the capabilities some of them offer on top."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
import torch

from turnabout.errors import ModelError
from turnabout.schema import Schema
from turnabout.typing import Level, Tensor, is_number

if TYPE_CHECKING:
    from turnabout.models.favourable import Guess
    from turnabout.models.forest import Forest

Scale = Literal["log-odds", "probability", "score", "target"]


class Judge(Protocol):
    """Asks the original about raw rows: table -> margins (n,), non-negative for a yes.

    It may also tell `columns`, those it looks at (all by default), `like`, a few rows with the column types and marks
    of missing cells of the training table, `encoded`, whether it takes encoded rows rather than tables, and
    `in_single`, whether its last answer came in float32.
    """

    title: str
    """What is asked: "LogisticRegression in a Pipeline"."""
    noise: float
    """Size of the floating-point noise in the margins."""
    alone: bool
    """Whether answers may depend on the other rows of a batch, so that rows must be asked about alone too."""

    @property
    def scale(self) -> Scale: ...

    @property
    def rule(self) -> str:
        """When the answer is yes: "P(yes) >= 0.5"."""
        ...

    @property
    def cut(self) -> float | None:
        """The least P(yes) that is a yes; None where the margin does not follow from P(yes)."""
        ...

    def __call__(self, table: pd.DataFrame) -> np.ndarray: ...


class ShiftedJudge:
    """A judge who asks for more margin than another."""

    def __init__(self, judge: Judge, by: float):
        self.judge = judge
        self.by = by
        self.title = judge.title
        self.noise = judge.noise
        self.alone: bool = getattr(judge, "alone", False)
        for name in ("columns", "like", "encoded"):
            if hasattr(judge, name):
                setattr(self, name, getattr(judge, name))

    @property
    def scale(self) -> Scale:
        return self.judge.scale

    @property
    def cut(self) -> float | None:
        cut = self.judge.cut
        if cut is None or self.scale == "probability":
            return None if cut is None else cut + self.by
        return float(1 / (1 + np.exp(-(np.log(cut / (1 - cut)) + self.by))))

    @property
    def log_odds_cut(self) -> float:
        """The log-odds of the cut-off, also where the cut-off itself rounds to 1."""
        return _log_odds_cut(self.judge) + self.by

    @property
    def rule(self) -> str:
        return f"{self.judge.rule}, and by a margin of {self.by:g}"

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        return self.judge(table) - self.by


def _log_odds_cut(judge: Judge) -> float:
    if isinstance(judge, ShiftedJudge):
        return judge.log_odds_cut
    assert judge.cut is not None
    return math.log(judge.cut / (1 - judge.cut))


@runtime_checkable
class Differentiable(Protocol):
    """The margin supports autograd."""

    def margin(self, x: Tensor) -> Tensor: ...

    def gradient(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class LinearMargin(Protocol):
    """margin(x) = x @ weights + bias."""

    weights: Tensor
    bias: float


@dataclass(frozen=True)
class Jumps:
    """Where a margin jumps: by heights (k,) as soon as x[columns] lies above cuts, (k,) each."""

    columns: Tensor
    cuts: Tensor
    heights: Tensor

    def parts(self, x: Tensor) -> Tensor:
        """What each jump adds, (..., d) -> (..., k)."""
        return (x[..., self.columns] > self.cuts).to(x.dtype) * self.heights

    def to(self, device: str | torch.device) -> Jumps:
        """The same jumps on a device."""
        return Jumps(self.columns.to(device), self.cuts.to(device), self.heights.to(device))


@dataclass(frozen=True)
class Terms:
    """A margin in which every feature acts on its own: straight lines, bends at knots, and jumps.

        margin(x) = bias + x @ weights + relu(x[columns] - knots) @ slopes + [x[at] > cuts] @ heights       (1)

    weights (d,); columns, knots and slopes (m,): a column may have several knots, or none. The last part is `jumps`,
    with its own columns; None where there are none.
    """

    weights: Tensor
    bias: float
    columns: Tensor
    knots: Tensor
    slopes: Tensor
    jumps: Jumps | None = None

    @classmethod
    def straight(cls, weights: Tensor, bias: float) -> Terms:
        """Terms without knots."""
        none = weights.new_zeros(0)
        return cls(weights, bias, none.long(), none, none)

    def margin(self, x: Tensor) -> Tensor:
        """(..., d) -> (...)."""
        out = x @ self.weights + self.bias
        if len(self.knots):
            out = out + torch.relu(x[..., self.columns] - self.knots) @ self.slopes
        return out if self.jumps is None else out + self.jumps.parts(x).sum(-1)  # (1)

    def gradient(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d); at a knot, the slope below it. Jumps have none."""
        slope = self.weights.expand_as(x).clone()
        if len(self.knots):
            bent = (x[..., self.columns] > self.knots).to(x.dtype) * self.slopes
            slope.index_add_(-1, self.columns, bent)
        return slope

    def term(self, column: int, values: Tensor) -> Tensor:
        """What one column adds to the margin at some values, (...) -> (...)."""
        own = self.columns == column
        bent = torch.relu(values.unsqueeze(-1) - self.knots[own]) @ self.slopes[own]
        out = self.weights[column] * values + bent
        if self.jumps is not None:
            above = values.unsqueeze(-1) > self.cuts(column)
            out = out + above.to(values.dtype) @ self.jumps.heights[self.jumps.columns == column]
        return out

    def cuts(self, column: int) -> Tensor:
        """Where one column jumps, (k,): a cut is the last value before it."""
        if self.jumps is None:
            return self.knots.new_zeros(0)
        return self.jumps.cuts[self.jumps.columns == column]

    def only_jumps(self, column: int) -> bool:
        """Whether the margin is flat in a column but for its jumps."""
        return float(self.weights[column]) == 0 and not bool((self.columns == column).any())

    @property
    def size(self) -> float:
        """The sum of all numbers in (1) without their signs, of which rounding errors are a share."""
        heights = 0.0 if self.jumps is None else float(self.jumps.heights.abs().sum())
        return abs(self.bias) + float(self.weights.abs().sum() + self.slopes.abs().sum()) + heights

    def to(self, device: str | torch.device) -> Terms:
        """The same terms on a device."""
        columns, knots, slopes = (part.to(device) for part in (self.columns, self.knots, self.slopes))
        jumps = None if self.jumps is None else self.jumps.to(device)
        return Terms(self.weights.to(device), self.bias, columns, knots, slopes, jumps)


@runtime_checkable
class Additive(Protocol):
    """The margin is a sum of one curve for each feature. A linear model offers this too: its curves are straight."""

    terms: Terms


@runtime_checkable
class ReluNet(Protocol):
    """The margin is the single output of `layers`, with a ReLU between each two of them."""

    layers: tuple[tuple[Tensor, Tensor], ...]


@runtime_checkable
class Trees(Protocol):
    """The margin is read off a sum of trees."""

    forest: Forest


CAPABILITIES: tuple[type, ...] = (Differentiable, LinearMargin, Additive, ReluNet, Trees)


class Model:
    """A decision maker with one sign: a non-negative margin is a yes.

    `judge` always asks the original; `margin` is the fast way to the same number. In this base class the two
    are one: encoded rows are decoded and put to the original. Subclasses carry a compiled form, which needs no table
    and may offer capabilities; ask with `isinstance(model, LinearMargin)` and the like.

    Parameters
    ----------
    schema : how tables are encoded.
    judge : asks the original.
    notes : what was recognised, and why something was not.
    """

    compiled: bool = False
    guessed: Guess | None = None
    """The class that `wrap` took for a yes where it was not told; None where it was."""
    unseen: Mapping[str, frozenset[Level]] = MappingProxyType({})
    """By column, levels that no plan moves to: training did not have them, or the original refuses them."""

    def __init__(self, schema: Schema, judge: Judge, notes: tuple[str, ...] = ()):
        self.schema = schema
        self.notes = notes
        self._judge = judge

    @property
    def scale(self) -> Scale:
        """What a margin counts: log-odds, probability, a raw score, or units of a regression target."""
        return self._judge.scale

    @property
    def cut(self) -> float | None:
        """The least P(yes) that is a yes; None where the margin does not follow from P(yes)."""
        return self._judge.cut

    @property
    def rule(self) -> str:
        """When the answer is yes: "P(approve) >= 0.5"."""
        return self._judge.rule

    @property
    def noise(self) -> float:
        """Size of the floating-point noise in the margins: 1e-12, or 1e-6 where the original computes in float32.

        More where the original was seen to answer otherwise about a row alone than among others.
        """
        return self._judge.noise

    @property
    def alone(self) -> bool:
        """Whether answers may depend on the other rows of a batch, so that options are asked about alone too."""
        return getattr(self._judge, "alone", False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that the model looks at."""
        return getattr(self._judge, "columns", self.schema.names)

    @property
    def encoded(self) -> bool:
        """Whether the original itself takes encoded rows, so that every cell must be one that the schema reads."""
        return getattr(self._judge, "encoded", False)

    @property
    def like(self) -> pd.DataFrame | None:
        """A few rows with the column types and marks of missing cells of the training table; None if not known."""
        return getattr(self._judge, "like", None)

    @property
    def keeps_nullable(self) -> bool:
        """Whether cells of types whose gaps are <NA> reach the original as they are, whatever it was trained on."""
        return getattr(self._judge, "keeps_nullable", False)

    @property
    def capabilities(self) -> tuple[type, ...]:
        """The protocols this model satisfies."""
        return tuple(capability for capability in CAPABILITIES if isinstance(self, capability))

    def judge(self, table: pd.DataFrame) -> np.ndarray:
        """Margins of raw rows, (n,) float64, asked of the original; NaN where it answers NaN."""
        return self._judge(table)

    def margin(self, x: Tensor) -> Tensor:
        """Margins of encoded rows, (..., d) -> (...)."""
        rows = x.detach().reshape(-1, x.shape[-1]).cpu()
        margins = torch.from_numpy(np.asarray(self.judge(self.decode(rows)), dtype=np.float64))
        return margins.reshape(x.shape[:-1]).to(x.device)

    def decode(self, x: Tensor) -> pd.DataFrame:
        """x (n, d) -> a table as the model was trained on: its column types, its marks of missing cells."""
        return self.schema.decode(x, self.like)

    def margin_at(self, probability: float) -> float:
        """The margin of a row to which the model gives this P(yes); refuses models without probabilities."""
        cut = self.cut
        if cut is None or self.scale not in ("log-odds", "probability"):
            raise ModelError(
                f"{self!r} decides by no probability.",
                hint="wrap a model with predict_proba, or a function from a table to P(yes).",
            )
        if not (is_number(probability) and 0 <= probability <= 1):
            raise ModelError(f"{probability!r} is no probability.", hint="use a number from 0 to 1.")
        if self.scale == "probability":
            return probability - cut
        if probability in (0, 1):
            return math.inf if probability else -math.inf
        return math.log(probability / (1 - probability)) - _log_odds_cut(self._judge)

    def probability(self, x: Tensor) -> Tensor:
        """P(yes) of encoded rows, (..., d) -> (...); refuses models without probabilities."""
        at_half = self.margin_at(0.5)
        if self.scale == "probability":
            return (self.margin(x) - at_half + 0.5).clamp(0.0, 1.0)
        return torch.sigmoid(self.margin(x) - at_half)

    def shifted(self, by: float) -> Self:
        """This model asking for `by` more margin: margin(x) - by, with the same capabilities."""
        moved = copy.copy(self)
        moved._judge = ShiftedJudge(self._judge, by)
        moved._shift(by)
        return moved

    def _shift(self, by: float) -> None:
        """Take `by` off the margins of the compiled form; called on a fresh shallow copy."""

    def to(self, device: str | torch.device) -> Self:
        """This model with its compiled form on a device; the original stays where it is."""
        moved = copy.copy(self)
        moved._move(torch.device(device))
        return moved

    def _move(self, device: torch.device) -> None:
        """Move the tensors of the compiled form; called on a fresh shallow copy."""

    def __repr__(self) -> str:
        offered = [
            c for c in self.capabilities if c is not Additive or not isinstance(self, LinearMargin)
        ]  # linear says it
        offers = ", ".join(capability.__name__ for capability in offered) or "judged only"
        return f"{type(self).__name__}({self._judge.title}; {offers}; yes when {self._judge.rule})"
