"""Do the intervals of a risk report hold the truth as often as they say? Measured where the truth is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.assess import Setting, assess
from turnabout.audit.risk.risk_report import RiskReport
from turnabout.audit.risk.sums import Population
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.parameters import Instance, Maybe, Share, Whole, checked
from turnabout.studies.gaussian.gaussians import Gaussians

LANDINGS = (0.6, 0.95)  # probabilities at which people of the study land, evenly spread
GAIN, LOSS = 1.0, 1.2
POINTS = 20_001  # of the grid for what has no closed form


@dataclass(frozen=True)
class Coverage(Document):
    """Share of repeats in which each interval held the true value.

    Attributes
    ----------
    by_figure : figure -> share held among the repeats that gave an interval, with its own interval; unknown where
        none did.
    truth : figure -> true value.
    n, repeats, confidence : people in each repeat, how many of these, and what the intervals promise.
    """

    by_figure: dict[str, Rate]
    truth: dict[str, float]
    n: int
    repeats: int
    confidence: float

    keys = "n repeats confidence truth by_figure"

    def __str__(self) -> str:
        lines = [f"{self.repeats} repeats of {self.n} people, intervals of {self.confidence:.0%}:"]
        return "\n".join(lines + [f"  {name:22s} {rate}" for name, rate in self.by_figure.items()])


@checked(
    AuditError,
    n=Whole(1),
    repeats=Whole(1),
    accept=Share(above=0),
    compliance=Share(above=0),
    bootstrap=Whole(1),
    confidence=Share(above=0, below=1),
    seed=Whole(0),
    study=Maybe(Instance(Gaussians)),
)
def risk_coverage(
    n: int = 500,
    repeats: int = 1000,
    accept: float = 0.8,
    compliance: float = 0.5,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    study: Gaussians | None = None,
) -> Coverage:
    r"""Coverage of every interval of a risk report on the Gaussian study, with its true eta.

    In each repeat n people are drawn, those refused are led to where eta is U, spread evenly from 0.6 to 0.95, and half
    of the people, by a coin, make up a group. Every truth follows from the study: risks from its formula at the mean of
    U, and the mean cost from

        E log(U / (1 - U)) = (h(b) - h(a)) / (b - a),      h(u) = u log u + (1 - u) log(1 - u)                  (1)

    Who is worth an offer, and its profit, are integrated over the normal direction on a grid.

    What it does not hold is the error of an eta that was fitted: these intervals take eta as it is.

    Parameters
    ----------
    n, repeats : people in a repeat, and how many repeats.
    accept, compliance : r and rho, the same for all.
    bootstrap, confidence : as in `risk_of_recourse`.
    """
    study = Gaussians() if study is None else study
    truth = _truth(study, accept, compliance)
    held, given = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for repeat in range(repeats):
        report = _repeat(study, n, accept, compliance, bootstrap, confidence, [seed, repeat])
        for name, figure in _figures(report).items():
            if figure.low is not None or figure.high is not None:
                given[name] += 1
                held[name] += _holds(figure, truth[name])
    rates = {name: Rate.of(hits, given[name]) for name, hits in held.items()}
    return Coverage(rates, truth, n, repeats, confidence)


def _truth(study: Gaussians, accept: float, compliance: float) -> dict[str, float]:
    low, high = LANDINGS
    p, before = (low + high) / 2, study.bayes_risk
    after = {rho: study.risk_after(p, rho, accept) for rho in (0.0, 1.0, compliance)}
    given = after[compliance]
    repays = compliance * p + (1 - compliance) * before  # of those who move, of whom eta0 is R on average
    approved = 0.5 + 0.5 * accept
    log_odds = (_integral(high) - _integral(low)) / (high - low)  # (1)
    return {
        "risk_before": before,
        "risk_after.compliant": after[1.0],
        "risk_after.defiant": after[0.0],
        "risk_after.given": given,
        "excess.compliant": after[1.0] - before,
        "excess.defiant": after[0.0] - before,
        "excess.given": given - before,
        "break_even": study.break_even(p),
        "mended": accept * before / 2,
        "spoiled": accept * (1 - repays) / 2,
        "landing": p,
        "mirror": 1 - before,
        "neutral_landing": (1 - (2 - compliance) * before) / compliance,
        "cost": study.mean_cost(0.5) + log_odds / float(np.linalg.norm(study.weights)),
        "approvals_before": 0.5,
        "approvals_after": approved,
        "defaults_before": before,
        "defaults_after": (before / 2 + accept * (1 - repays) / 2) / approved,
        "profit": accept / 2 * ((GAIN + LOSS) * repays - LOSS),
        **_chosen(study, accept, compliance),
        "group.excess": given - before,
        "group.cost": study.mean_cost(0.5) + log_odds / float(np.linalg.norm(study.weights)),
    }


def _chosen(study: Gaussians, accept: float, compliance: float) -> dict[str, float]:
    """Share of movers worth an offer, and the profit if only these get one."""
    low, high = LANDINGS
    mu, s = study.normal_mean, study.normal_sd
    t = np.linspace(-mu - 10 * s, 0.0, POINTS)
    density = sum(np.exp(-0.5 * ((t - m) / s) ** 2) for m in (mu, -mu)) / (2 * s * math.sqrt(2 * math.pi))
    eta0 = study.eta(t[:, None] * study.normal)
    # U at least c makes an offer worth while; then integrals over U from c to its upper end
    c = np.clip((LOSS / (GAIN + LOSS) - (1 - compliance) * eta0) / compliance, low, high)
    repays = compliance * (high**2 - c**2) / 2 + (1 - compliance) * eta0 * (high - c)
    weight = density * (t[1] - t[0]) / (high - low)
    weight[[0, -1]] /= 2  # the trapezoidal rule
    share = (weight * (high - c)).sum()
    profit = (weight * ((GAIN + LOSS) * repays - LOSS * (high - c))).sum()
    return {"chosen": float(2 * share), "profit_if_chosen": float(accept * profit)}


def _integral(u: float) -> float:
    return u * math.log(u) + (1 - u) * math.log(1 - u)


def _repeat(
    study: Gaussians, n: int, accept: float, compliance: float, bootstrap: int, confidence: float, seed: list[int]
) -> RiskReport:
    rng = np.random.default_rng(seed)
    draw = study.sample(n, int(rng.integers(2**63)))
    low, high = LANDINGS
    landing = study.project(draw.x, low + (high - low) * rng.random(n))
    accepted = study.margin(draw.x) >= 0
    eta0, eta1 = study.eta(draw.x), study.eta(landing)
    chance = eta0 + compliance * (eta1 - eta0)
    coin = rng.random(n) < 0.5
    population = Population(
        accepted=accepted,
        offered=~accepted,
        moves=np.where(accepted, 0.0, accept),
        cost=np.where(accepted, np.nan, np.linalg.norm(landing - draw.x, axis=1)),
        eta0=eta0,
        eta1=np.where(accepted, np.nan, eta1),
        before=draw.y.astype(np.float64),
        complies=np.full(n, compliance),
        offer=~accepted & (chance * (GAIN + LOSS) >= LOSS),
    )
    setting = Setting(gain=GAIN, loss=LOSS, bootstrap=bootstrap, confidence=confidence, seed=int(rng.integers(2**63)))
    return assess(population, {"heads": coin, "tails": ~coin}, setting)


def _figures(report: RiskReport) -> dict[str, Estimate]:
    out: dict[str, Estimate] = {}
    for name in ("risk_after", "excess"):
        three = getattr(report, name)
        out |= {f"{name}.{kind}": getattr(three, kind) for kind in ("compliant", "defiant", "given")}
    names = ["risk_before", "break_even", "mended", "spoiled", "landing", "mirror", "neutral_landing", "cost"]
    names += ["approvals_before", "approvals_after", "defaults_before", "defaults_after"]
    names += ["profit", "profit_if_chosen", "chosen"]
    out |= {name: getattr(report, name) for name in names}
    return out | {"group.excess": report.groups[0].excess, "group.cost": report.groups[0].cost}


def _holds(figure: Estimate, truth: float) -> bool:
    """An end that is not known holds whatever lies on its side."""
    return (figure.low is None or figure.low <= truth) and (figure.high is None or truth <= figure.high)
