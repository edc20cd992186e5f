"""Recipe: what one data set is made of and how its files become people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.schema import Schema

Reader = Callable[..., tuple[pd.DataFrame, pd.Series]]


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
