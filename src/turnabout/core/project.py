"""From proposals to rows that may be printed: on legal values, rules kept where they can be, accepted by the model."""

from __future__ import annotations

import torch

from turnabout.core.candidates import Candidates
from turnabout.core.chunk import Chunk, Verified
from turnabout.core.result import Proposal
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.typing import Tensor

SNAP = 0.6  # share of the time left that snapping may take; the rest is for refining and verifying
SCREEN = 0.1  # share of the time limit by which screening may outlast it: else a late search was for nothing
PUSHES = (1.05, 1.2, 1.5, 2.0, 3.0)  # how far beyond a proposal to look when rounding lost the decision


def project(chunk: Chunk, proposal: Proposal, verified: Verified) -> Candidates:
    """Proposals (n, k, d) -> candidates; the best of the others is noted in `verified`."""
    owner, rows = _snapped(chunk, proposal)
    with chunk.run.grace(SCREEN):
        return _push(chunk, _screen(chunk, owner, rows, verified), verified)


def _snapped(chunk: Chunk, proposal: Proposal) -> tuple[Tensor, Tensor]:
    """Proposals on legal values, rules kept where they can be: owners (c,) and rows (c, d), as many as time allows."""
    problem, x, run = chunk.problem, chunk.x, chunk.run
    proposals = proposal.x_new.to(x.dtype)
    check_shape(proposals, x)
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
                near[-1] = _mend(chunk, own, near[-1])
                out.append(_mend(chunk, own, problem.snap(own, proposed, outward=True)))
    rows = torch.cat([*near, *out])
    owner = owner[: sum(map(len, near))]
    return owner if proposal.minimal else torch.cat([owner, owner]), rows


def check_shape(proposals: Tensor, x: Tensor) -> None:
    """Refuse proposals that are not (n, k, d) for people x (n, d)."""
    if proposals.dim() != 3 or proposals.shape[::2] != x.shape:
        raise MethodError(
            f"the search proposed a tensor of shape {tuple(proposals.shape)} for {len(x)} people.",
            hint=f"return Proposal(x_new) with x_new of shape ({len(x)}, k, {x.shape[1]}).",
        )


def _mend(chunk: Chunk, x: Tensor, x_new: Tensor) -> Tensor:
    """Where rules are broken, put back one change at a time: the one that mends most, then keeps most margin."""
    problem = chunk.problem
    feature_of = problem.schema.feature_of.to(x.device)
    x_new = x_new.clone()
    rows = (problem.violation(x, x_new) > 0).nonzero().squeeze(1)
    while len(rows) and not chunk.run.over:
        changed = problem.schema.changed(x[rows], x_new[rows])
        owner, feature = changed.nonzero(as_tuple=True)
        if not len(owner):
            break
        row = rows[owner]
        trial = torch.where(feature_of == feature.unsqueeze(1), x[row], x_new[row])
        left = problem.violation(x[row], trial)
        rank = torch.argsort(chunk.ask(trial), descending=True, stable=True)
        rank = rank[torch.argsort(left[rank], stable=True)]  # least violation, then highest margin
        rank = rank[torch.argsort(owner[rank], stable=True)]
        first = rank[torch.cat([owner.new_ones(1, dtype=torch.bool), owner[rank][1:] != owner[rank][:-1]])]
        x_new[row[first]] = trial[first]
        rows = row[first][left[first] > 0]
    return x_new


def _screen(chunk: Chunk, owner: Tensor, x_new: Tensor, verified: Verified) -> Candidates:
    """Keep what the fast model accepts and the rules allow; remember the best of the rest."""
    problem = chunk.problem
    x_new = x_new + 0.0  # no negative zeros: equal rows are equal byte by byte
    margin = chunk.ask(x_new)
    allowed = problem.violation(chunk.x[owner], x_new) <= 0
    verified.note_best(owner, x_new, margin, allowed)
    keep = allowed & (margin >= clearance(problem))
    return Candidates(owner[keep], x_new[keep])


def _push(chunk: Chunk, candidates: Candidates, verified: Verified) -> Candidates:
    """For people whose proposals all failed once rounded: go on a little in the same direction."""
    problem, x = chunk.problem, chunk.x
    have = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    have[candidates.owner] = True
    short = (~have & torch.isfinite(verified.best_margin)).nonzero().squeeze(1)
    if not len(short):
        return candidates
    scale = torch.tensor(PUSHES, dtype=x.dtype, device=x.device).view(1, -1, 1)
    own = x[short].unsqueeze(1)
    owner = short.repeat_interleave(len(PUSHES))
    beyond = (own + scale * (verified.best[short].unsqueeze(1) - own)).reshape(-1, x.shape[1])
    pushed = problem.snap(x[owner], problem.relax(x[owner], beyond), outward=True)
    more = _screen(chunk, owner, pushed, verified)
    return Candidates.join([candidates, more])
