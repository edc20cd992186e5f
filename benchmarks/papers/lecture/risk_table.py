"""Does recourse make a lender's decisions better or worse? Five data sets, four methods, three kinds of people.

The deployed model, the model eta of the outcome and the audited people come from three parts of the data. Labels stand
for eta before the move; eta, boosted trees calibrated by isotonic regression on people of their own, tells how those
who move turn out. Everybody who gets an option takes it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from ledger import Outcome
from preparing import columns
from rich.table import Table

import turnabout as ta
from turnabout.audit.risk.price import price_of_landing
from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.audit.risk.risk_report import RiskReport
from turnabout.core import Method, Recourse
from turnabout.datasets import Dataset

SETS = ("german", "heloc", "adult", "gmc", "taiwan")
METHODS = ("Wachter", "LocalSearch", "GrowingSpheres", "NearestRow")
KINDS = {"defiant": 0.0, "mixed": 0.5, "compliant": 1.0}
MOST = 12_000  # people of a data set that are used
GAIN, LOSS = 1.0, 3.0  # a loan that is repaid, and one that is not


@dataclass(frozen=True)
class Study:
    """One data set in three parts: the model learned from one, eta from another, and the third is audited.

    `aim` is the lender's own idea of P(repays), learned from the part on which the model was: recourse with a landing
    aims by it, and is judged by eta, which nobody aimed at.
    """

    name: str
    model: ta.models.Model
    eta: ta.landing.Calibration
    aim: ta.landing.Calibration
    problem: ta.Problem
    people: pd.DataFrame
    repaid: pd.Series


def chances(data: Dataset, rows: np.ndarray, seed: int) -> ta.landing.Calibration:
    """P(repays): boosted trees on two thirds of some people, calibrated on the last third."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline

    people, repaid = data.people, data.accepted
    grown, held = np.split(rows, [2 * len(rows) // 3])
    trees = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.08, max_depth=4, random_state=seed)
    fitted = make_pipeline(columns(data, False), trees).fit(people.iloc[grown], repaid.iloc[grown])
    model = ta.models.wrap(fitted, data.schema, threshold=0.5, background=people.iloc[grown])
    return ta.landing.Calibration.of(model, people.iloc[held], repaid.iloc[held])


@lru_cache(maxsize=4)
def study(name: str, seed: int, most: int) -> Study:
    """The models of one split; people are audited until `most` of them are refused."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    data = ta.datasets.load(name)
    rows = np.random.default_rng(seed).permutation(len(data))[:MOST]
    first, second, third = np.array_split(rows, 3)
    people, repaid = data.people, data.accepted
    net = make_pipeline(columns(data, True), MLPClassifier((16,), alpha=1e-3, max_iter=60, random_state=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 60 epochs are enough for a decision
        net.fit(people.iloc[first], repaid.iloc[first])
    known = people.iloc[first]
    model = ta.models.wrap(net, data.schema, threshold=0.5, background=known)
    problem = ta.Problem(data.schema, model, ta.costs.L1(), background=known, labels=repaid.iloc[first])
    refused = np.cumsum(model.judge(people.iloc[third]) < 0)
    audited = third[refused <= most]
    eta, aim = chances(data, second, seed), chances(data, first, seed)
    return Study(name, model, eta, aim, problem, people.iloc[audited], repaid.iloc[audited])


def method_named(name: str) -> Method:
    return getattr(ta.methods, name)()


def audit(one: Study, answer: Recourse, compliance: float, bootstrap: int, seed: int) -> RiskReport:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the calibration error is among the figures
        return risk_of_recourse(
            one.model,
            one.people,
            one.repaid,
            answer,
            compliance=compliance,
            eta=one.eta,
            gain=GAIN,
            loss=LOSS,
            outside=1.0,
            bootstrap=bootstrap,
            seed=seed,
        )


def row(name: str, method: str, seed: int, most: int, bootstrap: int) -> Outcome:
    """One data set and method: the risk for three kinds of people."""
    one = study(name, seed, most)
    answer = method_named(method).fit(one.problem).find(one.people, seed=seed)
    return figures(one, answer, f"{name}.{method}", bootstrap, seed)


def figures(one: Study, answer: Recourse, label: str, bootstrap: int, seed: int) -> Outcome:
    out = Outcome()
    for kind, rho in KINDS.items():
        report = audit(one, answer, rho, bootstrap, seed)
        excess = report.excess.given
        found = {"delta": excess.value, "delta_low": excess.low, "delta_high": excess.high}
        found |= {"after": report.risk_after.given.value, "defaults": report.defaults_after.value}
        assert report.profit is not None
        found |= {"profit": report.profit.value, "harm": float(report.verdict == "HARM")}
        found |= {"benefit": float(report.verdict == "BENEFIT")}
        for figure, value in found.items():
            out.figures[f"{label}.{kind}.{figure}"] = (np.nan if value is None else float(value), report.n)
    once = {
        "before": report.risk_before.value,
        "defaults_before": report.defaults_before.value,
        "approved": report.approvals_before.value,
        "approved_after": report.approvals_after.value,
        "landing": report.landing.value,
        "mirror": report.mirror.value,
        "break_even": report.break_even.value,
        "least_landing": report.least_landing,
        "cost": report.cost.value,
        "found": report.offered / report.refused if report.refused else None,
        "outside": report.outside.value,
        "calibration": None if report.calibration is None else report.calibration.error,
    }
    for figure, value in once.items():
        out.figures[f"{label}.{figure}"] = (np.nan if value is None else float(value), report.n)
    return out


def remedy(name: str, method: str, seed: int, most: int, bootstrap: int) -> Outcome:
    """The same method with a landing at 0.7, and with mirror landing: what they mend, and what they cost people."""
    one = study(name, seed, most)
    fitted = method_named(method).fit(one.problem)
    plain = fitted.find(one.people, seed=seed)
    out = Outcome()
    for label, asked in (
        ("at70", ta.landing.Probability(0.7, eta=one.aim)),
        ("mirror", ta.landing.Mirror(eta=one.aim)),
    ):
        answer = fitted.find(one.people, seed=seed, landing=asked)
        price = price_of_landing(plain, answer)
        full = figures(one, answer, f"{name}.{method}.{label}", bootstrap, seed)
        out.figures |= full.figures
        out.figures[f"{name}.{method}.{label}.price"] = (price.ratio if price.ratio else np.nan, price.plain.n)
        lost = np.nan if price.lost.value is None else price.lost.value
        out.figures[f"{name}.{method}.{label}.lost"] = (lost, price.lost.n)
    return out


def summary(figures: dict[str, dict[str, object]]) -> Table:
    """Excess risk by data set, method and compliance, with the interval over seeds."""
    table = Table(
        "data, method", "before", "defiant", "half comply", "compliant", "landing", "break-even", "verdicts (compliant)"
    )
    table.title = "Excess risk of recourse, R_Q - R_P"

    def told(name: str) -> str:
        entry = figures.get(name)
        if entry is None or entry["value"] is None:
            return "-"
        spread = f" [{entry['low']:+.3f}, {entry['high']:+.3f}]" if "low" in entry else ""
        return f"{entry['value']:+.3f}{spread}"

    for label in [f"{s}.{m}{r}" for s in SETS for m in METHODS for r in ("", ".at70", ".mirror")]:
        if f"{label}.before" not in figures:
            continue
        seeds = figures[f"{label}.before"]["seeds"]
        harm, benefit = (figures[f"{label}.compliant.{v}"]["value"] for v in ("harm", "benefit"))
        verdicts = f"HARM {harm:.0%}, BENEFIT {benefit:.0%} of {seeds}"
        parts = [told(f"{label}.{part}.delta") for part in ("defiant", "mixed", "compliant")]
        once = [figures[f"{label}.{part}"]["value"] for part in ("before", "landing", "break_even")]
        before, landing, even = ("-" if value is None else f"{value:.3f}" for value in once)
        table.add_row(label, before, *parts, landing, even, verdicts)
    return table
