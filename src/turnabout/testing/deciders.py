"""Small deterministic models of every kind: linear, ReLU net, steps, plain function, decision tree. All pickle."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import nn

from turnabout.models import Additive, Differentiable, LinearMargin, Model, ReluNet, Trees, wrap
from turnabout.schema import Category, Number, Schema
from turnabout.testing.chooser import SeededDice
from turnabout.testing.random_people import random_people
from turnabout.typing import Tensor

Kind = Literal["linear", "net", "function", "steps", "tree"]
OFFERS: Mapping[Kind, tuple[type, ...]] = {
    "linear": (Differentiable, LinearMargin, Additive),
    "net": (Differentiable, ReluNet),
    "function": (),
    "steps": (),
    "tree": (Trees,),
}
ACCEPTED_SHARE = 0.35  # of random people, by a random model
HIDDEN = 5


def kinds_for(requires: type | None) -> tuple[Kind, ...]:
    """Kinds of model that offer a capability; all of them for None."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    if requires is None:
        return kinds
    if any(requires in offered for offered in OFFERS.values()):
        return tuple(kind for kind in kinds if requires in OFFERS[kind])
    schema = Schema((Number("a", 0, 10, step=1), Number("b", 0, 1)))  # someone else's protocol: try
    return tuple(kind for kind in kinds if isinstance(random_model(kind, schema, 0), requires))


class EncodedFunction:
    """Table -> P(yes), through a schema's encoding and a score of encoded rows: a model that can only be asked."""

    def __init__(self, schema: Schema, score: nn.Module):
        self.schema = schema
        self.score = score

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        with torch.no_grad():
            return torch.sigmoid(self.score(self.schema.encode(table))).squeeze(1).numpy()


class Steps(nn.Module):
    """score(x) = sum_j w_j [x_j > t_j] + bias: flat almost everywhere, with jumps."""

    def __init__(self, weights: Tensor, thresholds: Tensor, bias: float):
        super().__init__()
        self.weights, self.thresholds, self.bias = weights, thresholds, bias

    def forward(self, x: Tensor) -> Tensor:
        return ((x > self.thresholds).to(x.dtype) @ self.weights + self.bias).unsqueeze(1)


def affine(weights: Tensor, bias: float) -> nn.Linear:
    """nn.Linear in float64 with one output and these numbers; draws nothing from torch's generator."""
    layer = nn.utils.skip_init(nn.Linear, len(weights), 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(weights.unsqueeze(0))
        layer.bias.fill_(bias)
    return layer


def weighing(kind: Kind, schema: Schema, weights: Mapping[str, float], bias: float) -> Model:
    """A model of the kind that says yes when sum_c weights[c] * x_c + bias >= 0, with encoded columns named.

    A tree is fitted to random people judged so, and agrees with them only.
    """
    w = torch.tensor([float(weights.get(column, 0.0)) for column in schema.columns], dtype=torch.float64)
    if unknown := set(weights) - set(schema.columns):
        raise ValueError(f"{sorted(unknown)} are not encoded columns {schema.columns}")
    if kind == "linear":
        return wrap(nn.Sequential(affine(w, bias)), schema)
    if kind == "net":
        return wrap(_two_sided(w, bias), schema)
    if kind in ("function", "steps"):
        return wrap(EncodedFunction(schema, affine(w, bias)), schema)
    return _tree(schema, affine(w, bias), 0)


def random_model(kind: Kind, schema: Schema, seed: int) -> Model:
    """A model of the kind with random numbers, which accepts about a third of random people."""
    rng = np.random.default_rng([seed, 1])
    score = _score("net" if kind == "tree" else kind, schema.d, rng)
    with torch.no_grad():
        typical = score(schema.encode(random_people(SeededDice(seed, 2), schema, 200, plain=True))).squeeze(1)
    levels = typical.sort().values
    place = int((1 - ACCEPTED_SHARE) * (len(levels) - 1))
    shift = float(levels[place] + levels[min(place + 1, len(levels) - 1)]) / 2
    _shift(score, -shift)
    if kind == "tree":
        return _tree(schema, score, seed)
    return wrap(score if kind in ("linear", "net") else EncodedFunction(schema, score), schema)


def _score(kind: Kind, d: int, rng: np.random.Generator) -> nn.Module:
    w = torch.from_numpy(rng.normal(0.0, 2.0, d))
    if kind == "steps":
        return Steps(w, torch.from_numpy(rng.uniform(0.05, 0.95, d)), 0.0)
    if kind in ("linear", "function"):
        return nn.Sequential(affine(w, 0.0))
    first = nn.utils.skip_init(nn.Linear, d, HIDDEN, dtype=torch.float64)
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(rng.normal(0.0, 1.5, (HIDDEN, d))))
        first.bias.copy_(torch.from_numpy(rng.normal(0.0, 0.7, HIDDEN)))
    return nn.Sequential(first, nn.ReLU(), affine(torch.from_numpy(rng.normal(0.0, 1.5, HIDDEN)), 0.0))


