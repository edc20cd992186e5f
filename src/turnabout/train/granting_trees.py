"""GrantingTrees: tree ensembles trained so that refused people can do something about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from turnabout.errors import TrainingError
from turnabout.models import Model, wrap
from turnabout.parameters import Flag, Whole, check_parameters, checked
from turnabout.rules.regions import Region
from turnabout.schema import Category, Scalar, Schema, as_frame
from turnabout.schema.levels import Levels
from turnabout.solvers.cell_search import CellSearch, check_moving
from turnabout.train.best_rows import attain
from turnabout.train.estimator import Estimator, read_examples
from turnabout.train.examples import split
from turnabout.train.seen import Seen
from turnabout.train.stack import History

LEAST = 1e-6  # a forest may be certain; its loss is counted as if it were not quite


@checked(
    TrainingError,
    rounds=Whole(1, hint="use 1 round at least; lam=0 trains the plain trees."),
    points=Whole(2),
    refused_only=Flag(),
    monotone=Flag(),
)
class GrantingTrees(Estimator):
    r"""A tree ensemble, or any classifier that takes weights, that also grants recourse.

    The objective of `Pare`,

        mean of   l(g(x), y)  +  lam * min over delta in Delta of  l(g(x + delta), 1),                         (1)

    has no gradient in trees. But with everybody's best change held fixed it is an ordinary training set: the people
    with their labels, and the rows they would reach, labelled accepted, at weight lam. So two steps alternate, plain
    trees first:

        delta* = the best change under the trees at hand, searched between their cuts (`CellSearch`)              (2)
        g      = the base fitted to (x, y) at weight 1 and (x + delta*, accepted) at weight lam                (3)

    and the round with the lowest (1) on held-out people is kept, the plain trees being round 0. lam = 0 is the base
    itself, trained on all rows. Nothing promises that a round improves on the last: trees are grown greedily, and
    everyone's best change moves when they are grown anew. At most three features may change.

    Unconstrained trees overfit to this: accepting a cell with few people in it, such as 42 hours or exactly 12 priors,
    costs hardly any accuracy, and everyone can reach it. So the default base is `monotone` in the numbers that may
    change, towards the side where more people were accepted: people who do more than was asked stay accepted, and so
    do all who are there already. A base of your own should have such constraints too (`monotonic_cst`).

    Works like a scikit-learn classifier on tables, and `turnabout.train.calibrate` takes it as it is. `estimator_` is
    the fitted base, to be saved or wrapped like any other.

    Parameters
    ----------
    schema : columns, bounds, directions.
    region : Delta, such as Box({"hours": 9}); None lets everything move that the schema lets move.
    base : an unfitted classifier on raw tables, or a Pipeline that ends in one; None: gradient boosting by histograms,
        100 trees of 8 leaves, behind encoders for the levels.
    lam : weight of recourse beside accuracy.
    rounds : how often (2) and (3) are repeated.
    points : as of `CellSearch`, where the cells are too many.
    refused_only : ask for recourse only where the trees at hand refuse.
    validation : share of the rows set aside to choose the round.
    threshold : the least P(yes) that is a yes.
    monotone : for base None: scores rise or fall throughout along each number, ordinal or binary that may change.
    seed : of the held-out rows, and of the base that is built for None.
    """

    estimator_: Any  # the fitted base
    history_: History  # of (1), by round
    held_out_: pd.Index  # labels of the rows set aside

    def __init__(
        self,
        schema: Schema,
        region: Region | None = None,
        base: Any = None,
        lam: float = 0.8,
        rounds: int = 5,
        points: int = 9,
        refused_only: bool = False,
        validation: float = 0.1,
        threshold: float = 0.5,
        monotone: bool = True,
        seed: int = 0,
    ):
        self.schema = schema
        self.region = region
        self.base = base
        self.lam = lam
        self.rounds = rounds
        self.points = points
        self.refused_only = refused_only
        self.validation = validation
        self.threshold = threshold
        self.monotone = monotone
        self.seed = seed

    # -- training ---------------------------------------------------------------------------------------------

    def fit(self, people: Any, accepted: Any) -> Self:
        """Train on a table and on who was really accepted. Returns self."""
        check_parameters(self)
        table = self.schema.table(people)
        labels = read_examples(table, accepted)
        x = self.schema.encode(table)
        check_moving(self.schema, self.region_of().bind(self.schema).around(x))
        train, held = split(labels, np.arange(len(table)), self.validation, self.seed)
        if self.lam == 0:  # no round to choose
            train, held = np.arange(len(table)), held[:0]
        self._alternate(table.iloc[train], labels[train], table.iloc[held], labels[held])
        self.trained_on_ = Seen.of(x, table.index)
        self.held_out_ = table.index[held]
        self.n_features_in_ = len(self.schema)
        return self

    def _alternate(self, train: pd.DataFrame, y: np.ndarray, held: pd.DataFrame, y_held: np.ndarray) -> None:
        """Steps (3) and (2) in turn, from nobody's change on."""
        base = self._own_base(train, y) if self.base is None else self.base
        name = weight_name(base)
        reached = train.iloc[:0]
        losses: list[float] = []
        checks: list[float] = []
        for _ in range(1 + (self.rounds if self.lam > 0 else 0)):
            estimator = self._refit(base, name, train, y, reached)  # (3)
            trees = self._wrapped(estimator) if self.lam > 0 else None
            loss, reached = self._objective(estimator, trees, train, y)  # (2)
            check = self._objective(estimator, trees, held, y_held)[0] if len(held) else np.nan
            if not checks or check < min(checks):
                self.estimator_ = estimator
            losses.append(loss)
            checks.append(check)
        self.history_ = History(np.array(losses), np.array(checks), np.array(int(np.argmin(checks))))

    def _own_base(self, people: pd.DataFrame, y: np.ndarray) -> Any:
        """Gradient boosting, monotone towards the accepted in what may change."""
        if not self.monotone:
            return default_trees(self.schema, self.seed)
        x = self.schema.encode(people)
        may = self.region_of().bind(self.schema).columns
        slopes = {}
        for feature, s in zip(self.schema.features, self.schema.slices, strict=True):
            if isinstance(feature, Scalar) and s.start in may:
                known = x[:, s.stop - 1].numpy() < 0.5 if feature.missing else np.ones(len(y), dtype=bool)
                ranks = pd.Series(x[known, s.start].numpy()).rank().to_numpy()
                yes, no = ranks[y[known]], ranks[~y[known]]
                slopes[feature.name] = int(np.sign(yes.mean() - no.mean())) if len(yes) and len(no) else 0
        return default_trees(self.schema, self.seed, slopes)

    def _refit(self, base: Any, name: str, people: pd.DataFrame, y: np.ndarray, reached: pd.DataFrame) -> Any:
        """The base fitted to people at weight 1, and to the rows that some of them reach at weight lam."""
        from sklearn.base import clone

        if not len(reached):
            return clone(base).fit(people, y)
        rows = pd.concat([people, reached], ignore_index=True)
        labels = np.concatenate([y, np.ones(len(reached), dtype=bool)])
        weight = np.concatenate([np.ones(len(people)), np.full(len(reached), float(self.lam))])
        return clone(base).fit(rows, labels, **{name: weight})

    def _objective(
        self, estimator: Any, trees: Model | None, people: pd.DataFrame, y: np.ndarray
    ) -> tuple[float, pd.DataFrame]:
        """(1) over some people, and the rows reached by those for whom recourse is asked; trees None: lam is 0."""
        own = estimator.predict_proba(people)[:, 1]
        loss = _loss(np.where(y, own, 1 - own)).mean()
        if trees is None:
            return float(loss), people.iloc[:0]
        asked = people[own < self.threshold] if self.refused_only else people
        reached = self._attain(trees, asked)
        if len(asked):
            loss += self.lam * _loss(estimator.predict_proba(reached)[:, 1]).sum() / len(people)
        return float(loss), reached

    # -- asking -----------------------------------------------------------------------------------------------

    def score_of(self, people: Any) -> np.ndarray:
        """(n,) P(yes)."""
        self._fitted()
        table = self.schema.table(people)
        if not len(table):
            return np.zeros(0)  # scikit-learn refuses to be asked about nobody
        return np.asarray(self.estimator_.predict_proba(table)[:, 1], dtype=np.float64)

    def model(self, threshold: float | None = None) -> Model:
        """The trees as a decision maker for `Problem`."""
        self._fitted()
        return self._wrapped(self.estimator_, threshold)

    def attain(self, people: Any) -> pd.DataFrame:
        """The rows of highest score that `CellSearch` finds within reach, as they would be printed.

        The highest there are, unless more than 4096 cells of the trees are within reach, Delta is a Polytope, or the
        base is one that turnabout cannot look into: then the best of a grid. Of equally good rows the nearest; the own
        where none is better. They do not depend on any threshold. Same index as people.
        """
        self._fitted()
        return self._attain(self.model(), as_frame(people))

    def _wrapped(self, estimator: Any, threshold: float | None = None) -> Model:
        return wrap(estimator, self.schema, self.threshold if threshold is None else threshold)

    def _attain(self, trees: Model, people: pd.DataFrame) -> pd.DataFrame:
        if not len(people):
            return self.schema.table(people)
        return attain(trees, self.region_of(), people, CellSearch(self.points))  # type: ignore[arg-type]


