"""Pairs of a refused person and a row that accepted people have: what a generator of recourse learns from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.core import Problem
from turnabout.core.verify import clearance
from turnabout.methods.confidence import confident_margin
from turnabout.methods.nearest_row import Screen, legal_rows
from turnabout.typing import Tensor

BLOCK = 1 << 24  # distances held at a time
ROWS = 1 << 22  # numbers of adapted rows that the model is asked about at a time


@dataclass(frozen=True)
class RecoursePairs:
    r"""For each of n sources the nearest rows of the pool P, as they could become them.

    Q(x' | x) is proportional to exp(-lam c(x, x')) on x' = a(x, r), r in P: what x cannot change stays theirs, moves
    in a forbidden direction are left out. Only rows count that keep the rules and that the model accepts with
    confidence.

    sources : (n, d) refused background rows.
    pool : (m, d) accepted background rows.
    index : (n, k) the pool's row of each pair.
    cost : (n, k) c(x, x'), infinite where a pair does not count.
    """

    sources: Tensor
    pool: Tensor
    index: Tensor
    cost: Tensor

    @classmethod
    def of(cls, problem: Problem, confidence: float, k: int) -> RecoursePairs:
        """Of all refused background people; those without any pair are left out."""
        rows, margin = problem.background_x, problem.background_margin
        assert rows is not None and margin is not None
        sure = max(clearance(problem), confident_margin(problem, confidence))
        sources, pool = rows[margin < 0], legal_rows(problem.schema, accepted_rows(problem, confidence))
        linear, fixed = problem.cost.linear_weights, problem.cost.fixed_weights
        if linear is None or fixed is None:
            linear, fixed = torch.ones(len(problem.schema)), torch.zeros(len(problem.schema))
        screen = Screen(problem.schema, pool, linear, fixed, adapt=True)
        k = min(k, len(pool))
        index = torch.zeros(len(sources), k, dtype=torch.long, device=rows.device)
        cost = torch.full((len(sources), k), torch.inf, dtype=rows.dtype, device=rows.device)
        step = max(1, BLOCK // max(1, len(pool)))
        for start in range(0, len(sources) if k else 0, step):
            part = slice(start, start + step)
            index[part] = screen(sources[part]).topk(k, largest=False).indices
        found = cls(sources, pool, index, cost)
        found._weigh(problem, sure)
        kept = torch.isfinite(cost).any(1) if k else torch.zeros(len(sources), dtype=torch.bool)
        return cls(sources[kept], pool, index[kept], cost[kept])

    def _weigh(self, problem: Problem, sure: float) -> None:
        """Fill in the costs of the pairs that count."""
        k = self.index.shape[1]
        step = max(1, ROWS // max(1, k * self.sources.shape[1]))
        for start in range(0, len(self.sources) if k else 0, step):
            part = slice(start, start + step)
            own = self.sources[part].unsqueeze(1)
            rows = adapted(problem, own, self.pool[self.index[part]])
            own = own.expand_as(rows)
            counts = (problem.margin(rows) >= sure) & (problem.violation(own, rows) <= 0)
            self.cost[part] = problem.cost(own, rows).masked_fill(~counts, torch.inf)

    def __len__(self) -> int:
        return len(self.sources)

    def draw(self, problem: Problem, source: Tensor, lam: Tensor, uniform: Tensor) -> Tensor:
        """A row (b, d) for each of some sources (b,), by Q with weights lam (b,) and random numbers (b,)."""
        share = (-lam.unsqueeze(1) * self.cost[source]).softmax(1).cumsum(1)
        chosen = (share < uniform.unsqueeze(1)).sum(1).clamp(max=share.shape[1] - 1)
        last = torch.isfinite(self.cost[source]).long().cumsum(1).argmax(1)  # rounding may leave the sum below 1
        row = self.pool[self.index[source, torch.minimum(chosen, last)]]
        return adapted(problem, self.sources[source], row)


def adapted(problem: Problem, x: Tensor, rows: Tensor) -> Tensor:
    """Rows (..., d) as people x (..., d) could become them: stuck cells theirs, no forbidden move, rules mended."""
    x = x.expand_as(rows)
    return problem.snap(x, torch.where(problem.schema.missing(rows), x, rows))  # no plan makes a cell missing


def accepted_rows(problem: Problem, confidence: float) -> Tensor:
    """(rows, d) background rows that the model accepts with confidence and whose label, if known, is a yes."""
    rows, margin, labels = problem.background_x, problem.background_margin, problem.labels
    assert rows is not None and margin is not None
    good = margin >= max(clearance(problem), confident_margin(problem, confidence))
    return rows[good if labels is None else good & labels]
