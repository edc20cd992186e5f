"""Models of every library, fitted on a training table."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from fuzz.columns import Column, Flavour
from fuzz.deciders import DOUBLE, SINGLE, Amounts, Chances, Classes, Decider, Logits, encode

HAS = {name: importlib.util.find_spec(name) is not None for name in ("xgboost", "lightgbm", "catboost", "imblearn")}
LABELS = (
    (0, 1),
    (0, 1),
    (0, 1),
    (False, True),
    ("no", "yes"),
    ("deny", "approve"),
    ("bad", "good"),
    ("A", "B"),
    (1, 2),
)
HIDDEN = 48  # wide enough that a product in single precision depends on its company


@dataclass(frozen=True)
class Training:
    """What a model is fitted on: a table, its columns, and who is accepted."""

    columns: tuple[Column, ...]
    table: pd.DataFrame
    accepted: np.ndarray
    random: Random

    @property
    def used(self) -> list[Column]:
        """Columns that a model may look at."""
        return [c for c in self.columns if c.kind != "passthrough"]

    def labels(self, plain: bool = False) -> tuple[list[Any], Any, bool]:
        """Labels, the one that is a yes, and whether the library should be told which it is."""
        no, yes = (0, 1) if plain else self.random.choice(LABELS)
        if not plain and self.random.random() < 0.15:
            no, yes = yes, no
        told = (no, yes) != (0, 1) or self.random.random() < 0.5
        return [yes if accepted else no for accepted in self.accepted], yes, told

    @property
    def seed(self) -> int:
        return self.random.randrange(10**6)


def classifier(training: Training, model: Any, title: str, plain: bool = False, **more: Any) -> Decider:
    """A classifier fitted on the table as it is."""
    labels, yes, told = training.labels(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(training.table, np.array(labels))
    threshold = None
    if hasattr(model, "predict_proba") and training.random.random() < 0.4:
        threshold = training.random.choice((0.3, 0.5, 0.6))
    arguments: dict[str, Any] = {"target": yes} if told else {}
    if threshold is not None:
        arguments["threshold"] = threshold
    return Decider(title, model, Classes(model, yes, threshold), arguments, **more)


# -- scikit-learn ------------------------------------------------------------------------------------------------------


def estimators(seed: int) -> dict[str, Callable[[], Any]]:
    """Small classifiers of scikit-learn."""
    from sklearn import discriminant_analysis as da
    from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree

    logistic = linear_model.LogisticRegression
    pair = lambda: [("a", logistic()), ("b", tree.DecisionTreeClassifier(max_depth=2, random_state=seed))]  # noqa: E731
    return {
        "LogisticRegression": lambda: logistic(C=3.0),
        "RidgeClassifier": linear_model.RidgeClassifier,
        "SGDClassifier": lambda: linear_model.SGDClassifier(loss="log_loss", max_iter=50, random_state=seed),
        "LinearSVC": lambda: svm.LinearSVC(max_iter=500, random_state=seed),
        "SVC": lambda: svm.SVC(),
        "KNeighbors": lambda: neighbors.KNeighborsClassifier(3),
        "GaussianNB": naive_bayes.GaussianNB,
        "LDA": da.LinearDiscriminantAnalysis,
        "DecisionTree": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=seed),
        "RandomForest": lambda: ensemble.RandomForestClassifier(4, max_depth=4, random_state=seed),
        "ExtraTrees": lambda: ensemble.ExtraTreesClassifier(4, max_depth=4, random_state=seed),
        "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=5, random_state=seed),
        "AdaBoost": lambda: ensemble.AdaBoostClassifier(n_estimators=4, random_state=seed),
        "Bagging": lambda: ensemble.BaggingClassifier(n_estimators=3, random_state=seed),
        "HistGradientBoosting": lambda: hist(seed),
        "MLP": lambda: neural_network.MLPClassifier((5,), max_iter=30, random_state=seed),
        "Voting": lambda: ensemble.VotingClassifier(pair(), voting="soft"),
    }


def hist(seed: int, **more: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3, random_state=seed, **more)


def pipeline(training: Training) -> Decider:
    """Preprocessing of each column, and a classifier."""
    random = training.random
    known = estimators(training.seed)
    name = random.choice([*known, "LogisticRegression", "LogisticRegression", "LogisticRegression", "MLP"])
    make = known[name]
    if HAS["imblearn"] and random.random() < 0.08:
        from imblearn.over_sampling import RandomOverSampler
        from imblearn.pipeline import make_pipeline

        model = make_pipeline(columnwise(training), RandomOverSampler(random_state=0), make())
        return classifier(training, model, f"imblearn {name}")
    from sklearn.pipeline import make_pipeline as sklearn_pipeline

    return classifier(training, sklearn_pipeline(columnwise(training), make()), f"pipeline {name}")


def columnwise(training: Training) -> Any:
    """A ColumnTransformer of scalers and encoders."""
    from sklearn.compose import ColumnTransformer

    used = training.used
    groups = {
        "whole": [c.name for c in used if c.kind == "number" and not c.missing],
        "gaps": [c.name for c in used if c.kind == "number" and c.missing],
        "levels": [c.name for c in used if c.kind != "number"],
    }
    steps = [(kind, _step(training.random, kind), names) for kind, names in groups.items() if names]
    return ColumnTransformer(steps, sparse_threshold=0.0)


def _step(random: Random, kind: str) -> Any:
    from sklearn import preprocessing as prep
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    bins = prep.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    scaler = random.choice((prep.StandardScaler(), prep.MinMaxScaler(), prep.RobustScaler(), bins))
    if kind == "whole":
        return scaler
    if kind == "gaps":
        return make_pipeline(SimpleImputer(add_indicator=random.random() < 0.3), scaler)
    codes = prep.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    hot = prep.OneHotEncoder(handle_unknown=random.choice(("ignore", "error")), sparse_output=False)
    return random.choice((hot, hot, hot, codes))


def regression(training: Training) -> Decider:
    """A regressor; a yes is an amount at least as large as most."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeRegressor

    random = training.random
    regressor = random.choice((LinearRegression(), DecisionTreeRegressor(max_depth=3, random_state=0)))
    model = make_pipeline(columnwise(training), regressor)
    amount = training.accepted * 10.0 + np.array([random.random() for _ in training.accepted])
    model.fit(training.table, amount)
    least = 5.5
    arguments = {"target_range": (least, None)}
    return Decider(f"regressor {type(regressor).__name__}", model, Amounts(model, least), arguments, files=False)


