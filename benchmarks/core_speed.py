"""How many people per second does each method serve, measured in plain model calls of the same run?

Each line is a ratio taken in one run: the seconds of `find` over the seconds of one plain batched call of the same
model for the same rows. Machines are shared and noisy; ratios travel better than seconds.

    python benchmarks/core_speed.py --small        a few minutes: up to 200 people
    python benchmarks/core_speed.py                everything: up to 20,000 people, says beforehand what it will do
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
import torch
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline

import turnabout as ta
from turnabout.core import Run, verify
from turnabout.datasets import Dataset

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from preparing import columns

SLOWEST = 300.0  # seconds that one cell may take; its time limit, reported as such when reached
console = Console()


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    model: str
    method: str
    people: int
    seconds: float
    plain: float
    found: float
    limited: bool

    @property
    def per_second(self) -> float:
        return self.people / self.seconds

    @property
    def ratio(self) -> float:
        return self.seconds / self.plain


def train(data: Dataset, seed: int) -> dict[str, Pipeline]:
    """The three models of the table, on the training part."""
    models = {
        "relu 3x10": (True, MLPClassifier((10, 10, 10), max_iter=30, random_state=seed)),
        "logistic": (True, LogisticRegression(max_iter=500)),
        "trees 100x3": (False, HistGradientBoostingClassifier(max_iter=100, max_depth=3, random_state=seed)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 epochs are enough for a decision boundary
        return {
            name: make_pipeline(columns(data, onehot), model).fit(data.people, data.accepted)
            for name, (onehot, model) in models.items()
        }


def refused_people(model: ta.models.Model, data: Dataset, n: int, seed: int) -> pd.DataFrame:
    """n people whom the model refuses; drawn with replacement when the data has fewer."""
    refused = data.people[model.judge(data.people) < 0]
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(refused), n, replace=n > len(refused))
    return refused.iloc[rows].reset_index(drop=True)


def timed(call, repeat: int = 1) -> float:
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def measure(name: str, pipeline: Pipeline, problem: ta.Problem, cls: type, people: pd.DataFrame) -> Cell:
    """One method on one model for some people, beside one plain call for the same rows."""
    method = cls().fit(problem)
    method.find(people.iloc[:1], time_limit=SLOWEST)  # warm
    plain = timed(lambda: pipeline.predict_proba(people), repeat=5)
    start = time.perf_counter()
    answer = method.find(people, time_limit=SLOWEST)
    seconds = time.perf_counter() - start
    counts = answer.counts()
    return Cell(name, cls.__name__, len(people), seconds, plain, counts["FOUND"] / len(people), seconds >= SLOWEST)


def small_parts(data: Dataset, pipeline: Pipeline, problem: ta.Problem, seed: int) -> list[tuple[str, str, str]]:
    """What is not a method: import, encode and write, verify, memory."""
    schema = data.schema
    people = data.people.sample(100_000, replace=True, random_state=seed).reset_index(drop=True)
    x = schema.encode(people)
    x_new = schema.snap(x, torch.rand(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    rows = [
        (
            "encode + write 100,000 rows",
            f"{timed(lambda: schema.write(people, schema.encode(people), x_new), 3):.2f} s",
            "1 s",
        )
    ]
    few = people.iloc[:20_000]
    own, new = x[:20_000], x_new[:20_000]
    plain = timed(lambda: pipeline.predict_proba(few), 5)
    checked = timed(lambda: verify(problem, few, own, new), 3)
    rows.append(("verify 20,000 rows, in plain calls", f"{checked / plain:.2f}", "3"))
    if isinstance(problem.model, ta.models.Additive):
        method = copy.copy(ta.methods.ExactLinear().fit(problem))
        method.run = Run()
        refused = own[problem.margin(own) < 0]
        search = timed(lambda: method._search(refused), 5)
        rows.append(("ExactLinear, the search alone, people/s", f"{len(refused) / search:,.0f}", "at least 50,000"))
    code = "import time; t = time.perf_counter(); import turnabout; print(time.perf_counter() - t)"
    imported = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
    rows.append(("import turnabout", f"{imported:.2f} s", "2.5 s"))
    return rows


def memory(sizes: tuple[int, ...] = (200, 20_000, 100_000)) -> list[tuple[str, str, str]]:
    """Peak memory of a process of its own for each size of table: the chunk is the same, the table grows."""
    peaks = [float(subprocess.check_output([sys.executable, __file__, "--peak", str(n)]).split()[-1]) for n in sizes]
    return [(f"peak memory, {n:,} people", f"{peak:,.0f} MiB", "") for n, peak in zip(sizes, peaks, strict=True)]


def peak(n: int) -> None:
    """Serve n people with ExactLinear on a random linear model of Adult; print this process's peak in MiB."""
    data = ta.datasets.load("adult")
    torch.manual_seed(0)
    model = ta.models.wrap(torch.nn.Linear(data.schema.d, 1), data.schema, threshold=0.6)
    table = data.people.sample(n, replace=True, random_state=0).reset_index(drop=True)
    ta.methods.ExactLinear().fit(ta.Problem(data.schema, model, ta.costs.L1())).find(table)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="up to 200 people, fewer parts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="*", help="only these methods")
    parser.add_argument("--out", type=Path, help="append one JSON line per cell")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        return peak(arguments.peak)
    sizes = (1, 200) if arguments.small else (1, 200, 20_000)
    try:
        data = ta.datasets.load("adult")
    except ta.TurnaboutError as error:
        raise SystemExit(f"this benchmark needs the Adult data: {error}") from None
    part, test = data.split(seed=arguments.seed)
    _, fitted_on = part.split(test=0.25, seed=arguments.seed)
    console.print(
        f"Adult, models trained on {len(fitted_on):,} rows; sizes {sizes}; {torch.get_num_threads()} torch threads."
    )
    models = train(fitted_on, arguments.seed)
    table = Table("model", "method", "people", "seconds", "people/s", "in plain calls", "found", title="Speed of find")
    versions = {"python": platform.python_version(), "torch": torch.__version__, "sklearn": sklearn.__version__}
    classes = [c for c in ta.methods.ALL if not arguments.methods or c.__name__ in arguments.methods]
    extra: list[tuple[str, str, str]] = []
    for name, pipeline in models.items():
        model = ta.models.wrap(pipeline, data.schema, background=part.people)
        console.print(f"{name}: accuracy {pipeline.score(test.people, test.accepted):.3f}; {model!r}", markup=False)
        problem = ta.Problem(data.schema, model, ta.costs.L1(), background=part.people, labels=part.accepted)
        for cls in classes:
            if cls.requires is not None and not isinstance(model, cls.requires):
                continue
            for n in sizes:
                cell = measure(name, pipeline, problem, cls, refused_people(model, test, n, arguments.seed))
                limit = " (time limit)" if cell.limited else ""
                seconds, speed = f"{cell.seconds:.3g}{limit}", f"{cell.per_second:,.0f}"
                table.add_row(name, cell.method, f"{n:,}", seconds, speed, f"{cell.ratio:,.1f}", f"{cell.found:.1%}")
                console.print(f"  {cell.method} {n}: {cell.seconds:.3g} s, {cell.ratio:,.1f} plain calls{limit}")
                if arguments.out:
                    line = {
                        **cell.__dict__,
                        "ratio": cell.ratio,
                        "versions": versions,
                        "machine": platform.machine(),
                        "seed": arguments.seed,
                    }
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
        if name == "logistic":
            extra += small_parts(test, pipeline, problem, arguments.seed)
            if not arguments.small:
                extra += memory()
    console.print(table)
    parts = Table("part", "measured", "at most", title="Other parts")
    for row in extra:
        parts.add_row(*row)
    console.print(parts)


if __name__ == "__main__":
    main()
