r"""Where recourse must land: not on the bare boundary, but where the person is really likely to succeed.

Whoever lands on the boundary is accepted with an even chance of failing, and a lender who offers such recourse makes
more errors, not fewer (Fokkema, Garreau, van Erven, 2024). A landing asks for more: with eta(x) = P(good | x), the new
row of a refused person x must be accepted by the model, and

    eta(x_new) >= target(x).                                                                                   (1)

`method.find(people, landing=Probability(0.7))` works with every method. What it costs is told by the two answers, with
and without.

References
----------
Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import MethodError
from turnabout.models import Model
from turnabout.models.derived import both
from turnabout.parameters import Positive, Share, checked
from turnabout.schema import as_frame

HUGE = 1e9  # margin that everyone has
LEVELS = 24  # different targets for which a method is fitted and run


@dataclass(frozen=True, eq=False)
class Calibration:
    """P(good) as a rising function of a model's margin, learned from people whose outcome is known.

    Of the decision maker's own margin, a landing then only asks for more of it, so that methods for linear models,
    trees and nets keep what they know. Of another model's, both must agree. It is also a function of tables, as
    `turnabout.audit.risk_of_recourse` asks for.

    Attributes
    ----------
    model : whose margin; None for the decision maker's, whoever that is.
    margins, probabilities : (m,) the steps of the function; constant between two equal probabilities, straight between
        different ones.
    """

    model: Model | None
    margins: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of(cls, model: Model, people: Any, good: Any) -> Calibration:
        """Isotonic regression of outcomes on margins; use people the model was not trained on."""
        from sklearn.isotonic import IsotonicRegression

        table = as_frame(people)
        margins = model.judge(model.schema.table(table))
        if isinstance(good, pd.Series) and not good.index.equals(table.index):
            if good.index.has_duplicates or not table.index.isin(good.index).all():
                raise MethodError(
                    "the outcomes are indexed otherwise than the people.", hint="give one outcome for each label."
                )
            good = good.reindex(table.index)
        outcome = np.asarray(good)
        if outcome.shape != margins.shape or not np.isin(outcome, (0, 1)).all():
            raise MethodError(
                f"there are {outcome.size} outcomes for {len(margins)} people, or they are not True and False.",
                hint="give one outcome per person: True where they turned out good.",
            )
        if len(np.unique(outcome)) < 2:
            raise MethodError("all outcomes are the same.", hint="calibration needs people of both kinds.")
        if not np.isfinite(margins).all():
            raise MethodError("the model gives no number for some people.", hint="leave them out.")
        fitted = IsotonicRegression(y_min=0.0, y_max=1.0).fit(margins, outcome.astype(float))
        return cls(model, fitted.X_thresholds_, fitted.y_thresholds_)

    def __repr__(self) -> str:
        whose = "" if self.model is None else f" of {self.model!r}"
        return f"Calibration({len(self.margins)} steps{whose})"

    def __call__(self, people: Any) -> np.ndarray:
        """Raw rows -> P(good), (n,)."""
        if self.model is None:
            raise MethodError("this calibration does not know its model.", hint="make it by Calibration.of.")
        return self.probability(self.model.judge(self.model.schema.table(as_frame(people))))

    def probability(self, margin: np.ndarray) -> np.ndarray:
        """(n,) -> (n,)."""
        return np.interp(margin, self.margins, self.probabilities)

    def margin_at(self, probability: float) -> float:
        """The least margin with at least this P(good); inf where none was seen."""
        p, m = self.probabilities, self.margins
        above = np.flatnonzero(p >= probability)
        if not len(above):
            return float("inf")
        i = int(above[0])
        if i == 0:
            return -float("inf")
        share = (probability - p[i - 1]) / (p[i] - p[i - 1])
        return float(min(m[i], m[i - 1] + share * (m[i] - m[i - 1]) + 1e-12 * (1 + abs(m[i]))))


Eta = Model | Calibration


@dataclass(frozen=True)
class Landing(ABC):
    """Where new rows must land.

    Parameters
    ----------
    eta : who says P(good): a wrapped model of the outcome (`turnabout.models.wrap` of a calibrated classifier, on the
        same schema), a Calibration of the decision maker's own margins, or None for its own probabilities as they are.
        These are often overconfident: a separate, calibrated eta is the safe choice.
    """

    eta: Eta | None = field(default=None, kw_only=True)

    @abstractmethod
    def targets(self, before: np.ndarray) -> np.ndarray:
        """P(good) at the own rows (n,) -> least P(good) at the new ones (n,)."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is asked, in a sentence without its full stop."""

    @property
    def asked(self) -> Model | None:
        """The model that eta asks, if it is not the decision maker."""
        return self.eta.model if isinstance(self.eta, Calibration) else self.eta

    def chances(self, model: Model, rows: pd.DataFrame, margin: np.ndarray | None = None) -> np.ndarray:
        """P(good) of raw rows (n,), by eta; margin: that of the decision maker, if it is known."""
        if isinstance(self.eta, Model):
            return _chances(self.eta, self.eta.judge(rows))
        if isinstance(self.eta, Calibration) and self.eta.model not in (None, model):
            return self.eta(rows)
        margin = model.judge(rows) if margin is None else margin
        return self.eta.probability(margin) if isinstance(self.eta, Calibration) else _chances(model, margin)

    def demanding(self, model: Model, target: float) -> Model | None:
        """The decision maker who also asks for (1); None where nobody can be known to land there."""
        asked = model if self.asked is None else self.asked
        if isinstance(self.eta, Calibration):
            more = self.eta.margin_at(target)
        else:
            more = asked.margin_at(max(target, 0.0)) if target <= 1 else np.inf
        if more == np.inf:
            return None
        return model.shifted(max(0.0, more)) if asked is model else both(model, asked.shifted(max(-HUGE, more)))


