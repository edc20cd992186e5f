"""From plans to verified options: replay, rank, verify the row at the end and every row on the way."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core.plan import Plans, Replay, replay
from turnabout.core.polish import Ask
from turnabout.core.problem import Problem
from turnabout.core.result import PLANS, STEPS, Proposal
from turnabout.core.run import Run
from turnabout.core.settle import SCREEN, VERIFY, Settled, note_best, repeats
from turnabout.core.verify import clearance, verify
from turnabout.errors import MethodError
from turnabout.schema.features import cells_of
from turnabout.typing import Tensor

BATCH = 1 << 15  # plans replayed before all but their ends is forgotten
NEAR = 1e-9  # encoded difference within which a printed row reads back as it was
EXCESS = 1e-9  # share by which a lower bound may lie above the cost, as noise


@dataclass
class _Queue:
    """Plans that wait to be verified: whose they are, which of their owner's, where they end, what they cost."""

    owner: Tensor  # (c,)
    slot: Tensor  # (c,)
    end: Tensor  # (c, d)
    cost: Tensor  # (c,)

    def take(self, index: Tensor) -> _Queue:
        return _Queue(self.owner[index], self.slot[index], self.end[index], self.cost[index])


def settle_plans(
    problem: Problem,
    people: pd.DataFrame,
    x: Tensor,
    proposal: Proposal,
    ranked: bool,
    ask: Ask,
    run: Run,
) -> Settled:
    """people (n rows), x (n, d), plans of (n, k, T) -> at most `run.options` verified plans each.

    Nothing is mended or walked back: a plan is shown as it was proposed and printed, or not at all. With `ranked` the
    cheapest come first; two plans that end at the same row by the same actions are the same option. Short of time,
    plans that could not be verified are left out.
    """
    plans = proposal.plans
    assert plans is not None
    if problem.actions is None:
        raise MethodError(
            "the search proposed plans, and the problem has no actions.", hint="pass actions=... to Problem."
        )
    plans.check(len(x), problem.actions)
    plans.words, plans.r = plans.words.to(x.device), plans.r.to(x.device)
    settled = Settled(torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device), x.clone())
    with run.grace(SCREEN):
        seen = _screen(problem, x, plans, ask, settled, run)
    _judge(problem, people, x, plans, _line_up(seen, plans.words, ranked), settled, run)
    _bound(plans, settled)
    return settled


def _screen(problem: Problem, x: Tensor, plans: Plans, ask: Ask, settled: Settled, run: Run) -> _Queue:
    """Keep what may be done and what the fast model accepts; remember the best of the rest."""
    owner, slot = (plans.words >= 0).any(-1).nonzero(as_tuple=True)
    if run.time_limit is not None:  # everyone's first plan first
        first = slot.argsort(stable=True)
        owner, slot = owner[first], slot[first]
    kept = []
    for part in run.parts(len(owner), BATCH, "replay"):
        o, s = owner[part], slot[part]
        done = replay(problem, x[o], plans.words[o, s], plans.r[o, s])
        allowed = done.allowed.nonzero().squeeze(1)
        found = _Queue(o, s, done.end + 0.0, done.total).take(allowed)
        margin = ask(found.end)
        note_best(settled, found.owner, found.end, margin, torch.ones_like(margin, dtype=torch.bool))
        kept.append(found.take((margin >= clearance(problem)).nonzero().squeeze(1)))
    none = _Queue(owner[:0], slot[:0], x[:0], x[:0, 0])
    parts = [none, *kept]
    return _Queue(*(torch.cat([getattr(part, name) for part in parts]) for name in ("owner", "slot", "end", "cost")))


def _line_up(queue: _Queue, words: Tensor, ranked: bool) -> _Queue:
    """Each person's different plans, cheapest (or first) in front."""
    if ranked:
        queue = queue.take(queue.cost.argsort(stable=True))
    queue = queue.take(queue.owner.argsort(stable=True))
    if not len(queue.owner):
        return queue
    taken = words[queue.owner, queue.slot].sort(-1).values.to(queue.end.dtype)
    return queue.take((~repeats(queue.owner, torch.cat([queue.end, taken], 1))).nonzero().squeeze(1))


def _judge(
    problem: Problem, people: pd.DataFrame, x: Tensor, plans: Plans, queue: _Queue, settled: Settled, run: Run
) -> None:
    """Verify the first few of each person, then more of those still short, twice as many each time."""
    left = torch.full((len(x),), run.options, dtype=torch.long, device=x.device)
    reach = 1
    while len(queue.owner):
        place = torch.arange(len(queue.owner), device=x.device) - torch.searchsorted(queue.owner, queue.owner)
        now = place < reach * left[queue.owner]
        turn, queue = queue.take(now.nonzero().squeeze(1)), queue.take((~now).nonzero().squeeze(1))
        reach *= 2
        rows = (plans.words[turn.owner, turn.slot] >= 0).sum(1).cumsum(0)  # asked about by the time each is verified
        granted = run.spend(int(rows[-1]), verifying=True)
        allowed = int((rows <= granted).sum())
        with run.grace(VERIFY):
            for part in run.verifying(allowed, problem.model.alone, "plans"):
                some = turn.take(torch.arange(part.start, part.stop, device=x.device))
                some = some.take((left[some.owner] > 0).nonzero().squeeze(1))
                left -= _verify(problem, people, x, plans, some, left, settled)
            if run.over or allowed < len(rows):
                return
        queue = queue.take((left[queue.owner] > 0).nonzero().squeeze(1))


