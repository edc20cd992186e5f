"""For whom do the methods that search or draw codes find plans, how likely are these, and how long does it take?

Each line is one method on refused test people of a ReLU network (--small: a logistic regression), with and without the
walk back towards the person. Machines are shared and noisy: people per second of the clock stand beside people per
second of processor time, on one thread. `possible` asks `LocalSearch`, which proves for whom no plan exists.

    python benchmarks/latent_codes.py --small      a minute: German credit, 100 people
    python benchmarks/latent_codes.py              Adult, COMPAS, HELOC, 2,000 people each: about twenty minutes
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from core_speed import train
from rich.console import Console
from rich.table import Table

import turnabout as ta
from turnabout.methods import Cchvae, Cruds, Revise, TabsynQ, TabsynSvdd
from turnabout.methods.latent import LatentMethod

METHODS: tuple[type[LatentMethod], ...] = (Revise, Cchvae, Cruds, TabsynQ, TabsynSvdd)
console = Console(width=160)


@dataclass(frozen=True)
class Line:
    """One method on one data set."""

    data: str
    method: str
    people: int
    refined: bool
    training: float  # seconds of processor time; 0 where the network was there already
    unlawful: int  # proposals that the core had to mend
    found: float
    likely: float  # share of the options that are as likely as most accepted people's rows
    cost: float
    changes: float
    per_second: float
    per_cpu_second: float
    possible: float  # share of the people for whom LocalSearch finds no proof that nothing helps


def unlawful(method: LatentMethod, x: torch.Tensor) -> int:
    """Proposals of the search that are no legal rows of the person, before the core sees them."""
    rows = method.propose(x).x_new
    owner, slot = torch.isfinite(rows).all(-1).nonzero(as_tuple=True)
    rows = rows[owner, slot]
    return int(((method.problem_.snap(x[owner], rows) - rows).abs() > 1e-9).any(1).sum())


def lines(name: str, people: int, seed: int, small: bool, methods: list[str]) -> list[Line]:
    """Some methods, or all, on one data set."""
    data = ta.datasets.load(name)
    part, test = data.split(seed=seed)
    _, fitted_on = part.split(test=0.25, seed=seed)
    pipeline = train(fitted_on, seed)["logistic" if small else "relu 3x10"]
    model = ta.models.wrap(pipeline, data.schema, background=part.people)
    problem = ta.Problem(data.schema, model, ta.costs.L1(), background=part.people, labels=part.accepted)
    refused = test.people[model.judge(test.people) < 0]
    drawn = np.random.default_rng(seed).choice(len(refused), people, replace=people > len(refused))
    table = refused.iloc[drawn].reset_index(drop=True)
    counts = ta.methods.LocalSearch().fit(problem).find(refused.head(1000)).counts()
    possible = 1 - counts["IMPOSSIBLE"] / min(1000, len(refused))
    console.print(f"{name}: accuracy {pipeline.score(test.people, test.accepted):.3f}, {len(refused):,} refused")
    out = []
    for cls in (cls for cls in METHODS if not methods or cls.__name__ in methods):
        began = time.process_time()
        method = (cls.small() if small else cls()).fit(problem)
        training, x = time.process_time() - began, data.schema.encode(table)
        broken = unlawful(method, x)
        for refined in (False, True):
            out.append(measure(name, method, table, refined, training, broken, possible))
            console.print(f"  {out[-1].method}, refined {refined}: {people / out[-1].per_second:.1f} s")
    return out


def measure(
    name: str, method: LatentMethod, table: pd.DataFrame, refined: bool, training: float, broken: int, possible: float
) -> Line:
    """One call of find."""
    schema, clock, cpu = method.problem_.schema, time.perf_counter(), time.process_time()
    answer = method.find(table, refine=refined)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    own = schema.encode(table.loc[answer.options.index.get_level_values("person")])
    new = schema.encode(answer.options[list(schema.names)])
    return Line(
        name,
        type(method).__name__,
        len(table),
        refined,
        training,
        broken,
        answer.counts()["FOUND"] / len(table),
        float(LatentMethod.criterion(method, own, new).double().mean()),
        float(answer.options["cost"].mean()),
        float(schema.changed(own, new).sum(1).double().mean()),
        len(table) / clock,
        len(table) / cpu,
        possible,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="German credit, 100 people, small networks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", nargs="*", default=["adult", "compas", "heloc"])
    parser.add_argument("--methods", nargs="*", default=[], choices=[cls.__name__ for cls in METHODS])
    parser.add_argument("--out", type=Path, help="append one JSON line per cell")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(
        *("data", "method", "refined", "training, CPU s", "unlawful", "found", "possible", "likely", "cost", "changes"),
        *("people/s", "per CPU s"),
        title=f"{100 if arguments.small else 2000:,} people in one batch, one thread",
    )
    for name in ["german"] if arguments.small else arguments.data:
        try:
            measured = lines(name, 100 if arguments.small else 2000, arguments.seed, arguments.small, arguments.methods)
        except ta.errors.DataError as error:
            console.print(f"{name} is left out: {error}")
            continue
        for line in measured:
            table.add_row(
                *(line.data, line.method, "yes" if line.refined else "no", f"{line.training:.1f}", f"{line.unlawful}"),
                *(f"{line.found:.3f}", f"{line.possible:.3f}", f"{line.likely:.3f}", f"{line.cost:.3f}"),
                *(f"{line.changes:.2f}", f"{line.per_second:,.0f}", f"{line.per_cpu_second:,.0f}"),
            )
            if arguments.out:
                with arguments.out.open("a") as file:
                    told = {**asdict(line), "seed": arguments.seed, "load": os.getloadavg()[0]}
                    file.write(json.dumps({**told, "versions": ta.provenance.versions()}) + "\n")
    console.print(table)


if __name__ == "__main__":
    main()
