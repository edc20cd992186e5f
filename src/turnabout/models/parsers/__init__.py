"""Read fitted tree ensembles of scikit-learn, XGBoost and LightGBM into explicit splits with exact thresholds.

Each library compares in its own arithmetic: scikit-learn's trees and XGBoost first round an input to float32, the
histogram boosters compare doubles, XGBoost tests ``<`` where the others test ``<=``. Rounding is monotone, so every
one of these tests equals ``v <= cut`` on doubles for exactly one double ``cut``, and that cut is what is kept here.

The libraries are recognised by the names of their classes and never imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnabout.models.parsers.hist_boosting import read_hist_boosting
from turnabout.models.parsers.lightgbm import read_lightgbm
from turnabout.models.parsers.raw import NotCompilable, RawForest
from turnabout.models.parsers.sklearn import read_boosting, read_trees
from turnabout.models.parsers.xgboost import read_xgboost

__all__ = ["parse"]


def parse(estimator: object) -> RawForest | None:
    """Splits and leaves of a fitted tree ensemble; None when the estimator is no tree ensemble known here.

    Known: scikit-learn's decision trees, random forests, extra trees, gradient boosting and histogram gradient
    boosting; XGBoost's and LightGBM's scikit-learn estimators; classifiers and regressors of each.

    Raises
    ------
    NotCompilable : the family is known, but this member of it cannot be written as formula (1) of `RawForest`;
        ``reason`` says why.
    """
    for base in type(estimator).__mro__:
        reader = _READERS.get((base.__module__.split(".")[0], base.__name__))
        if reader is not None:
            return reader(estimator)
    return None


def _refuse_catboost(estimator: Any) -> RawForest:
    raise NotCompilable(f"the trees of {type(estimator).__name__} (CatBoost) are not read yet.")


_READERS: dict[tuple[str, str], Callable[[Any], RawForest]] = {
    **{
        ("sklearn", family + kind): reader
        for kind in ("Classifier", "Regressor")
        for family, reader in (
            ("DecisionTree", read_trees),
            ("ExtraTree", read_trees),
            ("RandomForest", read_trees),
            ("ExtraTrees", read_trees),
            ("GradientBoosting", read_boosting),
            ("HistGradientBoosting", read_hist_boosting),
        )
    },
    ("xgboost", "XGBClassifier"): read_xgboost,
    ("xgboost", "XGBRegressor"): read_xgboost,
    ("lightgbm", "LGBMClassifier"): read_lightgbm,
    ("lightgbm", "LGBMRegressor"): read_lightgbm,
    ("catboost", "CatBoostClassifier"): _refuse_catboost,
    ("catboost", "CatBoostRegressor"): _refuse_catboost,
}
