"""What becomes of people who moved: did the change make them better, or only look better?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from turnabout.audit.risk.accepting import check_probabilities, numbers, per_person
from turnabout.errors import AuditError
from turnabout.schema import Schema
from turnabout.typing import is_number


@dataclass(frozen=True)
class Causes:
    r"""Compliance by feature: a change of a cause is real, a change of a proxy is for show.

        rho_i = sum over causes f of D_if  /  sum over all features f of D_if                              (1)

    with D_if the change that person i's proposal makes to feature f, as a share of the feature's range; another level
    of a category, or of a binary, is a change of 1. So a plan that changes causes alone is compliant, one that changes
    proxies alone is defiant, and a mixed one counts by the size of its changes.

    Parameters
    ----------
    flags : True for a cause of repaying, False for what merely goes with it. Every feature that some proposal changes
        must be named.
    """

    flags: Mapping[str, bool]

    def __post_init__(self) -> None:
        odd = [name for name, flag in self.flags.items() if not isinstance(flag, (bool, np.bool_))]
        if odd:
            raise AuditError(
                f"the flag of '{odd[0]}' is {self.flags[odd[0]]!r}.", hint="True for a cause, False for a proxy."
            )

    def shares(self, schema: Schema, before: pd.DataFrame, after: pd.DataFrame) -> np.ndarray:
        """(n,) rho of people who move from rows `before` to rows `after`; 0 for people who do not move."""
        if unknown := [name for name in self.flags if name not in schema.names]:
            raise AuditError(
                f"Causes speaks of '{unknown[0]}', which is no feature.", hint=f"features: {', '.join(schema.names)}."
            )
        change = schema.distance(schema.encode(before), schema.encode(after)).numpy()
        silent = [name for f, name in enumerate(schema.names) if name not in self.flags and (change[:, f] > 0).any()]
        if silent:
            raise AuditError(
                f"proposals change '{silent[0]}', and Causes does not say whether it is a cause.",
                hint=f"add {silent[0]!r}: True or False.",
            )
        real = change @ np.array([float(self.flags.get(name, False)) for name in schema.names])
        total = change.sum(1)
        return np.divide(real, total, out=np.zeros_like(total), where=total > 0)  # (1)


Outcome: TypeAlias = Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]
"""Rows before and after a move -> (n,) P(repays): a causal model, simulated."""
Compliance: TypeAlias = float | Causes | Outcome | Sequence[float] | np.ndarray | pd.Series
"""A number for all, one per person, causes among the features, or what happens to whom."""


def complying(
    compliance: Compliance, schema: Schema, before: pd.DataFrame, after: pd.DataFrame, moved: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(rho, outcome), each (n,) or None: one of them is known. Rows of people who do not move are ignored."""
    if isinstance(compliance, Causes):
        rho = np.zeros(len(before))
        rho[moved] = compliance.shares(schema, before[moved], after[moved])
        return rho, None
    if callable(compliance):
        chance = np.zeros(len(before))
        if moved.any():
            out = numbers("compliance", compliance(before[moved], after[moved]))
            if out.shape != (int(moved.sum()),):
                raise AuditError(
                    f"the outcome gives {out.size} probabilities for {int(moved.sum())} people who move.",
                    hint="return P(repays) for each row.",
                )
            chance[moved] = check_probabilities("compliance", out)
        return None, chance
    if is_number(compliance):
        share = np.full(len(before), float(compliance))  # type: ignore[arg-type]
        return check_probabilities("compliance", share), None
    return per_person("compliance", compliance, before.index), None