def _shift(score: nn.Module, by: float) -> None:
    if isinstance(score, Steps):
        score.bias += by
        return
    assert isinstance(score, nn.Sequential)
    last = score[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias.add_(by)


def _two_sided(w: Tensor, bias: float) -> nn.Sequential:
    """w @ x + bias as relu(s) - relu(-s)."""
    first = nn.utils.skip_init(nn.Linear, len(w), 2, dtype=torch.float64)
    with torch.no_grad():
        first.weight.copy_(torch.stack([w, -w]))
        first.bias.copy_(torch.tensor([bias, -bias], dtype=torch.float64))
    return nn.Sequential(first, nn.ReLU(), affine(torch.tensor([1.0, -1.0], dtype=torch.float64), 0.0))


def _tree(schema: Schema, score: nn.Module, seed: int) -> Model:
    """A decision tree behind the usual preprocessing of raw columns, fitted to random people."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
    from sklearn.tree import DecisionTreeClassifier

    people = random_people(SeededDice(seed, 3), schema, 300, plain=True)
    with torch.no_grad():
        yes = (score(schema.encode(people)).squeeze(1) >= 0).numpy()
    if yes.all() or not yes.any():
        yes[0] = not yes[0]  # a classifier of one class is none
    parts: list[tuple[str, object, list[str]]] = []
    for f in schema:
        if isinstance(f, Number):
            parts.append((f.name, "passthrough", [f.name]))
            continue
        levels: list[object] = list(f.levels)  # type: ignore[attr-defined]
        if not isinstance(levels[0], str):  # numbers and booleans are read as numbers
            people[f.name] = people[f.name].astype(np.float64)
            levels = [float(level) for level in levels]  # type: ignore[arg-type]
        if isinstance(f, Category):
            parts.append((f.name, OneHotEncoder(handle_unknown="ignore"), [f.name]))
        else:
            order = OrdinalEncoder(categories=[levels], handle_unknown="use_encoded_value", unknown_value=-1)
            parts.append((f.name, order, [f.name]))
    tree = DecisionTreeClassifier(max_depth=5, random_state=0)
    fitted = Pipeline([("columns", ColumnTransformer(parts)), ("tree", tree)]).fit(people, yes)
    return wrap(fitted, schema, background=people)


class Slow(Model):
    """Mixed into a model's class: every call takes a nap first."""

    nap: float

    def judge(self, table: pd.DataFrame) -> np.ndarray:
        time.sleep(self.nap)
        return super().judge(table)

    def margin(self, x: Tensor) -> Tensor:
        time.sleep(self.nap)
        return super().margin(x)


def slowed_model(model: Model, nap: float) -> Model:
    """The same model, which takes so many seconds more for each call."""
    model = copy.copy(model)
    model.__class__ = type(f"Slow{type(model).__name__}", (Slow, type(model)), {"nap": nap})
    return model
