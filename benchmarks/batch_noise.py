"""How many options are refused when they are scored in other company, with and without the guard against batch noise?

Every option is put to the original alone and in shuffled batches of several sizes. Without the guard, options need only
the margin that suffices in float64.

    python benchmarks/batch_noise.py --small       under a minute: 60 people for each model
    python benchmarks/batch_noise.py               under two minutes: 150 people
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta

D, ROWS = 16, 1000
SIZES = (2, 3, 7, 16, 64, 256)
Ask = Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model: what is wrapped, how the original is asked, and the least score that is a yes."""

    name: str
    model: Any
    ask: Ask
    cut: float
    kind: type = np.float64  # of the columns it is asked with


def people(rng: np.random.Generator) -> pd.DataFrame:
    """Numbers with two decimals, such as amounts and ages."""
    return pd.DataFrame({f"f{i}": np.round(rng.normal(50, 20, ROWS), 2) for i in range(D)})


def schema_of(table: pd.DataFrame) -> ta.Schema:
    """Four numbers may change, on a fine grid, so that plans end very near the boundary."""
    names = list(table.columns)
    free = names[:4]
    return ta.Schema(
        tuple(ta.Number(n, low=-50, high=150, decimals=7, moves="free" if n in free else "fixed") for n in names)
    )


def function(rng: np.random.Generator, table: pd.DataFrame) -> Case:
    """A plain function with two matrix products in float32."""
    first, second = rng.normal(size=(D, 64)).astype(np.float32) / 5, rng.normal(size=64).astype(np.float32)

    def score(rows: pd.DataFrame) -> np.ndarray:
        return np.maximum(rows.to_numpy(dtype=np.float32) @ first, 0) @ second / 50

    level = np.float32(np.median(score(table)))

    def chance(rows: pd.DataFrame) -> np.ndarray:
        return 1 / (1 + np.exp(level - score(rows)))

    return Case("float32 function", chance, chance, 0.5)


def network(schema: ta.Schema, table: pd.DataFrame) -> Case:
    """A torch network of two hidden layers in float32."""
    torch.manual_seed(0)
    layers = (torch.nn.Linear(D, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    net = torch.nn.Sequential(*layers).requires_grad_(False)
    net[-1].weight *= 100
    net[-1].bias -= net(schema.encode(table).float()).median()
    return Case("torch network", net, lambda rows: net(schema.encode(rows).float())[:, 0].numpy(), 0.0)


def pipeline(rng: np.random.Generator, table: pd.DataFrame) -> Case:
    """A scaler and a network of scikit-learn, fitted on float32 columns."""
    accepted = ((table - 50) / 20).to_numpy() @ rng.normal(size=D) + rng.normal(size=len(table)) > 0
    small = table.astype(np.float32)
    fitted = make_pipeline(StandardScaler(), MLPClassifier((64, 32), max_iter=30, random_state=0)).fit(small, accepted)
    return Case("float32 pipeline", fitted, lambda rows: fitted.predict_proba(rows)[:, 1], 0.5, np.float32)


def planted(eps: float) -> Case:
    """A function that answers lower by eps about a row alone: the fault that must be seen."""

    def chance(rows: pd.DataFrame) -> np.ndarray:
        return 1 / (1 + np.exp(-(rows.to_numpy(dtype=float).mean(1) - 52) / 5)) - eps * (len(rows) == 1)

    return Case(f"planted, {eps:g}", chance, chance, 0.5)


def lowest(case: Case, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) of rows alone, and the lowest of their scores in shuffled batches."""
    alone = np.concatenate([case.ask(rows.iloc[i : i + 1]) for i in range(len(rows))])
    together = np.asarray(case.ask(rows)).copy()
    for size in SIZES:
        order = np.random.default_rng(size).permutation(len(rows))
        for places in np.array_split(order, max(1, len(rows) // size)):
            together[places] = np.minimum(together[places], case.ask(rows.iloc[places]))
    return alone, together


def run(case: Case, schema: ta.Schema, table: pd.DataFrame, count: int, guard: bool) -> list[str]:
    """One line of the table."""
    threshold = None if isinstance(case.model, torch.nn.Module) else case.cut
    given = table.astype(case.kind)
    model = ta.models.wrap(case.model, schema, threshold, background=given)
    if not guard:
        model._judge.noise, model._judge.alone = 1e-12, False
    start = time.perf_counter()
    method = ta.methods.NearestRow().fit(ta.Problem(schema, model, background=given))
    answer = method.find(given.iloc[:count], options=3)
    seconds = time.perf_counter() - start
    alone, together = lowest(case, answer.options[list(answer.features)].reset_index(drop=True).astype(case.kind))
    line = [len(answer.options), int((alone < case.cut).sum()), int((together < case.cut).sum())]
    cost = answer.options.groupby(level="person", observed=True).cost.min().mean()
    return [case.name, "yes" if guard else "no", f"{model.noise:g}", *map(str, line), f"{cost:.6f}", f"{seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="60 people for each model")
    count = 60 if parser.parse_args().small else 150
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    table = people(rng)
    schema = schema_of(table)
    cases = [function(rng, table), network(schema, table), pipeline(rng, table), planted(1e-4)]
    shown = Table(title=f"Options refused in other company, {count} people")
    for name in ("model", "guard", "least margin", "options", "refused alone", "in batches", "mean cost", "seconds"):
        shown.add_column(name, justify="left" if name in ("model", "guard") else "right")
    for case in cases:
        for guard in (False, True):
            shown.add_row(*run(case, schema, table, count, guard))
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
