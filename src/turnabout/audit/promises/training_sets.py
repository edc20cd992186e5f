"""Data that a model may be trained on next: drawn again, with people left out, shifted, or newer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import AuditError
from turnabout.parameters import Maybe, Share, Whole, checked
from turnabout.schema import as_frame
from turnabout.typing import is_number

Sample = tuple[pd.DataFrame, np.ndarray]
Weigh = Callable[[pd.DataFrame], Any]
Change = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


class Retrain(ABC):
    """A way to make training sets out of the training people and their labels."""

    @abstractmethod
    def count(self, n: int) -> int:
        """How many models are fitted with n training people."""

    @abstractmethod
    def samples(self, people: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Sample]:
        """Training sets one after the other; more than asked for, where sets are drawn at random."""

    def is_complete(self, n: int) -> bool:
        """Whether the training sets are all there are, so that nothing but the training itself is left to chance."""
        return False


@dataclass(frozen=True)
@checked(AuditError, models=Whole(1, hint="use 30."))
class Bootstrap(Retrain):
    """As many people as there were, drawn with replacement: what another sample of the same people would give.

    models : how many models to fit. With k of m models saying yes to an option, 30 of 30 show a validity of 0.9.
    """

    models: int = 30

    def count(self, n: int) -> int:
        return self.models

    def samples(self, people: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Sample]:
        while True:
            rows = rng.integers(0, len(people), len(people))
            yield people.iloc[rows], labels[rows]


@dataclass(frozen=True)
@checked(AuditError, k=Whole(1), models=Maybe(Whole(1, hint="use 30.")))
class LeaveOut(Retrain):
    """All training people but k: what becomes of an option when somebody withdraws their data.

    k : how many people leave at a time.
    models : how many sets of k are tried, drawn at random. None, for k = 1 only: every person leaves once, and the
        sets are all there are. For one person at a time the sets differ from each other, so that intervals that take
        them for independent are too wide rather than too narrow.
    """

    k: int = 1
    models: int | None = 30

    def count(self, n: int) -> int:
        if self.k >= n:
            raise AuditError(f"k={self.k} of {n} training people leave nobody.", hint="leave out fewer.")
        if self.models is None:
            if self.k > 1:
                raise AuditError(
                    f"models=None tries every set, and of k={self.k} people there are too many.", hint="give models=30."
                )
            return n
        return min(self.models, n) if self.k == 1 else self.models

    def is_complete(self, n: int) -> bool:
        return self.k == 1 and self.count(n) == n

    def samples(self, people: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Sample]:
        n = len(people)
        once = iter(rng.permutation(n)[: self.count(n), None]) if self.k == 1 else None
        while True:
            left = rng.choice(n, self.k, replace=False) if once is None else next(once, None)
            if left is None:
                return
            stay = np.ones(n, dtype=bool)
            stay[left] = False
            yield people[stay], labels[stay]


@dataclass(frozen=True, eq=False)
@checked(AuditError, models=Whole(1, hint="use 30."))
class DatasetShift(Retrain):
    """Training people as they might be elsewhere or later: drawn by weights, and changed.

    weights : how often each training person is drawn, relative to others: (n,) numbers, or a function of the table such
        as `Dropped`. None: all alike.
    change : a function of the drawn table and a random generator that returns it changed, such as `Jittered`.
    models : how many models to fit, each on as many people as there were, drawn with replacement.
    """

    weights: Any | Weigh | None = None
    change: Change | None = None
    models: int = 30

    def __repr__(self) -> str:
        told = self.weights if self.weights is None or callable(self.weights) else f"of {len(self.weights)} people"
        return f"DatasetShift(weights={told}, change={self.change}, models={self.models})"

    def count(self, n: int) -> int:
        return self.models

    def samples(self, people: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Sample]:
        chance = self._chance(people)
        while True:
            rows = rng.choice(len(people), len(people), p=chance)
            table = people.iloc[rows]
            yield (table if self.change is None else self._changed(table, rng)), labels[rows]

    def _chance(self, people: pd.DataFrame) -> np.ndarray | None:
        if self.weights is None:
            return None
        given = self.weights(people) if callable(self.weights) else self.weights
        try:
            weights = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.full(0, np.nan)
        good = weights.shape == (len(people),) and np.isfinite(weights).all() and (weights >= 0).all()
        if not good or not weights.sum() > 0:
            raise AuditError(
                "the weights of a DatasetShift are not one number from 0 up for each training person, some above 0.",
                hint=f"give {len(people)} numbers, or a function of the table that returns them.",
            )
        return weights / weights.sum()

    def _changed(self, table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        assert self.change is not None
        changed = self.change(table.copy(), rng)
        if not isinstance(changed, pd.DataFrame) or len(changed) != len(table):
            raise AuditError("change= of a DatasetShift did not return a table of as many people.", hint="return one.")
        return changed


@dataclass(frozen=True, eq=False)
@checked(AuditError, models=Whole(1, hint="use 30."))
class Newer(Retrain):
    """Other people altogether: the training data of a later year.

    people, labels : the newer data, in the columns of the old.
    models : 1 fits one model on them as they stand, the only set there is; more are fitted on bootstrap samples of
        them.
    """

    people: Any
    labels: Any
    models: int = 1

    def count(self, n: int) -> int:
        return self.models

    def is_complete(self, n: int) -> bool:
        return self.models == 1

    def __repr__(self) -> str:
        return f"Newer({len(self.people)} people, models={self.models})"

    def samples(self, people: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Sample]:
        table, truth = read_training(self.people, self.labels, list(people.columns), "newer")
        if self.models == 1:
            yield table, truth
        else:
            yield from Bootstrap(self.models).samples(table, truth, rng)


@dataclass(frozen=True)
@checked(AuditError, share=Share(hint="use a number from 0 to 1."))
class Dropped:
    """Weights for `DatasetShift`: of the people with this level in this column, so large a share is gone."""

    column: str
    level: Hashable
    share: float

    def __call__(self, people: pd.DataFrame) -> np.ndarray:
        if self.column not in people:
            raise AuditError(f"the training people have no column '{self.column}'.", hint=f"use {list(people)}.")
        mine = (people[self.column] == self.level).fillna(False).to_numpy(dtype=bool)
        if not mine.any():
            raise AuditError(f"nobody has '{self.column}' = {self.level!r}.", hint="name a level that occurs.")
        return np.where(mine, 1.0 - self.share, 1.0)


@dataclass(frozen=True)
class Jittered:
    """A change for `DatasetShift`: Gaussian noise with these deviations, by column and in its units."""

    sd: Mapping[str, float]

    def __call__(self, people: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        for name, size in self.sd.items():
            if name not in people or not pd.api.types.is_numeric_dtype(people[name]):
                raise AuditError(f"noise is asked for on '{name}', which is no column of numbers.", hint="name one.")
            if not (is_number(size) and size >= 0):
                raise AuditError(
                    f"the noise on '{name}' is {size!r}.", hint="give its deviation in the column's units."
                )
            people[name] = people[name] + rng.normal(0.0, size, len(people))
        return people


def read_training(people: Any, labels: Any, columns: list[str], which: str = "training") -> Sample:
    """The columns of a table that a model is trained on, and one label per row."""
    table = as_frame(people)
    if absent := [name for name in columns if name not in table]:
        raise AuditError(
            f"the {which} people have no column '{absent[0]}'.", hint="give the table that the model was trained on."
        )
    truth = labels.to_numpy() if isinstance(labels, pd.Series) else np.asarray(labels)
    if truth.shape != (len(table),) or len(table) < 2:
        raise AuditError(
            f"there are {truth.size} labels for {len(table)} {which} people.",
            hint="give one label for each of at least two people, in their order.",
        )
    if pd.isna(truth).any():
        raise AuditError(f"some labels of the {which} people are missing.", hint="leave these people out.")
    if len(pd.unique(truth)) < 2:
        raise AuditError(
            f"the labels of the {which} people are all {truth.tolist()[0]!r}.", hint="a model needs both kinds."
        )
    return table[[name for name in table.columns if name in columns]], truth
