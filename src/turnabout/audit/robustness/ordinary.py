"""Can recourse be told from ordinary rows? Classifiers try, and their held-out accuracy says how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from turnabout.documents import Document
from turnabout.errors import ProblemError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Whole, checked
from turnabout.schema import Schema, as_frame

Kind = Literal["network", "forest", "linear"]
LEAST = 5  # rows of each class, in each part, without which nothing is learned or tested


@dataclass(frozen=True)
class TwoSample(Document):
    """How well classifiers tell two sets of rows apart.

    Attributes
    ----------
    accuracy : held-out accuracy of each kind of classifier; 0.5 is guessing. Unknown where there were too few rows.
    learned_on, tested_on : how many rows, half of them of each set.
    """

    accuracy: dict[Kind, Rate]
    learned_on: int
    tested_on: int

    @property
    def told_apart(self) -> bool:
        """Whether some interval lies above one half; of several classifiers one may by chance."""
        return any(rate.value is not None and rate.low > 0.5 for rate in self.accuracy.values())

    _repr_html_ = report_html

    def __str__(self) -> str:
        if not self.tested_on:
            return "too few rows to tell anything apart"
        rates = "; ".join(f"{kind} {rate}" for kind, rate in self.accuracy.items())
        return f"accuracy of telling recourse from ordinary rows (0.5 is guessing): {rates}"


@checked(ProblemError, seed=Whole(0))
def classifier_two_sample(
    original_rows: Any,
    recourse_rows: Any,
    schema: Schema,
    seed: int = 0,
    kinds: Sequence[Kind] = ("network", "forest", "linear"),
) -> TwoSample:
    """Held-out accuracy of classifiers that tell recourse from original rows; near 0.5 they look alike.

    Rows are one person's where their index labels agree; keep the index of `people`, and of `answer.options`, whose
    first options count. People, not rows, are split in halves: of a pair (x, x + delta) on two sides of the split, the
    half that was learned would give a false lead about the other, and pull the accuracy below one half.

    Classes are balanced on both sides. In the half for testing everyone gives one row only, so that rows are
    independent and the intervals are exact. The price is a small test: 200 pairs leave 50 rows of each class.

    Parameters
    ----------
    original_rows, recourse_rows : tables with the schema's columns.
    seed : of the split and of the classifiers.
    kinds : a "network" of 100 hidden units, a "forest" of 200 trees, a "linear" logistic regression.

    References
    ----------
    Lopez-Paz, Oquab (2017), Revisiting classifier two-sample tests. Ross et al. (2021), table 3.
    """
    if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
        raise ProblemError(
            f"{unknown[0]!r} is no kind of classifier.", hint=f"use some of {', '.join(get_args(Kind))}."
        )
    rng = np.random.default_rng(seed)
    tables = [_by_person(original_rows), _by_person(recourse_rows)]
    everyone = tables[0].index.union(tables[1].index)
    learns = pd.Series(rng.permutation(len(everyone)) % 2 == 0, everyone)
    parts = [table[learns.loc[table.index].to_numpy(dtype=bool)] for table in tables]
    others = [table[~learns.loc[table.index].to_numpy(dtype=bool)] for table in tables]
    few = min(map(len, parts))
    train = [part.iloc[rng.permutation(len(part))[:few]] for part in parts]
    test = _one_row_each(others[0], others[1], rng)
    if few < LEAST or len(test[0]) < LEAST:
        return TwoSample({kind: Rate.of(0, 0) for kind in kinds}, 0, 0)
    x, y = (_matrix(schema, pair) for pair in (train, test))
    middle, spread = x[0].mean(0), x[0].std(0)
    spread[spread == 0] = 1.0
    x, y = (((rows - middle) / spread, labels) for rows, labels in (x, y))
    accuracy = {kind: Rate.among(_classifier(kind, seed).fit(*x).predict(y[0]) == y[1]) for kind in kinds}
    return TwoSample(accuracy, len(x[0]), len(y[0]))


def _by_person(rows: Any) -> pd.DataFrame:
    """One row per person, indexed by their label; of several options the first."""
    table = as_frame(rows)
    if isinstance(table.index, pd.MultiIndex):
        if "person" not in table.index.names:
            raise ProblemError(
                f"the rows have an index of the levels {list(table.index.names)}.",
                hint="index them by person, or pass answer.options as it is.",
            )
        table = table.set_axis(table.index.get_level_values("person"))
        table = table[~table.index.duplicated()]
    if table.index.has_duplicates:
        twice = table.index[table.index.duplicated()].tolist()[0]
        raise ProblemError(f"two rows share the index label {twice!r}.", hint="give every person a label of their own.")
    return table


def _one_row_each(
    original: pd.DataFrame, recourse: pd.DataFrame, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As many rows of both sets, no person twice, the originals drawn from all originals alike."""
    both = len(original.index.intersection(recourse.index))
    if not len(original) or not len(recourse):
        return original[:0], recourse[:0]
    # m originals take m * both / len(original) people from the other side; as many as that leaves there
    m = min(len(original), int(len(recourse) / (1.0 + both / len(original))))
    first = original.iloc[rng.permutation(len(original))[:m]]
    second = recourse[~recourse.index.isin(first.index)]
    m = min(m, len(second))
    return first.iloc[:m], second.iloc[rng.permutation(len(second))[:m]]


def _matrix(schema: Schema, pair: Sequence[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
    """Encoded rows of both sets under each other, and their labels: 1 for recourse."""
    encoded = [schema.encode(table).numpy() for table in pair]
    return np.vstack(encoded), np.repeat([0, 1], [len(rows) for rows in encoded])


def _classifier(kind: str, seed: int) -> Any:
    try:
        if kind == "network":
            from sklearn.neural_network import MLPClassifier

            return _Network(
                MLPClassifier((100,), alpha=1e-3, learning_rate_init=0.003, max_iter=100, random_state=seed)
            )
        if kind == "forest":
            from sklearn.ensemble import RandomForestClassifier

            return RandomForestClassifier(200, min_samples_leaf=3, random_state=seed)
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    except ImportError:
        raise ProblemError("classifiers need scikit-learn.", hint="pip install scikit-learn") from None


class _Network:
    """A network that may stop before it has converged, without a warning: a hundred rounds are what it gets."""

    def __init__(self, network: Any):
        self.network = network

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Network:
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.network.fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.network.predict(x)
