"""Which sequence to look at next: the scores of the paper, smallest first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from turnabout.errors import MethodError
from turnabout.methods.sequences.sequence_set import Pairs
from turnabout.models import Differentiable, Model
from turnabout.parameters import Named
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.methods.sequences.sequence_search import SequenceSearch

AT_A_TIME = 8  # sequences of a person that are solved before the next are chosen, where their number is not counted


class SequenceScore(ABC):
    """Says which extension of a solved sequence to look at next."""

    def check(self, model: Model) -> None:
        """Refuse a model for which there is no such score."""
        return

    def explore(self, search: SequenceSearch, iterations: int | None) -> None:
        """Solve sequences in the order of this score: all, or so many for each person."""
        search.best_first(self, AT_A_TIME if iterations is None else 1, iterations)

    @abstractmethod
    def values(self, search: SequenceSearch, solved: Pairs) -> Tensor:
        """(pairs, A) the score of each solved sequence with each action put behind it."""


@dataclass(frozen=True)
class BreadthScore(SequenceScore):
    """The length of the sequence: short ones first."""

    def explore(self, search: SequenceSearch, iterations: int | None) -> None:
        if iterations is None:
            search.breadth()
        else:
            super().explore(search, iterations)

    def values(self, search: SequenceSearch, solved: Pairs) -> Tensor:
        return _for_all_actions(search, [len(sequence) + 1.0 for _, sequence in solved])


@dataclass(frozen=True)
class ObjectiveScore(SequenceScore):
    """The value of problem (3) at the parent: what is cheap, or nearly accepted, is extended first."""

    def values(self, search: SequenceSearch, solved: Pairs) -> Tensor:
        return _for_all_actions(search, [search.ledger.objective(i, sequence) for i, sequence in solved])


@dataclass(frozen=True)
class GradientScore(SequenceScore):
    r"""- mean |d loss / d x_j| over the footprint of the added action, at the parent's end.

    The loss is the cross-entropy of the decision, log(1 + exp(-margin)), of the trained model; x_j are encoded columns.
    """

    def check(self, model: Model) -> None:
        if not isinstance(model, Differentiable):
            raise MethodError(
                f"the gradient score needs a model that is Differentiable, and {model!r} is not.",
                hint="use score='breadth' or 'objective'.",
            )

    def values(self, search: SequenceSearch, solved: Pairs) -> Tensor:
        actions = search.solver.actions
        slope = loss_slope(search.solver.decision.model, search.ends(solved))
        out = torch.zeros(len(solved), len(actions.names), dtype=torch.float64)
        for a in range(len(actions.names)):
            out[:, a] = slope[:, actions.footprint_columns(a)].mean(1).cpu()
        return -out


SCORES: Named[SequenceScore] = Named(
    SequenceScore, breadth=BreadthScore(), objective=ObjectiveScore(), gradient=GradientScore()
)


def loss_slope(model: Model, x: Tensor) -> Tensor:
    """(m, d) |d loss / d x| with loss = log(1 + exp(-margin)): the cross-entropy of a yes."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = torch.nn.functional.softplus(-model.margin(leaf))
        (slope,) = torch.autograd.grad(loss.sum(), leaf)
    return slope.abs()


def _for_all_actions(search: SequenceSearch, values: list[float]) -> Tensor:
    """One value for each sequence, whatever action is put behind it."""
    column = torch.tensor(values, dtype=torch.float64).unsqueeze(1)
    return column.expand(-1, len(search.solver.actions.names))
