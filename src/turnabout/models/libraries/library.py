"""What there is to know about a library of models; defaults say that nothing special is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pandas as pd

from turnabout.models.forms import Layers
from turnabout.models.libraries.raw_forest import RawForest
from turnabout.schema import Schema

Types = dict[str, pd.CategoricalDtype]
"""By column, the pandas categorical that it must arrive as."""
Readers = Mapping[str, Callable[[Any], RawForest]]
"""By name of a class, what reads the trees of its instances."""


class Library:
    """A library, recognised by the names of its module and classes; it is never imported.

    A subclass, in a file of its own, says where a library differs from these defaults; `ALL` in
    `turnabout.models.libraries` lists one object of each.
    """

    name: str = ""
    """Its top module."""
    mixins: frozenset[str] = frozenset()
    """Modules whose classes others derive from, and which tell nothing of what a class does."""
    single_precision: bool = False
    """Whether it computes in float32."""
    runs_own_code: bool = False
    """Whether its classes run code of the user, so that the name of a class does not tell what it does."""
    log_odds: frozenset[str] = frozenset()
    """Classifiers whose probabilities are the logistic function of a score, whatever their parameters."""
    bare: ClassVar[Mapping[str, str]] = {}
    """Classes that do not say what their columns and classes are, and the class to use instead."""
    trees: ClassVar[Readers] = {}
    """What reads the trees of a class."""
    codes_matter: bool = False
    """Whether a cell that is no category of training is taken for another one, by its code."""

    def is_logistic(self, name: str, final: Any) -> bool:
        """Whether probabilities are the logistic function of a score, so that margins are counted in log-odds."""
        return name in self.log_odds or getattr(final, "loss", "") == "log_loss"

    def has_log_odds(self, name: str, final: Any) -> bool:
        """Whether decision_function gives log-odds, and predict follows their sign."""
        return False

    def has_sign(self, name: str) -> bool:
        """Whether predict follows the sign of decision_function, and not the probabilities."""
        return False

    def is_fitted(self, estimator: Any) -> bool:
        """What an estimator says of itself, or else scikit-learn of it; raises what these raise."""
        if callable(fitted := getattr(estimator, "__sklearn_is_fitted__", None)):
            return bool(fitted())
        if hasattr(estimator, "is_fitted"):
            return bool(estimator.is_fitted())
        if hasattr(estimator, "get_params"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(estimator)
        return True

    def layers(self, name: str, final: Any) -> tuple[Layers, str] | None:
        """Weights (out, in) and biases of a linear model or a net, and the activation between; None for others."""
        return None

    def column_names(self, estimator: Any) -> tuple[str, ...] | None:
        """The columns that an estimator was fitted on; None where it does not know their names."""
        names = getattr(estimator, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def own_name(self, name: str, schema: Schema) -> str:
        """The schema's name of a column of training."""
        return name

    def categories(
        self, final: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None, given: Types
    ) -> Types | None:
        """The categoricals that a bare estimator was trained on, beside those given by the background.

        None where it holds none of its own, so that the estimators inside it are asked.
        """
        return None

    def held_categories(
        self, part: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None
    ) -> Types:
        """The same of an estimator inside another one, which may have renamed its columns."""
        return {}

    def splits_codes(self, final: Any) -> bool:
        """Whether its trees know categories by number only."""
        return False

    def is_stranger(self, transform: Any) -> bool:
        """Whether a transform does what only its own code tells."""
        return self.runs_own_code
