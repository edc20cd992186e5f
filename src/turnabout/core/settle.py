"""From proposals to verified options: snap, push, polish, verify. Batched over everyone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from turnabout.core.polish import Ask, polish
from turnabout.core.problem import Problem
from turnabout.core.result import Proposal
from turnabout.core.run import Run
from turnabout.core.verify import GUARD, clearance, verify
from turnabout.errors import MethodError
from turnabout.typing import Tensor

SNAP, POLISH = 0.6, 0.8  # shares of the time left for each stage; the rest is for verifying
SCREEN, VERIFY = 0.1, 0.2  # shares of the time limit by which these may outlast it: else a late search was for nothing
PUSHES = (1.05, 1.2, 1.5, 2.0, 3.0)  # how far beyond a proposal to look when rounding lost the decision
AIMS = (GUARD, 1e-6, 1e-4, 1e-2)  # margins to keep while polishing; a larger one only if the judge disagreed


@dataclass
class Settled:
    """Verified options of one chunk, and the best that was seen for those without."""

    best_margin: Tensor  # (n,) highest margin of an allowed row
    best: Tensor  # (n, d) that row
    rows: list[pd.DataFrame] = field(default_factory=list)
    owner: list[np.ndarray] = field(default_factory=list)
    x_new: list[Tensor] = field(default_factory=list)
    plans: list[pd.DataFrame] = field(default_factory=list)  # one table for each of rows, when these came by plans
    steps: list[pd.DataFrame] = field(default_factory=list)  # their steps; "place" is that of the row in its table


@dataclass
class Candidates:
    """Rows that the fast model accepts and the rules allow, with the person each is for."""

    owner: Tensor  # (c,)
    x_new: Tensor  # (c, d)

    def take(self, index: Tensor) -> Candidates:
        return Candidates(self.owner[index], self.x_new[index])


def settle(
    problem: Problem,
    people: pd.DataFrame,
    x: Tensor,
    proposal: Proposal,
    ranked: bool,
    ask: Ask,
    run: Run,
) -> Settled:
    """people (n rows), x (n, d), proposals of (n, k, d) -> at most `run.options` verified rows each.

    With `ranked` the cheapest come first; otherwise the order of the proposals is kept. Short of time less is done to
    the proposals, and those that could not be verified are left out.
    """
    settled = Settled(torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device), x.clone())
    options = run.options
    owner, rows = _snapped(problem, x, proposal, ask, run)
    with run.grace(SCREEN):
        candidates = _push(problem, x, _screen(problem, x, owner, rows, ask, settled), ask, settled)
    # some may turn out the same once polished: keep spares
    candidates = _shortlist(problem, x, candidates, options if proposal.minimal else 2 * options, ranked)
    left = torch.full((len(x),), options, dtype=torch.long, device=x.device)
    if proposal.minimal:
        failed = _judge(problem, people, x, candidates, left, ranked, settled, run, last=False)
        candidates = candidates.take((failed[candidates.owner] & (left[candidates.owner] > 0)).nonzero().squeeze(1))
    aims = [clearance(problem), *(aim for aim in AIMS if aim > clearance(problem))]
    for aim in aims:
        if not len(candidates.owner) or (run.late and aim > aims[0]):
            break
        # rows that do not clear the aim themselves cannot be walked back under it, but may still be judged
        walked, owner = candidates.x_new.clone(), candidates.owner
        with run.within(POLISH):
            able = ask(walked) >= aim
            walked[able] = polish(problem, ask, x[owner[able]], walked[able], aim, lambda: run.expired) + 0.0  # no -0.0
        last = aim == aims[-1]
        failed = _judge(problem, people, x, Candidates(owner, walked), left, ranked, settled, run, last)
        again = failed[candidates.owner] & (left[candidates.owner] > 0)
        candidates = candidates.take(again.nonzero().squeeze(1))
    if problem.model.alone and len(candidates.owner):  # what was walked back was refused alone: show what was not
        _judge(problem, people, x, candidates, left, ranked, settled, run, last=True)
    return settled


def note_best(settled: Settled, owner: Tensor, x_new: Tensor, margin: Tensor, allowed: Tensor) -> None:
    """Remember the allowed row with the highest margin of each person."""
    margin = torch.where(allowed, margin, torch.full_like(margin, -torch.inf))
    order = margin.argsort(stable=True)  # the best of each person is written last
    top = torch.full_like(settled.best_margin, -torch.inf).scatter_reduce(0, owner, margin, "amax")
    better = order[(margin[order] == top[owner[order]]) & (top[owner[order]] > settled.best_margin[owner[order]])]
    settled.best[owner[better]] = x_new[better]
    settled.best_margin = torch.maximum(settled.best_margin, top)


def _screen(problem: Problem, x: Tensor, owner: Tensor, x_new: Tensor, ask: Ask, settled: Settled) -> Candidates:
    """Keep what the fast model accepts and the rules allow; remember the best of the rest."""
    x_new = x_new + 0.0  # no negative zeros: equal rows are equal byte by byte
    margin = ask(x_new)
    allowed = problem.violation(x[owner], x_new) <= 0
    note_best(settled, owner, x_new, margin, allowed)
    keep = allowed & (margin >= clearance(problem))
    return Candidates(owner[keep], x_new[keep])


def _snapped(problem: Problem, x: Tensor, proposal: Proposal, ask: Ask, run: Run) -> tuple[Tensor, Tensor]:
    """Proposals on legal values, rules kept where they can be: owners (c,) and rows (c, d), as many as time allows."""
    proposals = proposal.x_new.to(x.dtype)
    if proposals.dim() != 3 or proposals.shape[::2] != x.shape:
        raise MethodError(
            f"the search proposed a tensor of shape {tuple(proposals.shape)} for {len(x)} people.",
            hint=f"return Proposal(x_new) with x_new of shape ({len(x)}, k, {x.shape[1]}).",
        )
    owner, slot = torch.isfinite(proposals).all(-1).nonzero(as_tuple=True)
    if run.time_limit is not None:  # everyone's first proposal first
        first = slot.argsort(stable=True)
        owner, slot = owner[first], slot[first]
    near, out = [proposals[:0, 0]], [proposals[:0, 0]]
    with run.within(SNAP):
        for part in run.parts(len(owner), max(1, len(owner)), "settle"):
            own, proposed = x[owner[part]], proposals[owner[part], slot[part]]
            near.append(problem.snap(own, proposed))
            if not proposal.minimal:
                near[-1] = _mend(problem, own, near[-1], ask, run)
                out.append(_mend(problem, own, problem.snap(own, proposed, outward=True), ask, run))
    rows = torch.cat([*near, *out])
    owner = owner[: sum(map(len, near))]
    return owner if proposal.minimal else torch.cat([owner, owner]), rows


def _mend(problem: Problem, x: Tensor, x_new: Tensor, ask: Ask, run: Run) -> Tensor:
    """Where rules are broken, put back one change at a time: the one that mends most, then keeps most margin."""
    feature_of = problem.schema.feature_of.to(x.device)
    x_new = x_new.clone()
    rows = (problem.violation(x, x_new) > 0).nonzero().squeeze(1)
    while len(rows) and not run.over:
        changed = problem.schema.changed(x[rows], x_new[rows])
        owner, feature = changed.nonzero(as_tuple=True)
        if not len(owner):
            break
        row = rows[owner]
        trial = torch.where(feature_of == feature.unsqueeze(1), x[row], x_new[row])
        left = problem.violation(x[row], trial)
        rank = torch.argsort(ask(trial), descending=True, stable=True)
        rank = rank[torch.argsort(left[rank], stable=True)]  # least violation, then highest margin
        rank = rank[torch.argsort(owner[rank], stable=True)]
        first = rank[torch.cat([owner.new_ones(1, dtype=torch.bool), owner[rank][1:] != owner[rank][:-1]])]
        x_new[row[first]] = trial[first]
        rows = row[first][left[first] > 0]
    return x_new


def _push(problem: Problem, x: Tensor, candidates: Candidates, ask: Ask, settled: Settled) -> Candidates:
    """For people whose proposals all failed once rounded: go on a little in the same direction."""
    have = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    have[candidates.owner] = True
    short = (~have & torch.isfinite(settled.best_margin)).nonzero().squeeze(1)
    if not len(short):
        return candidates
    scale = torch.tensor(PUSHES, dtype=x.dtype, device=x.device).view(1, -1, 1)
    own = x[short].unsqueeze(1)
    owner = short.repeat_interleave(len(PUSHES))
    beyond = (own + scale * (settled.best[short].unsqueeze(1) - own)).reshape(-1, x.shape[1])
    pushed = problem.snap(x[owner], problem.relax(x[owner], beyond), outward=True)
    more = _screen(problem, x, owner, pushed, ask, settled)
    return Candidates(torch.cat([candidates.owner, more.owner]), torch.cat([candidates.x_new, more.x_new]))


def _shortlist(problem: Problem, x: Tensor, candidates: Candidates, keep: int, ranked: bool) -> Candidates:
    """The cheapest (or first) few different rows of each person."""
    owner, x_new = candidates.owner, candidates.x_new
    if not len(owner):
        return candidates
    if ranked:
        order = problem.cost(x[owner], x_new).argsort(stable=True)
        owner, x_new = owner[order], x_new[order]
    order = owner.argsort(stable=True)
    owner, x_new = owner[order], x_new[order]
    fresh = ~repeats(owner, x_new)
    owner, x_new = owner[fresh], x_new[fresh]
    start = torch.searchsorted(owner, owner)  # place of the person's first row
    place = torch.arange(len(owner), device=owner.device) - start
    return Candidates(owner[place < keep], x_new[place < keep])


def repeats(owner: Tensor, x_new: Tensor) -> Tensor:
    """(c,) True where the same person has the same row earlier on."""
    salt = torch.sqrt(torch.arange(2, x_new.shape[1] + 2, dtype=x_new.dtype, device=x_new.device))
    order = (x_new @ salt).argsort(stable=True)  # equal rows become neighbours
    order = order[owner[order].argsort(stable=True)]
    same = (owner[order][1:] == owner[order][:-1]) & (x_new[order][1:] == x_new[order][:-1]).all(1)
    out = torch.zeros_like(owner, dtype=torch.bool)
    out[order[1:]] = same
    return out


def _judge(
    problem: Problem,
    people: pd.DataFrame,
    x: Tensor,
    candidates: Candidates,
    left: Tensor,
    ranked: bool,
    settled: Settled,
    run: Run,
    last: bool,
) -> Tensor:
    """Verify the best few of each person, then the rest of those still short. Returns (n,) who had a failure.

    Unless it is the last chance, a person with a failure waits: their cheap row may pass with more margin, and should
    not lose its place to a dear one.
    """
    failed = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    remaining = _shortlist(problem, x, candidates, len(candidates.owner), ranked)
    if settled.x_new:  # what is shown already need not be shown again
        shown = torch.cat([torch.as_tensor(o, device=x.device) for o in settled.owner])
        owner, rows = torch.cat([shown, remaining.owner]), torch.cat([*settled.x_new, remaining.x_new])
        remaining = remaining.take((~repeats(owner, rows)[len(shown) :]).nonzero().squeeze(1))
    while len(remaining.owner):
        start = torch.searchsorted(remaining.owner, remaining.owner)
        place = torch.arange(len(remaining.owner), device=x.device) - start
        now = place < left[remaining.owner]
        turn, remaining = remaining.take(now.nonzero().squeeze(1)), remaining.take((~now).nonzero().squeeze(1))
        if not len(turn.owner):
            break
        granted = run.spend(len(turn.owner), verifying=True)
        with run.grace(VERIFY):
            for part in run.verifying(granted, problem.model.alone):
                _enter(problem, people, x, Candidates(turn.owner[part], turn.x_new[part]), left, failed, settled)
            if run.over or granted < len(turn.owner):
                break
        if not last:
            remaining = remaining.take((~failed[remaining.owner]).nonzero().squeeze(1))
    return failed


def _enter(
    problem: Problem,
    people: pd.DataFrame,
    x: Tensor,
    turn: Candidates,
    left: Tensor,
    failed: Tensor,
    settled: Settled,
) -> None:
    """Verify some rows: enter those that are good, note in `left` and `failed` whose are and whose are not."""
    index = turn.owner.cpu().numpy()
    verdict = verify(problem, people.iloc[index], x[turn.owner], turn.x_new)
    good = torch.as_tensor(verdict.good, device=x.device)
    failed[turn.owner[~good]] = True
    left -= torch.bincount(turn.owner[good], minlength=len(x))
    settled.rows.append(
        verdict.rows[verdict.good].assign(cost=verdict.cost[verdict.good], margin=verdict.margin[verdict.good])
    )
    settled.owner.append(index[verdict.good])
    settled.x_new.append(turn.x_new[good])
