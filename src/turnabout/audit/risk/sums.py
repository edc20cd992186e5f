"""Every figure of a risk report as a function of sums over people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

GRID = tuple(round(0.1 * i, 1) for i in range(11))  # compliance, for curves
Sums: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Population:
    """n people before and after recourse, as (n,) arrays.

    Attributes
    ----------
    accepted : whether the model says yes already.
    offered : whether there is an option.
    moves : w, the probability of moving; 0 without an option.
    cost : of the option; NaN without.
    eta0, eta1 : P(repays) before and at the landing point; eta1 is NaN without an option.
    before : what stands for eta0 in risks: labels, or eta0 again.
    before_high : None where `before` is known; otherwise `before` is the lower end of what it may be, this the upper.
    complies : rho; None with an outcome.
    outcome : P(repays) of those who moved, from a causal model; None with rho.
    offer : whether a lender who looks at profit would make the offer; None without gain and loss.
    offer_high : the same at the upper end of `before`; None where that is known.
    """

    accepted: np.ndarray
    offered: np.ndarray
    moves: np.ndarray
    cost: np.ndarray
    eta0: np.ndarray
    eta1: np.ndarray
    before: np.ndarray
    before_high: np.ndarray | None = None
    complies: np.ndarray | None = None
    outcome: np.ndarray | None = None
    offer: np.ndarray | None = None
    offer_high: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.accepted)

    @property
    def bounded(self) -> bool:
        """Whether only bounds can be told."""
        return self.before_high is not None

    def repays(self, before: np.ndarray, compliance: float | None) -> np.ndarray:
        """(n,) P(repays) after moving, at a compliance for all, or (None) as given."""
        if compliance is None and self.outcome is not None:
            return self.outcome
        rho = self.complies if compliance is None else compliance
        assert rho is not None
        return before + rho * (np.where(self.offered, self.eta1, before) - before)

    def error(self, before: np.ndarray, compliance: float | None) -> np.ndarray:
        """(n,) probability of a wrong decision after recourse."""
        stays = np.where(self.accepted, 1.0 - before, before)
        return (1.0 - self.moves) * stays + self.moves * (1.0 - self.repays(before, compliance))

    def columns(self) -> list[Sums]:
        """What is summed over people, by name: once, or for either end of `before`.

        With two ends, the error after recourse has sums of its own: its bounds take either end, person by person.
        """
        if self.before_high is None:
            return [self._columns(self.before, self.eta0, self.offer)]
        ends = [
            self._columns(self.before, self.before, self.offer),
            self._columns(self.before_high, self.before_high, self.offer_high),
        ]
        for name, rho in {"after": None, **{f"after {rho:g}": rho for rho in GRID}}.items():
            a, b = (self.error(end, rho) for end in (self.before, self.before_high))
            ends[0][name], ends[1][name] = np.minimum(a, b), np.maximum(a, b)
        return ends

    def _columns(self, b: np.ndarray, eta0: np.ndarray, offer: np.ndarray | None) -> Sums:
        w = self.moves
        one = np.ones(len(self))
        repays = w * self.repays(b, None)
        out = {
            "one": one,
            "moves": w,
            "wrong": np.where(self.accepted, 1.0 - b, b),
            "good": w * b,
            "landing": w * np.where(self.offered, self.eta1, 0.0),
            "mirror": w * (1.0 - eta0),
            "cost": w * np.where(self.offered, self.cost, 0.0),
            "repays": repays,
            "approved": self.accepted.astype(np.float64),
            "approved_bad": np.where(self.accepted, 1.0 - b, 0.0),
        }
        if self.complies is not None:
            out |= {"complies": w * self.complies, "complies_good": w * self.complies * b}
        if offer is not None:
            out |= {"offer": w * offer, "offer_repays": repays * offer}
        return out


def figures(s: Sums, gain: float | None, loss: float | None) -> Sums:
    r"""The figures from sums over people; NaN where there is nothing to divide by.

        R_P = sum wrong / n,    R_Q = R_P + Delta                                                              (1)
        Delta(rho) = (sum w - (2 - rho) sum w b - rho sum w eta1) / n                                          (2)
        rho* = sum w (1 - 2 b) / sum w (eta1 - b)                                                              (3)
        neutral landing = (sum w - sum w (2 - rho) b) / sum w rho                                              (4)
        profit change = sum w ((g + l) P(repays) - l) / n                                                      (5)

    with b the label, or eta0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        n, w, good, land = s["one"], s["moves"], s["good"], s["landing"]
        better = land - good
        out = {
            "risk_before": s["wrong"] / n,  # (1)
            "risk_after": s.get("after", s["wrong"] + w - s["repays"] - good) / n,
            "excess": (w - s["repays"] - good) / n,  # (2), and its form for an outcome
            "break_even": np.where(better > 0, (w - 2.0 * good) / better, np.nan),  # (3)
            "landing": land / w,
            "mirror": s["mirror"] / w,
            "cost": s["cost"] / w,
            "approvals_before": s["approved"] / n,
            "approvals_after": (s["approved"] + w) / n,
            "defaults_before": s["approved_bad"] / s["approved"],
            "defaults_after": (s["approved_bad"] + w - s["repays"]) / (s["approved"] + w),
            "mended": good / n,
            "spoiled": (w - s["repays"]) / n,
        }
        if "complies" in s:
            neutral = (w - 2.0 * good + s["complies_good"]) / s["complies"]  # (4)
            out["neutral_landing"] = np.where(s["complies"] > 0, neutral, np.nan)
        for rho in GRID:
            excess = w - 2.0 * good - rho * better
            out[f"excess {rho:g}"] = excess / n  # (2)
            out[f"risk_after {rho:g}"] = s.get(f"after {rho:g}", s["wrong"] + excess) / n
        if gain is not None and loss is not None:
            out["profit"] = ((gain + loss) * s["repays"] - loss * w) / n  # (5)
            out["profit_if_chosen"] = ((gain + loss) * s["offer_repays"] - loss * s["offer"]) / n
            out["chosen"] = s["offer"] / w
            for rho in GRID:
                out[f"profit {rho:g}"] = ((gain + loss) * (good + rho * better) - loss * w) / n
    return out


def unbounded_break_even(s: Sums, found: Sums) -> None:
    """In replicates where landing is no improvement, break-even counts as infinite, on the side of the harm."""
    side = np.where(s["moves"] - 2.0 * s["good"] >= 0, np.inf, -np.inf)
    found["break_even"] = np.where(np.isnan(found["break_even"]) & (s["moves"] > 0), side, found["break_even"])
