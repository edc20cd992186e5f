"""From where people stand to the report: figures, intervals, verdict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from turnabout.audit.calibration import Calibration
from turnabout.audit.estimate import Estimate
from turnabout.audit.rates import Rate
from turnabout.audit.resample import resampled_sums
from turnabout.audit.risk_report import ByCompliance, GroupRisk, RiskReport, Verdict
from turnabout.audit.risk_sums import GRID, Stand, Sums, figures, unbounded_break_even

FEW = 10  # people below whom no interval is given and no verdict passed
FAR = 1e300  # stands for infinity where quantiles interpolate


@dataclass(frozen=True, eq=False)
class Setting:
    """What a report says beside its figures, and how intervals are made."""

    made_by: str = ""
    gain: float | None = None
    loss: float | None = None
    bootstrap: int = 2000
    refit: int = 0
    seed: int = 0
    confidence: float = 0.95
    calibration: Calibration | None = None
    outside: np.ndarray | None = None  # (n,) of landing points
    notes: tuple[str, ...] = ()
    index: pd.Index | None = None


@dataclass(frozen=True, eq=False)
class Ends:
    """Figures at either end of what is not known (or once), with bootstrap replicates, and under other fits of eta."""

    value: list[Sums]
    drawn: list[Sums]
    others: list[Sums]
    confidence: float

    @cached_property
    def intervals(self) -> list[dict[str, tuple[float, float]]]:
        r"""Percentile intervals by figure, at either end; infinite or NaN where nothing is known.

        With k other fits of eta, each half h of an interval grows to

            sqrt( h^2 + (t s)^2 ),   s the deviation of the figure over the fits, t Student's quantile for k - 1     (1)
        """
        from scipy.special import stdtrit

        tail = (1.0 - self.confidence) / 2.0
        out = []
        for value, drawn, others in zip(self.value, self.drawn, self.others):
            replicates = np.clip(np.stack(list(drawn.values())), -FAR, FAR)  # (figures, replicates)
            gaps = np.isnan(replicates)
            ends = np.quantile(np.where(gaps, 0.0, replicates), [tail, 1.0 - tail], axis=1)
            for j in np.flatnonzero(gaps.any(1)):  # replicates with nobody to divide by are left out
                left = replicates[j, ~gaps[j]]
                ends[:, j] = np.quantile(left, [tail, 1.0 - tail]) if len(left) else np.nan
            ends[np.abs(ends) > FAR / 1e6] = np.inf
            middle, fits = np.array(list(value.values())), np.stack(list(others.values()))
            if fits.shape[1]:
                wider = float(stdtrit(fits.shape[1] - 1, 1.0 - tail)) * fits.std(1, ddof=1)
                ends = middle + np.array([[-1.0], [1.0]]) * np.hypot(ends - middle, wider)  # (1)
            out.append({name: (float(low), float(high)) for name, low, high in zip(drawn, *ends)})
        return out

    def estimates(self, name: str, n: int) -> tuple[Estimate, Estimate]:
        """The lowest and the highest the figure may be, each with its interval; the same twice where it is known."""
        out = []
        for value, intervals in zip(self.value, self.intervals):
            low, high = intervals[name] if n >= FEW else (np.nan, np.nan)
            out.append(Estimate.between(float(value[name]), low, high, n))
        if any(one.value is None for one in out):  # an end that does not exist bounds nothing
            unknown = out[0] if len(out) == 1 else Estimate(None, None, None, n)
            return unknown, unknown
        return min(out, key=_value), max(out, key=_value)

    def estimate(self, name: str, n: int) -> Estimate:
        """The figure with its interval; of two ends only the interval around both."""
        first, last = self.estimates(name, n)
        if first == last:
            return first
        return Estimate(None, first.low, last.high, n)


def assess(
    stand: Stand, groups: Mapping[Hashable, np.ndarray], setting: Setting, refitted: Sequence[Stand] = ()
) -> RiskReport:
    """The report on people as they stand, with percentile bootstrap intervals.

    Each person adds one number to each sum, and acceptance enters by its probability: what is averaged is the expected
    contribution, so that no chance of a simulated decision is added to the chance of who is in the table.

    Parameters
    ----------
    groups : label -> (n,) who belongs to it; nobody may belong to two.
    refitted : the same people under other fits of eta, by which the intervals are widened; none, or at least 2.
    """
    n = len(stand)
    code = np.full(n, -1)
    inhabited = [label for label, inside in groups.items() if inside.any()]
    for g, label in enumerate(inhabited):
        code[groups[label]] = g
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-2))
    labels = [None if c < 0 else inhabited[c] for c in code[order][starts]]
    names, ends = list(stand.columns()[0]), len(stand.columns())

    def table(one: Stand) -> np.ndarray:
        parts = one.columns()
        return np.stack([part[name] for part in parts for name in names], axis=1)[order]

    base = table(stand)
    sums = np.add.reduceat(base, starts, axis=0)  # (groups, k)
    drawn = resampled_sums(base, starts, setting.bootstrap, setting.seed)
    fits = [np.add.reduceat(table(one), starts, axis=0) for one in refitted]
    others = np.stack(fits) if fits else np.empty((0, *sums.shape))  # (fits, groups, k)

    def part(which: int | None) -> Ends:
        """Figures of one group, or of all."""
        kinds = [each.sum(-2) if which is None else each[..., which, :] for each in (sums, drawn, others)]
        value: list[Sums] = []
        replicates: list[Sums] = []
        fitted: list[Sums] = []
        for end in range(ends):
            at = {name: end * len(names) + j for j, name in enumerate(names)}
            for kind, out in zip(kinds, (value, replicates, fitted)):
                columns = {name: kind[..., j] for name, j in at.items()}
                made = figures(columns, setting.gain, setting.loss)
                if out is replicates:
                    unbounded_break_even(columns, made)
                out.append(made if which is None else {name: made[name] for name in ("excess", "cost")})
        return Ends(value, replicates, fitted, setting.confidence)

    burden = tuple(
        _group(label, groups[label], stand, part(labels.index(label)) if label in inhabited else None)
        for label in groups
    )
    return _report(stand, part(None), burden, setting)


def _group(label: Hashable, inside: np.ndarray, stand: Stand, ends: Ends | None) -> GroupRisk:
    count = int(inside.sum())
    refused = inside & ~stand.accepted
    without = Rate.among(~stand.offered[refused])
    if ends is None:
        unknown = Estimate(None, None, None, 0)
        return GroupRisk(label, 0, unknown, None, unknown, without)
    moving = int((inside & (stand.moves > 0)).sum())
    excess = ends.estimate("excess", moving)
    part = None if stand.bounded else float(ends.value[0]["excess"]) * count / len(stand)
    return GroupRisk(label, count, excess, part, ends.estimate("cost", moving), without)


def _report(stand: Stand, ends: Ends, groups: tuple[GroupRisk, ...], setting: Setting) -> RiskReport:
    n, moving = len(stand), int((stand.moves > 0).sum())
    w = stand.moves
    total = float(w.sum())
    approved = int(stand.accepted.sum())
    people = {"risk_before": n, "approvals_before": n, "approvals_after": n, "defaults_before": approved}
    people |= {"defaults_after": approved + moving, "risk_after": n} | {f"risk_after {rho:g}": n for rho in GRID}
    figure = {name: ends.estimate(name, people.get(name, moving)) for name in ends.value[0]}
    bounds = {}
    if stand.bounded:
        bounds = {name: ends.estimates(name, people.get(name, moving)) for name in ends.value[0] if " " not in name}
    neutral = figure.get("neutral_landing", Estimate(None, None, None, moving))
    verdict, reason = _verdict(figure["excess"], moving, setting.confidence)
    least = neutral.low if neutral.low is not None and neutral.low <= 1.0 else None
    histogram = None
    if total:
        bins = np.histogram(stand.eta1[stand.offered], bins=10, range=(0, 1), weights=w[stand.offered])[0] / total
        histogram = tuple(bins.tolist())
    outside = np.zeros(n, dtype=bool) if setting.outside is None else setting.outside
    return RiskReport(
        n=n,
        refused=n - approved,
        offered=int(stand.offered.sum()),
        movers=total,
        compliance=float((w * stand.complies).sum() / total) if stand.complies is not None and total else None,
        risk_before=figure["risk_before"],
        risk_after=_three(figure, "risk_after"),
        excess=_three(figure, "excess"),
        verdict=verdict,
        reason=reason,
        break_even=figure["break_even"],
        break_even_note=_break_even_note(figure["break_even"], moving),
        mended=figure["mended"],
        spoiled=figure["spoiled"],
        landing=figure["landing"],
        histogram=histogram,
        mirror=figure["mirror"],
        neutral_landing=neutral,
        least_landing=None if least is None else max(0.0, least),
        cost=figure["cost"],
        approvals_before=figure["approvals_before"],
        approvals_after=figure["approvals_after"],
        defaults_before=figure["defaults_before"],
        defaults_after=figure["defaults_after"],
        profit=figure.get("profit"),
        profit_if_chosen=figure.get("profit_if_chosen"),
        chosen=figure.get("chosen"),
        groups=groups,
        bounds=bounds,
        calibration=setting.calibration,
        outside=Rate.among(outside[stand.offered]),
        excess_if_outside=_if_outside(stand, ends, outside),
        notes=setting.notes + _notes(stand, moving),
        made_by=setting.made_by,
        confidence=setting.confidence,
        bootstrap=setting.bootstrap,
        refit=setting.refit,
        seed=setting.seed,
        curve_table=_curve(figure),
        people_table=_people(stand, outside, setting.index),
    )


def _value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value


def _three(figure: Mapping[str, Estimate], name: str) -> ByCompliance:
    return ByCompliance(figure[f"{name} 1"], figure[f"{name} 0"], figure[name])


def _verdict(excess: Estimate, moving: int, confidence: float) -> tuple[Verdict, str]:
    if not moving:
        return Verdict.UNDETERMINED, "nobody moves, so nothing changes."
    if excess.low is None or excess.high is None:
        return Verdict.UNDETERMINED, f"only {moving} people would move: too few to tell."
    says = f"the {confidence:.0%} interval of the excess risk, [{excess.low:.4f}, {excess.high:.4f}],"
    if excess.low > 0:
        return Verdict.HARM, f"{says} lies above 0."
    if excess.high < 0:
        return Verdict.BENEFIT, f"{says} lies below 0."
    return Verdict.UNDETERMINED, f"{says} holds 0."


def _break_even_note(figure: Estimate, moving: int) -> str:
    if not moving:
        return "nobody moves"
    if figure.value is None and figure.low is None:
        return "landing points are no better on average than where people came from: compliance does not help"
    if figure.value is None:
        return "bounds only"
    if figure.value > 1:
        return "above 1: no compliance suffices"
    return "below 0: even defiant people do no harm" if figure.value < 0 else "as much compliance is needed"


def _if_outside(stand: Stand, ends: Ends, outside: np.ndarray) -> tuple[float, float] | None:
    """Excess if eta1 were 1, or 0, at all landing points outside."""
    if stand.complies is None:
        return None
    there = stand.moves * stand.complies * np.where(outside & stand.offered, 1.0, 0.0)
    eta1 = np.where(stand.offered, stand.eta1, 0.0)
    excess = [float(value["excess"]) for value in ends.value]
    return min(excess) - float((there * (1.0 - eta1)).mean()), max(excess) + float((there * eta1).mean())


def _notes(stand: Stand, moving: int) -> tuple[str, ...]:
    out = []
    if 0 < moving < FEW:
        out.append(f"only {moving} people would move: no intervals are given for what rests on them.")
    if stand.bounded:
        out.append("labels of the refused are not known: figures are bounds, not points.")
    return tuple(out)


def _curve(figure: Mapping[str, Estimate]) -> pd.DataFrame:
    rows = []
    for metric in ("risk_after", "excess", "profit"):
        for rho in GRID:
            if (found := figure.get(f"{metric} {rho:g}")) is not None:
                rows.append((rho, metric, found.value, found.low, found.high))
    table = pd.DataFrame(rows, columns=["compliance", "metric", "value", "low", "high"])
    return table.astype({"value": np.float64, "low": np.float64, "high": np.float64})


def _people(stand: Stand, outside: np.ndarray, index: pd.Index | None) -> pd.DataFrame:
    columns = {"eta0": stand.eta0, "eta1": stand.eta1, "cost": stand.cost, "accepts": stand.moves}
    return pd.DataFrame(columns | {"moved": stand.offered, "outside": outside & stand.offered}, index=index)
