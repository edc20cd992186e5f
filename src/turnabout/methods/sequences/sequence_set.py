"""Sequences of actions, each in one canonical order, grown an action at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from turnabout.actions import BoundActions
from turnabout.typing import Tensor

ActionSequence = tuple[int, ...]
Pairs = list[tuple[int, ActionSequence]]  # people and sequences


@dataclass
class SequenceSet:
    """Which sequences there are, and which of them say the same.

    Two actions commute when neither reads nor writes what the other writes, and no rule joins what they write.
    Sequences that differ only in the order of commuting neighbours are one plan; of them the lexicographically first
    is kept (the normal form of a trace). Every prefix of a normal form is one, so normal forms grow from normal forms:

        s a is normal  iff  no action b > a of s is followed only by actions that commute with a, b among them      (1)

    An action that is not repeatable stands in a sequence once at most.

    Parameters
    ----------
    actions : the bound actions.
    merge : whether to keep only normal forms; without it every order is a sequence of its own, as in the paper.
    joined : for each rule that one order of changes may break and the other not, the features that it joins.
    """

    actions: BoundActions
    merge: bool = True
    joined: tuple[set[int], ...] = ()
    _commute: list[list[bool]] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.actions.names)
        self._commute = [
            [self.merge and a != b and self.actions.commute(a, b) and not self._joins(a, b) for b in range(count)]
            for a in range(count)
        ]

    def _joins(self, a: int, b: int) -> bool:
        return any(self.actions.writes[a] & rule and self.actions.writes[b] & rule for rule in self.joined)

    def extensions(self, sequence: ActionSequence) -> Iterator[ActionSequence]:
        """The sequences one action longer, in the order of their last action."""
        for a, action in enumerate(self.actions.actions):
            if (a not in sequence or action.repeatable) and self._is_normal(sequence, a):
                yield (*sequence, a)

    def _is_normal(self, sequence: ActionSequence, a: int) -> bool:
        """Whether sequence + a is a normal form, given that sequence is; (1)."""
        for b in reversed(sequence):
            if not self._commute[a][b]:
                return True
            if a < b:
                return False
        return True

    def normal(self, sequence: ActionSequence) -> tuple[ActionSequence, list[int]]:
        """The normal form of a sequence, and the place each of its actions had."""
        order = normal_order(sequence, self._commute)
        return tuple(sequence[k] for k in order), order

    def up_to(self, length: int) -> list[ActionSequence]:
        """Every sequence of one action up to `length`, shorter ones first."""
        level: list[ActionSequence] = [()]
        out: list[ActionSequence] = []
        for _ in range(length):
            level = [longer for sequence in level for longer in self.extensions(sequence)]
            out += level
        return out


def normal_order(sequence: ActionSequence, commute: list[list[bool]]) -> list[int]:
    """The places of a sequence's actions in its normal form, given which of the actions commute."""
    left = list(range(len(sequence)))
    order: list[int] = []
    while left:
        # actions that may stand next: those that commute with all actions still before them
        ready = [k for k in left if all(commute[sequence[k]][sequence[j]] for j in left if j < k)]
        order.append(min(ready, key=lambda k: (sequence[k], k)))
        left.remove(order[-1])
    return order


def as_tensor(sequences: list[ActionSequence], length: int, device: torch.device | str = "cpu") -> Tensor:
    """Sequences -> (W, length), padded with -1."""
    padded = [list(sequence) + [-1] * (length - len(sequence)) for sequence in sequences]
    return torch.tensor(padded, dtype=torch.long, device=device).reshape(len(sequences), length)


def owned(pairs: Pairs, length: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Pairs of a person and a sequence -> owner (B,) and sequences (B, length), padded with -1."""
    owner = torch.tensor([i for i, _ in pairs], dtype=torch.long, device=device)
    return owner, as_tensor([sequence for _, sequence in pairs], length, device)
