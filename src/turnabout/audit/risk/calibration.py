"""P(repays | row) from labels, for people and for where they would land: cross-fitted, calibrated, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnabout.documents import Document
from turnabout.errors import AuditError

SCORES = 256  # most distinct scores a calibrator tells apart
LEAST = 10  # people of each class without whom nothing is learned
BINS, IN_BIN = 10, 50  # of the calibration error: at most so many, of at least so many people


@dataclass(frozen=True, eq=False)
class Eta:
    """P(repays) with its Venn-Abers interval, (n,) each."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class VennAbers:
    r"""Turns scores into probabilities with an interval.

        p_y(s) = value at s of the isotonic regression of labels on scores with the pair (s, y) added,  y = 0, 1    (1)
        p(s) = p_1 / (1 - p_0 + p_1)                                                                                (2)

    [p_0, p_1] is the interval, and p lies in it. One of p_0, p_1 is perfectly calibrated on people who are exchangeable
    with those given; elsewhere, for refused people where only the approved were seen, it knows nothing of how
    these differ. The property holds up to the rounding of scores to at most 256 quantiles of those given: the cuts are
    taken without the person asked about, so that with few people the two are not quite exchangeable.

    Parameters
    ----------
    scores, labels : (m,) of people on whom the scorer was not trained.

    References
    ----------
    Vovk, Petej, Fedorova (2015), Large-scale probabilistic predictors with and without guarantees of validity.
    """

    def __init__(self, scores: np.ndarray, labels: np.ndarray):
        self.cuts = np.unique(np.quantile(scores, np.linspace(0, 1, SCORES + 1)[1:-1]))
        place = self._place(scores)
        size = np.cumsum(np.bincount(place, minlength=len(self.cuts) + 1))
        good = np.cumsum(np.bincount(place, labels, len(self.cuts) + 1))
        sizes, goods = (np.concatenate([[0.0], total]) for total in (size, good))
        self.low, self.high = np.empty(len(size)), np.empty(len(size))
        for s in range(len(size)):
            # isotonic regression at s: the largest over starts of the least over ends of the mean from start to end
            people = size[s:] - sizes[: s + 1, None] + 1.0  # (starts, ends), the added one among them
            yes = good[s:] - goods[: s + 1, None]
            self.low[s] = (yes / people).min(1).max()  # (1)
            self.high[s] = ((yes + 1.0) / people).min(1).max()

    def _place(self, scores: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.cuts, scores, side="right")

    def __call__(self, scores: np.ndarray) -> Eta:
        place = self._place(scores)
        low, high = self.low[place], self.high[place]
        return Eta(high / (1.0 - low + high), low, high)  # (2)


