"""What recourse does to a lender's risk, and to people, before any of it is offered."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from turnabout.audit.aligned import aligned
from turnabout.audit.rates import members
from turnabout.audit.risk.accepting import Accept, accepting
from turnabout.audit.risk.assess import Setting, assess
from turnabout.audit.risk.calibration import CalibrationError, Eta
from turnabout.audit.risk.compliance import Compliance, complying
from turnabout.audit.risk.eta import Etas, EtaSource
from turnabout.audit.risk.risk_people import Offers, read_labels, read_offers, read_people
from turnabout.audit.risk.risk_report import RiskReport
from turnabout.audit.risk.sums import Population
from turnabout.audit.risk.support import Support, support
from turnabout.core import Method, Recourse
from turnabout.errors import AuditError
from turnabout.models import Model
from turnabout.models.favourable import check_labels, some_of_each
from turnabout.parameters import Choice, Maybe, Positive, Share, Whole, checked

REFITS = 10
CALIBRATED = 0.05  # calibration error above which to warn
TOO_SHORT = "intervals take eta as it was fitted, and are far too short for what rests on it; refit= widens them."


# over 80 lines because its parameters are documented
@checked(
    AuditError,
    gain=Maybe(Positive(hint="use a number above 0, in any currency.")),
    loss=Maybe(Positive(hint="use a number above 0, in any currency.")),
    observed=Choice("all", "approved"),
    before=Choice("labels", "eta"),
    outside=Share(),
    folds=Whole(2),
    confidence=Share(above=0, below=1),
    bootstrap=Whole(100),
    refit=Maybe(Whole(0, hint="use 0, or a whole number from 2 up.")),
    seed=Whole(0),
)
def risk_of_recourse(
    model: Model,
    people: Any,
    labels: Any,
    method: Recourse | Method,
    *,
    accept: Accept = 1.0,
    compliance: Compliance = 1.0,
    eta: EtaSource | None = None,
    groups: Any = None,
    gain: float | None = None,
    loss: float | None = None,
    observed: Literal["all", "approved"] = "all",
    before: Literal["labels", "eta"] = "labels",
    refused: tuple[float, float] | Literal["interval"] = (0.0, 1.0),
    outside: float = 0.2,
    folds: int = 5,
    confidence: float = 0.95,
    bootstrap: int = 2000,
    refit: int | None = None,
    seed: int = 0,
) -> RiskReport:
    r"""Does recourse raise the risk of wrong decisions, for whom, and how compliant must people be that it does not?

        R_P = P(f(X0) != Y),    R_Q = P(f(X) != Y) after recourse,    Delta = R_Q - R_P                          (1)
        Delta = E[ w (1 - 2 eta0 - rho (eta1 - eta0)) ]                                                          (2)

    with w the probability that a refused person has an option and takes it, eta0 and eta1 those of repaying before and
    at the landing point, and rho the share of compliance: a compliant person is as good as their new row, a defiant one
    only looks so. People who move to the boundary of a good classifier land at eta1 = 1/2, and the risk rises
    for every rho; landing deeper helps. Acceptance enters by its probability, not by drawing who accepts.

    Use it before offering recourse, on people on whom the model was not trained. It is as good as eta, which is plugged
    in where nobody has been seen yet: look at `calibration`, `outside`, and `excess_if_outside`.

    A figure has an interval where it rests on 10 people or more: those who move, for what recourse changes; those worth
    an offer, for the profit of choosing. With the true eta of the Gaussian study, each interval of 95 % held the truth
    in 94 to 99 % of 1,000 draws of 50 people, in 94 to 98 % with 100, and in 94 to 96 % with 500 (`risk_coverage`).

    The least landing probability whose verdict is not HARM is, over bootstrap replicates r,

        quantile, where the interval of Delta begins, of   sum w (1 - (2 - rho) b) / sum w rho                   (3)

    (b is eta0, or the label), since all landing at p have Delta_r <= 0 if and only if p is at least that ratio.

    Parameters
    ----------
    model : the deployed classifier, from `turnabout.models.wrap`.
    people, labels : a table, and who truly repaid. With observed="approved", labels of the refused are not looked at.
    method : an answer for these people, a method fitted to a problem of this model, or one that is not fitted yet.
        First options count; people without an option keep their row.
    accept : r: a number, `WithinCost`, `Decay`, `LogisticInCost` or any function of costs, a mapping from groups to
        these, or one probability per person.
    compliance : rho: a number, one per person, `Causes`, or a function (rows before, rows after) -> P(repays) that
        stands for the outcome itself, such as a simulated causal model.
    eta : P(repays | row), from something other than the model: None fits trees across folds and calibrates them; see
        EtaSource for others.
    groups : one label per person, also of groups the model does not know.
    gain, loss : on a loan that is repaid, and on one that is not. Profitable offers are those with
        rho eta1 + (1 - rho) eta0 >= loss / (gain + loss).
    observed : whether labels of all are known, or of the approved alone; then figures are bounds.
    before : what stands for eta0 in (2): labels need no eta, eta varies less.
    refused : with observed="approved", the range of what eta0 of the refused may be: anything, unless you know better.
        "interval" takes its Venn-Abers interval from the approved. That knows nothing of how the refused differ, and
        trees do not extrapolate: in the Gaussian study it turns a sure harm into a benefit.
    outside : largest share of landing points beyond the ordinary with which a report is given. On 500 to
        2,000 people of Adult, German and HELOC, plans of three methods had shares of 0.02 to 0.04.
    folds : of people, when eta is fitted.
    bootstrap, confidence : replicates of people drawn with replacement, and confidence of the intervals.
    refit : how often to fit eta anew, on people drawn with replacement, to widen the intervals by its error: 0 for
        never, or at least 2. None: 10 times where eta is fitted. On 60 draws of 1,000 people of the Gaussian study, the
        95 % interval of the compliant excess held the truth in 58 with 8 fits, and in 31 without.

    References
    ----------
    Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.
    """
    _check(gain, loss, refused, refit, eta)
    fits = refit if refit is not None else REFITS if eta is None else 0
    table, margin = read_people(model, people)
    accepted = margin >= 0
    seen = accepted if observed == "approved" else np.ones(len(table), dtype=bool)
    y = read_labels(labels, table.index, seen)
    if seen.all():
        some = some_of_each(y)
        check_labels(model, margin[some], y[some])
    inside = _groups(groups, table.index)
    offers = read_offers(model, table, accepted, y if seen.all() else None, method, seed)
    found = Etas(model, offers, y, seen, eta, folds, seed)
    near = _support(offers, seen, outside, seed)
    calibration = _calibration(found.eta0, y, seen, near)
    accepts = np.where(offers.offered, accepting(accept, offers.cost, groups, offers.people.index), 0.0)
    rho, outcome = complying(compliance, model.schema, offers.people, offers.after, offers.offered)
    far = np.zeros(len(seen), dtype=bool)
    far[offers.offered] = near.outside
    setting = Setting(
        made_by=offers.made_by,
        gain=gain,
        loss=loss,
        bootstrap=bootstrap,
        refit=fits,
        seed=seed,
        confidence=confidence,
        calibration=calibration,
        outside=far,
        notes=() if eta is not None or fits else (TOO_SHORT,),
        index=offers.people.index,
    )
    builder = _PopulationBuilder(offers, accepts, y, seen, rho, outcome, setting, observed, before, refused)
    refitted = [builder.under(*found.again(k)) for k in range(fits)]
    return assess(builder.under(found.eta0, found.eta1), inside, setting, refitted)


@dataclass(frozen=True, eq=False)
class _PopulationBuilder:
    """Everything that a population is made of but eta, which is fitted more than once; as in `risk_of_recourse`."""

    offers: Offers
    accepts: np.ndarray  # (n,)
    y: np.ndarray  # (n,)
    seen: np.ndarray  # (n,)
    rho: np.ndarray | None  # (n,)
    outcome: np.ndarray | None  # (n,)
    setting: Setting
    observed: Literal["all", "approved"]
    before: Literal["labels", "eta"]
    refused: tuple[float, float] | Literal["interval"]

    def under(self, eta0: Eta, eta1: Eta) -> Population:
        """The population under one fit of eta."""
        offers, seen = self.offers, self.seen
        b = np.where(seen, self.y, eta0.value) if self.before == "labels" else eta0.value
        low, high = (eta0.low, eta0.high) if self.refused == "interval" else self.refused
        bounded = self.observed == "approved"
        return Population(
            accepted=offers.accepted,
            offered=offers.offered,
            moves=self.accepts,
            cost=offers.cost,
            eta0=eta0.value,
            eta1=np.where(offers.offered, eta1.value, np.nan),
            before=np.where(seen, b, low) if bounded else b,
            before_high=np.where(seen, b, high) if bounded else None,
            complies=self.rho,
            outcome=self.outcome,
            offer=self._worth_an_offer(np.where(seen, eta0.value, low) if bounded else eta0.value, eta1.value),
            offer_high=self._worth_an_offer(np.where(seen, eta0.value, high), eta1.value) if bounded else None,
        )

    def _worth_an_offer(self, eta0: np.ndarray, eta1: np.ndarray) -> np.ndarray | None:
        """(n,) whose offer is profitable; None without gain and loss."""
        gain, loss = self.setting.gain, self.setting.loss
        if gain is None or loss is None:
            return None
        chance = self.outcome if self.rho is None else eta0 + self.rho * (eta1 - eta0)
        assert chance is not None
        return self.offers.offered & (chance * (gain + loss) >= loss)


def _groups(groups: Any, index: pd.Index) -> dict[Any, np.ndarray]:
    if groups is None:
        return {}
    if bool(pd.isna(aligned("groups", groups, index)).all()):
        raise AuditError("every group label is missing.", hint="give one label per person, or leave groups= out.")
    return members(groups, index)


def _support(offers: Offers, seen: np.ndarray, limit: float, seed: int) -> Support:
    """Landing points beside people with labels; refuses where too many lie outside."""
    if seen.sum() < 2:
        raise AuditError("labels of fewer than two people can be seen.", hint="give more people.")
    own = np.full(len(seen), -1)
    own[seen] = np.arange(int(seen.sum()))
    found = support(offers.x[seen], offers.x_after[offers.offered], own[offers.offered], seed=seed)
    share = float(found.outside.mean()) if len(found.outside) else 0.0
    if share > limit:
        raise AuditError(
            f"{share:.1%} of the landing points lie outside the data, more than outside={limit:g}: "
            "P(repays) is not known there.",
            hint="use a method that stays near the data (NearestRow), or raise outside= and read excess_if_outside.",
        )
    return found


def _calibration(eta0: Eta, y: np.ndarray, seen: np.ndarray, near: Support) -> CalibrationError:
    often = np.bincount(near.nearest, minlength=int(seen.sum())).astype(np.float64)
    out = CalibrationError.of(eta0.value[seen], y[seen].astype(np.float64), often)
    for sentence in out.above(CALIBRATED):
        warnings.warn(f"{sentence}: figures that rest on eta are off by about as much.", stacklevel=4)
    return out


def _check(gain: float | None, loss: float | None, refused: object, refit: int | None, eta: object) -> None:
    """Refuse parameters that make no sense together."""
    if (gain is None) != (loss is None):
        raise AuditError("gain= and loss= go together.", hint="give both, or none.")
    if refused != "interval":
        ends = refused if isinstance(refused, tuple) and len(refused) == 2 else (np.nan, np.nan)
        if not (all(map(Share().allows, ends)) and ends[0] <= ends[1]):
            raise AuditError(f"refused={refused!r} is no range.", hint="use (0.0, 1.0), or 'interval'.")
    if refit == 1:
        raise AuditError(f"refit={refit!r} is no number of fits.", hint="use 0, or a whole number from 2 up.")
    if refit and eta is not None:
        raise AuditError("refit= fits eta anew, and eta= was given.", hint="leave one of them out.")