def default_trees(schema: Schema, seed: int = 0, slopes: Mapping[str, int] | None = None) -> Any:
    """Gradient boosting by histograms on raw tables of a schema: levels in their order, categories one-hot.

    slopes : 1 where the score may only rise with a number, ordinal or binary, -1 where it may only fall.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

    categories = [f for f in schema if isinstance(f, Category)]
    named = [f for f in schema if isinstance(f, Levels) and any(isinstance(level, str) for level in f.levels)]
    mixed = [f for f in schema if isinstance(f, Levels) and f not in named and list(f.levels) != sorted(f.levels)]
    plain = [f for f in schema if f not in categories and f not in named and f not in mixed]
    columns = [0 for f in categories for _ in f.levels]
    columns += [(slopes or {}).get(f.name, 0) for f in [*named, *mixed, *plain]]
    trees = HistGradientBoostingClassifier(
        max_iter=100, max_leaf_nodes=8, early_stopping=False, monotonic_cst=columns, random_state=seed
    )
    if not categories and not named and not mixed:
        return trees
    hot = OneHotEncoder(categories=[list(f.levels) for f in categories], handle_unknown="ignore", sparse_output=False)
    codes = OrdinalEncoder(
        categories=[list(f.levels) for f in named], handle_unknown="use_encoded_value", unknown_value=np.nan
    )
    parts = [(hot, [f.name for f in categories])] if categories else []
    parts += [(codes, [f.name for f in named])] if named else []
    for f in mixed:  # numbers out of their order, which OrdinalEncoder does not take
        parts.append((FunctionTransformer(_positions, kw_args={"levels": f.levels}), [f.name]))
    return make_pipeline(make_column_transformer(*parts, remainder="passthrough"), trees)


def _positions(table: pd.DataFrame, levels: Sequence[object]) -> np.ndarray:
    """(n, 1) place of each cell among the levels of its column; NaN where it is none."""
    place = {level: float(k) for k, level in enumerate(levels)}
    return np.array([[place.get(cell, np.nan)] for cell in table.iloc[:, 0].tolist()]).reshape(-1, 1)


def weight_name(base: Any) -> str:
    """The argument of fit by which a classifier, or a Pipeline that ends in one, takes weights of its rows."""
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(base, type):
        raise TrainingError(f"{base.__name__} is a class.", hint=f"make an instance: {base.__name__}().")
    if hasattr(base, "steps"):
        name, last = base.steps[-1]
        return f"{name}__{weight_name(last)}"
    if not hasattr(base, "fit") or not has_fit_parameter(base, "sample_weight"):
        raise TrainingError(
            f"{type(base).__name__} takes no sample_weight, so rows cannot count for less than a person.",
            hint="use a classifier whose fit does: HistGradientBoostingClassifier, RandomForestClassifier.",
        )
    if not hasattr(base, "predict_proba"):
        raise TrainingError(
            f"{type(base).__name__} gives no probabilities.", hint="use a classifier with predict_proba."
        )
    return "sample_weight"


def _loss(p: np.ndarray) -> np.ndarray:
    """Cross-entropy of the probability given to what should be."""
    return -np.log(np.clip(p, LEAST, 1.0))
