"""Schema: the ordered features of a table, and the way into and out of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from turnabout.documents import Saved, reads
from turnabout.errors import SchemaError, also
from turnabout.markup import block
from turnabout.schema.feature_kinds import feature_from
from turnabout.schema.features import Feature
from turnabout.schema.identities import Derived, Identities
from turnabout.schema.in_words import moves_of, reaches_of, summary_of
from turnabout.schema.levels import Category
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough
from turnabout.schema.projection import Projection
from turnabout.schema.put import put, retype
from turnabout.schema.reading import Reading
from turnabout.schema.schema_file import check_there
from turnabout.schema.table import as_frame
from turnabout.typing import Json, Tensor

VERSION = 1


@dataclass(frozen=True)
class Schema(Saved):
    """What values exist: an ordered tuple of features.

    A schema encodes a table as a tensor x (n, d) in [0, 1], knows what each person may reach from their row, and
    writes a tensor back as the rows a person would read. It knows no model.

    Parameters
    ----------
    features : the columns, in the order in which they are encoded. Other columns of a table are ignored.
    notes : what was guessed when the schema was inferred; for the reader, not for the machine.
    derived : features that follow from others by structural equations, filled in by the problem that has them. The
        bounds of a number limit what a person may choose, not what follows.
    """

    features: tuple[Feature, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    derived: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    error = SchemaError
    invalid = "the schema is not valid"
    unreadable = "save the schema as UTF-8 text."

    def __post_init__(self) -> None:
        if isinstance(self.features, Feature) or not isinstance(self.features, Iterable):
            raise SchemaError(
                f"a schema is made of a list of features, not of {type(self.features).__name__}.",
                hint="write Schema([Number('income', low=0, high=100), ...]); Schema.infer(table) drafts one.",
            )
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise SchemaError("a schema needs at least one feature.", hint="Schema.infer(table) drafts one.")
        for feature in self.features:
            if not isinstance(feature, Feature):
                raise SchemaError(f"{feature!r} is not a feature.", hint="use Number, Binary, Ordinal or Category.")
        if twice := [n for i, n in enumerate(self.names) if n in self.names[:i]]:
            raise SchemaError(f"two features are named '{twice[0]}'.", hint="every feature needs a name of its own.")
        self.fill(torch.zeros(1, self.d, dtype=torch.float64))  # refuses formulas that have no value

    # -- the layout -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise also(SchemaError, KeyError)(
            f"the schema has no feature '{name}'.", hint=f"its features are {', '.join(self.names)}."
        )

    def __getstate__(self) -> tuple[Any, ...]:
        return self.features, self.notes, self.derived  # leave the cached tensors behind

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        object.__setattr__(self, "features", state[0])
        object.__setattr__(self, "notes", state[1])
        object.__setattr__(self, "derived", frozenset(state[2:] and state[2]))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def d(self) -> int:
        """Number of encoded columns."""
        return len(self.columns)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Encoded columns of each feature, the missing indicator last."""
        ends = np.cumsum([feature.width for feature in self.features])
        return tuple(slice(int(end) - f.width, int(end)) for f, end in zip(self.features, ends, strict=True))

    @cached_property
    def feature_of(self) -> Tensor:
        """(d,) index of the feature to which each encoded column belongs."""
        return torch.repeat_interleave(torch.tensor([feature.width for feature in self.features]))

    @cached_property
    def missing_column(self) -> Tensor:
        """(d,) encoded column of the missing indicator of each column's feature, or -1."""
        last = [s.stop - 1 if f.missing else -1 for f, s in zip(self.features, self.slices, strict=True)]
        return torch.tensor(last)[self.feature_of]

    def plain(self) -> Schema:
        """The same schema without useful steps, least changes and reach: every legal value may be chosen."""
        return replace(self, features=tuple(feature.plain() for feature in self.features))

    def nearer(self) -> list[Schema]:
        """The schema within what people usually do, turn by turn, each wider than the one before; without itself."""
        turns = range(max((feature.turns for feature in self.features), default=0))
        return [replace(self, features=tuple(f.near(turn) for f in self.features)) for turn in turns]

    def encodes_like(self, other: Schema) -> bool:
        """Whether both read and write tables alike; directions, names and choices may differ."""
        return [feature.encoding() for feature in self.features] == [feature.encoding() for feature in other.features]

    @cached_property
    def identities(self) -> Identities:
        """The columns that are computed from others."""
        return Identities(self.features, self.slices)

    def fill(self, x: Tensor) -> Tensor:
        """(..., d) -> the same rows with every derived column computed anew."""
        return self.identities.fill(x)

    def index(self, name: str) -> int:
        """Position of a feature."""
        self[name]
        return self.names.index(name)

    def with_derived(self, names: Collection[str]) -> Schema:
        """The same schema, which also knows that these features follow from others."""
        return self if self.derived >= set(names) else replace(self, derived=self.derived | set(names))

    # -- tables and tensors -----------------------------------------------------------------------------------

    def table(self, people: Any) -> pd.DataFrame:
        """The schema's columns of a table, in the schema's order; refuses what has not all of them."""
        frame = as_frame(people)
        if absent := [name for name in self.names if name not in frame.columns]:
            raise SchemaError(
                f"the table has no column '{absent[0]}'" + (f" (nor {len(absent) - 1} more)." if absent[1:] else "."),
                hint=f"the schema needs {', '.join(self.names)}; the table has {', '.join(map(str, frame.columns))}.",
            )
        if doubled := frame.columns[frame.columns.duplicated()].intersection(list(self.names)).tolist():
            raise SchemaError(f"the table has more than one column '{doubled[0]}'.", hint="keep one of them.")
        frame = frame.loc[:, list(self.names)]
        narrow = [name for name, dtype in frame.dtypes.items() if dtype == np.float16]
        return frame.astype(dict.fromkeys(narrow, np.float64)) if narrow else frame  # few models bear half precision

    def encode(self, people: Any) -> Tensor:
        """Table -> x (n, d) float64; a SchemaError names the first value that does not fit."""
        frame = self.table(people)
        return torch.from_numpy(np.hstack([f.encode(frame[f.name]) for f in self.features]))

    def read(self, people: Any) -> Reading:
        """Table -> its encoding and which cells could not be read; does not raise because of a cell."""
        frame = self.table(people)
        parts, unreadable = zip(*(f.read(frame[f.name]) for f in self.features), strict=True)
        return Reading(self, frame, torch.from_numpy(np.hstack(parts)), np.column_stack(unreadable))

    def decode(self, x: Tensor, like: pd.DataFrame | None = None) -> pd.DataFrame:
        """x (n, d) -> the nearest table of legitimate values.

        With `like`, a table of the schema's columns, the columns have its types and its mark of a missing cell, and
        those of which nothing is read hold the cell of its first row.
        """
        array = x.detach().to("cpu", torch.float64).numpy()
        columns: dict[str, Any] = {f.name: f.decode(array[:, s]) for f, s in self._parts()}
        if like is None:
            return pd.DataFrame(columns)
        for feature in self.features:
            name = feature.name
            if isinstance(feature, Passthrough) and len(like):
                columns[name] = like[name].iloc[np.zeros(len(array), dtype=int)].reset_index(drop=True)
            else:
                columns[name] = retype(columns[name], like[name])
        return pd.DataFrame(columns)

    def write(self, people: pd.DataFrame, x: Tensor, x_new: Tensor) -> pd.DataFrame:
        """The rows as printed: changed cells in the person's units, all others copied from their own row."""
        own = self.table(people)
        changed = self.changed(x, x_new).cpu().numpy()
        array = x_new.detach().to("cpu", torch.float64).numpy()
        columns: dict[str, Any] = {}
        for j, (feature, s) in enumerate(self._parts()):
            where = changed[:, j]
            column = own[feature.name]
            columns[feature.name] = put(column, where, feature.decode(array[where, s])) if where.any() else column
        return self.identities.write(own, pd.DataFrame(columns, index=own.index), changed)

    def breaches(self, people: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
        """(n, F) True where a printed cell breaks its feature's constraints; reads raw values, not tensors."""
        own, new = self.table(people), self.table(rows)
        out = []
        for f in self.features:
            if isinstance(f, Derived):
                out.append(self.identities.breaches(f, own, new))
                continue
            loose = {"derived": True} if isinstance(f, Number) and f.name in self.derived else {}
            out.append(f.breaches(own[f.name], new[f.name], **loose))
        return np.column_stack(out)

    # -- what a person may do ---------------------------------------------------------------------------------

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., d) -> lowest and highest encoded values each person may reach, (..., d) each."""
        return self._projection(x).bounds(x)

    def relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Continuous projection of x_new (..., d) onto what each person may do; x broadcasts."""
        return self._projection(x).relax(x, x_new)

    def snap(self, x: Tensor, x_new: Tensor, outward: bool = False) -> Tensor:
        """Exact projection: each cell is the person's own or a legal new one.

        With `outward`, numbers round away from the person's own value and a category switches already at half
        its weight: more likely to stay accepted, at a slightly higher cost.
        """
        return self._projection(x).snap(x, x_new, outward)

    def snap_cells(self, x: Tensor, x_new: Tensor, columns: Tensor) -> Tensor:
        """Snap one scalar cell of each row: own and new encoded values (m,), and their encoded columns (m,)."""
        return self._projection(x).snap_cells(x, x_new, columns)

    def missing(self, x: Tensor) -> Tensor:
        """(..., d) True where a cell is missing."""
        return self._projection(x).stuck(x)

    def changed(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., F) True where a feature differs from the person's own."""
        return self._projection(x).changed(x, x_new)

    @cached_property
    def _projections(self) -> dict[torch.device, Projection]:
        return {}

    def _projection(self, x: Tensor) -> Projection:
        if x.device not in self._projections:
            self._projections[x.device] = Projection.of(self.features, self.derived).to(x.device)
        return self._projections[x.device]

    def distance(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., F) change of each feature: |dx| of a scalar, 1 for a switch of category."""
        return (x_new - x).abs() @ self.gather.to(x_new.device, x_new.dtype)

    @cached_property
    def gather(self) -> Tensor:
        """(d, F) matrix that sums absolute changes of encoded columns into feature distances."""
        out = torch.zeros(self.d, len(self), dtype=torch.float64)
        for j, (feature, s) in enumerate(self._parts()):
            out[s.start : s.start + len(feature.value_columns), j] = 0.5 if isinstance(feature, Category) else 1.0
        return out

    def _parts(self) -> Iterator[tuple[Feature, slice]]:
        return zip(self.features, self.slices, strict=True)

    def warn_outside(self, x: Tensor) -> None:
        """Say once for each number that people hold values outside the bounds that plans keep to."""
        for feature, s in self._parts():
            if not isinstance(feature, Number) or feature.moves == "fixed" or not len(x):
                continue
            if feature.name in self.derived:
                continue
            v = x[:, s.start]
            if v.min() < -1e-9 or v.max() > 1 + 1e-9:
                worst = feature.units(v.min() if v.min() < -1e-9 else v.max()).item()
                warnings.warn(
                    f"column '{feature.name}' holds {worst:g}, outside [{feature.low:g}, {feature.high:g}]: such "
                    "people are kept as they are, but plans only use values inside. Hint: widen the bounds.",
                    stacklevel=3,
                )

    # -- files ------------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Plain data: {"turnabout_schema": 1, "features": [...]}."""
        out: Json = {"turnabout_schema": VERSION, "features": [feature.to_dict() for feature in self.features]}
        return out | ({"notes": list(self.notes)} if self.notes else {})

    @classmethod
    @reads("the schema", SchemaError, "compare with Schema.to_yaml(), or with what `turnabout schema infer` writes.")
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of to_dict; names what is wrong with a document that is no schema."""
        if not isinstance(document, Mapping) or not isinstance(document.get("features"), (list, tuple)):
            raise SchemaError(
                "this is not a schema: it has no list 'features'.",
                hint="see `turnabout schema infer` for one that is, or Schema.to_yaml().",
            )
        if (version := document.get("turnabout_schema", VERSION)) != VERSION:
            raise SchemaError(
                f"schema version {version!r} is not known.", hint=f"this release reads version {VERSION}."
            )
        notes = document.get("notes") or ()
        return cls(tuple(feature_from(entry) for entry in document["features"]), tuple(map(str, notes)))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what save wrote; of a file that also says rules, a cost or limits (`ProblemFile`) the features alone."""
        check_there(path)
        return super().load(path)

    @classmethod
    def infer(
        cls,
        table: Any,
        *,
        immutable: Any = (),
        increasing: Any = (),
        decreasing: Any = (),
        categorical: Any = (),
        ordinal: Mapping[str, Any] | None = None,
        ignore: Any = (),
        units: Mapping[str, str] | None = None,
        titles: Mapping[str, str] | None = None,
        free: Any = (),
        labels: Any = None,
    ) -> Schema:
        """Draft a schema from a table; `notes` says what was guessed, and why. Review it before anyone reads a plan.

        What law or nature fixes, what only time or others change and what has happened is fixed, by the words in its
        name; debts do not rise, income does not fall; with `labels`, nothing goes against what is plainly good.
        Columns that are computed from others are found. Numbers get useful steps, changes worth making and a reach.

        Parameters
        ----------
        immutable, increasing, decreasing, free : columns whose direction you know; you have the last word.
        categorical, ordinal : columns of numbers that are levels; levels from low to high, by column.
        ignore : columns that are no features.
        units, titles : by column.  labels : for each row, whether the person was accepted, or fared well.
        """
        from turnabout.schema.infer import by_name, columns_named, draft

        return draft(
            as_frame(table),
            immutable=columns_named("immutable", immutable),
            increasing=columns_named("increasing", increasing),
            decreasing=columns_named("decreasing", decreasing),
            categorical=columns_named("categorical", categorical),
            ordinal=by_name("ordinal", ordinal),
            ignore=columns_named("ignore", ignore),
            units=by_name("units", units),
            titles=by_name("titles", titles),
            free=columns_named("free", free),
            labels=labels,
        )

    def _repr_html_(self) -> str:
        return block(f"Schema of {len(self)} features", self.summary())

    def reaches(self) -> list[str]:
        """What limits the choice of each feature that may move, in words: steps, least change, reach."""
        return reaches_of(self.features)

    def what_moves(self) -> str:
        """The features that a plan may change, with their directions, in one line."""
        return moves_of(self.features)

    def summary(self) -> pd.DataFrame:
        """One line per feature, for a person to review."""
        return summary_of(self.features)
