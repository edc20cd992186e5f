"""What becomes of a plan that is not followed to the letter: parameters resampled around what was said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from turnabout.errors import MethodError
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.core.problem import Problem
    from turnabout.core.result import Recourse

ROWS = 1 << 16  # plans under noise rolled out at a time
THETAS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True)
class KeptShares:
    """Shares of draws, (m,) each: after which the model still says yes, and after which every condition holds too."""

    accepted: Tensor
    allowed: Tensor


def draws_of(draws: int, steps: int, parameters: int, generator: np.random.Generator) -> Tensor:
    """(draws, T, P) numbers in [-1, 1], the same for every plan."""
    return torch.as_tensor(generator.uniform(-1.0, 1.0, (draws, steps, parameters)))


def under_noise(
    problem: Problem, x: Tensor, sequences: Tensor, r: Tensor, theta: float | Tensor, noise: Tensor
) -> KeptShares:
    """Plans (m,) with every parameter r replaced by r (1 + theta u), u (draws, T, P) in [-1, 1]; theta may be (m,).

    States are not rounded: nobody rounds a slip. A draw counts as allowed when the model says yes at its end, every
    condition of every step holds, and every state stays within what the person may hold.
    """
    actions = problem.actions
    assert actions is not None
    theta = torch.as_tensor(theta, dtype=x.dtype, device=x.device).expand(len(x))
    noise = noise.to(x.device, x.dtype)
    draws, each = len(noise), max(1, ROWS // max(1, len(noise)))
    accepted, allowed = torch.zeros_like(theta), torch.zeros_like(theta)
    lo, hi = problem.bounds(x)
    for s in range(0, len(x), each):
        part = slice(s, min(s + each, len(x)))
        rows = torch.arange(part.start, part.stop, device=x.device).repeat_interleave(draws)
        slip = noise.repeat(part.stop - part.start, 1, 1) * theta[rows].view(-1, 1, 1)
        path = actions.script(sequences[rows]).roll(actions.tables.units(x[rows]), r[rows] * (1 + slip))
        yes = problem.margin(actions.tables.encoded(x[rows], path.end)) >= 0
        low, high = (actions.tables.units(v[rows]).unsqueeze(1) for v in (lo, hi))
        give = 1e-9 * actions.tables.span
        inside = ((path.states >= low - give) & (path.states <= high + give)).all(-1).all(-1)
        good = yes & inside & (path.slack >= -1e-12).all(-1).all(-1)
        accepted[part] = yes.to(x.dtype).reshape(-1, draws).mean(1)
        allowed[part] = good.to(x.dtype).reshape(-1, draws).mean(1)
    return KeptShares(accepted, allowed)


def largest_theta(
    problem: Problem, x: Tensor, sequences: Tensor, r: Tensor, share: float, noise: Tensor, most: float = 0.5
) -> Tensor:
    """(m,) the largest theta, up to `most`, at which a plan is still allowed in `share` of the draws; by halving."""
    low, high = torch.zeros_like(x[:, 0]), torch.full_like(x[:, 0], most)
    whole = under_noise(problem, x, sequences, r, high, noise).allowed >= share
    for _ in range(9):
        middle = (low + high) / 2
        good = under_noise(problem, x, sequences, r, middle, noise).allowed >= share
        low, high = torch.where(good, middle, low), torch.where(good, high, middle)
    return torch.where(whole, torch.full_like(low, most), low)


@dataclass(frozen=True)
class Told:
    """The plans of an answer, read back from what was printed: who, which option, x (m, d), sequences, parameters."""

    index: pd.Index
    x: Tensor
    sequences: Tensor
    r: Tensor


def read_plans(problem: Problem, answer: Recourse) -> Told:
    """The plans of an answer as tensors; parameters are read off the printed states before and after each step."""
    actions = problem.actions
    if actions is None or not len(answer.plans):
        raise MethodError(
            "there are no plans of steps to read.", hint="ask for plans with ActionSequences on a Problem with actions."
        )
    index = answer.plans.index
    labels = index.get_level_values("person")
    own = problem.schema.table(answer.people.iloc[answer.people.index.get_indexer(labels)])
    steps = int(answer.plans["steps"].max())
    sequences = torch.full((len(index), steps), -1, dtype=torch.long)
    r = torch.zeros(len(index), steps, actions.tables.gain.shape[1], dtype=torch.float64)
    by_plan: dict[Any, list[Any]] = {key: [] for key in index}
    for key, row in zip(answer.steps.index, answer.steps.to_dict("records"), strict=True):
        by_plan[key[:2]].append(row)
    names = {name: a for a, name in enumerate(actions.names)}
    for k, key in enumerate(index):
        before: dict[str, Any] = {str(name): value for name, value in own.iloc[k].items()}
        for t, row in enumerate(by_plan[key]):
            a = names[row["action"]]
            after = before | json.loads(row["becomes"])
            sequences[k, t] = a
            r[k, t] = actions.read_step(a, before, after, json.loads(row["parameters"]))
            before = after
    return Told(index, problem.schema.read(own).x, sequences, r)