def histogram(training: Training) -> Decider:
    """HistGradientBoosting on pandas categoricals."""
    model = hist(training.seed, categorical_features="from_dtype")
    return classifier(training, model, "HistGradientBoosting categories", needs_background=True)


# -- boosted trees of other libraries ----------------------------------------------------------------------------------


def xgboost(training: Training) -> Decider:
    from xgboost import XGBClassifier

    random = training.random
    model = XGBClassifier(
        n_estimators=random.choice((2, 4)),
        max_depth=3,
        min_child_weight=0.1,
        learning_rate=0.5,
        enable_categorical=True,
        max_cat_to_onehot=random.choice((1, 4)),
        n_jobs=1,
    )
    return classifier(training, model, "XGBoost", plain=True, noise=SINGLE, needs_background=True)


def lightgbm(training: Training) -> Decider:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=4,
        min_child_samples=2,
        min_data_per_group=1,
        cat_smooth=0.1,
        max_cat_to_onehot=training.random.choice((1, 4)),
        learning_rate=0.5,
        n_jobs=1,
        verbose=-1,
    )
    return classifier(training, model, "LightGBM", needs_background=True)


def catboost(training: Training) -> Decider:
    from catboost import CatBoostClassifier

    names = [c.name for c in training.used if c.kind != "number" and c.dtype in ("object", "str", "category", "int64")]
    model = CatBoostClassifier(
        iterations=3,
        depth=3,
        learning_rate=0.5,
        cat_features=names,
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
        one_hot_max_size=training.random.choice((2, 6)),
    )
    return classifier(training, model, "CatBoost", plain=True, needs_background=True)


# -- networks and functions --------------------------------------------------------------------------------------------


def network(training: Training) -> Decider:
    """A torch module on encoded rows, with random weights and about half of the people accepted."""
    import torch
    from torch import nn

    x = torch.as_tensor(encode(training.columns, training.table))
    generator = torch.Generator().manual_seed(training.seed)
    width = training.random.choice((0, 4, 16))
    layers = [nn.Linear(x.shape[1], width), nn.ReLU(), nn.Linear(width, 1)] if width else [nn.Linear(x.shape[1], 1)]
    module = nn.Sequential(*layers).double()
    with torch.no_grad():
        for weights in module.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator, dtype=torch.float64))
        last = module[-1]
        assert isinstance(last, nn.Linear)
        last.bias -= module(x).quantile(0.6)
    single = training.random.random() < 0.6
    module = module.float().eval() if single else module.eval()
    title = f"torch {'float32' if single else 'float64'}"
    return Decider(title, module, Logits(module, training.columns), noise=SINGLE if single else DOUBLE, files=False)


class Score:
    """P(yes) of a table: a small network on its columns, in single or in double precision."""

    def __init__(self, columns: Sequence[Column], table: pd.DataFrame, seed: int, single: bool):
        self.columns, self.dtype = tuple(columns), np.float32 if single else np.float64
        generator = np.random.default_rng(seed)
        width = encode(self.columns, table).shape[1]
        self.first = generator.normal(size=(width, HIDDEN)).astype(self.dtype)
        self.second = generator.normal(size=HIDDEN).astype(self.dtype) / self.dtype(6)
        self.shift = self.dtype(0)
        self.shift = self.dtype(np.quantile(self.scores(table), 0.6))

    def scores(self, table: pd.DataFrame) -> np.ndarray:
        x = encode(self.columns, table).astype(self.dtype)
        return np.maximum(x @ self.first, self.dtype(0)) @ self.second - self.shift

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        return 1 / (1 + np.exp(-self.scores(table)))


def function(training: Training) -> Decider:
    """A function from a table to P(yes)."""
    single = training.random.random() < 0.5
    score = Score(training.columns, training.table, training.seed, single)
    threshold = training.random.choice((0.5, 0.5, 0.6))
    arguments = {} if threshold == 0.5 else {"threshold": threshold}
    title, noise = ("function float32", SINGLE) if single else ("function float64", DOUBLE)
    return Decider(title, score, Chances(score, threshold), arguments, noise)


MODELS: tuple[tuple[Callable[[Training], Decider], Flavour, int, str | None], ...] = (
    (pipeline, "any", 9, None),
    (pipeline, "plain", 4, None),
    (regression, "plain", 1, None),
    (histogram, "boosted", 3, None),
    (xgboost, "boosted", 4, "xgboost"),
    (lightgbm, "boosted", 4, "lightgbm"),
    (catboost, "catboost", 3, "catboost"),
    (network, "any", 7, None),
    (function, "any", 9, None),
)
"""How to fit, on which columns, how often, and the package it needs."""


def random_kind(random: Random) -> tuple[Callable[[Training], Decider], Flavour]:
    """A kind of model whose library is here; the others are left out."""
    here = [(fit, flavour, weight) for fit, flavour, weight, package in MODELS if package is None or HAS[package]]
    fit, flavour, _ = random.choices(here, weights=[weight for _, _, weight in here])[0]
    return fit, flavour
