"""One comparison case in a form every library can read: the people, the training table and the model.

A case is a folder of three files that any numpy can read, so that environments with different versions of everything
else see the same question:

    case.json     columns, levels, ranges, what may not change, the model's kind
    rows.npz      training rows and labels, the refused people, one person to warm up on, and P(yes) of all of them
    net.npz or trees.json     the model: weights of a ReLU net, or an XGBoost model in its own JSON

A *coded* row is one float per column: the number itself, or the index of the level. An *encoded* row is what the model
sees: each number as it is (trees) or scaled to [0, 1] by its training range (net), each category as one-hot columns.
Needs numpy, and xgboost for trees; nothing else, and in particular not turnabout.
"""

import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
Search = Callable[[Array], list[Array | None]]
OVERTIME = 75  # exit status of a worker that ran into its limit
proved: list[bool] = []  # a search that can prove its answer cheapest, or impossible, says so here, person by person


@dataclass(frozen=True)
class Column:
    """One column of the table; `levels` is empty for a number, all of which are whole here."""

    name: str
    levels: tuple[str, ...]
    low: float
    high: float
    fixed: bool


@dataclass(frozen=True)
class Case:
    """The question put to every library."""

    folder: Path
    columns: tuple[Column, ...]
    kind: str  # "net" or "trees"
    train: Array  # (m, F) coded
    labels: Array  # (m,) 0 or 1
    people: Array  # (n, F) coded, all refused
    warm: Array  # (F,) one more refused person, not timed
    expected: Array  # (m + n,) P(yes) as the model's maker computed it

    @property
    def numbers(self) -> list[int]:
        """Positions of the numbers."""
        return [j for j, column in enumerate(self.columns) if not column.levels]

    @property
    def categories(self) -> list[int]:
        """Positions of the categories."""
        return [j for j, column in enumerate(self.columns) if column.levels]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def encoded_names(self) -> list[str]:
        """Names of the encoded columns: "age", "workclass=Private"."""
        return [
            name
            for c in self.columns
            for name in ([f"{c.name}={level}" for level in c.levels] if c.levels else [c.name])
        ]

    def table(self, coded: Array) -> dict[str, Array]:
        """Coded rows (n, F) -> columns in the person's units, ready for a DataFrame."""
        return {
            c.name: np.array(c.levels, dtype=object)[v.astype(int)] if c.levels else v.astype(int)
            for c, v in zip(self.columns, coded.T, strict=True)
        }

    def encode(self, coded: Array) -> Array:
        """Coded rows (n, F) -> encoded rows (n, d)."""
        return encode(self.columns, coded, scaled=self.kind == "net")

    def code(self, encoded: Array) -> Array:
        """Encoded rows (n, d) of unscaled numbers -> coded rows (n, F)."""
        coded, start = np.empty((len(encoded), len(self.columns))), 0
        for j, column in enumerate(self.columns):
            width = max(len(column.levels), 1)
            block = encoded[:, start : start + width]
            if column.levels:
                assert (np.sort(block, axis=1)[:, ::-1] == np.eye(1, width)).all(), f"{column.name} holds no level"
            coded[:, j] = block.argmax(1) if column.levels else block[:, 0]
            start += width
        return coded

    def cost(self, old: Array, new: Array) -> Array:
        """Old rows (n, F) or (1, F), new rows (n, F) -> (n,): |change| over the training range, 1 for a new level."""
        span = np.array([1.0 if c.levels else c.high - c.low for c in self.columns])
        categorical = [bool(c.levels) for c in self.columns]
        return np.where(categorical, new != old, np.abs(new - old) / span).sum(axis=1)

    def model(self) -> Callable[[Array], Array]:
        """The model as a function: coded rows (n, F) -> P(yes) (n,)."""
        ask = load_model(self.folder, self.kind)
        return lambda coded: ask(self.encode(coded))


