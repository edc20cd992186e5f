"""Pare: a network trained so that refused people can do something about it (Ross, Lakkaraju and Bastani, 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
import torch
from torch import nn

from turnabout.errors import TrainingError, also
from turnabout.models import Model, wrap
from turnabout.nn.inner import Inner, LinearStep
from turnabout.nn.mlp import Activation, StackedMlp
from turnabout.parameters import Choice, Each, Finite, Flag, Maybe, Positive, Whole, check_parameters, checked
from turnabout.progress_bar import Bar
from turnabout.rules.regions import Region
from turnabout.schema import Schema, as_frame
from turnabout.train.best_rows import attain
from turnabout.train.estimator import Estimator, read_examples
from turnabout.train.examples import class_weights, split, standards
from turnabout.train.seen import Seen
from turnabout.train.stack import Examples, History, Keep, StackSettings, train_stack
from turnabout.typing import Progress, Tensor

SHARED = ("schema", "region", "hidden", "activation", "dropout", "epochs", "batch", "lr", "inner", "class_weight",
          "refused_only", "keep", "patience", "validation", "device")  # fmt: skip


@checked(
    TrainingError,
    hidden=Each(Whole(1), least=0, hint="use (100, 100); () is a logistic regression."),
    dropout=Finite(least=0, below=1, hint="0 drops nothing."),
    epochs=Whole(1),
    batch=Whole(1),
    lr=Positive(),
    refused_only=Flag(),
    keep=Choice(*get_args(Keep)),
    patience=Maybe(Whole(1, hint="use 1 or more epochs, or None.")),
)
class Pare(Estimator):
    r"""A classifier that is accurate and also grants recourse.

    Minimises over the weights of a network g

        mean of   w_y * l(g(x), y)  +  lam * min over delta in Delta of  l(g(x + delta), 1)              (1)

    with l the cross-entropy and Delta what a person may change: the `region`, within the bounds and directions of the
    schema. The inner minimum is taken by `inner`: the paper's linear program by default, in closed form where there is
    one. lam = 0 is ordinary training. The published code hands the linear program the wrong sign, and so trains for
    acceptance at the worst change; this follows the paper's formula.

    Training makes recourse likely, it promises nothing: `turnabout.train.calibrate` turns the scores into a threshold
    with a guarantee.

    Works like a scikit-learn classifier on tables; `model()` gives what `Problem` takes. The same seed gives the same
    weights to the bit on one machine's CPU, with one number of threads.

    Parameters
    ----------
    schema : columns, bounds, directions.
    region : Delta, such as Box({"hours": 9}); None lets everything move that the schema lets move.
    lam : weight of recourse beside accuracy.
    hidden, activation, dropout : shape of the network.
    epochs, batch, lr : of Adam.
    inner : LinearStep(), ProjectedSteps(3), Corners() or FineGrid(9): how hard Delta is searched while training.
    class_weight : "balanced" weighs the rarer class by how much rarer it is; None; or (refused, accepted).
    refused_only : ask for recourse only where the network currently refuses.
    keep : which epoch's weights: lowest validation "loss", highest validation "f1", or the "last".
    patience : stop after so many epochs without a better one; None never stops early.
    validation : share of the rows set aside for `keep` and `patience`.
    threshold : the least P(yes) that `predict` calls a yes.
    seed, device : same seed, same answer; "cpu" or "cuda".

    References
    ----------
    Ross, Lakkaraju, Bastani (2021), Learning models for actionable recourse.
    """

    module_: nn.Sequential  # on encoded rows, one logit, in float64
    history_: History
    held_out_: pd.Index  # labels of the rows set aside for `keep` and `patience`

    def __init__(
        self,
        schema: Schema,
        region: Region | None = None,
        lam: float = 0.8,
        hidden: Sequence[int] = (100, 100),
        activation: Activation = "relu",
        dropout: float = 0.3,
        epochs: int = 15,
        batch: int = 64,
        lr: float = 0.002,
        inner: Inner | None = None,
        class_weight: Literal["balanced"] | tuple[float, float] | None = "balanced",
        refused_only: bool = False,
        keep: Keep = "loss",
        patience: int | None = None,
        validation: float = 0.1,
        threshold: float = 0.5,
        seed: int = 0,
        device: str = "cpu",
    ):
        self.schema = schema
        self.region = region
        self.lam = lam
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.inner = inner
        self.class_weight = class_weight
        self.refused_only = refused_only
        self.keep = keep
        self.patience = patience
        self.validation = validation
        self.threshold = threshold
        self.seed = seed
        self.device = device

    def check(self) -> None:
        """Refuse parameters that make no sense."""
        check_parameters(self)
        if not (self.inner is None or (callable(self.inner) and not isinstance(self.inner, type))):
            raise also(TrainingError, TypeError)(
                f"Pare has inner={self.inner!r}, which is not a search of Delta.",
                hint="use LinearStep(), Corners() or ProjectedSteps(3).",
            )
        if not can_run_on(self.device):
            raise TrainingError(
                f"Pare has device={self.device!r}, which is not a device of this machine.", hint="use 'cpu'."
            )

    # -- training ---------------------------------------------------------------------------------------------

    def fit(self, people: Any, accepted: Any, progress: bool | Progress = False) -> Self:
        """Train on a table and on who was really accepted; progress=True draws a bar. Returns self."""
        fit_together([self], people, accepted, progress=progress)
        return self

    # -- asking -----------------------------------------------------------------------------------------------

    def score_of(self, people: Any) -> np.ndarray:
        """(n,) P(yes)."""
        self._fitted()
        with torch.no_grad():
            return torch.sigmoid(self.module_(self.schema.encode(people)).squeeze(1)).numpy()

    def model(self, threshold: float | None = None) -> Model:
        """The network as a decision maker for `Problem`; differentiable, and a ReLU net where it is one."""
        self._fitted()
        return wrap(self.module_, self.schema, self.threshold if threshold is None else threshold, output="logit")

    def attain(self, people: Any, inner: Inner | None = None) -> pd.DataFrame:
        """The rows people would reach by the change that `inner` finds best, as they would be printed.

        Snapped to legal values and written; a change that lowers the score once printed is not made. The rows do not
        depend on any threshold. Same index as people.
        """
        self._fitted()
        given = as_frame(people)
        return attain(self.model(), self.region_of(), given, inner or self.inner or LinearStep())


def fit_together(
    estimators: Sequence[Pare],
    people: Any,
    accepted: Any,
    rows: Sequence[np.ndarray] | None = None,
    progress: bool | Progress = False,
) -> list[Pare]:
    """Train several Pares that differ in lam, seed and threshold only as one stack: many at the price of few.

    Parameters
    ----------
    people, accepted : one table for all.
    rows : positions of the rows each one may see, each once, all of one length; None: all rows.
    progress : True draws a bar; or a function of (batches done, batches in all).

    A stack of one is `fit`. In a larger one dropout is drawn for all together, so that the weights differ from those
    of training alone as they would for another seed.
    """
    first = _check_alike(estimators)
    table = as_frame(people)
    labels = read_examples(table, accepted)
    seeds = tuple(int(e.seed) for e in estimators)
    given = _read_rows(rows, len(estimators), len(table))
    parts = [split(labels[r], r, first.validation, seed) for r, seed in zip(given, seeds)]
    x = first.schema.encode(table)
    net, examples, settings = _assemble(first, estimators, x, labels, parts)
    bar = Bar("training") if progress is True else nullcontext(progress or None)
    with bar as report:
        history = train_stack(net, examples, settings, report)
    for m, estimator in enumerate(estimators):
        estimator.module_ = net.module(m)
        estimator.history_ = History(history.train[:, m], history.validation[:, m], history.kept[m])
        estimator.trained_on_ = Seen.of(x[torch.as_tensor(given[m])], table.index[given[m]])
        estimator.held_out_ = table.index[parts[m][1]]
        estimator.n_features_in_ = len(first.schema)
    return list(estimators)


def _read_rows(rows: Sequence[np.ndarray] | None, members: int, n: int) -> list[np.ndarray]:
    """Positions of the rows of each member; a row twice could train and choose the epoch at once."""
    if rows is None:
        return [np.arange(n)] * members
    given = [np.flatnonzero(r) if np.asarray(r).dtype == bool else np.asarray(r) for r in rows]
    if len(given) != members or len({len(r) for r in given}) != 1:
        raise TrainingError(
            "rows must hold one array for each estimator, all of one length.", hint="cut the longer ones."
        )
    for r in given:
        if r.dtype.kind not in "iu" or (len(r) and not 0 <= r.min() <= r.max() < n) or len(np.unique(r)) < len(r):
            raise TrainingError(
                f"rows must hold positions from 0 to {n - 1}, each once.", hint="draw them without replacement."
            )
    return given


def can_run_on(device: object) -> bool:
    """Whether torch knows a device and this machine has it."""
    try:
        torch.zeros(1, device=device)  # type: ignore[call-overload]
    except (RuntimeError, AssertionError, TypeError):
        return False
    return True


def _assemble(
    first: Pare, estimators: Sequence[Pare], x: Tensor, labels: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[StackedMlp, Examples, StackSettings]:
    """The tensors of a run, on its device and in float32."""
    train, held = (torch.as_tensor(np.stack(side)) for side in zip(*parts))
    seeds = tuple(int(e.seed) for e in estimators)
    shift, scale = standards(first.schema, x, train)
    weights = torch.tensor([class_weights(first.class_weight, labels[t]) for t in train.numpy()])
    settings = StackSettings(
        lam=torch.tensor([float(e.lam) for e in estimators]).to(first.device),
        weights=weights.float().to(first.device),
        inner=first.inner or LinearStep(),
        dropout=first.dropout,
        epochs=first.epochs,
        batch=first.batch,
        lr=first.lr,
        refused_only=first.refused_only,
        keep=first.keep,
        patience=first.patience,
        seeds=seeds,
    )
    net = StackedMlp(x.shape[1], first.hidden, seeds, first.activation, shift, scale, device=first.device)
    around = first.region_of().bind(first.schema).printable(x).to(dtype=torch.float32, device=first.device)
    y = torch.as_tensor(labels, dtype=torch.float32, device=first.device)
    return net, Examples(around.x, y, around, train.to(first.device), held.to(first.device)), settings


def _check_alike(estimators: Sequence[Pare]) -> Pare:
    if not estimators:
        raise TrainingError("there is nothing to train.", hint="pass at least one Pare.")
    first = estimators[0]
    for other in estimators[1:]:
        for name in SHARED:
            a, b = getattr(first, name), getattr(other, name)
            if a is not b and a != b:
                raise TrainingError(
                    f"the estimators differ in {name} ({a!r} and {b!r}).",
                    hint="a stack shares everything but lam, seed and threshold; train the others on their own.",
                )
    for estimator in estimators:
        estimator.check()
    return first
