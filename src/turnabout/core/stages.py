"""The stages between a search and an answer: project, refine, verify. The same for points and for plans of steps.

propose   the method's search
project   onto what may be printed; keep what the fast model accepts
refine    walk back towards the person, as far as the decision, the rules and the method's criterion allow
verify    print, read back, ask the original: the judge, see `verify`
collect   into a Recourse, see `builder`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch

from turnabout.core.candidates import Candidates, places, repeats
from turnabout.core.chunk import Chunk, Verified
from turnabout.core.different import new_ways
from turnabout.core.project import project
from turnabout.core.refine import Standard, refine
from turnabout.core.result import Proposal
from turnabout.core.verify import GUARD, clearance, verify
from turnabout.typing import Tensor

REFINE = 0.8  # share of the time left that refining may take; the rest is for verifying
VERIFY = 0.2  # share of the time limit by which verifying may outlast it
AIMS = (GUARD, 1e-6, 1e-4, 1e-2)  # margins to keep while refining; a larger one only if the judge disagreed


@dataclass(frozen=True)
class RefinementRound:
    """Refine and verify once: the margin to keep, None for rows as they are; and whether other rounds may follow."""

    aim: float | None
    is_last: bool


class Waiting(Protocol):
    """What waits to be verified, person by person."""

    @property
    def owner(self) -> Tensor: ...

    def take(self, index: Tensor) -> Self: ...


W = TypeVar("W", bound=Waiting)


class Stages(ABC, Generic[W]):
    """How proposals of one kind go from stage to stage, for the people of one chunk."""

    label = "original"  # of the work of verifying, whose speed is measured
    growth = 1  # how many times as many as the turn before the next turn verifies

    def __init__(self, chunk: Chunk, proposal: Proposal):
        self.chunk = chunk
        self.proposal = proposal
        self.problem, self.run = chunk.problem, chunk.run
        self.verified = Verified.none_yet(chunk)

    @abstractmethod
    def project(self) -> W:
        """Candidates, and in `verified` the best of what is none."""

    def rounds(self) -> Iterator[RefinementRound]:
        """What is done to the candidates until they are verified; one round without refinement by default."""
        yield RefinementRound(None, is_last=True)

    def refine(self, waiting: W, aim: float) -> W:
        """The same candidates, nearer to the person."""
        return waiting

    @abstractmethod
    def line_up(self, waiting: W) -> W:
        """Each person's different candidates, best in front, without those that are shown already."""

    @abstractmethod
    def rows_asked(self, waiting: W) -> Tensor:
        """(c,) rows of the original that verifying each takes."""

    @abstractmethod
    def verify(self, some: W) -> Tensor:
        """Verify some candidates and enter the good ones; (c,) which these are."""

    def finish(self) -> None:
        """What is left to do once all are verified."""

    def options(self) -> Verified:
        """Project, then refine and verify until everyone has their options or nothing more can be tried.

        Short of time less is done to the candidates, and those that could not be verified are left out.
        """
        waiting, left = self.project(), self.verified.left
        for now in self.rounds():
            if not len(waiting.owner):
                break
            refined = waiting if now.aim is None else self.refine(waiting, now.aim)
            failed = self.verify_in_turn(refined, now.is_last)
            again = failed[waiting.owner] & (left[waiting.owner] > 0)
            waiting = waiting.take(again.nonzero().squeeze(1))
        self.finish()
        return self.verified

    def verify_in_turn(self, waiting: W, is_last: bool) -> Tensor:
        """Verify the best few of each person, then more of those still short. Returns (n,) who had a failure.

        Unless it is the last chance, a person with a failure waits: their cheap row may pass with more margin, and
        should not lose its place to a dear one.
        """
        left, run, reach = self.verified.left, self.run, 1
        failed = torch.zeros(len(left), dtype=torch.bool, device=left.device)
        waiting = self.line_up(waiting)
        while len(waiting.owner):
            now = places(waiting.owner) < reach * left[waiting.owner]
            turn, waiting = waiting.take(now.nonzero().squeeze(1)), waiting.take((~now).nonzero().squeeze(1))
            if not len(turn.owner):
                break
            reach *= self.growth
            rows = self.rows_asked(turn).cumsum(0)  # asked about by the time each is verified
            granted = run.spend(int(rows[-1]), verifying=True)
            allowed = int((rows <= granted).sum())
            with run.grace(VERIFY):
                for part in run.verifying(allowed, self.problem.model.alone, self.label):
                    some = turn.take(torch.arange(part.start, part.stop, device=left.device))
                    some = some.take((left[some.owner] > 0).nonzero().squeeze(1))
                    failed[some.owner[~self.verify(some)]] = True
                if run.over or allowed < len(rows):
                    break
            open_ = left[waiting.owner] > 0
            if not is_last:
                open_ &= ~failed[waiting.owner]
            waiting = waiting.take(open_.nonzero().squeeze(1))
        return failed