def _verify(
    problem: Problem, people: pd.DataFrame, x: Tensor, plans: Plans, turn: _Queue, left: Tensor, settled: Settled
) -> Tensor:
    """Verify some plans and enter the good ones, at most `left` (n,) of each person; (n,) how many these are."""
    good, journey = _travel(problem, people, x, plans, turn)
    rank = torch.cumsum(good, 0) - good.to(torch.long)  # good ones before, in all
    first = torch.searchsorted(turn.owner, turn.owner)
    good &= rank - rank[first] < left[turn.owner]
    if bool(good.any()):
        _enter(problem, turn, plans, journey, good, settled)
    return torch.bincount(turn.owner[good], minlength=len(x))


@dataclass
class _Journey:
    """Plans as they were verified: the replay, the printed rows and the margins after each step."""

    replayed: Replay
    rows: list[pd.DataFrame]  # T+1 tables of c rows, the people's own first
    margin: np.ndarray  # (c, T) after each step; that of the end where a plan is over


def _travel(problem: Problem, people: pd.DataFrame, x: Tensor, plans: Plans, turn: _Queue) -> tuple[Tensor, _Journey]:
    """(c,) which plans hold when every row is printed and read back, and what was seen on the way."""
    schema, index = problem.schema, turn.owner.cpu().numpy()
    own, mine = x[turn.owner], people.iloc[index]
    words = plans.words[turn.owner, turn.slot]
    done = replay(problem, own, words, plans.r[turn.owner, turn.slot])
    verdict = verify(problem, mine, own, done.end, done.total.cpu().numpy())
    good = verdict.good & done.allowed.cpu().numpy()
    length = (words >= 0).sum(1).cpu().numpy()
    rows, margin = [schema.table(mine)], np.repeat(verdict.margin[:, None], words.shape[1], axis=1)
    for t in range(1, words.shape[1] + 1):
        printed = schema.write(mine, own, done.states[:, t])
        rows.append(printed)
        read_back = schema.read(printed).x.to(x.device)
        good &= ~schema.breaches(mine, printed).any(1)
        good &= ((read_back - done.states[:, t]).abs() <= NEAR).all(1).cpu().numpy()
        good &= (problem.violation(own, read_back) <= 0).cpu().numpy()
    step, plan = np.nonzero(good & (np.arange(1, words.shape[1])[:, None] < length))  # rows on the way, in one call
    if len(plan):
        between = pd.concat([rows[t + 1].iloc[plan[step == t]] for t in np.unique(step)])
        margin[plan, step], _ = problem.ask_original(between)
    return torch.as_tensor(good, device=x.device), _Journey(done, rows, margin)


def _enter(problem: Problem, turn: _Queue, plans: Plans, journey: _Journey, good: Tensor, settled: Settled) -> None:
    """Write the good plans of a turn down as options, plans and steps."""
    places = good.nonzero().squeeze(1)
    index = places.cpu().numpy()
    words = plans.words[turn.owner, turn.slot][places].cpu().numpy()
    cost, duration = (part[places].cpu().numpy() for part in (journey.replayed.cost, journey.replayed.duration))
    total, r = cost.sum(1), journey.replayed.r[places].tolist()
    margin = journey.margin[index]
    tolerance = np.full(len(index), np.nan)
    if plans.tolerance is not None:
        tolerance = plans.tolerance.to(turn.slot.device)[turn.owner, turn.slot][places].cpu().numpy().astype(float)
    rows = journey.rows[-1].iloc[index].assign(cost=total, margin=margin[:, -1])
    table = pd.DataFrame({"steps": (words >= 0).sum(1), "cost": total, "duration": duration.sum(1)})
    table = table.assign(lower_bound=np.nan, gap=np.nan, tolerance=np.where(np.isfinite(tolerance), tolerance, np.nan))
    changed = [
        problem.schema.changed(journey.replayed.states[places, t], journey.replayed.states[places, t + 1]).cpu().numpy()
        for t in range(words.shape[1])
    ]
    records = [_records(part.iloc[index]) for part in journey.rows]
    steps = [
        (
            *(i, t + 1, *_step(problem, int(word), records[t][i], records[t + 1][i], changed[t][i], r[i][t])),
            *(cost[i, t], duration[i, t], margin[i, t]),
        )
        for i, line in enumerate(words)
        for t, word in enumerate(line)
        if word >= 0
    ]
    settled.rows.append(rows)
    settled.owner.append(turn.owner[places].cpu().numpy())
    settled.x_new.append(turn.end[places])
    settled.plans.append(table.astype(PLANS))
    settled.steps.append(pd.DataFrame(steps, columns=["place", "step", *STEPS]).astype(STEPS))


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


def _bound(plans: Plans, settled: Settled) -> None:
    """Give each plan the lower bound of its person and the gap to it; drop a bound that a verified plan undercuts."""
    if plans.lower_bound is None or not settled.rows:
        return
    bound = plans.lower_bound.detach().cpu().numpy().astype(float)
    owner = np.concatenate(settled.owner)
    cost = np.concatenate([part["cost"].to_numpy() for part in settled.plans])
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
    for part, who in zip(settled.plans, settled.owner, strict=True):
        total = part["cost"].to_numpy()
        below = np.where(known[who], np.clip(bound[who], 0.0, least[who]), np.nan)
        gap = np.where(total > 0, (total - below) / np.where(total > 0, total, 1.0), 0.0 * below)
        part["lower_bound"], part["gap"] = (pd.array(v, dtype="Float64") for v in (below, gap))
