"""The nearest accepted row of the background, and a sparse mixture with it (NNR; NICE, Brughmans et al., 2023)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.core.candidates import places
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.confidence import confident_margin
from turnabout.parameters import Choice, Finite, Flag, Maybe, Whole, checked
from turnabout.schema import Category, Feature, Schema
from turnabout.typing import Tensor

Pool = Literal["labels", "model", "both"]

POOLS = ("labels", "model", "both")
BLOCK = 1 << 20  # entries of one block of the table of distances, small enough for a processor's cache
CELLS = 1 << 22  # numbers in one block of candidate rows
FIRST = 32  # rows put to the model for each person at first,
GROW = 8  # how many times more when they had no luck,
FURTHEST = 4096  # and at most
RERANKED = 200  # rows that are ranked again by a cost that is not a sum of weighted distances
NEAREST = 0.7  # share of the time left for the nearest rows; the rest is for mixtures
SAME = 1e-6  # encoded difference, in single precision, below which two cells are the same


@checked(
    MethodError,
    pool=Choice(*POOLS),
    confidence=Finite(least=0.5, below=1),
    adapt=Flag(),
    sparsity=Flag(),
    neighbours=Whole(1),
    rows=Maybe(Whole(1)),
)
class NearestRow(Method):
    r"""Do as the nearest accepted person did.

    For each refused person x, the nearest of the background rows P,

        min over r in P   c(x, r)      with x' = r                                     (1)

        P = rows whose label is a yes, that the model accepts with confidence, or both, by `pool`        (2)

    are the three forms of nearest neighbour recourse (NNR). Most rows differ from x in what they cannot change. With
    `adapt`, each is first made possible for them: stuck cells are copied from x, moves in a forbidden direction are
    left out, rules are repaired, and (1) runs over such rows, as far as the model still accepts them. Without it,
    only rows that they could become as they stand take part. In both cases the model must accept x', whatever `pool`.

    With `sparsity`, each row found also gives a mixture: start from x and copy from the row, one feature at a time,
    the one that

        gains most margin per cost,   (f(y + feature) - f(y)) / (c(x, y + feature) - c(x, y)),            (3)

    until the model accepts; a copy that completes the plan is preferred, the cheapest first. NICE rewards gain per
    distance in the same way, but takes only the one nearest row.

    Distances to all rows are computed, in blocks: exact, no index. Where the cost is no sum of weighted distances and
    counts of changes, or rules repair rows, the 200 nearest by L1 are ranked by the cost itself. What `find` shows is
    polished: the walk starts from a row of P and ends at the boundary, so `confidence` decides whom a person is
    likened to, not how clear their yes is.

    Use it for any model, when there are real people to point at, and as a strong and quick baseline. Not for
    small backgrounds: the nearest of few is far.

    Parameters
    ----------
    pool : which rows (2) are likened to: "labels" (accepted in the records), "model" (by the model), or "both".
    confidence : of the model in rows of the pools "model" and "both": P(yes) where the model gives it; see
        `methods.confidence.confident_margin`.
    adapt : whether rows are made possible for the person first.
    sparsity : whether mixtures (3) are proposed beside the rows.
    neighbours : rows looked at more closely for each person, and at least four for each option asked for. Of rows
        and mixtures that change the same features, only the cheapest is proposed.
    rows : at most so many rows of the pool, evenly spaced in the background; None for all.

    References
    ----------
    Garg, Nagalapatti, Sarawagi (2025), From search to sampling: generative models for robust algorithmic recourse;
    section 5.5 compares the three pools. Its rows need not be accepted by the model with pool "labels"; ours do.
    Brughmans, Leyman, Martens (2023), NICE: an algorithm for nearest instance counterfactual explanations.
    """

    needs_background = True

    def __init__(
        self,
        pool: Pool = "model",
        confidence: float = 0.7,
        adapt: bool = True,
        sparsity: bool = True,
        neighbours: int = 8,
        rows: int | None = None,
    ):
        self.pool = pool
        self.confidence = confidence
        self.adapt = adapt
        self.sparsity = sparsity
        self.neighbours = neighbours
        self.rows = rows

    @classmethod
    def small(cls) -> Self:
        return cls(neighbours=3, rows=500)

    # -- fit --------------------------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> None:
        if self.pool != "model" and problem.labels is None:
            raise MethodError(
                f"NearestRow(pool={self.pool!r}) needs to know who was accepted.",
                hint="pass labels=... to Problem beside background=..., or use pool='model'.",
            )
        chosen = problem.background_x[self._pool(problem)]  # type: ignore[index]
        if self.adapt:  # rows that differ only in what nobody may change are one
            chosen = _first_of_each(legal_rows(problem.schema, chosen), problem.schema)
        if self.rows is not None and len(chosen) > self.rows:
            chosen = chosen[torch.linspace(0, len(chosen) - 1, self.rows, device=chosen.device).long()]
        self.rows_ = chosen  # (m, d)
        self.holes_ = problem.schema.missing(chosen).any(1)  # (m,)
        linear, fixed = problem.cost.linear_weights, problem.cost.fixed_weights
        repaired = self.adapt and len(problem.rules) > 0  # then a row's cost is known only after its repair
        self.exact_ = linear is not None and fixed is not None and not repaired
        if linear is None or fixed is None:
            linear, fixed = torch.ones(len(problem.schema)), torch.zeros(len(problem.schema))
        self.screen_ = Screen(problem.schema, chosen, linear, fixed, self.adapt)

    def _pool(self, problem: Problem) -> Tensor:
        """(rows,) True for rows of (2)."""
        margin, labels = problem.background_margin, problem.labels
        assert margin is not None
        if self.pool == "labels":
            assert labels is not None
            return labels
        sure = (margin >= clearance(problem)) & (margin >= confident_margin(problem, self.confidence))
        return sure & labels if self.pool == "both" and labels is not None else sure

    # -- search -----------------------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        with self.run.within(NEAREST):
            near = self._nearest(x, max(self.neighbours, 4 * self.run.options))  # (n, k, d)
        x_new = torch.cat([self._mixtures(x, near), near], 1) if self.sparsity else near
        return Proposal(self._one_of_each_kind(x, x_new))

    def _one_of_each_kind(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Proposals (n, k, d) with only the cheapest left of those that change the same features."""
        own = x.unsqueeze(1)
        cost = torch.nan_to_num(self.problem_.cost(own, x_new), nan=torch.inf)
        order = cost.argsort(dim=1, stable=True)
        x_new = x_new.gather(1, order.unsqueeze(2).expand_as(x_new))
        changed = self.problem_.schema.changed(own, x_new)  # (n, k, F)
        label = np.random.default_rng(0).integers(1 << 62, size=changed.shape[2])  # sums name sets of features
        kind = (changed * torch.from_numpy(label).to(x.device)).sum(2)  # (n, k)
        alike = (kind.unsqueeze(2) == kind.unsqueeze(1)).tril(-1).any(2)
        return x_new.masked_fill(alike.unsqueeze(2), torch.nan)

    def _nearest(self, x: Tensor, k: int) -> Tensor:
        """(1): the k nearest accepted rows of each person, (n, k, d); NaN where fewer than k were met."""
        out = torch.full((len(x), k, x.shape[1]), torch.nan, dtype=x.dtype, device=x.device)
        block = max(1, BLOCK // max(1, len(self.rows_)))
        for part in self.run.parts(len(x) if len(self.rows_) else 0, block, "people", k * FIRST):
            if self.run.expired:
                break
            self._nearest_of_block(x[part], out[part])
        return out

    def _nearest_of_block(self, x: Tensor, out: Tensor) -> None:
        """Put ever more rows to the model, the nearest first, until enough are accepted; fills out (a, k, d)."""
        distance = self.screen_(x)  # (a, m)
        furthest = min(FURTHEST, len(self.rows_))
        width = min(furthest, max(FIRST if self.exact_ else RERANKED, 4 * out.shape[1]))
        todo = torch.arange(len(x), device=x.device)
        while len(todo):
            short = []
            for part in self.run.parts(len(todo), max(1, CELLS // (width * x.shape[1])), f"rows {width}", width):
                if self.run.expired:
                    return
                some = todo[part]
                near, index = distance[some].topk(width, largest=False)
                out[some], enough = self._look(x[some], near, index, out.shape[1])
                short.append(some[~enough & torch.isfinite(near[:, -1])])
            if width == furthest or self.run.expired:
                return
            todo, width = torch.cat(short), min(GROW * width, furthest)

    def _look(self, x: Tensor, near: Tensor, index: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Put rows `index` (a, w) to the model: the k nearest accepted (a, k, d), and (a,) whether that is enough."""
        own, allowed = x.unsqueeze(1).expand(*index.shape, -1), torch.isfinite(near)
        if self.adapt:
            x_new = self._possible(x, index)  # (a, w, d)
        else:
            x_new = self.problem_.snap(own, self.rows_[index])
            allowed &= ((x_new - self.rows_[index]).abs() <= SAME).all(-1)
        if self.problem_.rules:
            allowed &= self.problem_.violation(own, x_new) <= 0
        margin = self.ask(x_new).masked_fill(~allowed, -torch.inf)
        accepted = margin >= clearance(self.problem_)
        cost = near.to(x.dtype) if self.exact_ else self.problem_.cost(own, x_new)
        none = ~accepted.any(1, keepdim=True)  # then the most nearly accepted row may still show the way
        rank = torch.where(accepted, cost, torch.where(none, -margin, torch.inf))
        rank, order = rank.topk(min(k, rank.shape[1]), largest=False)
        best = x_new.gather(1, order.unsqueeze(2).expand(-1, -1, x.shape[1]))
        best[~torch.isfinite(rank)] = torch.nan
        missing = best.new_full((len(x), k - best.shape[1], x.shape[1]), torch.nan)
        return torch.cat([best, missing], 1), accepted.sum(1) >= min(k, self.run.options)

    def _possible(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows `index` (a, w) -> (a, w, d), with stuck cells copied from x (a, d) and forbidden moves left out."""
        own = x.unsqueeze(1)
        x_new = torch.clamp(self.rows_[index], *self.problem_.bounds(own))
        if self.holes_.any():  # no plan makes a cell missing
            a, w = self.holes_[index].nonzero(as_tuple=True)
            x_new[a, w] = torch.where(self.problem_.schema.missing(self.rows_[index[a, w]]), x[a], x_new[a, w])
        return self.problem_.snap(own.expand_as(x_new), x_new) if self.problem_.rules else x_new

    def _mixtures(self, x: Tensor, near: Tensor) -> Tensor:
        """(3) for each row (n, k, d): mixtures of the same shape, NaN where there is no row."""
        out = torch.full_like(near, torch.nan)
        schema = self.problem_.schema
        pairs = torch.isfinite(near).all(-1).nonzero()  # person and place of each row
        for part in self.run.parts(len(pairs), max(1, CELLS // (len(schema) * schema.d)), "mixtures", len(schema)):
            owner, place = pairs[part].T
            out[owner, place] = self._mixed(x[owner], near[owner, place])
        return out

    def _mixed(self, x: Tensor, goal: Tensor) -> Tensor:
        """People and rows (p, d) -> (p, d) with just enough features of the row."""
        schema, feature_of = self.problem_.schema, self.problem_.schema.feature_of.to(x.device)
        y, margin = x.clone(), self.ask(x)
        cost = torch.zeros_like(margin)
        active = torch.arange(len(x), device=x.device)
        while len(active) and not self.run.expired:
            place, feature = schema.changed(y[active], goal[active]).nonzero(as_tuple=True)
            pair = active[place]  # (t,)
            trial = torch.where(feature_of == feature.unsqueeze(1), goal[pair], y[pair])
            reached, paid = self.ask(trial), self.problem_.cost(x[pair], trial)
            done = (reached >= clearance(self.problem_)) & (self.problem_.violation(x[pair], trial) <= 0)
            gain = reached - margin[pair]
            score = torch.where(gain > 0, gain / (paid - cost[pair]).clamp(min=1e-9), gain)  # (3)
            best = _best_of_each(pair, done, torch.where(done, -paid, score))
            chosen = pair[best]
            y[chosen], margin[chosen], cost[chosen] = trial[best], reached[best], paid[best]
            active = chosen[~done[best]]
        return y


class Screen:
    """Cost of becoming each of m rows, in single precision: x (a, d) -> (a, m), infinite where that is impossible.

    The cost is sum_f linear_f * distance_f + fixed_f * [f changed]. With `adapt` a feature that cannot follow the
    row stays and costs nothing; otherwise it makes the row impossible.
    """

    def __init__(self, schema: Schema, rows: Tensor, linear: Tensor, fixed: Tensor, adapt: bool):
        self.adapt = adapt
        self.parts: list[tuple[Feature, slice, Tensor, Tensor, float, float]] = []
        self.m = len(rows)
        for f, (feature, s) in enumerate(zip(schema.features, schema.slices)):
            if adapt and feature.moves == "fixed":
                continue
            absent = rows[:, s.stop - 1] > 0.5 if feature.missing else torch.zeros_like(rows[:, 0], dtype=torch.bool)
            if isinstance(feature, Category):
                # what it costs to come from each level, and from a missing cell, (levels + 1, m)
                differs = 1.0 - rows[:, s.start : s.start + len(feature.levels)].T
                stuck = 0.0 if adapt else torch.inf
                each = torch.inf if feature.moves == "fixed" else float(linear[f] + fixed[f])
                price = torch.where(absent, stuck, torch.where(differs > 0.5, each, 0.0))
                values = torch.cat([price, torch.where(absent, 0.0, stuck).unsqueeze(0)])
            else:
                values = rows[:, s.start]
            self.parts.append((feature, s, values.float(), absent, float(linear[f]), float(fixed[f])))

    def __call__(self, x: Tensor) -> Tensor:
        total = torch.zeros(len(x), self.m, dtype=torch.float32, device=x.device)
        for feature, s, values, absent, linear, fixed in self.parts:
            if isinstance(feature, Category):
                level = x[:, s.start : s.start + len(feature.levels)].argmax(1)
                if feature.missing:
                    level = torch.where(x[:, s.stop - 1] > 0.5, len(feature.levels), level)
                total += values[level]
                continue
            gap = values - x[:, s.start : s.start + 1].float()  # (a, m)
            if feature.moves == "down":
                gap.neg_()
            elif feature.moves in ("free", "fixed"):
                gap.abs_()
            lacks = (x[:, s.stop - 1 : s.stop] > 0.5) if feature.missing else None
            if self.adapt:
                gap.clamp_(min=0.0)
                if lacks is not None:
                    gap.masked_fill_(absent | lacks, 0.0)
            else:
                wrong = gap > SAME if feature.moves == "fixed" else gap < -SAME
                if lacks is not None:
                    wrong |= absent != lacks
                total.masked_fill_(wrong, torch.inf)
            total.add_(gap, alpha=linear)
            if fixed:
                total.add_(gap > SAME, alpha=fixed)
        return total


def legal_rows(schema: Schema, rows: Tensor) -> Tensor:
    """Rows with every number brought inside its bounds."""
    rows = rows.clone()
    for feature, s in zip(schema.features, schema.slices):
        if not isinstance(feature, Category) and feature.moves != "fixed":
            rows[:, s.start].clamp_(0.0, 1.0)
    return rows


def _first_of_each(rows: Tensor, schema: Schema) -> Tensor:
    """The first of all rows that agree in every feature that may change, in their old order."""
    movable = torch.tensor([f.moves != "fixed" for f in schema.features])[schema.feature_of]
    array = np.ascontiguousarray(rows.cpu().numpy()[:, movable.numpy()])
    if not array.size:
        return rows
    keys = array.view(f"V{array.itemsize * array.shape[1]}")
    _, first = np.unique(keys.ravel(), return_index=True)
    return rows[torch.as_tensor(np.sort(first), device=rows.device)]


def _best_of_each(owner: Tensor, done: Tensor, score: Tensor) -> Tensor:
    """Index of the best entry of each owner: done before not done, then the highest score, then the first."""
    order = score.argsort(descending=True, stable=True)
    order = order[done[order].long().argsort(descending=True, stable=True)]
    order = order[owner[order].argsort(stable=True)]
    return order[places(owner[order]) == 0]
