"""Plans of steps, from stage to stage: replay, rank, verify the row at the end and every row on the way."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core.candidates import repeats
from turnabout.core.chunk import Chunk
from turnabout.core.plan import Plans, Replay, replay
from turnabout.core.problem import Problem
from turnabout.core.project import SCREEN
from turnabout.core.result import PLANS, STEPS, Proposal
from turnabout.core.stages import PointStages, Stages
from turnabout.core.verify import clearance, verify
from turnabout.errors import MethodError
from turnabout.schema.raw_cells import cells_of
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

BATCH = 1 << 15  # plans replayed before all but their ends is forgotten
NEAR = 1e-9  # encoded difference within which a printed row reads back as it was
EXCESS = 1e-9  # share by which a lower bound may lie above the cost, as noise


def stages_for(chunk: Chunk, proposal: Proposal) -> PlanStages | PointStages:
    """The stages for what a search proposes: plans or points."""
    return PointStages(chunk, proposal) if proposal.plans is None else PlanStages(chunk, proposal)


@dataclass
class PlanQueue(TensorRows):
    """Plans that wait to be verified: whose they are, which of their owner's, where they end, what they cost."""

    owner: Tensor  # (c,)
    slot: Tensor  # (c,)
    end: Tensor  # (c, d)
    cost: Tensor  # (c,)


class PlanStages(Stages[PlanQueue]):
    """Proposed plans (n, k, T) -> at most `run.options` verified plans each.

    Nothing is mended or walked back: a plan is shown as it was proposed and printed, or not at all. With `ranked` the
    cheapest come first; two plans that end at the same row by the same actions are the same option.
    """

    label, growth = "plans", 2

    def __init__(self, chunk: Chunk, proposal: Proposal):
        super().__init__(chunk, proposal)
        assert proposal.plans is not None
        plans, actions = proposal.plans, chunk.problem.actions
        if actions is None:
            raise MethodError(
                "the search proposed plans, and the problem has no actions.", hint="pass actions=... to Problem."
            )
        plans.check(len(chunk.x), actions)
        plans.sequences, plans.r = plans.sequences.to(chunk.x.device), plans.r.to(chunk.x.device)
        self.plans = plans

    def project(self) -> PlanQueue:
        """Keep what may be done and what the fast model accepts; remember the best of the rest."""
        plans, x, run = self.plans, self.chunk.x, self.run
        owner, slot = (plans.sequences >= 0).any(-1).nonzero(as_tuple=True)
        if run.time_limit is not None:  # everyone's first plan first
            first = slot.argsort(stable=True)
            owner, slot = owner[first], slot[first]
        parts = [PlanQueue(owner[:0], slot[:0], x[:0], x[:0, 0])]
        with run.grace(SCREEN):
            for part in run.parts(len(owner), BATCH, "replay"):
                o, s = owner[part], slot[part]
                done = replay(self.problem, x[o], plans.sequences[o, s], plans.r[o, s])
                found = PlanQueue(o, s, done.end + 0.0, done.total).take(done.allowed.nonzero().squeeze(1))
                margin = self.chunk.ask(found.end)
                self.verified.note_best(found.owner, found.end, margin, torch.ones_like(margin, dtype=torch.bool))
                parts.append(found.take((margin >= clearance(self.problem)).nonzero().squeeze(1)))
        return PlanQueue.join(parts)

    def line_up(self, waiting: PlanQueue) -> PlanQueue:
        """Cheapest (or first) in front."""
        if self.chunk.ranked:
            waiting = waiting.take(waiting.cost.argsort(stable=True))
        waiting = waiting.take(waiting.owner.argsort(stable=True))
        if not len(waiting.owner):
            return waiting
        taken = self.plans.sequences[waiting.owner, waiting.slot].sort(-1).values.to(waiting.end.dtype)
        fresh = ~repeats(waiting.owner, torch.cat([waiting.end, taken], 1))
        return waiting.take(fresh.nonzero().squeeze(1))

    def rows_asked(self, waiting: PlanQueue) -> Tensor:
        """One for each step."""
        return (self.plans.sequences[waiting.owner, waiting.slot] >= 0).sum(1)

    def verify(self, some: PlanQueue) -> Tensor:
        """The row at the end and every row on the way; of more good plans than a person may have, the first."""
        left = self.verified.left
        good, journey = _travel(self.chunk, self.plans, some)
        rank = torch.cumsum(good, 0) - good.to(torch.long)  # good ones before, in all
        first = torch.searchsorted(some.owner, some.owner)
        shown = good & (rank - rank[first] < left[some.owner])
        if bool(shown.any()):
            self._enter(some, journey, shown)
        return good

    def _enter(self, turn: PlanQueue, journey: _Journey, good: Tensor) -> None:
        """Write the good plans of a turn down as options, plans and steps."""
        plans, problem = self.plans, self.problem
        places = good.nonzero().squeeze(1)
        index = places.cpu().numpy()
        sequences = plans.sequences[turn.owner, turn.slot][places].cpu().numpy()
        cost, duration = (part[places].cpu().numpy() for part in (journey.replayed.cost, journey.replayed.duration))
        total, r = cost.sum(1), journey.replayed.r[places].tolist()
        margin = journey.margin[index]
        tolerance = np.full(len(index), np.nan)
        if plans.tolerance is not None:
            tolerance = plans.tolerance.to(turn.slot.device)[turn.owner, turn.slot][places].cpu().numpy().astype(float)
        rows = journey.rows[-1].iloc[index].assign(cost=total, margin=margin[:, -1])
        table = pd.DataFrame({"steps": (sequences >= 0).sum(1), "cost": total, "duration": duration.sum(1)})
        table = table.assign(
            lower_bound=np.nan, gap=np.nan, tolerance=np.where(np.isfinite(tolerance), tolerance, np.nan)
        )
        changed = [
            problem.schema.changed(journey.replayed.states[places, t], journey.replayed.states[places, t + 1])
            .cpu()
            .numpy()
            for t in range(sequences.shape[1])
        ]
        records = [_records(part.iloc[index]) for part in journey.rows]
        steps = [
            (
                *(i, t + 1, *_step(problem, int(sequence), records[t][i], records[t + 1][i], changed[t][i], r[i][t])),
                *(cost[i, t], duration[i, t], margin[i, t]),
            )
            for i, line in enumerate(sequences)
            for t, sequence in enumerate(line)
            if sequence >= 0
        ]
        self.verified.enter(turn.owner[places].cpu().numpy(), rows, turn.end[places])
        self.verified.plans.append(table.astype(PLANS))
        self.verified.steps.append(pd.DataFrame(steps, columns=["place", "step", *STEPS]).astype(STEPS))

    def finish(self) -> None:
        """Give plans their person's lower bound and the gap to it; drop a bound that a verified plan undercuts."""
        plans, verified = self.plans, self.verified
        if plans.lower_bound is None or not verified.rows:
            return
        bound = plans.lower_bound.detach().cpu().numpy().astype(float)
        owner = np.concatenate(verified.owner)
        cost = np.concatenate([part["cost"].to_numpy() for part in verified.plans])
        least = np.full(len(bound), np.inf)
        np.minimum.at(least, owner, cost)
        undercut = (bound > least + EXCESS * np.maximum(least, 1e-12)) & np.isfinite(least)
        if undercut.any():
            warnings.warn(
                f"the lower bounds of {int(undercut.sum())} people lie above the cost of a verified plan, and were "
                "dropped. Hint: what proved them is wrong; please report it with the problem.",
                stacklevel=5,
            )
        known = np.isfinite(bound) & ~undercut
        for part, who in zip(verified.plans, verified.owner, strict=True):
            total = part["cost"].to_numpy()
            below = np.where(known[who], np.clip(bound[who], 0.0, least[who]), np.nan)
            gap = np.where(total > 0, (total - below) / np.where(total > 0, total, 1.0), 0.0 * below)
            part["lower_bound"], part["gap"] = (pd.array(v, dtype="Float64") for v in (below, gap))


