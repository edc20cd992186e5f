"""A model trained again: clones of its estimator, fitted to other people and asked about options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.promises.training_sets import Retrain, Sample
from turnabout.core import Problem, Recourse
from turnabout.errors import AuditError, ModelError
from turnabout.models import Model
from turnabout.typing import Progress

BAD_DRAWS = 20  # times as many single-class samples as models before giving up


@dataclass(frozen=True, eq=False)
class Refit:
    """How the model of a problem is trained again.

    Parameters
    ----------
    estimator : the scikit-learn estimator or Pipeline; it is cloned.
    as_model : from a fitted estimator to a Model with the problem's schema.
    """

    problem: Problem
    estimator: Any
    as_model: Callable[[Any], Model]

    def __post_init__(self) -> None:
        able = all(callable(getattr(self.estimator, name, None)) for name in ("fit", "get_params"))
        if isinstance(self.estimator, type) or not able:
            raise AuditError(
                f"{self.estimator!r} cannot be trained again: it is no instance with fit and get_params.",
                hint="pass the scikit-learn estimator or Pipeline, not the wrapped model.",
            )

    @property
    def is_random(self) -> bool:
        """Whether a random_state is open: of the estimator, of its parts, or of a splitter among its parameters."""
        parameters = self.estimator.get_params()
        splitters = (value for value in parameters.values() if getattr(value, "shuffle", False) is True)
        return bool(_loose(parameters)) or any(getattr(value, "random_state", 0) is None for value in splitters)

    def fit(self, sample: Sample, rng: np.random.Generator) -> Model:
        """A clone, fitted and wrapped; where a random_state is None, it gets one."""
        from sklearn.base import clone

        try:
            fresh = clone(self.estimator)
            fresh.set_params(**{name: int(rng.integers(2**31 - 1)) for name in _loose(fresh.get_params())})
            fresh.fit(*sample)
        except Exception as error:  # of an estimator nothing is known
            raise AuditError(
                f"{type(self.estimator).__name__} cannot be trained again: {error}",
                hint="give the unfitted estimator and the raw table that it was trained on.",
            ) from error
        model = self.as_model(fresh)
        if not isinstance(model, Model) or not model.schema.encodes_like(self.problem.schema):
            raise AuditError("wrap_as= did not return a Model with the problem's schema.", hint="use ta.models.wrap.")
        return model

    def ask(
        self, answer: Recourse, training: Sample, retrain: Retrain, rng: np.random.Generator, progress: Progress | None
    ) -> tuple[np.ndarray, int]:
        """(m, o) margins of o printed options before m new models, NaN where one is silent; samples passed over."""
        wanted, bad = retrain.count(len(training[0])), 0
        rows = self.problem.schema.table(answer.options)
        said: list[np.ndarray] = []
        for sample in retrain.samples(*training, rng):
            if len(pd.unique(sample[1])) < 2:
                bad += 1
                if bad > BAD_DRAWS * wanted:
                    raise AuditError(
                        f"{bad} samples for {retrain!r} hold one class only.", hint="train on more people."
                    )
                continue
            model = self.fit(sample, rng)
            try:
                said.append(Problem(self.problem.schema, model).judge(rows) if len(rows) else np.zeros(0))
            except ModelError as error:
                raise AuditError(
                    f"a retrained model answers about none of the options: {error.message}",
                    hint="let it cope with levels it did not see, for example OneHotEncoder(handle_unknown='ignore').",
                ) from error
            if progress is not None:
                progress(len(said), wanted)
            if len(said) == wanted:
                break
        if not said:
            raise AuditError(f"{retrain!r} left no training set with both classes.", hint="train on more people.")
        return np.stack(said), bad

    def check_threshold(self, model: Model) -> None:
        """Refuse a threshold that is not the original's, where both decide by a probability."""
        try:
            gap = abs(self.problem.model.margin_at(0.5) - model.margin_at(0.5))
        except ModelError:
            return
        if gap > 1e-9:
            raise AuditError(
                f"the retrained model asks for another P(yes) than the problem's model: {model!r} for "
                f"{self.problem.model!r}.",
                hint="pass threshold= as it was passed to ta.models.wrap.",
            )


def _loose(parameters: dict[str, Any]) -> list[str]:
    """Each random_state that nobody fixed."""
    ours = (name for name in parameters if name == "random_state" or name.endswith("__random_state"))
    return sorted(name for name in ours if parameters[name] is None)
