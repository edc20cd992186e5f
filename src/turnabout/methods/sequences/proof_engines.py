"""What proves that no plan is cheaper: boxes of parameters, integer programs, or one after the other."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnabout.parameters import Named
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.methods.sequences.certificate.proof import Proofs, Work

PATIENCE = 30.0  # seconds for each person's integer programs after branch and bound, if no limit is given


@dataclass(frozen=True)
class ProofBudget:
    """What a proof may take, counted from `began` on the monotonic clock.

    batch : boxes bounded at a time.  boxes : boxes allowed for each person on average, None for any number.
    """

    began: float
    seconds: float | None
    batch: int
    boxes: int | None

    def until(self, share: float = 1.0) -> float | None:
        """When a share of the time is over; None without a limit."""
        return None if self.seconds is None else self.began + self.seconds * share

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= (math.inf if self.seconds is None else self.began + self.seconds)


class ProofEngine(ABC):
    """Raises the lower bounds of people for whom boxes of parameters are left."""

    @abstractmethod
    def prove(self, proofs: Proofs, who: Tensor, work: Work, budget: ProofBudget) -> None:
        """Write into `proofs` what is found about the people `who`; their jobs and boxes are in `work`."""


@dataclass(frozen=True)
class BranchEngine(ProofEngine):
    """Branch and bound over boxes of parameters, for everyone at once."""

    def prove(self, proofs: Proofs, who: Tensor, work: Work, budget: ProofBudget) -> None:
        proofs.branch(who, work, budget, budget.until())


@dataclass(frozen=True)
class MilpEngine(ProofEngine):
    """Integer programs, one sequence of one person after the other."""

    def prove(self, proofs: Proofs, who: Tensor, work: Work, budget: ProofBudget) -> None:
        if len(who):
            proofs.programs(who, work, budget.until())


@dataclass(frozen=True)
class BranchThenMilp(ProofEngine):
    """Branch and bound; then, for small models, integer programs for those for whom it was not enough.

    small : units, or nodes / 16, of models for which integer programs are tried.
    branching : share of the time that branch and bound may take before that.
    """

    small: int = 128
    branching: float = 0.7

    def prove(self, proofs: Proofs, who: Tensor, work: Work, budget: ProofBudget) -> None:
        assert proofs.bound is not None
        spare = proofs.bound.units <= self.small
        done = proofs.branch(who, work, budget, budget.until(self.branching if spare else 1.0))
        left = who[~done[who]]
        if len(left) and spare and not budget.is_over:
            until = budget.until()
            proofs.programs(left, work, time.monotonic() + PATIENCE * len(left) if until is None else until, True)


ENGINES: Named[ProofEngine] = Named(ProofEngine, auto=BranchThenMilp(), branch=BranchEngine(), milp=MilpEngine())
