"""Where P(repays) comes from: fitted here, or given as a function, an estimator or arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from turnabout.audit.risk.accepting import check_probabilities, numbers
from turnabout.audit.risk.calibration import Eta, VennAbers, cross_fitted, folds_of, teaches
from turnabout.audit.risk.risk_people import Offers
from turnabout.errors import AuditError
from turnabout.models import Model

EtaSource: TypeAlias = Callable[[pd.DataFrame], np.ndarray] | tuple[Any, Any] | Any
"""A function table -> P(repays), a fitted estimator with predict_proba, or (before, after): one array each."""


class Etas:
    """P(repays) before and after, from wherever it comes."""

    def __init__(
        self, model: Model, offers: Offers, y: np.ndarray, seen: np.ndarray, eta: Any, folds: int, seed: int
    ) -> None:
        self.offers, self.y, self.seen, self.folds, self.seed = offers, y, seen, folds, seed
        if eta is None:
            self.eta0, self.eta1 = self._fitted(None)
            return
        if _is_model(eta, model):
            warnings.warn(
                "eta is the deployed model itself, or rests on its scores: its own mistakes are then taken for the "
                "truth. Fit another one, or leave eta= out.",
                stacklevel=4,
            )
        n = len(y)
        if isinstance(eta, tuple):
            if len(eta) != 2:
                raise AuditError(f"eta= holds {len(eta)} parts.", hint="give (before, after), one array each.")
            first, after = (numbers("eta", part) for part in eta)
            if first.shape != (n,) or after.shape != (n,):
                raise AuditError(
                    f"eta= holds {first.size} and {after.size} values for {n} people.", hint="give one per person each."
                )
            after = np.where(offers.offered, after, first)  # people without an option do not move
            for part in (first, after):
                check_probabilities("eta", part)
        else:
            first, after = (ask_eta(eta, table) for table in (offers.people, offers.after))
        low, high = first, first
        if not seen.all():
            around = VennAbers(first[seen], y[seen])(first)
            low, high = np.minimum(around.low, first), np.maximum(around.high, first)
        self.eta0, self.eta1 = Eta(first, low, high), Eta(after, after, after)

    def again(self, k: int) -> tuple[Eta, ...]:
        """A fit on people drawn with replacement, by the k-th drawing."""
        rng = np.random.default_rng([self.seed, k])
        labels = self.y[self.seen]
        fold, m = folds_of(labels, self.folds, self.seed), len(labels)
        times = np.zeros(m, dtype=np.int64)
        while not teaches(labels, fold, times):
            times = np.bincount(rng.integers(m, size=m), minlength=m)
        return self._fitted(times)

    def _fitted(self, times: np.ndarray | None) -> tuple[Eta, ...]:
        x, x_after = self.offers.x.numpy(), self.offers.x_after.numpy()
        own = np.full(len(x), -1)
        own[self.seen] = np.arange(int(self.seen.sum()))
        return cross_fitted(x[self.seen], self.y[self.seen], (x, x_after), own, self.folds, self.seed, times)


def ask_eta(eta: Any, table: pd.DataFrame) -> np.ndarray:
    """(n,) P(repays) of the rows of a table, from a function of tables or a fitted estimator."""
    ask = eta.predict_proba if hasattr(eta, "predict_proba") else eta
    if isinstance(eta, Model) or not callable(ask):
        raise AuditError(
            f"eta={eta!r} gives no P(repays).", hint="pass a fitted classifier, a function of tables, or two arrays."
        )
    classes = list(getattr(eta, "classes_", (0, 1)))
    if classes != [0, 1]:
        raise AuditError(
            f"eta= knows the classes {classes}, and which of them means repaid is not said.",
            hint="fit it on True and False, or pass a function from a table to P(repays).",
        )
    out = numbers("eta", ask(table))
    if out.ndim == 2 and out.shape[1] == 2:
        out = out[:, 1]
    if out.shape != (len(table),):
        raise AuditError(f"eta= gives shape {out.shape} for {len(table)} people.", hint="return one P(repays) per row.")
    return check_probabilities("eta", out)


def _is_model(eta: Any, model: Model) -> bool:
    """Whether eta is what the model asks, or a calibration of it."""
    judge = vars(model).get("_judge")
    held = (model, getattr(judge, "function", None), getattr(getattr(judge, "original", None), "estimator", None))
    owner = getattr(eta, "__self__", eta)  # of a bound method
    asked = (eta, owner, getattr(eta, "model", None))  # the last, of a landing's Calibration
    return any(one is other for one in held if one is not None for other in asked)
