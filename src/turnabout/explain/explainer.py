"""Explainer: what every preset shares, from a table of people to an Attribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd
import torch

from turnabout.core import Attribution
from turnabout.core.attribution import Kind
from turnabout.errors import ExplainError
from turnabout.explain.engine import Fit
from turnabout.explain.score import Function, Output, Score, as_points, check_seed
from turnabout.models import Model
from turnabout.schema import Schema, as_frame
from turnabout.typing import Tensor


@dataclass(frozen=True)
class ExplanationTask:
    """What is explained, to whom, and against which background.

    Attributes
    ----------
    score : the function.  x : (n, d) the people.  schema : how they were encoded, None for plain points.
    background : (b, d) ordinary people, or None.
    """

    score: Score
    x: Tensor
    schema: Schema | None
    background: Tensor | None
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the d columns."""
        if self.schema is not None:
            return self.schema.columns
        return tuple(f"x{j}" for j in range(self.x.shape[1]))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features; the columns themselves for plain points."""
        return self.columns if self.schema is None else self.schema.names

    @property
    def feature_of(self) -> Tensor:
        """(d,) the feature of each column."""
        if self.schema is not None:
            return self.schema.feature_of
        return torch.arange(self.x.shape[1])

    @classmethod
    def of(cls, model: Any, x: Tensor, background: Any, output: Output, seed: int) -> ExplanationTask:
        """The question that `explain` asks of encoded people (n, d)."""
        schema = model.schema if isinstance(model, Model) else None
        rows = None if background is None else _points(background, schema)[0]
        if not len(x) or (rows is not None and not len(rows)):
            raise ExplainError("there are no people to explain, or none in the background.", hint="pass some rows.")
        if rows is not None and rows.shape[1] != x.shape[1]:
            raise ExplainError(
                f"the background has {rows.shape[1]} columns and the people have {x.shape[1]}.",
                hint="pass a background in the form of the people.",
            )
        return cls(Score.of(model, output), x, schema, rows, seed)


@dataclass(frozen=True)
class Explained:
    """What a preset found: the fit, the names its columns go by, and what a reader must know."""

    fit: Fit
    names: tuple[str, ...]
    base: Tensor | None = None  # (n,)
    notes: tuple[str, ...] = ()
    drawn: bool = True  # whether the seed mattered


class Explainer(ABC):
    """Says why a model answers as it does, person by person. Presets are frozen dataclasses of their parameters.

    Class attributes
    ----------------
    space : "input" where columns are attributed to, "concept" where features are kept or removed.
    kind : "contribution" or "slope", as in Attribution.
    """

    space: ClassVar[Any] = "input"

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What the values are: contributions or slopes, as in Attribution."""

    def unit(self, question: ExplanationTask) -> str | None:
        """What slopes are per; None for contributions."""
        if self.kind != "slope":
            return None
        return "per unit of a column" if question.schema is None else "per whole range of a feature"

    @abstractmethod
    def _explain(self, question: ExplanationTask) -> Explained:
        """Batched over everyone."""

    @final
    def explain(
        self,
        model: Model | Score | Function,
        people: Any,
        *,
        background: Any = None,
        output: Output = "margin",
        seed: int = 0,
    ) -> Attribution:
        """Attributions for every person of a table, or every point of an array.

        Parameters
        ----------
        model : a wrapped model, with people as a table; or a Score or a function of points (n, d) -> (n,), with points.
        background : ordinary people, for presets that remove features; in the form of `people`.
        output : explain the margin, or P(yes).
        seed : same seed, same answer.
        """
        seed = check_seed(seed)
        x, index = _points(people, model.schema if isinstance(model, Model) else None)
        question = ExplanationTask.of(model, x, background, output, seed)
        found = self._explain(question)
        return _wrap(self, question, found, index)

    def as_map(
        self, model: Model | Score | Function, *, background: Any = None, output: Output = "margin", seed: int = 0
    ) -> Callable[[Tensor], Tensor]:
        """This explainer as a map of points (n, d) -> (n, m), for audits of attribution maps."""
        seed = check_seed(seed)

        def attribute(x: Tensor) -> Tensor:
            return self._explain(ExplanationTask.of(model, as_points(x), background, output, seed)).fit.slope

        return attribute


def _points(people: Any, schema: Schema | None) -> tuple[Tensor, pd.Index]:
    if schema is None and not isinstance(people, pd.DataFrame):
        x = as_points(people)
        return x, pd.RangeIndex(len(x))
    frame = as_frame(people)
    if frame.index.has_duplicates:
        raise ExplainError("two people share an index label.", hint="people.reset_index(drop=True)")
    return (as_points(frame.to_numpy()) if schema is None else schema.encode(frame)), frame.index


def _wrap(explainer: Explainer, question: ExplanationTask, found: Explained, index: pd.Index) -> Attribution:
    fit, names = found.fit, list(found.names)
    score = question.score
    errors = None if fit.error is None else pd.DataFrame(known_errors(fit.error), index=index, columns=names)
    asked = score.asked  # before the output
    return Attribution(
        values=pd.DataFrame(fit.slope.numpy(), index=index, columns=names),
        errors=errors,
        base=None if found.base is None else pd.Series(found.base.numpy(), index=index, name="base"),
        output=pd.Series(score.values(question.x).numpy(), index=index, name="output"),
        kind=explainer.kind,
        space=explainer.space,
        score=score.title,
        made_by=repr(explainer),
        exact=fit.exact,
        asked=asked,
        seed=question.seed if found.drawn and not fit.exact else None,
        notes=found.notes,
        unit=explainer.unit(question),
    )


def known_errors(error: Tensor) -> np.ndarray:
    """Standard errors as they are told: NaN stands for unknown ones."""
    return torch.where(torch.isfinite(error), error, torch.nan).numpy()