def _chances(model: Model, margin: np.ndarray) -> np.ndarray:
    """P(good) from margins of a model that decides by a probability."""
    at_half = model.margin_at(0.5)
    if model.scale == "probability":
        return np.clip(margin - at_half + 0.5, 0.0, 1.0)
    return 1 / (1 + np.exp(-np.clip(margin - at_half, -700, 700)))


@dataclass(frozen=True)
@checked(MethodError, probability=Share(above=0, below=1, hint="use 0.7, for example."))
class Probability(Landing):
    """Everyone lands where P(good) is at least this."""

    probability: float = 0.7

    def targets(self, before: np.ndarray) -> np.ndarray:
        return np.full(len(before), float(self.probability))

    @property
    def words(self) -> str:
        return f"P(good) >= {self.probability:g} at the new row"


@dataclass(frozen=True)
class Mirror(Landing):
    """Everyone lands as far above an even chance as they stood below it: eta(x_new) >= 1 - eta(x).

    With compliant people, and as far as eta is right, recourse that lands there does no harm to any subgroup, and is
    risk neutral where everyone lands exactly there.
    """

    def targets(self, before: np.ndarray) -> np.ndarray:
        return 1.0 - before

    @property
    def words(self) -> str:
        return "P(good) at the new row at least 1 - P(good) at the own row"


@dataclass(frozen=True)
@checked(
    MethodError,
    gain=Positive(hint="give what a good loan earns."),
    loss=Positive(hint="give what a default loses."),
    compliance=Share(above=0, hint="use the share of people who really improve."),
)
class Profit(Landing):
    """Everyone lands where the lender expects no loss: rho * eta(x_new) + (1 - rho) * eta(x) >= loss / (gain + loss).

    Parameters
    ----------
    gain, loss : on a good loan, and on a default; both above 0.
    compliance : rho, the share of people whose improvement is real.
    """

    gain: float = 1.0
    loss: float = 1.0
    compliance: float = 1.0

    def targets(self, before: np.ndarray) -> np.ndarray:
        rho = self.compliance
        return (self.loss / (self.gain + self.loss) - (1 - rho) * before) / rho

    @property
    def words(self) -> str:
        return f"no expected loss at the new row (gain {self.gain:g}, loss {self.loss:g})"


def levels(targets: np.ndarray, most: int = LEVELS) -> np.ndarray:
    """Targets rounded up to at most so many different ones, so that (1) holds with each person's own."""
    distinct = np.unique(targets)
    if len(distinct) <= most:
        return targets
    steps = np.unique(np.quantile(targets, np.linspace(0, 1, most + 1)[1:], method="higher"))
    return steps[np.searchsorted(steps, targets)]
