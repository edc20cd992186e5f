"""Does `find` keep its time limit, for every method, under rules, with plans, proofs and slow models?

Prints the seconds that each method took when it was given `--limit` of them, and what people were told. The promise is
one and a half times the limit, and one call of the model.

    python benchmarks/time_limits.py               under two minutes
    python benchmarks/time_limits.py --small       half a minute: fewer people, the shortest limit
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

import turnabout as ta
from turnabout.actions import ActionSet
from turnabout.core import Method
from turnabout.models import Differentiable
from turnabout.testing.deciders import Kind, random_model, slowed_model

NAP = 0.03  # seconds that a slow model takes for a call, whatever the number of rows


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    method: Method
    problem: ta.Problem
    people: pd.DataFrame
    nap: float = 0.0


def schema_of_clients() -> ta.Schema:
    """Ten numbers and two categories."""
    numbers = [ta.Number(f"n{j}", 0, 100, step=1 if j % 2 else 0.5) for j in range(10)]
    jobs = ta.Category("job", ["none", "part", "full", "own"])
    return ta.Schema((*numbers, jobs, ta.Category("home", ["rent", "own"])))


def clients(schema: ta.Schema, n: int, seed: int = 0) -> pd.DataFrame:
    """Random rows."""
    rng = np.random.default_rng(seed)
    columns = {}
    for feature in schema:
        if isinstance(feature, ta.Category):
            columns[feature.name] = rng.choice(list(feature.levels), n)
        else:
            columns[feature.name] = rng.integers(0, 101, n).astype(float)
    return pd.DataFrame(columns)


def rules() -> list[ta.rules.Rule]:
    """A budget over all changes, and a consequence."""
    together = ta.rules.Linear({"n0": 1.0, "n1": 1.0, "n2": 1.0}, "<=", 160.0)
    return [ta.rules.AtMost(3), together]


def cases(people: int) -> Iterator[Case]:
    """Every method under two rules, then with a slow model; plans with and without proofs."""
    schema = schema_of_clients()
    background, table = clients(schema, 2000, 1), clients(schema, people)
    for cls in ta.methods.ALL:
        for nap in (0.0, NAP):
            kind: Kind = "net" if cls.requires is Differentiable or cls.needs_actions else "function"
            model = random_model("linear" if cls is ta.methods.ExactLinear else kind, schema, 3)
            model = slowed_model(model, nap) if nap else model
            actions = ActionSet.draft(schema) if cls.needs_actions else None
            laws = () if cls.needs_actions else rules()
            problem = ta.Problem(schema, model, rules=laws, background=background, actions=actions)
            words = "slow model" if nap else "plans" if cls.needs_actions else "two rules"
            yield Case(f"{cls.__name__}, {words}", cls(), problem, table, nap)
            if cls.needs_actions and not nap:
                proving = ta.methods.ActionSequences(certify=True)
                yield Case("ActionSequences, plans with proofs", proving, problem, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="100 people and half a second each")
    parser.add_argument("--limit", type=float, default=None, help="seconds; 1 unless told")
    parser.add_argument("--only", default="", help="only methods whose line holds this text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    limit = arguments.limit or (0.5 if arguments.small else 1.0)
    out = Table("case", "limit", "took", "times", "kept", "people were told", title="time limits")
    for case in cases(100 if arguments.small else 400):
        if arguments.only not in case.name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = case.method.fit(case.problem)
            began = time.monotonic()
            answer = method.find(case.people, time_limit=limit)
        took = time.monotonic() - began
        told = ", ".join(f"{count} {status}" for status, count in answer.counts().items() if count)
        kept = "yes" if took <= 1.5 * limit + case.nap else "NO"
        out.add_row(case.name, f"{limit:g} s", f"{took:.2f} s", f"{took / limit:.2f}", kept, told)
    Console(width=140).print(out)


if __name__ == "__main__":
    main()
