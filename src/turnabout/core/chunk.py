"""Some people who are searched together, and what is found for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from turnabout.core.problem import Problem
from turnabout.core.refine import Ask, Criterion
from turnabout.core.run import Run
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Chunk:
    """People who are searched together (n rows), and what every stage needs to know of the call.

    table and x (n, d) are the same persons, raw and encoded. With `ranked` the cheapest options come first, otherwise
    the order of the proposals is kept.
    """

    problem: Problem
    table: pd.DataFrame
    x: Tensor
    ranked: bool
    ask: Ask
    run: Run
    criterion: Criterion | None = None  # what the method aims for beyond acceptance


@dataclass
class Verified:
    """Verified options of one chunk, and the best that was seen for those without."""

    best_margin: Tensor  # (n,) highest margin of an allowed row
    best: Tensor  # (n, d) that row
    left: Tensor  # (n,) how many options each person may still have
    rows: list[pd.DataFrame] = field(default_factory=list)
    owner: list[np.ndarray] = field(default_factory=list)
    x_new: list[Tensor] = field(default_factory=list)
    plans: list[pd.DataFrame] = field(default_factory=list)  # one table for each of rows, when these came by plans
    steps: list[pd.DataFrame] = field(default_factory=list)  # their steps; "place" is that of the row in its table

    @classmethod
    def none_yet(cls, chunk: Chunk) -> Verified:
        """Nothing is verified."""
        x = chunk.x
        worst = torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
        return cls(worst, x.clone(), torch.full((len(x),), chunk.run.options, dtype=torch.long, device=x.device))

    def note_best(self, owner: Tensor, x_new: Tensor, margin: Tensor, allowed: Tensor) -> None:
        """Remember the allowed row with the highest margin of each person."""
        margin = torch.where(allowed, margin, torch.full_like(margin, -torch.inf))
        order = margin.argsort(stable=True)  # the best of each person is written last
        top = torch.full_like(self.best_margin, -torch.inf).scatter_reduce(0, owner, margin, "amax")
        better = order[(margin[order] == top[owner[order]]) & (top[owner[order]] > self.best_margin[owner[order]])]
        self.best[owner[better]] = x_new[better]
        self.best_margin = torch.maximum(self.best_margin, top)

    def enter(self, owner: np.ndarray, rows: pd.DataFrame, x_new: Tensor) -> None:
        """Options that were verified: printed rows with cost and margin, whose they are, and the rows encoded."""
        self.rows.append(rows)
        self.owner.append(owner)
        self.x_new.append(x_new)
        self.left -= torch.bincount(torch.as_tensor(owner, device=self.left.device), minlength=len(self.left))

    def so_far(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The options there are, (s, d), and whose each is, (s,)."""
        if not self.x_new:
            return x[:0], torch.zeros(0, dtype=torch.long, device=x.device)
        return torch.cat(self.x_new), torch.as_tensor(np.concatenate(self.owner), device=x.device)
