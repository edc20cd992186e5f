"""Plans of steps: how a search proposes them, and the replay that says what each would really do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from turnabout.actions import BoundActions
from turnabout.errors import MethodError
from turnabout.schema import Scalar, Schema
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.core.problem import Problem

TIGHT = 1e-12  # slack, as a share of a condition's natural size, that floating point may take or give
NOISE = 1e-6  # share of a grid step, or of a parameter's unit, within which two values are the same
SAME = 1e-12  # encoded difference below which a cell counts as unchanged
SLICE = 4096  # plans replayed at a time: the gathered lines of their actions take most of the memory

REASONS = (
    "",
    "it rests in the middle",
    "it repeats an action that may be taken once",
    "a parameter is not a number",
    "a parameter is outside its limits",
    "a cell that a step needs is missing",
    "a step cannot be printed: a value leaves its bounds, its grid or its direction",
    "a step writes what its action does not name",
    "a step changes nothing",
    "a condition is broken",
    "a rule is broken on the way",
    "a cost or a duration is negative or not finite",
)
IDLE, AGAIN, ODD, LIMIT, MISSING, OFF, STRAY, NOTHING, CONDITION, RULE, PRICE = range(1, len(REASONS))


@dataclass
class Plans:
    """Proposed plans: k sequences of at most T actions for each of n people, good or not; the replay decides.

    sequences (n, k, T) names actions by their place in the set, -1 after the last one (a plan of nothing but -1 stands
    for "nothing to propose"); r (n, k, T, P) holds their parameters. `lower_bound` (n,) is a cost that no plan of the
    person can undercut, NaN where none is known; `tolerance` (n, k) how large an error of each step a plan withstands.
    """

    sequences: Tensor
    r: Tensor
    lower_bound: Tensor | None = None
    tolerance: Tensor | None = None

    def check(self, n: int, actions: BoundActions) -> None:
        """Refuse what is not shaped as a batch of plans for n people over these actions."""
        size, count = actions.tables.gain.shape[1], len(actions.names)
        shape = tuple(self.sequences.shape)
        if len(shape) != 3 or shape[0] != n or tuple(self.r.shape) != (*shape, size):
            raise MethodError(
                f"the search proposed plans with sequences of shape {shape} and parameters of shape "
                f"{tuple(self.r.shape)} for {n} people.",
                hint=f"return Plans(sequences, r), sequences of shape ({n}, k, T) and r of shape ({n}, k, T, {size}).",
            )
        if self.sequences.is_floating_point() or bool(((self.sequences < -1) | (self.sequences >= count)).any()):
            raise MethodError(
                "the search proposed a plan with an action that does not exist.",
                hint=f"sequences are whole numbers from 0 to {count - 1}, and -1 for no action.",
            )
        for what, value, wanted in (
            ("lower_bound", self.lower_bound, shape[:1]),
            ("tolerance", self.tolerance, shape[:2]),
        ):
            if value is not None and tuple(value.shape) != wanted:
                raise MethodError(
                    f"the search proposed {what} of shape {tuple(value.shape)} beside sequences of shape {shape}.",
                    hint=f"{what} has the shape {wanted}.",
                )


@dataclass(frozen=True)
class Replay(TensorRows):
    """What m plans of T steps do to people when every state is written as it would be printed.

    states (m, T+1, d) : encoded printed states, the person's own first; they stay where a plan has ended.
    r (m, T, P) : parameters as realised by the printed states.
    cost, duration, slack (m, T) : of each step; slack is that of its tightest condition, in natural sizes.
    allowed (m,) : whether every step could be taken as printed.
    wrong (m,) : why not, as a place in REASONS.
    """

    states: Tensor
    r: Tensor
    cost: Tensor
    duration: Tensor
    slack: Tensor
    wrong: Tensor

    @property
    def allowed(self) -> Tensor:
        return self.wrong == 0

    @property
    def end(self) -> Tensor:
        """(m, d) the rows at which the plans arrive."""
        return self.states[:, -1]

    @property
    def total(self) -> Tensor:
        """(m,) cost of whole plans."""
        return self.cost.sum(1)


def replay(problem: Problem, x: Tensor, sequences: Tensor, r: Tensor) -> Replay:
    """People x (m, d), one plan each of sequences (m, T) and parameters r (m, T, P) -> what really happens.

    A step takes the printed state before it, applies the effect, and snaps onto what the person may hold. The column
    that leads a parameter keeps its snapped value, which defines the parameter as realised; with that one the effect
    is applied again, so that the columns that follow fit what is printed of the leader. The step is allowed when

        every column written lies within half a grid step of the effect, and no other one moved,              (1)
        the realised parameters keep their limits, and with parameters something changed,                     (2)
        all conditions hold on the printed states before and after, strict ones by more than noise,           (3)
        all rules hold between the person's own row and the state reached,                                    (4)
        no cell that the action reads or writes is missing; cost and duration are finite and not negative;    (5)

    and a plan when all its steps are, it rests only at its end, and repeats only what may be repeated.
    """
    if problem.actions is None:
        raise MethodError("plans need actions, and the problem has none.", hint="pass actions=ActionSet(...).")
    ground = PlanColumns.of(problem.schema, problem.actions, x.device)
    parts = [
        _replay(problem, ground, x[s : s + SLICE], sequences[s : s + SLICE], r[s : s + SLICE].to(x.dtype))
        for s in range(0, max(len(x), 1), SLICE)
    ]
    return parts[0] if len(parts) == 1 else Replay.join(parts)


@dataclass(frozen=True)
class PlanColumns:
    """What the schema and the actions say of columns, as tensors; see `PlanColumns.of`."""

    scale: Tensor  # (e,) power of ten by which a legal value of the column becomes a whole number
    step: Tensor  # (e,) distance between legal values, in units
    writes: Tensor  # (A+1, d) bool: encoded columns that an action may change
    needs: Tensor  # (A+1, F) bool: features that an action reads or writes
    lead: Tensor  # (A+1, P) the state column that shows a parameter; -1 where none does
    repeats: Tensor  # (A+1,) bool: whether an action may be taken more than once
    indicator: Tensor  # (F,) encoded column of each feature's missing indicator, or -1

    @classmethod
    def of(cls, schema: Schema, actions: BoundActions, device: torch.device) -> PlanColumns:
        """Read the constants off a schema and a set of actions."""
        scale, step = torch.ones(schema.d, dtype=torch.float64), torch.ones(schema.d, dtype=torch.float64)
        indicator = torch.full((len(schema),), -1)
        for j, (feature, s) in enumerate(zip(schema.features, schema.slices, strict=True)):
            if isinstance(feature, Scalar):
                scale[s.start], step[s.start] = feature.decimal_scale, feature.unit_step
            if feature.missing:
                indicator[j] = s.stop - 1
        count, columns = len(actions.names), actions.tables.columns.cpu()
        writes = torch.zeros(count + 1, schema.d, dtype=torch.bool)
        needs = torch.zeros(count + 1, len(schema), dtype=torch.bool)
        for a in range(count):
            writes[a, actions.footprint_columns(a).cpu()] = True
            known = actions.actions[a].reads is not None  # of a free-form action it need not be
            needs[a, sorted(actions.writes[a] | (actions.reads[a] if known else set()))] = True
        repeats = torch.tensor([*(bool(action.repeatable) for action in actions.actions), True])
        parts = scale[columns], step[columns], writes, needs, _leads(actions), repeats, indicator
        return cls(*(part.to(device) for part in parts))

    def printed(self, actions: BoundActions, x: Tensor) -> Tensor:
        """Encoded printed states (..., d) -> units (..., e), to the digit as a person reads them."""
        tables = actions.tables
        v = tables.units(x)
        short = torch.round(v * self.scale) / self.scale
        near = (v - short).abs() <= 1e-13 * (tables.bottom.abs() + tables.span)
        return torch.where(near, short, v)


def _leads(actions: BoundActions) -> Tensor:
    out = torch.full(tuple(actions.tables.used.shape), -1)
    place = {column: j for j, column in enumerate(actions.tables.columns.tolist())}
    for a, line in enumerate(actions.lines):
        for p in range(0 if line is None else len(line.action.parameters)):
            column = line.handle(p) if line is not None else None
            out[a, p] = -1 if column is None else place[column]
    return out


class _Walk:
    """A batch of plans on their way: where each stands, and what was first wrong with it."""

    def __init__(self, problem: Problem, ground: PlanColumns, x: Tensor, sequences: Tensor):
        assert problem.actions is not None
        self.problem, self.ground, self.actions, self.x = problem, ground, problem.actions, x
        self.line = torch.where(sequences >= 0, sequences, len(self.actions.names))  # (m, T)
        self.script = self.actions.script(sequences)
        self.here = x.clone()
        self.wrong = torch.zeros(len(x), dtype=torch.long, device=x.device)

    def blame(self, bad: Tensor, reason: int) -> None:
        self.wrong[bad & (self.wrong == 0)] = reason

    def step(self, t: int, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step t of every plan: moves on, and returns parameters, cost, duration and slack."""
        ground, script, x = self.ground, self.script, self.x
        tables, here, line = self.actions.tables, self.here, self.line[:, t]
        active = line < len(self.actions.names)
        writes = ground.writes[line]  # (b, d)
        old = ground.printed(self.actions, here)
        r = self._realised(t, old, r)
        meant = script.move(t, old, r)
        target = tables.encoded(here, torch.where(torch.isfinite(meant), meant, old))
        there = torch.where(writes, self.problem.schema.snap(x, target), here)
        there = torch.where(active.unsqueeze(1), there, here)
        new = ground.printed(self.actions, there)
        written = writes[:, tables.columns]
        used = script.used[t]
        give = NOISE * script.unit[t].abs()
        slack = script.slack(t, old, new, r)
        price, takes = script.price(t, old, new, r), script.duration(t, old, new)
        strict = torch.nn.functional.pad(script.strict[t], (0, slack.shape[-1] - script.strict.shape[-1]))
        hold = torch.where(strict, slack > TIGHT, slack >= -TIGHT)
        absent = (ground.indicator >= 0) & (x[:, ground.indicator.clamp(min=0)] > 0.5)
        finite = torch.isfinite(price) & torch.isfinite(takes)
        for bad, reason in (
            (used & ((r < script.low[t] - give) | (r > script.high[t] + give)), LIMIT),
            (absent & ground.needs[line], MISSING),
            (written & ~((meant - new).abs() <= (0.5 + NOISE) * ground.step), OFF),
            (~written & ~((meant - old).abs() <= NOISE * ground.step), STRAY),
            (used.any(-1, keepdim=True) & ~((there - here).abs() > SAME).any(-1, keepdim=True), NOTHING),
            (~hold, CONDITION),
            ((self.problem.violation(x, there) > 0).unsqueeze(1), RULE),
            ((~finite | (price < 0) | (takes < -TIGHT)).unsqueeze(1), PRICE),
        ):
            self.blame(active & bad.any(-1), reason)
        self.here = there
        rest = torch.zeros_like(price)
        return (
            r,
            torch.where(active & finite, price, rest),
            torch.where(active & finite, takes, rest),
            torch.where(active, slack.amin(-1), torch.inf),
        )

    def _realised(self, t: int, old: Tensor, r: Tensor) -> Tensor:
        """(b, P) the parameters of step t as the printed leading columns show them; those without one as they are."""
        lead, script = self.ground.lead[self.line[:, t]], self.script
        row, p = (lead >= 0).nonzero(as_tuple=True)
        if not len(row):
            return r
        tables, j = script.tables, lead[row, p]
        still = script.keep[t][row, j] * old[row, j] + script.add[t][row, j]
        slope, column = script.gain[t][row, p, j], tables.columns[j]
        aim = (still + slope * r[row, p] - tables.bottom[j]) / tables.span[j]
        cell = self.problem.schema.snap_cells(self.x[row, column], aim, column)
        out = r.clone()
        out[row, p] = (tables.bottom[j] + cell * tables.span[j] - still) / slope
        return out


