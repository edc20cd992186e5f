r"""Removing features from a person's row: what stands in for them, and the score that is left.

    f_x(z) = mean over stand-ins r of f(x where z keeps a feature, r elsewhere)                                   (1)

A feature is removed whole: all columns of a category, and the indicator that says a cell is missing. Which rows stand
in is a choice, and attributions depend on it: four are offered. None of them says what would happen to the person if
the feature changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import Operation
from turnabout.explain.explainer import ExplanationTask
from turnabout.explain.score import Score
from turnabout.explain.shapley.values import HELD, Mixture, coalition_values
from turnabout.parameters import Maybe, Positive, Whole, checked
from turnabout.schema import Category
from turnabout.typing import Tensor


class Removal(Protocol):
    """What stands in for removed features.

    drawn : whether the stand-ins are random draws, so that another seed gives other values.
    """

    drawn: ClassVar[bool]

    def operation(self, question: ExplanationTask) -> Operation:
        """How masks meet the people of a question."""
        ...

    def note(self, question: ExplanationTask) -> str:
        """One sentence for the reader of the attribution."""
        ...


@dataclass(frozen=True)
@checked(ExplainError, rows=Maybe(Whole(1)))
class Background:
    """Rows of the background, each a whole: the interventional mean, and the default.

    Removed features come from one ordinary person at a time, so they fit each other, but need not fit what was kept.

    Parameters
    ----------
    rows : at most so many are used, spread evenly over the table as given; None for all of them.
    """

    rows: int | None = 100
    drawn: ClassVar[bool] = False

    def operation(self, question: ExplanationTask) -> Remove:
        return Remove.of(question, self.taken(question))

    def taken(self, question: ExplanationTask) -> Tensor:
        """The rows that are used, (b, d)."""
        rows = background_of(question)
        if self.rows is None:
            return rows
        if len(rows) <= self.rows:
            return rows
        return rows[torch.linspace(0, len(rows) - 1, self.rows, dtype=torch.float64).round().long()]

    def note(self, question: ExplanationTask) -> str:
        return f"removed features take the values of {self.count(question)} in turn."

    def count(self, question: ExplanationTask) -> str:
        """How many rows are used, in words."""
        used, there = len(self.taken(question)), len(background_of(question))
        return f"{used} of {there} background rows" + (" (values are against these only)" if used < there else "")


@dataclass(frozen=True)
class Typical:
    """One row for everyone: the median of each scalar and the most frequent level of each category.

    A cell is missing where that is the most frequent level, or where more than half of the numbers are missing.
    """

    drawn: ClassVar[bool] = False

    def operation(self, question: ExplanationTask) -> Remove:
        rows, feature_of = background_of(question), question.feature_of
        parts = [_typical(rows[:, feature_of == f], self._scalar(question, f)) for f in range(len(question.features))]
        return Remove.of(question, torch.cat(parts).unsqueeze(0))

    @staticmethod
    def _scalar(question: ExplanationTask, f: int) -> bool:
        return question.schema is None or not isinstance(question.schema.features[f], Category)

    def note(self, question: ExplanationTask) -> str:
        return "removed features take the most typical value of the background: its median or most frequent level."


def _typical(part: Tensor, scalar: bool) -> Tensor:
    """One feature of the typical row: (b, w) -> (w,)."""
    if scalar and part.shape[1] == 2:  # with a missing indicator
        absent = part[:, 1] > 0.5
        part = part[absent if 2 * int(absent.sum()) > len(part) else ~absent]
    if scalar:
        return part[part[:, 0].argsort()[(len(part) - 1) // 2]]  # a value that occurs
    values, count = part.unique(dim=0, return_counts=True)
    return values[count.argmax()]


@dataclass(frozen=True)
@checked(ExplainError, draws=Whole(1))
class Marginals:
    """Draws of each feature from its own marginal in the background, features independent of each other.

    Draws are random, so that no attribution with them is exact.

    Parameters
    ----------
    draws : how many rows are drawn; the same for everyone.
    """

    draws: int = 100
    drawn: ClassVar[bool] = True

    def operation(self, question: ExplanationTask) -> Remove:
        rows, m = background_of(question), len(question.features)
        pick = torch.as_tensor(np.random.default_rng(question.seed).integers(len(rows), size=(self.draws, m)))
        return Remove.of(question, rows.gather(0, pick[:, question.feature_of]))

    def note(self, question: ExplanationTask) -> str:
        return (
            f"removed features take {self.draws} draws from their marginals (seed {question.seed}); the error of these "
            "draws is not told: compare seeds."
        )


@dataclass(frozen=True)
@checked(ExplainError, rows=Maybe(Whole(1)), width=Positive(hint="use a share of the range, such as 0.1."))
class Conditional:
    """Rows of the background, weighted by how near they are in the features that are kept (Aas et al., 2021).

    A row weighs exp(-D / (2 width^2)), with D the mean squared distance over the kept features: a number's distance
    is a share of its range, another level is at distance 1. Removed features then fit what was kept; but a feature that
    the model does not use can get a share, through those that go with it. There are no shortcuts for it.

    Parameters
    ----------
    rows : as in Background.  width : of the kernel.
    """

    rows: int | None = 100
    width: float = 0.1
    drawn: ClassVar[bool] = False

    def operation(self, question: ExplanationTask) -> Remove:
        return Remove.of(question, Background(self.rows).taken(question), self.width)

    def note(self, question: ExplanationTask) -> str:
        count = Background(self.rows).count(question)
        return f"removed features take the values of {count}, the more so the nearer in the features kept."


def background_of(question: ExplanationTask) -> Tensor:
    """The background, which removing features needs."""
    if question.background is None:
        raise ExplainError(
            "removing features needs a background, and none was given.",
            hint="pass background=people, a table of ordinary people such as the training rows.",
        )
    return question.background


@dataclass(frozen=True, eq=False)
class Remove:
    """f_x(z), formula (1), over given rows.

    Attributes
    ----------
    rows : (b, d).  feature_of : (d,).  m : number of features.
    near : width of the kernel that weighs rows by what is kept; None to count them alike.
    """

    rows: Tensor
    feature_of: Tensor
    m: int
    near: float | None = None

    @classmethod
    def of(cls, question: ExplanationTask, rows: Tensor, near: float | None = None) -> Remove:
        return cls(rows, question.feature_of, len(question.features), near)

    def width(self, d: int) -> int:
        return self.m

    def values(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        if self.near is None:
            return coalition_values(score, Mixture(x, self.rows, self.feature_of, self.m), xi)  # (1)
        people = x.split(max(1, HELD // self.rows.numel()))
        return torch.cat([torch.stack([self._weighted(score, part, z) for z in xi], 1) for part in people])

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        raise ExplainError(
            "a feature that is kept or removed has no derivative.", hint="use SquaredError with this operation."
        )

    def _weighted(self, score: Score, x: Tensor, z: Tensor) -> Tensor:
        """(1) for one mask, rows weighted by their distance in what is kept: (n,)."""
        share = self._shares(x, z)  # (n, b)
        mixed = torch.where(z[self.feature_of] > 0.5, x.unsqueeze(1), self.rows)  # (n, b, d)
        return (score.values(mixed) * share).sum(1)

    def _shares(self, x: Tensor, z: Tensor) -> Tensor:
        """Weights of the rows for each person, which add up to 1."""
        assert self.near is not None
        gap = (x.unsqueeze(1) - self.rows).square()  # (n, b, d)
        by_feature = gap.new_zeros(*gap.shape[:2], self.m).index_add_(2, self.feature_of, gap).clamp(max=1.0)
        distance = (by_feature * z).sum(2) / z.sum().clamp(min=1.0)
        return torch.softmax(-distance / (2 * self.near**2), dim=1)
