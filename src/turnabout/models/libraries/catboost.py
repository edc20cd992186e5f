"""CatBoost, which computes in float32 and keeps the names of its columns under a name of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from turnabout.models.libraries.library import Library, Readers
from turnabout.models.libraries.raw_forest import NotCompilable, RawForest


def _refuse(estimator: Any) -> RawForest:
    raise NotCompilable(f"the trees of {type(estimator).__name__} (CatBoost) are not read yet.")


class CatBoost(Library):
    """Its classifiers are asked; their trees are not read yet."""

    name = "catboost"
    single_precision = True
    log_odds = frozenset({"CatBoostClassifier"})
    trees: ClassVar[Readers] = {"CatBoostClassifier": _refuse, "CatBoostRegressor": _refuse}

    def column_names(self, estimator: Any) -> tuple[str, ...] | None:
        if (names := super().column_names(estimator)) is not None:
            return names
        own = getattr(estimator, "feature_names_", None)
        return None if own is None or all(str(name).isdigit() for name in own) else tuple(map(str, own))