class PointStages(Stages[Candidates]):
    """Proposed rows (n, k, d) -> at most `run.options` verified rows each."""

    def project(self) -> Candidates:
        """On legal values; for people with rows that meet the method's criterion, only these rows."""
        chunk, proposal, options = self.chunk, self.proposal, self.run.options
        found = project(chunk, proposal, self.verified)
        if chunk.criterion is not None and len(found.owner):
            meets = chunk.criterion(chunk.x[found.owner], found.x_new)
            has = torch.zeros(len(chunk.x), dtype=torch.bool, device=meets.device)
            has[found.owner[meets]] = True
            found = found.take((meets | ~has[found.owner]).nonzero().squeeze(1))
        # some may turn out the same once refined: keep spares
        return found.shortlist(self.problem, chunk.x, options if proposal.minimal else 2 * options, chunk.ranked)

    def rounds(self) -> Iterator[RefinementRound]:
        """Refined with more and more margin to keep, as long as the judge disagrees; proved rows first as they are."""
        if not self.run.refines:
            yield RefinementRound(None, is_last=True)
            return
        if self.proposal.minimal:
            yield RefinementRound(None, is_last=False)
        least = clearance(self.problem)
        aims = [least, *(aim for aim in AIMS if aim > least)]
        for aim in aims:
            if self.run.late and aim > least:
                break
            yield RefinementRound(aim, is_last=aim == aims[-1])
        if self.problem.model.alone:  # what was walked back was refused alone: show what was not
            yield RefinementRound(None, is_last=True)

    def refine(self, waiting: Candidates, aim: float) -> Candidates:
        """Rows that do not clear the aim themselves cannot be walked back under it, but may still be verified."""
        chunk, criterion = self.chunk, self.chunk.criterion
        standard = Standard(self.problem, chunk.ask, aim, lambda: self.run.expired, criterion)
        walked, own = waiting.x_new.clone(), chunk.x[waiting.owner]
        with self.run.within(REFINE):
            able = chunk.ask(walked) >= aim
            if criterion is not None:
                able &= criterion(own, walked)
            walked[able] = refine(standard, own[able], walked[able]) + 0.0  # no -0.0
        return Candidates(waiting.owner, walked)

    def line_up(self, waiting: Candidates) -> Candidates:
        """Cheapest (or first) in front."""
        verified = self.verified
        remaining = waiting.shortlist(self.problem, self.chunk.x, None, self.chunk.ranked)
        if verified.x_new:
            rows, shown = verified.so_far(self.chunk.x)
            owner, rows = torch.cat([shown, remaining.owner]), torch.cat([rows, remaining.x_new])
            remaining = remaining.take((~repeats(owner, rows)[len(shown) :]).nonzero().squeeze(1))
        return remaining

    def rows_asked(self, waiting: Candidates) -> Tensor:
        """One each."""
        return torch.ones_like(waiting.owner)

    def verify(self, some: Candidates) -> Tensor:
        """The row as printed."""
        x, index = self.chunk.x, some.owner.cpu().numpy()
        seen = verify(self.problem, self.chunk.table.iloc[index], x[some.owner], some.x_new)
        good = torch.as_tensor(seen.good, device=x.device)
        shown = seen.good.copy()
        if self.run.options > 1 and seen.good.any():
            before, whose = self.verified.so_far(x)
            fresh = new_ways(self.problem.schema, x, some.owner[good], some.x_new[good], before, whose)
            shown[seen.good] = fresh.cpu().numpy()
        rows = seen.rows[shown].assign(cost=seen.cost[shown], margin=seen.margin[shown])
        self.verified.enter(index[shown], rows, some.x_new[torch.as_tensor(shown, device=x.device)])
        return good
