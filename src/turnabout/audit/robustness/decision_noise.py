"""Does a yes survive small changes? Gaussian noise, the nearest change that turns a decision, and moves along the data.

All changes are made to the numbers and ordinals that may move; what is fixed stays, levels of categories and binaries
are left alone, missing cells stay missing. Changed values are not rounded and not held within bounds: noise is
not rounded in practice. Sizes are counted in sample deviations of the background.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.audit.aligned import first_options
from turnabout.audit.execution_noise import ExecutionNoise, execution_noise
from turnabout.core import Problem, Recourse
from turnabout.documents import Document
from turnabout.errors import ProblemError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.models import Differentiable, LinearMargin
from turnabout.parameters import Finite, Share, Whole, checked
from turnabout.schema import as_frame
from turnabout.typing import Json, Tensor

OVERSHOOT = 0.02  # share by which DeepFool goes beyond the boundary it sees
HALVINGS = 50
SIZES = (0.1, 0.25, 0.5, 1.0)  # in deviations, at which survival is reported
NEIGHBOUR_ROWS = 512  # people compared with the background at a time


def recourse_under_noise(
    problem: Problem,
    answer: Recourse,
    sd: Mapping[str, float] | None = None,
    deviations: float = 0.1,
    draws: int = 1,
    seed: int = 0,
) -> Rate:
    """Share of people whose recourse is still accepted after Gaussian noise (Ross et al., 2021, section 4.2).

        x_new' = x_new + e,    e_j ~ N(0, sd_j^2) on the features that may move,    kept if margin(x_new') >= 0     (1)

    First options count. With several draws a person counts by the share that they keep; the interval is over people.
    The paper adds "N(0, 0.1)" to standardised features, once; read as a deviation that is the default here, read as a
    variance it is deviations=0.316.

    Parameters
    ----------
    sd : deviation of the noise by feature, in its units; other features get none.
    deviations : without sd, the deviation of the noise as a share of each feature's in the background.
    """
    spread = execution_noise(problem, sd, deviations)
    x = problem.schema.encode(first_options(answer))
    return Rate.among(kept(problem, x, torch.ones(len(x), dtype=torch.bool), spread, draws, seed))


def model_under_noise(
    problem: Problem,
    people: Any,
    sd: Mapping[str, float] | None = None,
    deviations: float = 0.1,
    draws: int = 1,
    seed: int = 0,
) -> Rate:
    """Share of people whose decision, yes or no, is unchanged after Gaussian noise on their own rows.

    Parameters are those of recourse_under_noise.
    """
    spread = execution_noise(problem, sd, deviations)
    x = problem.schema.encode(people)
    return Rate.among(kept(problem, x, problem.margin(x) >= 0, spread, draws, seed))


@checked(ProblemError, draws=Whole(1, hint="the paper draws once."), seed=Whole(0, hint="use 0."))
def kept(problem: Problem, x: Tensor, decision: Tensor, spread: ExecutionNoise, draws: int, seed: int) -> np.ndarray:
    """(n,) whether, or in which share of several draws, the decision stays."""
    rng = np.random.default_rng(seed)
    stays = torch.zeros(len(x), dtype=torch.float64)
    for _ in range(draws):
        noise = torch.as_tensor(rng.standard_normal((len(x), len(spread.columns))))
        stays += (problem.margin(spread.add(x, noise)) >= 0) == decision
    return stays.numpy() == 1 if draws == 1 else stays.numpy() / draws


@dataclass(frozen=True, eq=False)
class Turns(Document):
    """How small a change turns each person's decision, as far as DeepFool found one.

    Attributes
    ----------
    size : one per person: Euclidean length of the change in deviations of the background, inf where none was found. It
        is the length of a change that works: the smallest may be smaller, so that survival is bounded from above.
    change : the change itself, a column per feature, in deviations; 0 where none was found.
    accepted : the decisions that are turned.
    settled : whether that is the smallest there is, and inf means that there is none: known of linear models alone.
        Elsewhere the search may pass by a smaller change, end where the gradient is 0, or run out of steps.
    """

    size: pd.Series
    change: pd.DataFrame
    accepted: pd.Series
    settled: pd.Series

    @checked(ProblemError, size=Finite(least=0, hint="use a number from 0 up, like 0.1."))
    def survives(self, size: float) -> Rate:
        """Share of people for whom no change up to this size was found: survival is at most that.

        The interval is one of survival itself: its lower end counts only people who are settled, and is 0 without them.
        """
        none_found = (self.size > size).to_numpy(dtype=bool)
        known = Rate.among(none_found & self.settled.to_numpy(dtype=bool))
        return replace(Rate.among(none_found), low=known.low)

    _repr_html_ = report_html

    def __str__(self) -> str:
        rates = "; ".join(f"up to {size:g}: {self.survives(size)}" for size in SIZES)
        if self.settled.all():
            return f"decisions that survive every change, in deviations: {rates}"
        gave_up = int((np.isinf(self.size) & ~self.settled).sum())
        note = f"; the search gave up on {gave_up} of {len(self.size)} people" if gave_up else ""
        return f"no change found up to so many deviations, so that survival is at most: {rates}{note}"

    def to_dict(self) -> Json:
        """Sizes by place (null where no change was found), who is settled, and survival at a few sizes, at most."""
        sizes = [float(v) if np.isfinite(v) else None for v in self.size]
        survives = {f"{size:g}": self.survives(size).to_dict() for size in SIZES}
        return {"size": sizes, "settled": [bool(v) for v in self.settled], "survives": survives}


@checked(ProblemError, steps=Whole(1))
def deepfool(problem: Problem, people: Any, steps: int = 50, sd: Mapping[str, float] | None = None) -> Turns:
    r"""The nearest change that turns each decision, by steps to the boundary of the linearised model.

        z_{t+1} = z_t - (1 + o) f(z_t) w_t / |w_t|^2,    w_t = gradient of the margin f at z_t                      (1)

    in columns z counted in deviations, o a small overshoot, until the decision turns; then the place where it turns
    on the straight line from the start is found by halving. Exact for linear models, an upper bound for others, and no
    bound (inf, not settled) for whom the search ended where the gradient is 0, or ran out of steps.

    Parameters
    ----------
    steps : most steps of (1), at least 1.
    sd : one deviation of each feature, in its units; by default those of the background.

    References
    ----------
    Moosavi-Dezfooli, Fawzi, Frossard (2016), DeepFool: a simple and accurate method to fool deep neural networks.
    """
    model = problem.model
    if not isinstance(model, Differentiable):
        raise ProblemError(
            f"DeepFool needs a model with a gradient, and {model!r} has none.",
            hint="model_under_noise and natural work with any model.",
        )
    spread = execution_noise(problem, sd)
    given = as_frame(people)
    x = problem.schema.encode(given)
    yes = problem.margin(x) >= 0
    change = torch.zeros(len(x), len(spread.columns), dtype=torch.float64)
    turned, flat = torch.zeros(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.bool)
    active = torch.arange(len(x))
    for _ in range(steps):
        here = spread.add(x[active], change[active])
        margin = problem.margin(here)
        w = torch.where(spread.stuck(x[active]), 0.0, model.gradient(here)[:, spread.columns] * spread.sd)
        square = (w * w).sum(1)
        flat[active] = (square == 0) & torch.isfinite(margin)
        good = (square > 0) & torch.isfinite(square) & torch.isfinite(margin)
        active, margin, w, square = active[good], margin[good], w[good], square[good]
        # a margin of 0 is a yes already: step a little for those who stand on the boundary
        gap = torch.where(margin.abs() > 1e-12, margin, torch.where(yes[active], 1e-12, -1e-12))
        change[active] -= ((1 + OVERSHOOT) * gap / square).unsqueeze(1) * w  # (1)
        turned[active] = (problem.margin(spread.add(x[active], change[active])) >= 0) != yes[active]
        active = active[~turned[active]]
        if not len(active):
            break
    change[~turned] = 0.0
    change[turned] *= _share(problem, x[turned], yes[turned], change[turned], spread).unsqueeze(1)
    size = torch.where(turned, change.norm(dim=1), torch.inf)
    return Turns(
        pd.Series(size.numpy(), given.index, name="size"),
        pd.DataFrame(change.numpy(), given.index, list(spread.names)),
        pd.Series(yes.numpy(), given.index, name="accepted"),
        pd.Series(((turned | flat) & isinstance(model, LinearMargin)).numpy(), given.index, name="settled"),
    )


def _share(problem: Problem, x: Tensor, yes: Tensor, change: Tensor, spread: ExecutionNoise) -> Tensor:
    """(m,) share of a change that turns the decision at which it just does, by halving."""
    low, high = torch.zeros(len(x), dtype=torch.float64), torch.ones(len(x), dtype=torch.float64)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        turns = (problem.margin(spread.add(x, middle.unsqueeze(1) * change)) >= 0) != yes
        low, high = torch.where(turns, low, middle), torch.where(turns, middle, high)
    return high


@dataclass(frozen=True)
class Natural(Document):
    """Decisions under natural changes.

    Attributes
    ----------
    typical : share of unchanged decisions, a person counting by the share of their neighbours that keep theirs.
    worst : share of people whose decision no neighbour turns.
    size : mean length of the changes, in deviations; None where nobody was moved.
    """

    typical: Rate
    worst: Rate
    size: float | None

    _repr_html_ = report_html

    def __str__(self) -> str:
        moved = "" if self.size is None else f" (moves of {self.size:.3g} deviations)"
        return f"unchanged after a natural change{moved}: {self.typical}; after each of them: {self.worst}"


@checked(
    ProblemError,
    share=Share(above=0, hint="use a small share of the way, like 0.25."),
    neighbours=Whole(1),
    rows=Whole(1),
    seed=Whole(0),
)
def natural(
    problem: Problem,
    people: Any,
    background: Any = None,
    share: float = 0.25,
    neighbours: int = 10,
    rows: int = 4096,
    seed: int = 0,
) -> Natural:
    """Decisions after small moves along the data: towards the most similar people who hold other values.

        x' = x + share * (b - x)  on the columns that move,    b the nearest background rows that differ there    (1)

    Nearest in all columns, scalars in deviations and a switch of level counting 1. The paper makes natural changes
    with a generative network (Zhao et al., 2018), random ones and adversarial ones, and shows neither network nor
    settings; this is a stand-in that needs no training. `typical` answers to its random changes, `worst` to the
    adversarial ones.

    Parameters
    ----------
    background : ordinary people; by default the problem's.
    share : of the way to a neighbour that is gone.
    neighbours : how many, at most.
    rows, seed : a background of more rows is sampled.
    """
    near = problem.background_x if background is None else problem.schema.encode(background)
    spread = execution_noise(problem, background=near)
    assert near is not None
    if len(near) > rows:
        near = near[torch.as_tensor(np.random.default_rng(seed).choice(len(near), rows, replace=False))]
    x = problem.schema.encode(people)
    weights, typical, worst, sizes = _weights(problem, near), [], [], []
    for part in torch.split(x, NEIGHBOUR_ROWS):
        moves, real = _moves(part, near, weights, spread, neighbours)  # (p, k, s), (p, k)
        here = part.repeat_interleave(moves.shape[1], 0)
        there = spread.add(here, share * moves.flatten(0, 1))
        same = (problem.margin(there) >= 0) == (problem.margin(part) >= 0).repeat_interleave(moves.shape[1])
        same = same.reshape(real.shape)
        some = real.any(1)
        typical.append(((same & real).sum(1) / real.sum(1).clamp(min=1))[some])
        worst.append((same | ~real).all(1)[some])
        sizes.append(share * moves.norm(dim=2)[real])
    size = torch.cat(sizes) if sizes else torch.zeros(0)
    return Natural(
        Rate.among(torch.cat(typical).numpy() if typical else []),
        Rate.among(torch.cat(worst).numpy() if worst else np.zeros(0, dtype=bool)),
        float(size.mean()) if len(size) else None,
    )


def _weights(problem: Problem, near: Tensor) -> Tensor:
    """(d,) by which columns are scaled before distances: 1 / deviation of a scalar, a switch of level at distance 1."""
    schema = problem.schema
    out = torch.zeros(schema.d, dtype=torch.float64)
    for feature, s in zip(schema.features, schema.slices, strict=True):
        if len(feature.value_columns) == 1:
            sd = float(near[:, s.start].std())
            out[s.start] = 1.0 / sd if sd > 0 else 0.0
        else:
            out[s] = 0.5**0.5
    return out


def _moves(x: Tensor, near: Tensor, weights: Tensor, spread: ExecutionNoise, neighbours: int) -> tuple[Tensor, Tensor]:
    """Changes (p, k, s), in deviations, that lead to each person's nearest rows, and which of them are real (p, k)."""
    sd = torch.where(spread.sd > 0, spread.sd, torch.inf)
    gap = (near[:, spread.columns].unsqueeze(0) - x[:, spread.columns].unsqueeze(1)) / sd  # (p, m, s)
    missing = spread.stuck(near).unsqueeze(0) | spread.stuck(x).unsqueeze(1)
    gap = torch.where(missing, 0.0, gap)
    distance = torch.cdist(x * weights, near * weights)
    distance = torch.where((gap.abs() > 1e-9).any(2), distance, torch.inf)
    nearest = distance.topk(min(neighbours, len(near)), largest=False)
    moves = gap.gather(1, nearest.indices.unsqueeze(2).expand(-1, -1, gap.shape[2]))
    return moves, torch.isfinite(nearest.values)
