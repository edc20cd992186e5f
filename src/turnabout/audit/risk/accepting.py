"""Who takes up recourse: the probability that a person accepts a proposal of a given cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from turnabout.audit.aligned import aligned
from turnabout.audit.rates import members
from turnabout.errors import AuditError
from turnabout.parameters import Finite, Positive, checked
from turnabout.typing import is_number

CostRule: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Costs (n,) -> probabilities of accepting (n,)."""
Accept: TypeAlias = float | CostRule | Mapping[object, "float | CostRule"] | Sequence[float] | np.ndarray | pd.Series
"""A number for all, a rule on costs, a number or rule for each group, or one probability per person."""


@dataclass(frozen=True)
@checked(AuditError, budget=Finite(least=0, hint="costs are counted as the answer counts them."))
class WithinCost:
    """Accepts every option that costs at most `budget`.

    r(c) = [c <= budget]                                                                (1)
    """

    budget: float

    def __call__(self, cost: np.ndarray) -> np.ndarray:
        return (np.asarray(cost) <= self.budget).astype(np.float64)  # (1)


@dataclass(frozen=True)
@checked(AuditError, s=Positive(hint="costs are counted as the answer counts them."))
class Decay:
    """Accepts with a probability that falls with the cost.

        r(c) = exp(-c^2 / (2 s))                                                            (1)

    The form of the authors' experiments; there c is the distance, and s is not squared.
    """

    s: float

    def __call__(self, cost: np.ndarray) -> np.ndarray:
        return np.exp(-np.square(np.asarray(cost, dtype=np.float64)) / (2.0 * self.s))  # (1)


@dataclass(frozen=True)
@checked(
    AuditError,
    middle=Finite(least=0, hint="costs are counted as the answer counts them."),
    width=Positive(hint="costs are counted as the answer counts them."),
)
class LogisticInCost:
    """Accepts with odds that fall with the cost; half of the people accept at a cost of `middle`.

    r(c) = 1 / (1 + exp((c - middle) / width))                                          (1)
    """

    middle: float
    width: float

    def __call__(self, cost: np.ndarray) -> np.ndarray:
        z = (np.asarray(cost, dtype=np.float64) - self.middle) / self.width
        return 0.5 * (1.0 - np.tanh(z / 2.0))  # (1), without overflow


def accepting(accept: Accept, cost: np.ndarray, groups: object, index: pd.Index) -> np.ndarray:
    """(n,) probability that each person would accept a proposal at its cost; 0 if the cost is NaN: none was made."""
    offered = np.isfinite(cost)
    out = np.zeros(len(cost))
    if isinstance(accept, Mapping):
        inside = members(groups, index)
        if not inside:
            raise AuditError(
                "accept= speaks of groups, and there are none.", hint="pass groups=, one label per person."
            )
        for label, who in inside.items():
            if who.any() and label not in accept:
                raise AuditError(
                    f"accept= says nothing of group {label!r}.", hint=f"it knows {list(accept)}; name every group."
                )
            if label in accept:
                out[who & offered] = _one(accept[label], cost[who & offered])
    elif callable(accept) or is_number(accept):
        out[offered] = _one(accept, cost[offered])
    else:
        out[offered] = per_person("accept", accept, index)[offered]
    return out


def per_person(name: str, values: object, index: pd.Index) -> np.ndarray:
    """(n,) probabilities given one by one."""
    return check_probabilities(name, numbers(name, aligned(name, values, index)))


def numbers(name: str, values: Any) -> np.ndarray:
    """As floats, or an error."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AuditError(f"{name}= gives what are no numbers.", hint="give probabilities from 0 to 1.") from None


def check_probabilities(name: str, values: np.ndarray) -> np.ndarray:
    """Refuse NaN and what lies outside [0, 1]."""
    odd = ~((values >= 0) & (values <= 1))
    if odd.any():
        raise AuditError(
            f"{name}= holds {float(values[odd][0])!r}, which is no probability.",
            hint="give numbers from 0 to 1, without gaps.",
        )
    return values


def _one(rule: object, cost: np.ndarray) -> np.ndarray:
    if is_number(rule):
        share = check_probabilities("accept", np.array([float(rule)]))  # type: ignore[arg-type]
        return np.repeat(share, len(cost))
    if not callable(rule):
        raise AuditError(f"accept={rule!r} is no probability and no rule.", hint="use 1.0, or WithinCost(budget).")
    out = numbers("accept", rule(cost))
    if out.shape != cost.shape:
        raise AuditError(
            f"the rule {rule!r} gives {out.size} probabilities for {len(cost)} costs.", hint="return one for each cost."
        )
    return check_probabilities("accept", out)
