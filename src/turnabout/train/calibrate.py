"""Thresholds at which recourse is guaranteed for most people, with high confidence (Ross et al., 2021, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from turnabout.core import Method, Problem, Recourse
from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf, clopper_pearson, lower_bound
from turnabout.models import Model, wrap
from turnabout.schema import Schema, as_frame
from turnabout.train.certificate import Certificate, Shortfall
from turnabout.train.evidence import plain, read_reached, split_groups
from turnabout.train.seen import refuse_seen
from turnabout.train.shift import warn_of_shift
from turnabout.train.thresholds import (
    LEVELS,
    check_scores,
    just_below,
    no_ties,
    pac_rank,
    rank_or_refuse,
    rows_needed,
    smallest,
)
from turnabout.typing import Level

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(1, 20))  # for methods; fixed before anyone is looked at

DRAWN = "the calibration people are drawn independently, each once, from the people on whom the model will be used"
UNSEEN = "they had no part in training or choosing the model, nor in choosing how recourse is computed"
BLIND = "the rule that computes recourse does not look at the threshold"
ORDER = "the thresholds and their order were fixed before the calibration people were looked at"
FIXED = "model, threshold and method were fixed before these people were looked at"
DECIDES = "whoever scores at least the threshold is accepted, and people who act reach the row they were shown"
ALONE = "what is found for one person does not depend on the others in the table"

Rule = Callable[[pd.DataFrame], Any]


@runtime_checkable
class Scores(Protocol):
    """A classifier: table -> (n, 2) probabilities of no and yes."""

    def predict_proba(self, people: Any) -> Any: ...


@runtime_checkable
class Attains(Protocol):
    """A model that knows which row each person would reach, whatever the threshold."""

    def attain(self, people: Any) -> pd.DataFrame: ...


@runtime_checkable
class Decides(Protocol):
    """A model that makes a decision maker of itself at any threshold."""

    def model(self, threshold: float) -> Model: ...


def pac_threshold(scores: Any, epsilon: float = 0.05, alpha: float = 0.05, groups: Any = None) -> Certificate:
    """The highest threshold with a guarantee, from the score of the row that each calibration person would reach.

        threshold = the (k + 1)-th smallest score,  k = max { k : P(Binomial(n, epsilon) <= k) <= alpha }    (1)

    less a margin for rounding (`just_below`), so that the decision about the person with this score does not depend on
    its last bits. People who score at least the threshold count as accepted, so ties can only help. The published code
    passes 1 - alpha for alpha, and so its guarantee fails about 19 times in 20.

    Parameters
    ----------
    scores : (n,) of people who had no part in training; for each, P(yes) of the row they would reach.
    epsilon : share of people who may be left without recourse.
    alpha : probability, over the draw of the calibration people, with which the promise may fail.
    groups : a label for each person. Every group then gets a threshold of its own at alpha / number of groups, so that
        all their promises hold together with confidence 1 - alpha.

    References
    ----------
    Park, Bastani, Matni, Lee (2020), PAC confidence sets for deep neural networks via calibrated prediction.
    """
    return _from_scores(scores, epsilon, alpha, groups, "", (DRAWN, UNSEEN, BLIND, DECIDES))


def calibrate(
    model: Any,
    people: Any,
    recourse: Rule | Method | None = None,
    *,
    schema: Schema | None = None,
    epsilon: float = 0.05,
    alpha: float = 0.05,
    tighter: bool = True,
    groups: Any = None,
    thresholds: Sequence[float] | None = None,
    seed: int = 0,
    trained_on: Any = None,
    used_on: Any = None,
) -> Certificate:
    """The thresholds of a model at which nearly everyone is accepted or can reach acceptance, with a certificate.

    Parameters
    ----------
    model : a classifier with predict_proba(table) -> (n, 2), or a function table -> P(yes).
    people : the calibration people: everyone, not only the refused, and none of them used in training.
    recourse : a function from the table to the rows people would reach (same index), by a rule that does not look at
        the threshold. None takes the model's own `attain` (Pare): the row that it finds, which need not be the best
        within reach; the promise is about that row. A fitted method of the library does look at the
        threshold: it is run at each of `thresholds`, see `calibrate_search`.
    schema : of the table; taken from the model or the method where they have one. Rows reached must then be allowed.
    epsilon, alpha, groups : as of `pac_threshold`.
    tighter : count the better of a person's own score and the one they reach; accepted people need no recourse. The
        threshold is then never lower. The paper counts the reached row alone.
    thresholds : for methods; 0.05, 0.1, ..., 0.95 by default.
    seed : for methods.
    trained_on : the training table, or its `Seen`; the model's own `trained_on_` is looked at in any case. Calibration
        people who stand in it are refused where chance does not explain it; coincidences that it explains are counted
        among the assumptions.
    used_on : a table of people on whom the model is used; a warning names the columns that are distributed otherwise.
    """
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    given = as_frame(people)
    _check_sizes(given, groups, epsilon, alpha)
    if isinstance(recourse, Method):
        if not hasattr(recourse, "problem_"):
            raise TrainingError(f"{recourse!r} has not seen a problem yet.", hint="call fit(problem) before.")
        schema = recourse.problem_.schema
    elif schema is None and isinstance(getattr(model, "schema", None), Schema):
        schema = model.schema
    table = given if schema is None else schema.table(given)
    found = [refuse_seen(table, rows, schema) for rows in (trained_on, getattr(model, "trained_on_", None))]
    most = max((overlap for overlap in found if overlap), key=lambda o: (o.same, o.seen), default=None)
    unseen = UNSEEN + (f" ({most.remark})" if most else "")
    if used_on is not None:
        warn_of_shift(table, used_on, schema)
    if isinstance(recourse, Method):
        find = _searching(model, recourse, given, seed)
        return _by_search(find, THRESHOLDS if thresholds is None else thresholds, epsilon, alpha, groups, unseen)
    if thresholds is not None:
        raise TrainingError("thresholds= is for methods only.", hint="leave it out: all thresholds are covered.")
    reached, made_by = _reached(model, table, recourse, schema)
    scores = _scores(model, reached)
    if tighter:
        scores = np.maximum(scores, _scores(model, table))
    series = pd.Series(scores, index=given.index)
    return _from_scores(series, epsilon, alpha, groups, made_by, (DRAWN, unseen, BLIND, DECIDES))


def calibrate_search(
    find: Callable[[float], Recourse],
    thresholds: Sequence[float] = THRESHOLDS,
    epsilon: float = 0.05,
    alpha: float = 0.05,
    groups: Any = None,
) -> Certificate:
    """The highest threshold with a guarantee for a search that looks at the threshold, tested from low to high.

    At each threshold the search answers for all calibration people, and the threshold passes when at most k of them
    (formula 1 of `pac_threshold`) are neither accepted nor have an option. Testing stops at the first that does not.

    Why no correction for many tests is needed: call a threshold bad when more than epsilon of all people fall short at
    it. A false promise is made only if the first bad threshold, in the order fixed beforehand, is tested and
    passes; and that one passes with probability P(Binomial(n, epsilon) <= k) <= alpha. Only one test is ever at stake,
    which one is no matter of the sample (fixed-sequence testing). So the order may not depend on these people.

    Parameters
    ----------
    find : threshold -> the answer for the calibration people of a model with that threshold.
    thresholds : fixed beforehand; they are tested in rising order.
    epsilon, alpha, groups : as of `pac_threshold`.
    """
    return _by_search(find, thresholds, epsilon, alpha, groups, UNSEEN)


def _by_search(
    find: Callable[[float], Recourse],
    thresholds: Sequence[float],
    epsilon: float,
    alpha: float,
    groups: Any,
    unseen: str,
) -> Certificate:
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    order = np.unique(check_scores(list(thresholds)))
    if not len(order):
        raise TrainingError("there are no thresholds to test.", hint="thresholds=[0.1, 0.2, 0.3]")
    parts: list[_Part] = []
    made_by, people = "", pd.Index([])
    for step, threshold in enumerate(order):
        answer = find(float(threshold))
        reached = read_reached(answer.status)
        if step == 0:
            made_by, people = answer.made_by, answer.status.index
            parts = _split(groups, len(reached), people, epsilon, alpha)
        elif not answer.status.index.equals(people):
            raise TrainingError("find answered for other people.", hint="it must answer for the same table each time.")
        for part in parts:
            part.test(float(threshold), reached)
        if not any(part.open for part in parts):
            break
    for part in parts:
        part.refuse_if_empty(float(order[0]))
    assumptions = (DRAWN, unseen, ORDER, ALONE, DECIDES)
    done = [(part.label, part.certificate(epsilon, made_by, assumptions)) for part in parts]
    return done[0][1] if groups is None else Certificate.together(tuple(done), alpha)


def certify(answer: Recourse, epsilon: float = 0.05, alpha: float = 0.05) -> Certificate | Shortfall:
    """A certificate for one fixed model and method, from an answer for people drawn at random; or why there is none.

    Counts the people who are neither accepted nor have an option. The answer must be for everyone, the accepted too:
    the promise is about people like those asked.
    """
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    reached = read_reached(answer.status)
    n, short = len(reached), int((~reached).sum())
    k = pac_rank(n, epsilon, alpha)
    if k is None or short > k:
        at_least = lower_bound(n - short, n, 1 - alpha)
        low, high = clopper_pearson(n - short, n, 1 - alpha)
        needed = rows_needed(epsilon, alpha)
        return Shortfall(n, short, k, epsilon, alpha, at_least, low, high, needed, answer.made_by)
    failure = binomial_cdf(k, n, epsilon)
    assumptions = (DRAWN, UNSEEN, FIXED, ALONE, DECIDES)
    return Certificate(n, k, epsilon, alpha, None, failure, short, "answer", answer.made_by, assumptions)


# -- groups -----------------------------------------------------------------------------------------------------------


class _Part:
    """One group on its way up the thresholds; everyone where there are no groups."""

    def __init__(self, label: Level, mask: np.ndarray, epsilon: float, alpha: float, named: bool):
        self.label = label
        self.mask = mask
        self.n = int(mask.sum())
        self.alpha = alpha
        self.name = f"people of group {label!r}" if named else "people"
        self.k = rank_or_refuse(self.n, epsilon, alpha, self.name if named else "calibration people")
        self.open = True
        self.short = 0
        self.threshold: float | None = None

    def test(self, threshold: float, reached: np.ndarray) -> None:
        short = int((~reached[self.mask]).sum())
        self.open = self.open and short <= self.k
        if self.open:
            self.threshold, self.short = threshold, short
        elif self.threshold is None:
            self.short = short

    def refuse_if_empty(self, lowest: float) -> None:
        if self.threshold is None:
            raise TrainingError(
                f"no threshold can be promised: at the lowest one tested, {lowest:g}, {self.short} of {self.n} "
                f"{self.name} fall short and at most {self.k} may.",
                hint="test lower thresholds, let people do more, or train for recourse (turnabout.train.Pare).",
            )

    def certificate(self, epsilon: float, made_by: str, assumptions: tuple[str, ...]) -> Certificate:
        failure = binomial_cdf(self.k, self.n, epsilon)
        levels = (epsilon, self.alpha, self.threshold, failure)
        return Certificate(self.n, self.k, *levels, self.short, "search", made_by, assumptions)


def _split(groups: Any, n: int, index: pd.Index | None, epsilon: float, alpha: float) -> list[_Part]:
    if groups is None:
        return [_Part("everyone", np.ones(n, dtype=bool), epsilon, alpha, named=False)]
    masks = list(split_groups(groups, n, index))
    return [_Part(plain(label), mask, epsilon, alpha / len(masks), named=True) for label, mask in masks]


def _from_scores(
    scores: Any, epsilon: float, alpha: float, groups: Any, made_by: str, assumptions: tuple[str, ...]
) -> Certificate:
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    values = check_scores(scores)
    index = scores.index if isinstance(scores, pd.Series) else None
    done = []
    for part in _split(groups, len(values), index, epsilon, alpha):
        own = values[part.mask]
        score = smallest(own, part.k)  # (1)
        threshold = just_below(score)
        short = int((own < threshold).sum())
        exact = no_ties(own, score, part.k)
        failure = binomial_cdf(part.k, part.n, epsilon)
        levels = (epsilon, part.alpha, threshold, failure)
        made = Certificate(part.n, part.k, *levels, short, "scores", made_by, assumptions, exact=exact)
        done.append((part.label, made))
    return done[0][1] if groups is None else Certificate.together(tuple(done), alpha)


# -- asking -----------------------------------------------------------------------------------------------------------


def _scores(model: Any, table: pd.DataFrame) -> np.ndarray:
    """(n,) P(yes)."""
    if isinstance(model, Scores):
        out = np.asarray(model.predict_proba(table))
        if out.shape != (len(table), 2):
            raise TrainingError(
                f"predict_proba returned shape {out.shape} for {len(table)} rows; expected ({len(table)}, 2).",
                hint="for more classes, pass a function from the table to the probability of the favourable one.",
            )
        values = check_scores(out[:, 1])
    elif callable(model) and not isinstance(model, type):
        values = check_scores(model(table))
    else:
        raise TrainingError(
            f"{type(model).__name__} gives no probabilities.",
            hint="pass the classifier itself (predict_proba), or a function from the table to P(yes).",
        )
    if len(values) != len(table):
        raise TrainingError(f"the model gave {len(values)} scores for {len(table)} rows.", hint="one P(yes) per row.")
    return values


def _reached(model: Any, table: pd.DataFrame, recourse: Rule | None, schema: Schema | None) -> tuple[pd.DataFrame, str]:
    """The rows people would reach, and who says so."""
    if recourse is None:
        if not isinstance(model, Attains):
            raise TrainingError(
                f"{type(model).__name__} does not say which rows people can reach.",
                hint="pass recourse=: a function from the table to the rows reached, or a fitted method.",
            )
        rows, made_by = model.attain(table), f"{type(model).__name__}.attain"
    elif callable(recourse):
        rows, made_by = recourse(table.copy()), getattr(recourse, "__name__", type(recourse).__name__)
    else:
        raise TrainingError(
            f"recourse={recourse!r} is neither a function nor a method.",
            hint="pass a function from the table to the rows reached, or a fitted method: Wachter().fit(problem).",
        )
    reached = as_frame(rows)
    if not reached.index.equals(table.index) or any(name not in reached.columns for name in table.columns):
        raise TrainingError(
            "the rows reached do not have the index and the columns of the people.",
            hint="return one row for each person in the same order; their own row where there is nothing to do.",
        )
    reached = reached[list(table.columns)]
    if schema is not None and (bad := schema.breaches(table, reached)).any():
        i, j = (int(place) for place in np.argwhere(bad)[0])
        name = schema.names[j]
        old, new = table[name].iloc[i], reached[name].iloc[i]
        raise TrainingError(
            f"person {plain(table.index[i])!r} may not change '{name}' from {plain(old)!r} to {plain(new)!r}.",
            hint="a guarantee counts only what people may do: snap the rows, or correct the schema.",
        )
    return reached, made_by


def _searching(model: Any, method: Method, people: pd.DataFrame, seed: int) -> Callable[[float], Recourse]:
    """threshold -> what a copy of the method finds for the model with that threshold."""
    asked = method.problem_

    def find(threshold: float) -> Recourse:
        decides = isinstance(model, Decides) and callable(model.model)
        decider = (
            model.model(threshold) if decides else wrap(model, asked.schema, threshold, background=asked.background)
        )
        problem = Problem(
            asked.schema,
            decider,
            asked.declared_cost,
            asked.declared_rules,
            asked.background,
            None if asked.labels is None else asked.labels.cpu().numpy(),
            asked.declared_actions,
        )
        return method.clone().fit(problem, device=method.device_).find(people, seed=seed)

    return find


def _check_sizes(people: pd.DataFrame, groups: Any, epsilon: float, alpha: float) -> None:
    """Refuse too few people before anything slow is asked."""
    _split(groups, len(people), people.index, epsilon, alpha)