def _replay(problem: Problem, ground: PlanColumns, x: Tensor, sequences: Tensor, r: Tensor) -> Replay:
    m, steps = sequences.shape
    walk, active = _Walk(problem, ground, x, sequences), sequences >= 0
    walk.blame((active[:, 1:] & ~active[:, :-1]).any(1), IDLE)
    counts = torch.zeros(m, len(ground.repeats), dtype=torch.long, device=x.device)
    counts.scatter_add_(1, walk.line, torch.ones_like(walk.line))
    walk.blame(((counts > 1) & ~ground.repeats).any(1), AGAIN)
    used = walk.actions.tables.used[walk.line]
    walk.blame((~torch.isfinite(r) & used).flatten(1).any(1), ODD)
    r = torch.where(torch.isfinite(r) & used, r, torch.zeros_like(r))
    if not steps:
        none = x.new_zeros(m, 0)
        return Replay(x.unsqueeze(1), r, none, none, none, walk.wrong)
    states = [walk.here]
    told: tuple[list[Tensor], ...] = ([], [], [], [])
    for t in range(steps):
        for out, value in zip(told, walk.step(t, r[:, t]), strict=True):
            out.append(value)
        states.append(walk.here)
    realised, cost, duration, slack = (torch.stack(out, 1) for out in told)
    return Replay(torch.stack(states, 1), realised, cost, duration, slack, walk.wrong)
