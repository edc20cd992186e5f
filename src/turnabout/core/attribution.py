"""The answer to "why": a number for each feature, frozen, without a model; JSON both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from turnabout.core.validation import check_document
from turnabout.documents import Document, Versioned, shown
from turnabout.errors import TurnaboutError, also
from turnabout.markup import block
from turnabout.parameters import Whole, checked
from turnabout.typing import Json

Kind = Literal["contribution", "slope", "direction"]
Space = Literal["input", "concept"]

TABLES = ("values", "errors", "base", "output")


@dataclass(frozen=True, eq=False)
class Pixels(Document):
    """Where the concepts of an image lie: segments (height, width), whole numbers from 0, one for each concept."""

    segments: np.ndarray

    kind = "Pixels"
    keys = "kind segments"

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return super().to_dict() | {"segments": self.segments.astype(int).tolist()}


@dataclass(frozen=True)
class ConceptSpans(Document):
    """Where the concepts of a text lie: (start, end, concept) of every occurrence, in the order of the text."""

    text: str
    spans: tuple[tuple[int, int, int], ...]

    kind = "ConceptSpans"
    keys = "kind text spans"


Layout = Pixels | ConceptSpans


@dataclass(frozen=True, eq=False)
class Attribution(Versioned):
    """One number for each person and feature (or concept), and how it was come by.

    What the numbers are is told by `kind`:

    contribution : how much higher (or, below 0, lower) the score is with the feature as it is than with it removed, or
        at a baseline, as the method counts it. Only these lower or raise a score.
    slope : how much the score rises with a unit of the feature, around the person. A slope below 0 does not say
        that the feature lowers their score: it is about what a change would do, not about what they have.
    direction : where to move. Only directions come from counterfactuals.

    Contributions and slopes are those of a score smoothed by the perturbation that was used. They are no distance to
    the boundary, and not what the person should do.

    Attributes
    ----------
    values : index person, one column per feature or concept.
    errors : standard errors of random draws, of the same shape, NaN where one is not known; None where there are
        none: the values are exact, or they err by something else (the nodes of an integral, a finite difference).
    base : the score with every concept removed or at the baseline, or the intercept; None where the method has none.
    output : the score that is explained, at the person's own row; None for directions.
    kind : contribution, slope or direction.
    space : "input" (encoded columns, whose unit is the feature's whole range) or "concept" (features kept or removed).
    score : what was explained: "margin (log-odds)".
    made_by : the method, with its parameters.
    exact : whether a longer computation against the same background rows would change nothing but rounding. Other
        rows would change the values: notes say which were used.
    asked : rows put to the model to find the values; the person's own row, for `output`, is not counted on its own.
    seed : of the random draws; None where there were none.
    notes : what a reader must know.
    layout : where the concepts lie in an image or a text.
    unit : of slopes, what they are per: "per whole range of a feature".
    """

    values: pd.DataFrame
    errors: pd.DataFrame | None
    base: pd.Series | None
    output: pd.Series | None
    kind: Kind
    space: Space
    score: str
    made_by: str
    exact: bool
    asked: int
    seed: int | None
    notes: tuple[str, ...] = ()
    layout: Layout | None = None
    unit: str | None = None

    mark = "turnabout_attribution"
    title = "an attribution"
    keys = "values output errors base kind space score made_by exact asked seed notes layout unit"
    later = "unit"

    def __post_init__(self) -> None:
        _check_kind(self.kind)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"{self.asked} rows asked"
        return f"Attribution({len(self)} x {self.values.shape[1]} {self.kind}s of {self.score}; {how}; {self.made_by})"

    def _repr_html_(self) -> str:
        return block(repr(self), self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attribution) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    @property
    def names(self) -> list[str]:
        """The features or concepts."""
        return list(self.values.columns)

    @property
    def gap(self) -> pd.Series | None:
        """What the values leave of the score: output - base - sum of the values; None without a base."""
        if self.base is None or self.output is None:
            return None
        return self.output - self.base - self.values.sum(axis=1)

    def of(self, person: Any) -> pd.DataFrame:
        """One person's features: value, and error where there is one; the largest in size first."""
        if person not in self.values.index:
            raise also(TurnaboutError, KeyError)(
                f"there is no person {person!r} in this attribution.", hint="use a label of attribution.values.index."
            )
        table = pd.DataFrame({"value": self.values.loc[person]})
        if self.errors is not None:
            table["error"] = self.errors.loc[person]
        order = np.argsort(-table["value"].abs().to_numpy(), kind="stable")
        return table.iloc[order].rename_axis("feature")

    @checked(TurnaboutError, k=Whole(1))
    def top(self, k: int = 4) -> pd.DataFrame:
        """The k features of largest size for each person, first to last: index person, columns 1 to k."""
        order = np.argsort(-self.values.abs().to_numpy(), axis=1, kind="stable")[:, :k]
        names = np.asarray(self.names, dtype=object)[order]
        return pd.DataFrame(names, index=self.values.index, columns=range(1, names.shape[1] + 1))

    def grouped(self, parts: Mapping[str, Sequence[str]]) -> Attribution:
        """Values added up within parts: feature -> its columns. Errors are added as if they pulled together; the
        error of a part is not known where that of one of its columns is not.
        """
        columns = [column for part in parts.values() for column in part]
        if sorted(columns) != sorted(self.names):
            raise TurnaboutError("the parts do not hold every column once.", hint=f"the columns are {self.names}.")
        added = {part: self.values[list(own)].sum(axis=1) for part, own in parts.items()}
        errors = None
        if self.errors is not None:
            errors = pd.DataFrame(
                {part: self.errors[list(own)].sum(axis=1, skipna=False) for part, own in parts.items()}
            )
        return replace(self, values=pd.DataFrame(added, index=self.values.index), errors=errors)

    @classmethod
    def _check(cls, document: Json) -> None:
        if "kind" in document:
            _check_kind(document["kind"])
        check_document(document, "attribution", "this attribution")

    @classmethod
    def _read(cls, document: Json) -> Self:
        told = super()._read(document)
        tables = {name: table for name in TABLES if (table := getattr(told, name)) is not None}
        if document.get("labels") == "datetime":  # of releases that wrote no types of labels
            dated = {name: t.set_axis(pd.to_datetime(t.index, format="ISO8601")) for name, t in tables.items()}
            return replace(told, **dated)._fits()
        return told._fits()

    def _fits(self) -> Self:
        """Refuse tables of a document that do not belong together."""
        for name in TABLES[1:]:
            table = getattr(self, name)
            if table is not None and not table.index.equals(self.values.index):
                raise ValueError(f"'{name}' are not of the people of 'values'")
        if self.errors is not None and not self.errors.columns.equals(self.values.columns):
            raise ValueError("'errors' are not of the columns of 'values'")
        return self


def _check_kind(kind: object) -> None:
    if kind not in get_args(Kind):
        raise TurnaboutError(
            f"kind={shown(kind)} is no kind of attribution.", hint=f"use one of {', '.join(get_args(Kind))}."
        )
