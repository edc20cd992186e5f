"""Random people, actions and models for the certificates, and plans looked at one by one in plain Python."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from turnabout.actions.steps import StepTables
from turnabout.methods.sequences.certificate import CertificateTask
from turnabout.models.forest import Forest
from turnabout.models.forms import run_layers

NUMBERS, LEVELS = 4, 2  # columns of a state
E = NUMBERS + LEVELS


class Net:
    """A ReLU net over encoded rows."""

    def __init__(self, layers):
        self.layers = layers

    def margin(self, x):
        return run_layers(self.layers, x)[..., 0]


class Straight:
    """A linear model."""

    def __init__(self, weights, bias):
        self.weights, self.bias = weights, bias

    def margin(self, x):
        return x @ self.weights + self.bias


class Wood:
    """A forest."""

    def __init__(self, forest):
        self.forest = forest

    def margin(self, x):
        return self.forest.margin(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])


@dataclass
class Case:
    model: object
    tables: StepTables
    x: torch.Tensor
    sequences: torch.Tensor
    lo: torch.Tensor
    hi: torch.Tensor

    def task(self, **more):
        return CertificateTask(self.model, self.tables, self.x, self.sequences, self.lo, self.hi, **more)


def blank(actions: int, parameters: int = 2, conditions: int = 3, e: int = E) -> dict[str, torch.Tensor]:
    """Tables of actions that do nothing."""

    def zeros(*shape):
        return torch.zeros(actions + 1, *shape, dtype=torch.float64)

    return {
        "keep": zeros(e) + 1,
        "add": zeros(e),
        "gain": zeros(parameters, e),
        "leader": torch.arange(e).repeat(actions + 1, 1),
        "constant": zeros(),
        **{name: zeros(e) for name in ("absolute", "absolute_relative", "squared", "squared_relative")},
        "of_old": zeros(conditions, e),
        "of_new": zeros(conditions, e),
        "offset": zeros(conditions),
        "strict": zeros(conditions) > 0,
        "size": zeros(conditions) + 1,
        "takes": zeros(),
        "takes_old": zeros(e),
        "takes_new": zeros(e),
        "low": zeros(parameters) - torch.inf,
        "high": zeros(parameters) + torch.inf,
        "unit": zeros(parameters) + 1,
        "used": zeros(parameters) > 0,
    }


def finish(parts: dict[str, torch.Tensor], bottom=None, span=None) -> StepTables:
    e = parts["keep"].shape[1]
    one = torch.ones(e, dtype=torch.float64)
    return StepTables(torch.arange(e), 0 * one if bottom is None else bottom, one if span is None else span, **parts)


def random_tables(generator: torch.Generator) -> StepTables:
    """One action of each kind: shifts, scalings, followers, shares, new values, two parameters, levels."""

    def number(low=0.0, high=1.0):
        return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))

    t = blank(9)
    t["gain"][0, 0, 0], t["absolute"][0, 0] = 1, number(0.2, 1)  # wait: only upwards
    t["of_old"][0, 0, 0], t["of_new"][0, 0, 0], t["strict"][0, 0] = -1, 1, True
    t["gain"][1, 0, 1], t["squared_relative"][1, 1] = number(0.5, 2), number(0.5, 2)  # scale column 1
    t["of_old"][1, 0, 0], t["offset"][1, 0] = 1, -number(0, 0.6)  # ... once column 0 is large enough
    t["gain"][2, 0, 2], t["squared_relative"][2, 2], t["absolute"][2, 2] = 1, number(0.5, 2), number(0, 0.2)
    t["gain"][3, 0, 1], t["leader"][3, 2], t["squared_relative"][3, 1] = 1, 1, number(0.3, 1.5)  # 2 follows 1
    t["of_old"][3, 0, 1], t["offset"][3, 0], t["strict"][3, 0] = 1, -number(0.2, 0.8), True
    t["gain"][4, 0, 0], t["gain"][4, 0, 3], t["absolute"][4, 3] = 2, 1, number(0.2, 1)  # two columns, one parameter
    t["low"][4, 0], t["high"][4, 0] = -number(0.2, 1), number(0.2, 1)
    t["keep"][5, 3], t["gain"][5, 0, 3], t["absolute"][5, 3] = 0, 1, number(0.2, 1)  # a new value
    t["gain"][6, 0, 0], t["gain"][6, 1, 3] = 1, -1  # two parameters
    t["squared"][6, 0], t["squared"][6, 3], t["absolute_relative"][6, 3] = number(0.5, 2), number(0.5, 2), 0.01
    t["of_new"][6, 0, 0], t["of_new"][6, 0, 3], t["offset"][6, 0] = -1, -1, number(0.5, 2)
    t["keep"][7, 4:], t["add"][7, 5], t["constant"][7] = 0, 1, number(0.05, 0.4)  # the other level
    t["of_old"][7, 0, 4], t["offset"][7, 0] = 1, -0.5
    t["keep"][8, 0], t["add"][8, 0], t["absolute"][8, 0] = 0, 1, 0.3  # a constant value
    for a in range(7):
        t["used"][a] = (t["gain"][a] != 0).any(-1)
    scale = torch.tensor([1.0, 2.0, 0.5, 1.0, 1.0, 1.0], dtype=torch.float64)
    return finish(t, bottom=torch.tensor([0.1, -0.2, 0.0, 0.3, 0.0, 0.0], dtype=torch.float64), span=scale)


def random_model(kind: str, generator: torch.Generator):
    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    if kind == "linear":
        return Straight(normal(E), 0.0)
    if kind == "trees":
        return Wood(random_forest(generator))
    widths = [E, 8, 1] if kind == "net" else [E, 7, 6, 5, 1]
    return Net(tuple((normal(b, a) / a**0.5, 0.5 * normal(b)) for a, b in itertools.pairwise(widths)))


def refuse(model, x: torch.Tensor, by: float) -> None:
    """Lower the margin so that the best of people x is refused by this much."""
    shift = float(model.margin(x).max()) + by
    if isinstance(model, Straight):
        model.bias -= shift
    elif isinstance(model, Wood):
        model.forest = model.forest.scaled(shift=-shift)
    else:
        weight, bias = model.layers[-1]
        model.layers = (*model.layers[:-1], (weight, bias - shift))


def random_forest(generator: torch.Generator, trees: int = 6) -> Forest:
    """Full trees of depth three, their cuts among likely values; one node asks for a sum of two columns."""
    column, cut, left, right, value, roots = [], [], [], [], [], []

    def grow(depth):
        node = len(column)
        for store in (column, cut, left, right, value):
            store.append(0)
        if depth == 0:
            column[node], value[node] = -1, float(torch.randn((), generator=generator, dtype=torch.float64))
            cut[node], left[node], right[node] = 0.0, node, node
        else:
            column[node] = int(torch.randint(0, E + 1, (), generator=generator))
            cut[node] = float(0.2 + torch.rand((), generator=generator, dtype=torch.float64))
            left[node], right[node] = grow(depth - 1), grow(depth - 1)
        return node

    for _ in range(trees):
        roots.append(grow(3))
    sets = torch.zeros(1, E, dtype=torch.float64)
    sets[0, 1] = sets[0, 3] = 1
    return Forest(
        column=torch.tensor(column),
        cut=torch.tensor(cut, dtype=torch.float64),
        left=torch.tensor(left),
        right=torch.tensor(right),
        value=torch.tensor(value, dtype=torch.float64).unsqueeze(1),
        roots=torch.tensor(roots),
        bias=torch.zeros(1, dtype=torch.float64),
        sets=sets,
        feature_of=torch.arange(E),
        is_level=torch.zeros(E, dtype=torch.bool),
        divisor=1.0,
        link="identity",
        tolerance=0.0,
    )


def random_case(seed: int, kind: str, people: int = 3, steps: int = 3) -> Case:
    generator = torch.Generator().manual_seed(seed)
    tables = random_tables(generator)
    units = 0.3 + 1.2 * torch.rand(people, E, generator=generator, dtype=torch.float64)
    units[:, 3] -= 0.8  # column 3 may be negative, or change its sign
    units[:, 4], units[:, 5] = 1.0, 0.0
    x = (units - tables.bottom) / tables.span
    sequences = [w for k in range(1, steps + 1) for w in itertools.permutations(range(tables.actions), k)]
    some = torch.randperm(len(sequences), generator=generator)[:40].tolist()
    sequences = sorted({*sequences[:9], *(sequences[i] for i in some)}, key=lambda w: (len(w), w))
    padded = torch.tensor([[*sequence, *[-1] * (steps - len(sequence))] for sequence in sequences])
    lo, hi = torch.full_like(units, 0.05), torch.full_like(units, 3.0)
    lo[:, 3], lo[:, 4:] = -2.0, 0.0
    model = random_model(kind, generator)
    refuse(model, x, {"linear": 0.5, "net": 0.15, "deep": 0.05, "trees": 0.3}[kind])
    return Case(model, tables, x, padded, lo, hi)


def look_at(case: Case, person: int, sequence: list[int], r: list[list[float]], closed: float = 0.0):
    """Cost, whether every step is allowed, and the margin of one plan, by the formulas of `StepTables` read aloud."""
    t = case.tables
    state = (t.bottom + case.x[person] * t.span).tolist()
    total, allowed = 0.0, True
    for a, parameters in zip(sequence, r):
        if a < 0:
            continue
        new = list(state)
        for j in range(len(state)):
            new[j] = float(t.keep[a, j]) * state[j] + float(t.add[a, j])
            new[j] += sum(float(t.gain[a, p, j]) * parameters[p] for p in range(t.used.shape[1]) if t.used[a, p])
        for j in range(len(state)):
            l = int(t.leader[a, j])
            if l != j:
                new[j] = state[j] * new[l] / state[l]
        for p, value in enumerate(parameters):
            if t.used[a, p]:
                allowed &= float(t.low[a, p]) - closed <= value <= float(t.high[a, p]) + closed
        for c in range(t.offset.shape[1]):
            left = sum(float(t.of_old[a, c, j]) * state[j] + float(t.of_new[a, c, j]) * new[j] for j in range(len(new)))
            left += float(t.offset[a, c])
            allowed &= left > -closed if bool(t.strict[a, c]) else left >= -closed
        for j in range(len(state)):
            change = new[j] - state[j]
            total += float(t.absolute[a, j]) * abs(change) + float(t.squared[a, j]) * change**2
            share = abs(change) / max(abs(state[j]), 1e-12)
            if share:
                total += float(t.absolute_relative[a, j]) * share + float(t.squared_relative[a, j]) * share**2
            allowed &= float(case.lo[person, j]) - closed <= new[j] <= float(case.hi[person, j]) + closed
        total += float(t.constant[a])
        state = new
    row = (torch.tensor(state, dtype=torch.float64) - t.bottom) / t.span
    return total, allowed, float(case.model.margin(row))


def sampled(case: Case, plans: int, seed: int = 0) -> torch.Tensor:
    """(n,) the cheapest allowed and accepted plan among random ones of each sequence, some pulled back; or inf."""
    generator = torch.Generator().manual_seed(seed)
    t, sequences = case.tables, case.sequences
    best = torch.full((len(case.x),), torch.inf, dtype=torch.float64)
    for person in range(len(case.x)):
        w = sequences.repeat_interleave(plans, 0)
        r = torch.randn(len(w), sequences.shape[1], t.used.shape[1], generator=generator, dtype=torch.float64)
        r = r * torch.rand(len(w), 1, 1, generator=generator, dtype=torch.float64)
        for _ in range(6):
            cost, good = _judge(case, person, w, r)
            if bool(good.any()):
                best[person] = torch.minimum(best[person], cost[good].min())
            r = torch.where(good[:, None, None], 0.8 * r, 1.1 * r)
    return best


def _judge(case: Case, person: int, sequences: torch.Tensor, r: torch.Tensor):
    t = case.tables
    script = t.script(sequences)
    start = t.units(case.x[person : person + 1]).expand(len(sequences), -1)
    path = script.roll(start, r)
    line = torch.where(sequences >= 0, sequences, t.actions)
    good = torch.where(t.strict[line], path.slack > 1e-6, path.slack >= 0).all(-1).all(-1)
    good &= (~t.used[line] | ((r >= t.low[line]) & (r <= t.high[line]))).all(-1).all(-1)
    good &= ((path.states >= case.lo[person]) & (path.states <= case.hi[person])).all(-1).all(-1)
    good &= case.model.margin(t.encoded(case.x[person : person + 1].expand(len(sequences), -1), path.end)) >= 0
    return path.cost.sum(1), good


def test_a_plan_read_aloud_is_the_plan_rolled_out():
    case = random_case(3, "net")
    generator = torch.Generator().manual_seed(0)
    r = 0.3 * torch.randn(len(case.sequences), 3, 2, generator=generator, dtype=torch.float64)
    cost, _ = _judge(case, 1, case.sequences, r)
    for i in range(len(case.sequences)):
        told, _, _ = look_at(case, 1, case.sequences[i].tolist(), r[i].tolist())
        assert abs(told - float(cost[i])) < 1e-9 * (1 + told)
