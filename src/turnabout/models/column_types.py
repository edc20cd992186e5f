"""Columns of a table in the types that a model can take: categoricals as in training, and plain types of NumPy.

Boosters split on the codes of categories, so a column with the right names in another order is another column. The
names are the user's: they come from the background's column types, and are checked against what the booster keeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.libraries import library_of
from turnabout.models.libraries.inside import fitted_parts
from turnabout.models.libraries.library import Types
from turnabout.schema import Schema
from turnabout.schema.put import retype
from turnabout.schema.raw_cells import is_missing

T = TypeVar("T")


def categorical_dtypes(table: pd.DataFrame | None, names: Iterable[str]) -> Types:
    """The pandas categoricals among some columns of a table."""
    if table is None:
        return {}
    found = {name: table[name].dtype for name in names if name in table.columns}
    return {name: dtype for name, dtype in found.items() if isinstance(dtype, pd.CategoricalDtype)}


def is_same_type(dtype: Any, wanted: pd.CategoricalDtype) -> bool:
    """Whether a column type is this categorical, the order of its categories included; to pandas that is all one."""
    if not isinstance(dtype, pd.CategoricalDtype) or dtype.ordered != wanted.ordered:
        return False
    return dtype.categories.dtype == wanted.categories.dtype and dtype.categories.equals(wanted.categories)


def as_category(column: pd.Series, dtype: pd.CategoricalDtype) -> pd.Series:
    """A column with its cells as they are and this type; cells that are no category of it get one at the end."""
    if is_same_type(column.dtype, dtype):
        return column
    if strange := unknown_cells(column, dtype):
        dtype = pd.CategoricalDtype([*dtype.categories.tolist(), *strange], dtype.ordered)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.set_categories(dtype.categories, ordered=dtype.ordered)
    return column.astype(dtype)


def unknown_cells(column: pd.Series, dtype: pd.CategoricalDtype) -> list[Hashable]:
    """The different cells of a column, missing ones left out, that are no category of a type."""
    known = set(dtype.categories.tolist())
    return [cell for cell in column.dropna().unique().tolist() if cell not in known]


def training_types(
    inner: Any, final: Any, bare: bool, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None
) -> tuple[Types, bool]:
    """Columns that must arrive as categoricals, and whether their codes matter.

    bare : whether the final estimator is handed the columns as they are; others may hold estimators that are.
    """
    given = categorical_dtypes(background, names)
    library = library_of(final)
    if bare and (own := library.categories(final, schema, names, background, given)) is not None:
        return given | own, library.codes_matter
    held: Types = {}
    for part in fitted_parts(final if bare else inner):
        held |= library_of(part).held_categories(part, schema, names, background)
    return given | held, bool(held)


def call_failed(error: Exception, rows: int) -> ModelError:
    """The error to raise from `error` when the original could not answer."""
    return ModelError(
        f"the model raised {type(error).__name__} when asked about {rows} row(s): {error}",
        hint="wrap the model on raw columns as it was fitted (put the preprocessing into a Pipeline), and check that "
        "the schema's levels, types and missing values are those it knows.",
    )


def _gaps(frame: pd.DataFrame, names: list[Any]) -> np.ndarray:
    """(n,) rows with a missing cell in some columns."""
    return np.asarray(frame[names].isna().to_numpy(dtype=bool).any(1))


def _as_objects(frame: pd.DataFrame, names: Iterable[str], marks: Mapping[str, object]) -> dict[str, pd.Series]:
    """Columns that are no categoricals as objects, with these marks for their missing cells."""
    changed = {}
    for name in names:
        if not isinstance(frame[name].dtype, pd.CategoricalDtype):
            cells = frame[name].to_numpy(dtype=object, copy=True)
            cells[frame[name].isna()] = marks[name]
            changed[name] = pd.Series(cells, index=frame.index, dtype=object)
    return changed


class PlainTypes:
    """Columns in the types of NumPy, for models that cannot take those of pandas.

    Missing cells become those of the training table, NaN where it is not known. Types whose missing cells are <NA> are
    made plain at once, unless the training table has them too: encoders take such a cell alone and not among others.
    With `as_given` they are not, where the training table is not known: a function may tell <NA> from NaN. What a gap
    means to a model may depend on its type: margins are lowered to those in every type that it comes in.

    A model that cannot take plain types either is asked with objects, and their marks of missing cells, where encoders
    learned them (`encoded` holds what they learned), in the types of the training table, where that is known, with
    codes as objects, which files and tables without a background do not tell from numbers, with None for a missing
    level, which files do not tell from NaN, and with True, False and gaps as pandas' boolean.
    """

    def __init__(
        self,
        schema: Schema,
        like: pd.DataFrame | None,
        as_given: bool = False,
        encoded: Mapping[str, np.ndarray] = MappingProxyType({}),
    ):
        self.keeps_nullable = as_given and like is None
        self._numeric = {f.name for f in schema.features if _all_levels(f, (int, float), but=bool)}
        self._levels = {f.name for f in schema.features if hasattr(f, "levels")}
        self._named = {f.name for f in schema.features if hasattr(f, "levels") and _all_levels(f, (str, bool))}
        learned = {name: cells for name, cells in encoded.items() if cells.dtype == np.dtype(object)}
        self._learned = {name: next((c for c in cells if is_missing(c)), np.nan) for name, cells in learned.items()}
        self._marks: dict[Any, object] = {}
        self._like = like
        self._trained: dict[Any, Any] = {} if like is None else like.dtypes.to_dict()
        if like is not None:
            objects = [name for name in like.columns if like[name].dtype == np.dtype(object)]
            self._marks = {n: c for n in objects for c in like[n] if is_missing(c) and c is not pd.NA}

    def attempt(self, question: Callable[[pd.DataFrame], T], frame: pd.DataFrame) -> T:
        """What a question gives for the frame as it is, or, where that raises, for its columns in plain types."""
        frame = self._assign(frame, [n for n in frame.columns if self.makes_plain(frame[n])])
        try:
            return question(frame)
        except ModelError:
            raise
        except Exception as error:
            for change in (
                self,
                self._as_encoded,
                self._as_trained,
                self._levels_as_objects,
                self._missing_as_none,
                self._booleans,
            ):
                if (other := change(frame)) is not frame:
                    try:
                        return question(other)
                    except Exception:  # what was said of the frame as it is tells more
                        pass
            raise call_failed(error, len(frame)) from error

    def makes_plain(self, column: pd.Series) -> bool:
        """Whether a column reaches the model in another type than it is given in, whatever the model can take."""
        return not self.keeps_nullable and is_nullable(column.dtype, self._trained.get(column.name))

    def lower(self, margin: np.ndarray, ask: Callable[[pd.DataFrame], np.ndarray], frame: pd.DataFrame) -> None:
        """Lower margins (n,), in place, to those in every reading of the frame that the model can take."""
        for odd, other in self._readings(frame):
            with contextlib.suppress(Exception):  # it cannot take these types
                margin[odd] = np.fmin(margin[odd], ask(other[odd]))

    def _readings(self, frame: pd.DataFrame) -> Iterator[tuple[np.ndarray, pd.DataFrame]]:
        """Rows with a gap that may mean something else in other types, and the table in these.

        <NA> as it is given, where it is made plain; and the types and marks of training, where the table has others.
        """
        plain = [name for name in frame.columns if self.makes_plain(frame[name])]
        if (odd := _gaps(frame, plain)).any():
            yield odd, frame
        others = [name for name in frame.columns if name not in plain and self._is_unlike(frame[name])]
        if (odd := _gaps(frame, others)).any() and self._like is not None:
            retyped = {n: retype(frame[n].to_numpy(dtype=object), self._like[n]).set_axis(frame.index) for n in others}
            yield odd, frame.assign(**retyped)

    def _is_unlike(self, column: pd.Series) -> bool:
        """Whether a column has another type, or another mark of missing cells, than in training; codes stay codes."""
        if self._like is None or column.name not in self._trained or isinstance(column.dtype, pd.CategoricalDtype):
            return False
        if column.dtype != self._trained[column.name]:
            return True
        usual = next((type(cell) for cell in self._like[column.name] if is_missing(cell)), None)
        absent = column[column.isna()] if column.dtype == np.dtype(object) else ()
        return usual is not None and any(type(cell) is not usual for cell in absent)

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame itself where nothing is to be done."""
        return self._assign(frame, frame.columns)

    def _assign(self, frame: pd.DataFrame, names: Iterable[Any]) -> pd.DataFrame:
        changed = {}
        for name in names:
            column = frame[name]
            plain = self._column(name, column)
            if plain is not column:
                changed[name] = plain
        return frame.assign(**changed) if changed else frame

    def _as_trained(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame in the types of the training table, as far as its cells fit them."""
        changed = {}
        for name, wanted in self._trained.items():
            if name in frame.columns and frame[name].dtype != wanted and self._like is not None:
                column = retype(frame[name].to_numpy(dtype=object), self._like[name])
                if column.dtype == wanted:
                    changed[name] = column.set_axis(frame.index)
        return frame.assign(**changed) if changed else frame

    def _booleans(self, frame: pd.DataFrame) -> pd.DataFrame:
        objects = [name for name in frame.columns if frame[name].dtype == np.dtype(object)]
        names = [n for n in objects if all(is_missing(c) or isinstance(c, (bool, np.bool_)) for c in frame[n])]
        return frame.astype(dict.fromkeys(names, "boolean")) if names else frame

    def _levels_as_objects(self, frame: pd.DataFrame) -> pd.DataFrame:
        plain = [name for name in self._levels.intersection(frame.columns) if isinstance(frame[name].dtype, np.dtype)]
        names = [name for name in plain if frame[name].dtype.kind in "biuf"]
        return frame.astype(dict.fromkeys(names, object)) if names else frame

    def _as_encoded(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame in plain types, and as objects where encoders learned objects."""
        names = [name for name in self._learned if name in frame.columns]
        return self(frame).assign(**_as_objects(frame, names, self._learned)) if names else frame

    def _missing_as_none(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = self._levels.intersection(frame.columns[frame.isna().any()])
        changed = _as_objects(frame, names, dict.fromkeys(names))
        return frame.assign(**changed) if changed else frame

    def _column(self, name: str, column: pd.Series) -> pd.Series:
        dtype, absent = column.dtype, column.isna()
        if isinstance(dtype, pd.CategoricalDtype):
            return column
        if dtype.kind == "f" and isinstance(dtype, np.dtype):
            # nothing but missing cells in a column of words, read as numbers
            return column.astype(object) if name in self._named else column
        if isinstance(dtype, np.dtype) and dtype.kind != "O":
            return column
        if dtype.kind in "iuf" or (dtype.kind == "b" and not absent.any()):
            if dtype.kind == "f" or absent.any():
                return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
            return pd.Series(column.to_numpy(dtype=np.bool_ if dtype.kind == "b" else np.int64), index=column.index)
        if name in self._numeric:
            try:
                return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
            except (TypeError, ValueError):
                return column
        if isinstance(dtype, np.dtype) and not absent.any():
            return column
        plain_cells = column.to_numpy(dtype=object, copy=True)
        plain_cells[absent] = self._marks.get(name, np.nan)
        return pd.Series(plain_cells, index=column.index, dtype=object)


def is_nullable(dtype: Any, trained: Any = None) -> bool:
    """Whether missing cells of a column type are <NA>, and the model was not trained on a column of that type."""
    return getattr(dtype, "na_value", None) is pd.NA and dtype != trained


def _all_levels(feature: Any, types: tuple[type, ...], but: type | tuple[type, ...] = ()) -> bool:
    return all(isinstance(level, types) and not isinstance(level, but) for level in getattr(feature, "levels", ()))
