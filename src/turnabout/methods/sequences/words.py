"""Words: sequences of actions, each in one canonical order, grown a letter at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from turnabout.actions import BoundActions
from turnabout.typing import Tensor

Word = tuple[int, ...]


@dataclass
class SequenceSet:
    """Which words there are, and which of them say the same.

    Two actions commute when neither reads nor writes what the other writes, and no rule joins what they write. Words
    that differ only in the order of commuting neighbours are one plan; of them the lexicographically first is kept
    (the normal form of a trace). Every prefix of a normal form is one, so normal forms grow from normal forms:

        w a is normal  iff  no letter b > a of w is followed only by letters that commute with a, b among them      (1)

    An action that is not repeatable stands in a word once at most.

    Parameters
    ----------
    actions : the bound actions.
    merge : whether to keep only normal forms; without it every order is a word of its own, as in the paper.
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

    def extensions(self, word: Word) -> Iterator[Word]:
        """The words one letter longer, in the order of their last letter."""
        for a, action in enumerate(self.actions.actions):
            if (a not in word or action.repeatable) and self._is_normal(word, a):
                yield (*word, a)

    def _is_normal(self, word: Word, a: int) -> bool:
        """Whether word + a is a normal form, given that word is; (1)."""
        for b in reversed(word):
            if not self._commute[a][b]:
                return True
            if a < b:
                return False
        return True

    def normal(self, word: Word) -> tuple[Word, list[int]]:
        """The normal form of a word, and the place each of its letters had."""
        left = list(range(len(word)))
        order: list[int] = []
        while left:
            # letters that may stand next: those that commute with all letters still before them
            ready = [k for k in left if all(self._commute[word[k]][word[j]] for j in left if j < k)]
            order.append(min(ready, key=lambda k: (word[k], k)))
            left.remove(order[-1])
        return tuple(word[k] for k in order), order

    def up_to(self, length: int) -> list[Word]:
        """Every word of one letter up to `length`, shorter ones first."""
        level: list[Word] = [()]
        out: list[Word] = []
        for _ in range(length):
            level = [longer for word in level for longer in self.extensions(word)]
            out += level
        return out


def as_tensor(words: list[Word], length: int, device: torch.device | str = "cpu") -> Tensor:
    """Words -> (W, length), padded with -1."""
    padded = [list(word) + [-1] * (length - len(word)) for word in words]
    return torch.tensor(padded, dtype=torch.long, device=device).reshape(len(words), length)
