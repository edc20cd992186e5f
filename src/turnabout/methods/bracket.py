"""The largest weight of the cost with which each person is still accepted, closed in from both sides."""

from __future__ import annotations

import torch

from turnabout.typing import Tensor


class Bracket:
    """A weight lam for each person: raised after a round that met an accepted point, lowered after one that did not.

    While only one side is known, lam grows fourfold or shrinks tenfold; then it halves the interval. Never below zero.

    Parameters
    ----------
    lam : the first weight; like : a tensor (n,) whose kind and place the weights take.
    """

    def __init__(self, lam: float, like: Tensor):
        self.lam = torch.full_like(like, lam)
        self.upper = torch.full_like(like, torch.inf)  # smallest lam that failed
        self.lower = torch.zeros_like(like)  # largest lam that succeeded

    def close_in(self, hit: Tensor) -> None:
        """After a round; hit (n,) says who met an accepted point."""
        lam = self.lam
        self.lower = torch.where(hit, torch.maximum(self.lower, lam), self.lower)
        self.upper = torch.where(hit, self.upper, torch.minimum(self.upper, lam))
        middle = (self.lower + self.upper) / 2
        grown = torch.where(torch.isfinite(self.upper), middle, lam * 4)
        shrunk = torch.where(self.lower > 0, middle, lam / 10)
        self.lam = torch.where(hit, grown, shrunk)
