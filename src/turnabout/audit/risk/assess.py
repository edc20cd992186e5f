"""From a population to its risk report: figures, intervals, verdict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.calibration import CalibrationError
from turnabout.audit.risk.resample import resampled_sums
from turnabout.audit.risk.risk_intervals import FEW, Ends, unseen
from turnabout.audit.risk.risk_report import ByCompliance, GroupRisk, RiskReport, Verdict
from turnabout.audit.risk.sums import GRID, Population, Sums, figures, unbounded_break_even
from turnabout.intervals import Rate


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
    calibration: CalibrationError | None = None
    outside: np.ndarray | None = None  # (n,) of landing points
    notes: tuple[str, ...] = ()
    index: pd.Index | None = None


def assess(
    people: Population, groups: Mapping[Hashable, np.ndarray], setting: Setting, refitted: Sequence[Population] = ()
) -> RiskReport:
    """The report on a population, with bootstrap intervals (see `risk_intervals`).

    Each person adds one number to each sum, and acceptance enters by its probability: what is averaged is the expected
    contribution, so that simulated decisions add no variance to that of the sample of people.

    Parameters
    ----------
    groups : label -> (n,) who belongs to it; nobody may belong to two.
    refitted : the same people under other fits of eta, by which the intervals are widened; none, or at least 2.
    """
    n = len(people)
    code = np.full(n, -1)
    inhabited = [label for label, inside in groups.items() if inside.any()]
    for g, label in enumerate(inhabited):
        code[groups[label]] = g
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-2))
    labels = [None if c < 0 else inhabited[c] for c in code[order][starts]]
    names, ends = list(people.columns()[0]), len(people.columns())

    def table(one: Population) -> np.ndarray:
        parts = one.columns()
        return np.stack([part[name] for part in parts for name in names], axis=1)

    base = table(people)[order]
    sums = np.add.reduceat(base, starts, axis=0)  # (groups, k)
    drawn = resampled_sums(base, starts, setting.bootstrap, setting.seed)
    fits = [np.add.reduceat(table(one)[order], starts, axis=0) for one in refitted]
    others = np.stack(fits) if fits else np.empty((0, *sums.shape))  # (fits, groups, k)

    def part(which: int | None, inside: np.ndarray) -> Ends:
        """Figures of one group, or of all."""
        kinds = [each.sum(-2) if which is None else each[..., which, :] for each in (sums, drawn, others)]
        imagined, count = unseen(people, inside)
        rng = np.random.default_rng([setting.seed, 0 if which is None else which + 1])
        kinds[1] = kinds[1] + rng.standard_gamma(count, (setting.bootstrap, len(count))) @ table(imagined)
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
        return Ends(value, replicates, fitted, setting.confidence, _people_behind(people, inside, list(value[0])))

    burden = tuple(
        _group(label, who, people, part(labels.index(label), who) if label in inhabited else None)
        for label, who in groups.items()
    )
    return _report(people, part(None, np.ones(n, dtype=bool)), burden, setting)


def _people_behind(people: Population, inside: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    """How many people each figure rests on."""
    moving, approved = (int((inside & who).sum()) for who in (people.moves > 0, people.accepted))
    out = dict.fromkeys(names, moving)
    for name in names:
        if name in ("risk_before", "approvals_before", "approvals_after") or name.startswith("risk_after"):
            out[name] = int(inside.sum())
    out |= {"defaults_before": approved, "defaults_after": approved + moving}
    if people.offer is not None:
        out["profit_if_chosen"] = int((inside & (people.moves > 0) & people.offer.astype(bool)).sum())
    return out


def _group(label: Hashable, inside: np.ndarray, people: Population, ends: Ends | None) -> GroupRisk:
    count = int(inside.sum())
    refused = inside & ~people.accepted
    without = Rate.among(~people.offered[refused])
    if ends is None:
        unknown = Estimate(None, None, None, 0)
        return GroupRisk(label, 0, unknown, None, unknown, without)
    excess = ends.estimate("excess")
    part = None if people.bounded else float(ends.value[0]["excess"]) * count / len(people)
    return GroupRisk(label, count, excess, part, ends.estimate("cost"), without)


def _report(people: Population, ends: Ends, groups: tuple[GroupRisk, ...], setting: Setting) -> RiskReport:
    n, moving = len(people), int((people.moves > 0).sum())
    w = people.moves
    total = float(w.sum())
    approved = int(people.accepted.sum())
    figure = {name: ends.estimate(name) for name in ends.value[0]}
    bounds = {}
    if people.bounded:
        bounds = {name: ends.estimates(name) for name in ends.value[0] if " " not in name}
    neutral = figure.get("neutral_landing", Estimate(None, None, None, moving))
    verdict, reason = _verdict(figure["excess"], moving, setting.confidence)
    least, least_note = _least_landing(people, neutral, moving, verdict)
    histogram = None
    if total:
        bins = np.histogram(people.eta1[people.offered], bins=10, range=(0, 1), weights=w[people.offered])[0] / total
        histogram = tuple(bins.tolist())
    outside = np.zeros(n, dtype=bool) if setting.outside is None else setting.outside
    return RiskReport(
        n=n,
        refused=n - approved,
        offered=int(people.offered.sum()),
        movers=total,
        compliance=float((w * people.complies).sum() / total) if people.complies is not None and total else None,
        risk_before=figure["risk_before"],
        risk_after=_three(figure, "risk_after"),
        excess=_three(figure, "excess"),
        verdict=verdict,
        reason=reason,
        break_even=figure["break_even"],
        break_even_note=_break_even_note(figure["break_even"], moving, people.bounded),
        mended=figure["mended"],
        spoiled=figure["spoiled"],
        landing=figure["landing"],
        histogram=histogram,
        mirror=figure["mirror"],
        neutral_landing=neutral,
        least_landing=least,
        least_landing_note=least_note,
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
        outside=Rate.among(outside[people.offered]),
        excess_if_outside=_if_outside(people, ends, outside),
        notes=setting.notes + _notes(people, moving),
        made_by=setting.made_by,
        confidence=setting.confidence,
        bootstrap=setting.bootstrap,
        refit=setting.refit,
        seed=setting.seed,
        curve_table=_curve(figure),
        people_table=_people(people, outside, setting.index),
    )


def _three(figure: Mapping[str, Estimate], name: str) -> ByCompliance:
    return ByCompliance(figure[f"{name} 1"], figure[f"{name} 0"], figure[name])


def _verdict(excess: Estimate, moving: int, confidence: float) -> tuple[Verdict, str]:
    if not moving:
        return Verdict.UNDETERMINED, "nobody moves, so nothing changes."
    if excess.low is None or excess.high is None:
        few = f"only {moving} people would move: too few to tell."
        return Verdict.UNDETERMINED, few if moving < FEW else "the excess risk has no interval."
    says = f"the {confidence:.0%} interval of the excess risk, [{excess.low:.4f}, {excess.high:.4f}],"
    if excess.low > 0:
        return Verdict.HARM, f"{says} lies above 0."
    if excess.high < 0:
        return Verdict.BENEFIT, f"{says} lies below 0."
    return Verdict.UNDETERMINED, f"{says} holds 0."


def _least_landing(people: Population, neutral: Estimate, moving: int, verdict: Verdict) -> tuple[float | None, str]:
    """The smallest landing probability whose verdict is not HARM, or why there is none."""
    if not moving:
        return None, "not known: nobody moves"
    if people.complies is None:
        return None, "not known: an outcome is given, not a compliance"
    if moving < FEW:
        return None, "not known: too few people move"
    if not (people.moves * people.complies).any():  # where people land makes no difference
        return (None, "none would do: nobody complies") if verdict is Verdict.HARM else (0.0, "any will do")
    if neutral.low is None:
        return None, "not known"
    return (max(0.0, neutral.low), "") if neutral.low <= 1.0 else (None, "none would do")


def _break_even_note(figure: Estimate, moving: int, bounded: bool) -> str:
    if not moving:
        return "nobody moves"
    if bounded and figure.value is None:
        nothing = figure.low is None and figure.high is None
        return "not known without labels of the refused" if nothing else "bounds only"
    if figure.value is None:
        return "landing points are no better on average than where people came from: compliance does not help"
    if figure.value > 1:
        return "above 1: no compliance suffices"
    return "below 0: even defiant people do no harm" if figure.value < 0 else "as much compliance is needed"


def _if_outside(people: Population, ends: Ends, outside: np.ndarray) -> tuple[float, float] | None:
    """Excess if eta1 were 1, or 0, at all landing points outside."""
    if people.complies is None:
        return None
    there = people.moves * people.complies * np.where(outside & people.offered, 1.0, 0.0)
    eta1 = np.where(people.offered, people.eta1, 0.0)
    excess = [float(value["excess"]) for value in ends.value]
    return min(excess) - float((there * (1.0 - eta1)).mean()), max(excess) + float((there * eta1).mean())


def _notes(people: Population, moving: int) -> tuple[str, ...]:
    out = []
    if 0 < moving < FEW:
        out.append(f"only {moving} people would move: no intervals are given for what rests on them.")
    if people.bounded:
        out.append(
            "labels of the refused are not known: figures that rest on what they would have done are bounds. Landing "
            "probabilities rest on eta as it is."
        )
    return tuple(out)


def _curve(figure: Mapping[str, Estimate]) -> pd.DataFrame:
    rows = []
    for metric in ("risk_after", "excess", "profit"):
        for rho in GRID:
            if (found := figure.get(f"{metric} {rho:g}")) is not None:
                rows.append((rho, metric, found.value, found.low, found.high))
    table = pd.DataFrame(rows, columns=["compliance", "metric", "value", "low", "high"])
    return table.astype({"value": np.float64, "low": np.float64, "high": np.float64})


def _people(people: Population, outside: np.ndarray, index: pd.Index | None) -> pd.DataFrame:
    columns = {"eta0": people.eta0, "eta1": people.eta1, "cost": people.cost, "accepts": people.moves}
    return pd.DataFrame(columns | {"moved": people.offered, "outside": outside & people.offered}, index=index)
