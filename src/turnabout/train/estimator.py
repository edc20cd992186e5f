"""What the trainers share: the interface of a scikit-learn classifier on tables, and the methods each must have."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd

from turnabout.errors import TrainingError
from turnabout.parameters import Finite, Instance, Maybe, Parameters, Share, Whole, checked
from turnabout.rules.regions import Box, Region
from turnabout.schema import Schema
from turnabout.train.examples import read_labels
from turnabout.train.seen import Seen


@checked(
    TrainingError,
    schema=Instance(Schema, hint="Schema.infer(table) drafts one."),
    region=Maybe(Instance(Region, hint='say what people may change: Box({"hours": 9}).')),
    lam=Finite(least=0, hint="use 0 or more; 0.8 is the paper's."),
    validation=Share(above=0, below=1),
    threshold=Share(above=0, below=1),
    seed=Whole(0),
)
class Estimator(Parameters, ABC):
    """A classifier with a schema, a region, a weight of recourse and a threshold; its subclasses fit and score."""

    refuses = TrainingError
    _estimator_type = "classifier"
    schema: Schema
    region: Region | None
    lam: float
    validation: float
    threshold: float
    seed: int
    trained_on_: Seen | None
    n_features_in_: int

    # -- scikit-learn ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        shown = [
            f"{k}={v!r}" for k, v in self.get_params().items() if k != "schema" and repr(v) != repr(defaults[k].default)
        ]
        return f"{type(self).__name__}({', '.join([f'<{len(self.schema)} features>', *shown])})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), None, ClassifierTags(), None, input_tags=InputTags())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    # -- asking -----------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        return np.array([False, True])

    @abstractmethod
    def score_of(self, people: Any) -> np.ndarray:
        """(n,) P(yes)."""

    @abstractmethod
    def attain(self, people: Any) -> pd.DataFrame:
        """The rows people would reach by their best change, as they would be printed; same index."""

    def predict_proba(self, people: Any) -> np.ndarray:
        """(n, 2): P(no), P(yes)."""
        yes = self.score_of(people)
        return np.stack([1 - yes, yes], 1)

    def predict(self, people: Any) -> np.ndarray:
        """(n,) True where P(yes) reaches the threshold."""
        return self.score_of(people) >= self.threshold

    def score(self, people: Any, accepted: Any) -> float:
        """Accuracy."""
        labels = read_labels(accepted, len(people))
        if not len(labels):
            raise TrainingError("there is nobody to judge.", hint="pass people and their labels.")
        return float((self.predict(people) == labels).mean())

    def region_of(self) -> Region:
        """Delta: the region, or everything the schema lets move."""
        return self.region if self.region is not None else Box()

    def forget(self) -> Self:
        """Drop the fingerprints of the training rows, before a model is given away; returns self.

        Who holds them can test whether a row was trained on. Without them `calibrate` cannot see by itself that its
        people were: pass `trained_on=` then.
        """
        self._fitted()
        self.trained_on_ = None
        return self

    # -- checks -----------------------------------------------------------------------------------------------

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise TrainingError(
                f"this {type(self).__name__} is not trained yet.", hint="call fit(people, accepted) first."
            )


def read_examples(people: pd.DataFrame, accepted: Any) -> np.ndarray:
    """(n,) labels of a table's people, matched by position; a Series must carry the table's index.

    Index labels must be unique: they tell which people were held out and which were trained on.
    """
    if not people.index.is_unique:
        twice = people.index[people.index.duplicated()].tolist()[0]
        raise TrainingError(f"two people share the index label {twice!r}.", hint="people.reset_index(drop=True)")
    labels = read_labels(accepted, len(people))
    if isinstance(accepted, pd.Series) and not accepted.index.equals(people.index):
        raise TrainingError("people and accepted have different indexes.", hint="accepted.loc[people.index]")
    return labels
