"""What is known of libraries of models, one file each. `ALL` is the one list of them that everything else reads."""

from __future__ import annotations

from typing import Any

from turnabout.models.libraries.catboost import CatBoost
from turnabout.models.libraries.imbalanced_learn import ImbalancedLearn
from turnabout.models.libraries.library import Library
from turnabout.models.libraries.lightgbm import LightGBM
from turnabout.models.libraries.raw_forest import RawForest
from turnabout.models.libraries.scikit_learn import ScikitLearn
from turnabout.models.libraries.torch import Skorch, Torch
from turnabout.models.libraries.xgboost import XGBoost

__all__ = ["ALL", "UNKNOWN", "Library", "class_library", "library_of", "read_forest", "recognise"]

ALL: tuple[Library, ...] = (
    ScikitLearn(),
    ImbalancedLearn(),
    XGBoost(),
    LightGBM(),
    CatBoost(),
    Torch(),
    Skorch(),
)


class Unknown(Library):
    """Any other library; its classes that have the name of a known one are taken to be made like that."""

    runs_own_code = True
    log_odds = frozenset[str]().union(*(library.log_odds for library in ALL))

    def has_log_odds(self, name: str, final: Any) -> bool:
        return any(library.has_log_odds(name, final) for library in ALL)

    def has_sign(self, name: str) -> bool:
        return any(library.has_sign(name) for library in ALL)


UNKNOWN = Unknown()
_BY_NAME = {library.name: library for library in ALL}


def class_library(cls: type) -> Library:
    """The library that defines a class."""
    library = _BY_NAME.get(cls.__module__.split(".")[0], UNKNOWN)
    return UNKNOWN if cls.__module__ in library.mixins else library


def recognise(estimator: object) -> tuple[Library, str]:
    """The library that an estimator's class comes from or derives from, and the name of that class in it."""
    for base in type(estimator).__mro__:
        if (library := class_library(base)) is not UNKNOWN:
            return library, base.__name__
    return UNKNOWN, type(estimator).__name__


def library_of(estimator: object) -> Library:
    """The library that an estimator's class comes from or derives from."""
    return recognise(estimator)[0]


def read_forest(estimator: object) -> RawForest | None:
    """Splits and leaves of a fitted tree ensemble; None when the estimator is no tree ensemble known here.

    Each library compares in its own arithmetic: scikit-learn's trees and XGBoost first round an input to float32, the
    histogram boosters compare doubles, XGBoost tests ``<`` where the others test ``<=``. Rounding is monotone, so every
    one of these tests equals ``v <= cut`` on doubles for exactly one double ``cut``, and that cut is what is kept.

    Raises
    ------
    NotCompilable : the family is known, but this member of it cannot be written as formula (1) of `RawForest`;
        ``reason`` says why.
    """
    for base in type(estimator).__mro__:
        if (reader := class_library(base).trees.get(base.__name__)) is not None:
            return reader(estimator)
    return None
