"""Recipe: what one data set is made of and how its files become people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.schema import Schema

Reader = Callable[..., tuple[pd.DataFrame, pd.Series]]


Advice = Mapping[str, Mapping[str, Any]]  # of columns: fields of their features


@dataclass(frozen=True)
class DatasetRecipe:
    """How to make one Dataset.

    Parameters
    ----------
    name, about, protected : as in Dataset.
    licence : in a few words.
    rows, accepted : how many people there are and how many have the favourable outcome; tests hold them true.
    sources : the files, none if the data are part of the package.
    read : content of the files, in order -> (people, accepted).
    schema : makes the reviewed schema.
    advice : what a careful officer would say beyond the schema, column by column: directions, steps, reach.
    defect : what is wrong with the file, empty for clean data sets; loading such a set warns.
    fingerprint : checksum of the values, for publishers whose bytes differ from the reviewed file.
    """

    name: str
    licence: str
    about: str
    rows: int
    accepted: int
    sources: tuple[SourceFile, ...]
    read: Reader
    schema: Callable[[], Schema]
    protected: tuple[str, ...] = ()
    defect: str = ""
    fingerprint: str = ""
    advice: Advice = field(default_factory=dict)


def advised(schema: Schema, advice: Advice) -> Schema:
    """The schema with what a careful officer would say of each feature: directions, steps, least changes, reach."""
    assert set(advice) <= set(schema.names)
    return Schema(tuple(replace(f, **advice.get(f.name, {})) for f in schema))  # type: ignore[type-var]