def encode(columns: Sequence[Column], coded: Array, *, scaled: bool) -> Array:
    """Coded rows (n, F) -> the columns a model sees (n, d)."""
    blocks = []
    for j, column in enumerate(columns):
        if column.levels:
            blocks.append(np.eye(len(column.levels))[coded[:, j].astype(int)])
        else:
            v = coded[:, j : j + 1].astype(float)
            blocks.append((v - column.low) / (column.high - column.low) if scaled else v)
    return np.concatenate(blocks, axis=1)


def load_model(folder: Path, kind: str) -> Callable[[Array], Array]:
    """The stored model as a function: encoded rows (n, d) -> P(yes) (n,)."""
    if kind == "net":
        with np.load(folder / "net.npz") as stored:
            layers = [(stored[f"W{i}"], stored[f"b{i}"]) for i in range(len(stored.files) // 2)]

        def net(x: Array) -> Array:
            for weights, bias in layers[:-1]:
                x = np.maximum(x @ weights + bias, 0.0)
            weights, bias = layers[-1]
            return 1.0 / (1.0 + np.exp(-(x @ weights + bias)[:, 0]))

        return net
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(folder / "trees.json")
    return lambda x: booster.inplace_predict(x, validate_features=False).astype(float)


def load(folder: Path) -> Case:
    """Read a case and make sure that its model says here what it said where it was trained."""
    told = json.loads((folder / "case.json").read_text())
    columns = tuple(Column(**c | {"levels": tuple(c["levels"])}) for c in told["columns"])
    with np.load(folder / "rows.npz") as rows:
        parts = (rows[k] for k in ("train", "labels", "people", "warm", "expected"))
        case = Case(folder, columns, told["kind"], *parts)
    answers = case.model()(np.concatenate([case.train, case.people]))
    worst = np.abs(answers - case.expected).max()
    assert worst < 1e-6, f"the model answers differently in this environment: by {worst:.2g}"
    return case


def version(name: str) -> str:
    """Version of an installed package, or of a module that is merely on the path."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(import_module(name).__version__)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the process when the time is over: a search that never returns cannot be asked to stop."""
    alarm = threading.Timer(seconds, os._exit, [OVERTIME])
    alarm.daemon = True
    alarm.start()
    yield
    alarm.cancel()


def work(prepare: Callable[[Case, str, int], Search], *, batch: bool, needs: list[str]) -> None:
    """Frame of a worker: `python run_x.py CASE VARIANT SEED PEOPLE LIMIT OUT`.

    `prepare(case, variant, seed)` does what is not timed and returns the search: coded rows (n, F) -> one coded plan or
    None for each. It is called with one person at a time, or with the first PEOPLE at once if `batch`. OUT gets a line
    of versions, then a line per call, written as soon as it is known; after LIMIT seconds of searching the worker ends.
    """
    folder, variant, seed, count, limit, out = sys.argv[1:]
    random.seed(int(seed))
    np.random.seed(int(seed))  # noqa: NPY002, some of these libraries draw from the global generators
    with open(out, "w", encoding="utf-8") as lines, contextlib.redirect_stdout(sys.stderr):

        def tell(line: dict[str, Any]) -> None:
            lines.write(json.dumps(line) + "\n")
            lines.flush()

        case = load(Path(folder))
        search = prepare(case, variant, int(seed))
        tell({"versions": {name: version(name) for name in needs}})
        with time_limit(float(limit)):
            search(case.warm[None, :].copy())
        asked = np.arange(min(int(count), len(case.people)))
        with time_limit(float(limit)):
            for some in [asked] if batch else asked[:, None]:
                proved.clear()
                start, start_cpu = time.perf_counter(), time.process_time()
                plans = search(case.people[some].copy())
                seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
                listed = [None if plan is None else [float(v) for v in plan] for plan in plans]
                tell({"people": some.tolist(), "plans": listed, "proved": sum(proved), "seconds": seconds, "cpu": cpu})
