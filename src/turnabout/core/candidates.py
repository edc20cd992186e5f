"""Rows that may become options: whose each is, and which few of a person's are worth a look."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.core.problem import Problem
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor


@dataclass
class Candidates(TensorRows):
    """Rows that the fast model accepts and the rules allow, with the person each is for."""

    owner: Tensor  # (c,)
    x_new: Tensor  # (c, d)

    def shortlist(self, problem: Problem, x: Tensor, keep: int | None, ranked: bool) -> Candidates:
        """The cheapest (or first) few different rows of each person, all of them for None, person by person."""
        owner, x_new = self.owner, self.x_new
        if not len(owner):
            return self
        if ranked:
            order = problem.cost(x[owner], x_new).argsort(stable=True)
            owner, x_new = owner[order], x_new[order]
        order = owner.argsort(stable=True)
        owner, x_new = owner[order], x_new[order]
        fresh = ~repeats(owner, x_new)
        owner, x_new = owner[fresh], x_new[fresh]
        if keep is None:
            return Candidates(owner, x_new)
        few = places(owner) < keep
        return Candidates(owner[few], x_new[few])


def places(owner: Tensor) -> Tensor:
    """(c,) sorted owners -> the place of each row among those of its person."""
    return torch.arange(len(owner), device=owner.device) - torch.searchsorted(owner, owner)


def repeats(owner: Tensor, x_new: Tensor) -> Tensor:
    """(c,) True where the same person has the same row earlier on."""
    salt = torch.sqrt(torch.arange(2, x_new.shape[1] + 2, dtype=x_new.dtype, device=x_new.device))
    order = (x_new @ salt).argsort(stable=True)  # equal rows become neighbours
    order = order[owner[order].argsort(stable=True)]
    same = (owner[order][1:] == owner[order][:-1]) & (x_new[order][1:] == x_new[order][:-1]).all(1)
    out = torch.zeros_like(owner, dtype=torch.bool)
    out[order[1:]] = same
    return out