@dataclass
class _Journey:
    """Plans as they were verified: the replay, the printed rows and the margins after each step."""

    replayed: Replay
    rows: list[pd.DataFrame]  # T+1 tables of c rows, the people's own first
    margin: np.ndarray  # (c, T) after each step; that of the end where a plan is over


def _travel(chunk: Chunk, plans: Plans, turn: PlanQueue) -> tuple[Tensor, _Journey]:
    """(c,) which plans hold when every row is printed and read back, and what was seen on the way."""
    problem, x = chunk.problem, chunk.x
    schema, index = problem.schema, turn.owner.cpu().numpy()
    own, mine = x[turn.owner], chunk.table.iloc[index]
    sequences = plans.sequences[turn.owner, turn.slot]
    done = replay(problem, own, sequences, plans.r[turn.owner, turn.slot])
    verdict = verify(problem, mine, own, done.end, done.total.cpu().numpy())
    good = verdict.good & done.allowed.cpu().numpy()
    length = (sequences >= 0).sum(1).cpu().numpy()
    rows, margin = [schema.table(mine)], np.repeat(verdict.margin[:, None], sequences.shape[1], axis=1)
    for t in range(1, sequences.shape[1] + 1):
        printed = schema.write(mine, own, done.states[:, t])
        rows.append(printed)
        read_back = schema.read(printed).x.to(x.device)
        good &= ~schema.breaches(mine, printed).any(1)
        good &= ((read_back - done.states[:, t]).abs() <= NEAR).all(1).cpu().numpy()
        good &= (problem.violation(own, read_back) <= 0).cpu().numpy()
    step, plan = np.nonzero(good & (np.arange(1, sequences.shape[1])[:, None] < length))  # rows on the way, in one call
    if len(plan):
        between = pd.concat([rows[t + 1].iloc[plan[step == t]] for t in np.unique(step)])
        margin[plan, step], _ = problem.ask_original(between)
    return torch.as_tensor(good, device=x.device), _Journey(done, rows, margin)


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    return pd.DataFrame({name: cells_of(rows[name]) for name in rows.columns}).to_dict("records")


def _step(
    problem: Problem, action: int, old: Any, new: Any, changed: np.ndarray, r: list[float]
) -> tuple[str, str, str, str]:
    """The name of an action, its parameters, the change in words, and the cells as they become."""
    actions = problem.actions
    assert actions is not None
    parameters, words = actions.describe(action, old, new, r)
    cells = {name: new[name] for name, moved in zip(problem.schema.names, changed, strict=True) if moved}
    return actions.names[action], _json(parameters), words, _json(cells)


def _json(values: dict[str, Any]) -> str:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return json.dumps(plain, ensure_ascii=False)