def folds_of(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """(m,) fold of each person, each class spread evenly; refuses what nothing can be learned from."""
    good = int(labels.sum())
    if not good or good == len(labels):
        raise AuditError(
            f"all {len(labels)} labels that can be seen are {bool(good)}: with a single class nothing is known of the "
            "other.",
            hint="labels say who truly repaid; give people of both kinds.",
        )
    if min(good, len(labels) - good) < LEAST:
        raise AuditError(
            f"there are {good} good and {len(labels) - good} bad labels: too few to learn P(repays) from.",
            hint=f"give at least {LEAST} of each, or pass eta=.",
        )
    if folds > min(good, len(labels) - good):
        raise AuditError(
            f"folds={folds} are more than the {min(good, len(labels) - good)} people of the rarer label.",
            hint="use 5: each fold needs people of both labels.",
        )
    rng = np.random.default_rng(seed)
    out = np.empty(len(labels), dtype=np.int64)
    for kind in (False, True):
        mine = np.flatnonzero(labels == kind)
        out[rng.permutation(mine)] = np.arange(len(mine)) % folds
    return out


def teaches(labels: np.ndarray, fold: np.ndarray, times: np.ndarray) -> bool:
    """Whether people of both labels are left, counted `times`, without any one of the folds."""
    counts = [np.bincount(fold, times * (labels == kind)) for kind in (False, True)]
    return all(bool((count.sum() - count > 0).all()) for count in counts)


def cross_fitted(
    seen: np.ndarray,
    labels: np.ndarray,
    rows: tuple[np.ndarray, ...],
    own: np.ndarray,
    folds: int = 5,
    seed: int = 0,
    times: np.ndarray | None = None,
) -> tuple[Eta, ...]:
    """P(repays) of several sets of rows by gradient boosting, cross-fitted and calibrated by VennAbers.

    The people with labels are dealt into folds. For a row of somebody in fold k, the scores come from trees grown on
    the other folds, and the calibrator from scores of people in the other folds, each scored by trees grown without
    their own fold. So their label is not in the trees that score them, nor in their calibrator.

    Parameters
    ----------
    seen : (m, d) encoded rows of the people whose labels are known.
    labels : (m,) whether they repaid.
    rows : sets of (n, d) encoded rows to answer for, each with a row for every person.
    own : (n,) place of each person in `seen`, -1 for people who are not in it: they get the answers of fold 0.
    times : (m,) how often each of the seen counts, for refits on people drawn with replacement.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    count = np.ones(len(seen), dtype=np.int64) if times is None else times
    fold = folds_of(labels, folds, seed)
    mine = np.where(own >= 0, fold[np.maximum(own, 0)], 0)  # (n,)
    leaves = int(np.clip(len(seen) // 1000, 4, 31))  # larger trees on few people only learn their noise
    score, out = np.empty(len(seen)), np.empty((len(rows), len(own)))
    for k in range(folds):
        known = np.repeat(np.arange(len(seen)), np.where(fold != k, count, 0))
        trees = HistGradientBoostingClassifier(
            random_state=seed, early_stopping=False, max_iter=60, max_leaf_nodes=leaves
        )
        trees.fit(seen[known], labels[known])
        score[fold == k] = trees.predict_proba(seen[fold == k])[:, 1]
        for r, table in enumerate(rows):
            if (mine == k).any():
                out[r, mine == k] = trees.predict_proba(table[mine == k])[:, 1]
    answers = [Eta(*np.empty((3, len(own)))) for _ in rows]
    for k in range(folds):
        others = np.repeat(np.arange(len(seen)), np.where(fold != k, count, 0))
        calibrate = VennAbers(score[others], labels[others])
        for r, answer in enumerate(answers):
            part = calibrate(out[r, mine == k])
            answer.value[mine == k], answer.low[mine == k], answer.high[mine == k] = part.value, part.low, part.high
    return tuple(answers)


@dataclass(frozen=True)
class CalibrationError(Document):
    r"""How far probabilities lie from what happened.

        error = sum over bins b of n_b / n  | mean of eta - mean of labels |                                (1)

    over bins of equally many people by eta: ten, or fewer where there are not 50 people for each. Chance alone makes
    (1) positive: `noise` is what it would be on average for true probabilities, so that only an error well above it
    speaks against them.

    Attributes
    ----------
    error : (1) over all people with labels; None where there are none.
    noise : what chance adds.
    bias : mean of eta minus mean of labels.
    near_error, near_noise, near_bias : the same over the people nearest to the landing points.
    n, near_n : how many people each rests on.
    """

    error: float | None
    noise: float | None
    bias: float | None
    n: int
    near_error: float | None = None
    near_noise: float | None = None
    near_bias: float | None = None
    near_n: int = 0

    @classmethod
    def of(cls, eta: np.ndarray, labels: np.ndarray, near: np.ndarray) -> CalibrationError:
        """From (m,) probabilities and labels of people, and how often (m,) each is the nearest to a landing point."""
        error, noise, bias = _gap(eta, labels, np.ones(len(eta)))
        there = near > 0
        near_error, near_noise, near_bias = _gap(eta[there], labels[there], near[there])
        return cls(error, noise, bias, len(eta), near_error, near_noise, near_bias, int(there.sum()))

    def above(self, level: float) -> list[str]:
        """Sentences on errors beyond a level and beyond twice what chance explains."""
        out = []
        for where, error, noise in (
            ("over all", self.error, self.noise),
            ("near the landing points", self.near_error, self.near_noise),
        ):
            if error is not None and noise is not None and error > max(level, 2.0 * noise):
                out.append(f"the calibration error of eta {where} is {error:.3f} (chance alone: {noise:.3f})")
        return out

    def __str__(self) -> str:
        if self.error is None:
            return "calibration unknown (no labels)"
        near = "" if self.near_error is None else f"; near the landing points {self.near_error:.3f}"
        near += "" if self.near_noise is None else f" (chance alone {self.near_noise:.3f})"
        return f"calibration error {self.error:.3f} (chance alone {self.noise:.3f}){near}"


def _gap(
    eta: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> tuple[float, float, float] | tuple[None, None, None]:
    """(1), its mean under true probabilities, and the bias; bins of equal weight."""
    if not len(eta):
        return None, None, None
    total = weight.sum()
    bins = int(np.clip(total**2 / np.square(weight).sum() / IN_BIN, 1, BINS))
    order = np.argsort(eta, kind="stable")
    share = np.cumsum(weight[order]) - weight[order] / 2
    place = np.empty(len(eta), dtype=np.int64)
    place[order] = np.minimum((share * bins / total).astype(np.int64), bins - 1)
    gap = np.bincount(place, weight * (eta - labels), bins)
    spread = np.sqrt(np.bincount(place, weight**2 * eta * (1.0 - eta), bins))
    noise = np.sqrt(2.0 / np.pi) * spread.sum() / total
    return float(np.abs(gap).sum() / total), float(noise), float(gap.sum() / total)  # (1)
