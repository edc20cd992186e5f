"""Are options such as real accepted people are? Four measures, beside real people and beside doing nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, Recourse
from turnabout.documents import Document, Versioned
from turnabout.errors import ProblemError, also
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.metrics.ordinary_rows import OrdinaryRows, RowScores, option_points, ordinary_threshold, real_points
from turnabout.metrics.row_space import SAME
from turnabout.metrics.two_sample_auc import DRAWS, LEAST_ROWS, MOST_ROWS, Auc, two_sample_auc
from turnabout.parameters import Whole, checked
from turnabout.typing import Tensor

Rows = Literal["options", "real people", "doing nothing"]
MOST_MEASURED = 2500  # rows of each kind
FEW = "not enough people"
DISTANCE = (
    "Distances add up over features: the difference of numbers on their [0, 1] scale, 1 for another level of a "
    "category; outlier factors take the Euclidean distance of the same rows."
)


@dataclass(frozen=True)
class PlausibilityLine(Document):
    """One measure of one kind of rows; the value and its 95 % interval are None where there were not enough people."""

    measure: str
    rows: Rows
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Plausibility(Versioned):
    """How plausible first options are, beside held-out real accepted people and the refused people's own rows.

    lines : one for each measure and kind of rows, the measures as `plausibility` lists them.
    fitted, real, seed : accepted background people compared with, measured real people not among them, and the seed.
    notes : what a reader has to know about these numbers.
    """

    mark: ClassVar[str] = "turnabout_plausibility"
    error: ClassVar[type[ProblemError]] = ProblemError

    lines: tuple[PlausibilityLine, ...]
    fitted: int
    real: int
    seed: int
    notes: tuple[str, ...]

    _repr_html_ = report_html

    def line(self, measure: str, rows: Rows = "options") -> PlausibilityLine:
        """One line of the table."""
        for line in self.lines:
            if (line.measure, line.rows) == (measure, rows):
                return line
        names = ", ".join(dict.fromkeys(line.measure for line in self.lines))
        raise also(ProblemError, KeyError)(
            f"there is no line {measure!r} of {rows!r}.",
            hint=f"measures are {names}; rows are options, real people, doing nothing.",
        )

    def to_frame(self) -> pd.DataFrame:
        """The lines as a table: measure, rows, value, low, high, n; missing where there were not enough people."""
        return pd.DataFrame(
            [(line.measure, line.rows, line.value, line.low, line.high, line.n) for line in self.lines],
            columns=["measure", "rows", "value", "low", "high", "n"],
        ).astype(dict.fromkeys(["value", "low", "high"], "float64"))

    def __str__(self) -> str:
        rows: tuple[Rows, ...] = ("options", "real people", "doing nothing")
        names = dict.fromkeys(line.measure for line in self.lines)
        table = [["", *rows], *([name, *(_cell(self.line(name, kind)) for kind in rows)] for name in names)]
        widths = [max(map(len, column)) for column in zip(*table)]
        shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
        return "\n".join([*shown, *(f"- {note}" for note in self.notes)])


class RowGroup(NamedTuple):
    """Rows of one kind: as points, their scores, and the scores of those that are compared with the reference half."""

    z: Tensor
    scores: RowScores
    apart: RowScores


@checked(ProblemError, seed=Whole(0))
def plausibility(answer: Recourse, problem: Problem, real: Any = None, seed: int = 0) -> Plausibility:
    """Are first options such as real accepted people are? Each number beside two others that say what it is worth.

    Every measure is taken of the first options, of real accepted people who are not among the fitted rows, and of the
    refused people's own rows, as if they did nothing. Real people are the mark to reach, and where doing nothing scores
    as high as they do, the measure says nothing about the method.

    - lof_paper: share of inliers by the local outlier factor with 5 neighbours, fitted on accepted background rows,
      cut at -1.5 (as GenRe is evaluated);
    - lof: the same with 20 neighbours, and rows that occur more than once counted once;
    - lof_calibrated: share above the cut that 95 % of real people reach. The cut is from one half of the real people,
      the line of real people from the other;
    - neighbour_distance: mean distance to the 5 nearest fitted rows;
    - neighbour_ratio: that mean divided by the mean of one half of the real people;
    - neighbour_percentile: mean share of that half who are nearer to their neighbours; 0.5 is like real people;
    - two_sample_auc: how well a classifier tells the rows from real people: 0.5 not at all, 1 without error. Real
      people are told from each other, one half from the other;
    - nearest_row: mean distance to the nearest of all background rows, a real person's own row left out;
    - copying: share of rows that are a background row, cell by cell.

    Intervals hold 95 %: exact for shares, elsewhere a bootstrap over people. Those of the measures that use one half of
    the real people, and of the classifier, take these as they are.

    Use it beside `measure`, which says whether options are accepted and what they cost. It compares whole rows: an
    option of an unusual person is unusual, as their own row is.

    Parameters
    ----------
    real : a table of accepted people whom neither the model nor the method has seen; rows that the model refuses are
        left out. When None, a third of the accepted background people, chosen by the seed, is held out.
    seed : of the choice of people, of the bootstrap and of the classifier.

    References
    ----------
    Breunig, Kriegel, Ng, Sander (2000), LOF: identifying density-based local outliers.
    Lopez-Paz, Oquab (2017), Revisiting classifier two-sample tests.
    """
    _check(answer, problem)
    return RealPeople.of(problem, real, seed).compare(answer)


@checked(ProblemError, seed=Whole(0))
def plausibility_per_option(answer: Recourse, problem: Problem, real: Any = None, seed: int = 0) -> pd.DataFrame:
    """One line per option, indexed (person, option), with the measures that one row has.

    Columns: `lof` (True for inliers, 20 neighbours, rows that occur more than once counted once), `lof_calibrated`
    (True above the cut that 95 % of real people reach), `neighbour_distance` (mean distance to the 5 nearest fitted
    rows) and `nearest_row` (distance to the nearest background row, 0 for a copy). A column is left out where there are
    not enough people for it: 6 distinct fitted rows, 37 real people,
    5 fitted rows. See `plausibility`.
    """
    _check(answer, problem)
    return RealPeople.of(problem, real, seed).per_option(answer)


# -- who is compared ----------------------------------------------------------------------------------------------


def _check(answer: Any, problem: Any) -> None:
    if not isinstance(answer, Recourse) or not isinstance(problem, Problem):
        raise also(ProblemError, TypeError)(
            f"plausibility takes an answer and its problem, not {type(answer).__name__} and {type(problem).__name__}.",
            hint="write metrics.plausibility(answer, problem).",
        )


@dataclass(frozen=True, eq=False)
class RealPeople:
    """Real accepted people whom answers to one problem are compared with, measured once for all of them.

    problem, seed : the question; the seed of the choice of people, of the bootstrap and of the classifier.
    ordinary : the fitted rows.
    z, scores : the real people as points in random order, and their scores.
    notes : whom they are.
    refused_scores, aucs : scores of people who did nothing, and AUCs of the classifier, by their points: most answers
        are about the same people.
    """

    problem: Problem
    seed: int
    ordinary: OrdinaryRows
    z: Tensor
    scores: RowScores
    notes: tuple[str, ...]
    refused_scores: dict[bytes, RowScores] = field(default_factory=dict, repr=False)
    aucs: dict[tuple[bytes, bytes], Auc | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, problem: Problem, real: Any = None, seed: int = 0) -> RealPeople:
        """Given people, or a third of the accepted background people, held out."""
        ordinary = OrdinaryRows.of(problem, real is None, seed)
        notes = [DISTANCE]
        fitted = f"{int(ordinary.fitted.sum()):,} accepted background people are fitted"
        if real is None:
            own = ordinary.held_out
            people = ordinary.z[own]
            notes.append(f"The real people are {len(own):,} accepted background people, held out here; {fitted}.")
            notes.append("The method may have seen all of these; with real= they are people whom nobody has seen.")
        else:
            people, left = real_points(problem, ordinary.space, real)
            own = torch.full((len(people),), -1)
            notes.append(f"The real people are {len(people):,} given rows; {fitted}.")
            if left:
                notes.append(f"{left:,} given rows are left out: the model refuses them, or they cannot be read.")
        if len(people) > MOST_MEASURED:
            notes.append(f"{MOST_MEASURED:,} of the real people are measured, drawn with the seed.")
        kept = torch.as_tensor(np.random.default_rng(seed).permutation(len(people))[:MOST_MEASURED])
        scores = ordinary.scores(people[kept], own[kept])
        return cls(problem, seed, ordinary, people[kept], scores, tuple(notes))

    def compare(self, answer: Recourse) -> Plausibility:
        """First options beside these people and beside doing nothing; see `plausibility`."""
        ordinary, seed, notes = self.ordinary, self.seed, list(self.notes)
        rng = np.random.default_rng(seed)
        half, others = self.scores.every(slice(0, None, 2)), self.scores.every(slice(1, None, 2))
        first = answer.options[answer.options.index.get_level_values("option") == 0]
        options = _measured(option_points(ordinary.space, first), "options", rng, notes)
        reading = self.problem.schema.read(answer.people[answer.refused.to_numpy()])
        refused = ordinary.space.points(reading.x[torch.as_tensor(~reading.lost)])
        refused = _measured(refused, "refused people", rng, notes)
        scored, still = ordinary.scores(options), self._scores_of_refused(refused)
        groups: dict[Rows, RowGroup] = {
            "options": RowGroup(options, scored, scored),
            "real people": RowGroup(self.z, self.scores, others),
            "doing nothing": RowGroup(refused, still, still),
        }
        lines = [*_outliers(groups, ordinary, half), *_neighbours(groups, half, seed)]
        lines += [*self._told_apart(groups, notes), *_copies(groups, seed)]
        _remark(ordinary, notes)
        return Plausibility(tuple(lines), int(ordinary.fitted.sum()), len(self.z), seed, tuple(notes))

    def per_option(self, answer: Recourse) -> pd.DataFrame:
        """See `plausibility_per_option`."""
        ordinary = self.ordinary
        scores = ordinary.scores(option_points(ordinary.space, answer.options), paper=False)
        table = pd.DataFrame(index=answer.options.index)
        if scores.lof is not None:
            table["lof"] = scores.lof >= ordinary.lof.offset_
            cut = ordinary_threshold(_given(self.scores.every(slice(0, None, 2)).lof))
            if cut is not None:
                table["lof_calibrated"] = scores.lof >= cut
        if scores.neighbour is not None:
            table["neighbour_distance"] = scores.neighbour
        table["nearest_row"] = scores.nearest
        return table

    def _scores_of_refused(self, refused: Tensor) -> RowScores:
        key = refused.numpy().tobytes()
        if key not in self.refused_scores:
            self.refused_scores[key] = self.ordinary.scores(refused)
        return self.refused_scores[key]

    def _told_apart(self, groups: dict[Rows, RowGroup], notes: list[str]) -> list[PlausibilityLine]:
        """Options and refused people against real people, held out first; and one half of these against the other."""
        people, seed = self.z.numpy(), self.seed
        wanted = max(len(groups["options"].z), len(groups["doing nothing"].z))
        pool = people
        if len(people) < min(wanted, MOST_ROWS):
            fitted = self.ordinary.z[self.ordinary.fitted].numpy()
            more = np.random.default_rng(seed).permutation(len(fitted))[: min(wanted, MOST_ROWS) - len(people)]
            pool = np.vstack([people, fitted[more]])
            if len(more):
                notes.append(f"The classifier also learns from {len(more):,} fitted people: too few are held out.")
        pairs: dict[Rows, tuple[np.ndarray, np.ndarray]] = {
            "options": (groups["options"].z.numpy(), pool),
            "real people": (people[1::2], people[::2]),
            "doing nothing": (groups["doing nothing"].z.numpy(), pool),
        }
        lines = []
        for rows, (a, b) in pairs.items():
            auc = two_sample_auc(a, b, seed) if rows == "options" else self._known_auc(a, b)
            if auc is None:
                lines.append(PlausibilityLine("two_sample_auc", rows, None, None, None, min(len(a), len(b))))
            else:
                lines.append(PlausibilityLine("two_sample_auc", rows, *auc))
        if any(line.value is None for line in lines):
            notes.append(
                f"The classifier needs {LEAST_ROWS} rows of each of two kinds; where a line has fewer, it is empty."
            )
        return lines

    def _known_auc(self, a: np.ndarray, b: np.ndarray) -> Auc | None:
        """Of rows that are the same in most answers."""
        key = a.tobytes(), b.tobytes()
        if key not in self.aucs:
            self.aucs[key] = two_sample_auc(a, b, self.seed)
        return self.aucs[key]


def _measured(z: Tensor, what: str, rng: np.random.Generator, notes: list[str]) -> Tensor:
    if len(z) <= MOST_MEASURED:
        return z
    notes.append(f"{MOST_MEASURED:,} of {len(z):,} {what} are measured, drawn with the seed.")
    return z[torch.as_tensor(np.sort(rng.permutation(len(z))[:MOST_MEASURED]))]


def _remark(ordinary: OrdinaryRows, notes: list[str]) -> None:
    """What the fitted rows say about the measures themselves."""
    fitted = int(ordinary.fitted.sum())
    if not fitted:
        notes.append("The model accepts nobody of the background: there is nothing to be plausible against.")
    if fitted > len(ordinary.points):
        notes.append(f"Outlier factors are made of {len(ordinary.points):,} fitted rows, drawn with the seed.")
    if ordinary.own_inliers is not None and (ordinary.duplicates > 0.05 or ordinary.own_inliers < 0.95):
        notes.append(
            f"lof_paper calls {ordinary.own_inliers:.0%} of the rows that it is fitted on inliers; "
            f"{ordinary.duplicates:.0%} of these repeat another, which distorts it."
        )


# -- the measures -------------------------------------------------------------------------------------------------


def _outliers(groups: dict[Rows, RowGroup], ordinary: OrdinaryRows, half: RowScores) -> list[PlausibilityLine]:
    paper = -1.5 if ordinary.paper is None else ordinary.paper.offset_
    strict = -1.5 if ordinary.lof is None else ordinary.lof.offset_
    cut = None if half.lof is None else ordinary_threshold(half.lof)
    lines = [_share("lof_paper", rows, g.scores.paper, lambda s: s >= paper) for rows, g in groups.items()]
    lines += [_share("lof", rows, g.scores.lof, lambda s: s >= strict) for rows, g in groups.items()]
    for rows, g in groups.items():
        reached = None if cut is None or g.apart.lof is None else g.apart.lof >= cut
        lines.append(_share("lof_calibrated", rows, reached, lambda s: s))
    return lines


def _neighbours(groups: dict[Rows, RowGroup], half: RowScores, seed: int) -> list[PlausibilityLine]:
    lines = [_mean("neighbour_distance", rows, g.scores.neighbour, seed) for rows, g in groups.items()]
    real = _given(half.neighbour)
    usable = len(real) > 0 and real.mean() > 0
    for rows, g in groups.items():
        ratio = None if not usable or g.apart.neighbour is None else g.apart.neighbour / real.mean()
        lines.append(_mean("neighbour_ratio", rows, ratio, seed))
    for rows, g in groups.items():
        rank = None if not len(real) or g.apart.neighbour is None else _rank(g.apart.neighbour, real)
        lines.append(_mean("neighbour_percentile", rows, rank, seed))
    return lines


def _copies(groups: dict[Rows, RowGroup], seed: int) -> list[PlausibilityLine]:
    lines = [_mean("nearest_row", rows, g.scores.nearest, seed, finite=True) for rows, g in groups.items()]
    return lines + [_share("copying", rows, g.scores.nearest, lambda s: s <= SAME) for rows, g in groups.items()]


# -- arithmetic ---------------------------------------------------------------------------------------------------


def _share(
    measure: str, rows: Rows, values: np.ndarray | None, yes: Callable[[np.ndarray], np.ndarray]
) -> PlausibilityLine:
    if values is None or not len(values):
        return PlausibilityLine(measure, rows, None, None, None, 0)
    rate = Rate.among(yes(values))
    return PlausibilityLine(measure, rows, rate.value, rate.low, rate.high, rate.n)


def _mean(measure: str, rows: Rows, values: np.ndarray | None, seed: int, finite: bool = False) -> PlausibilityLine:
    """The mean with its bootstrap interval; with `finite`, over the finite values."""
    values = _given(values)
    values = values[np.isfinite(values)] if finite else values
    if not len(values):
        return PlausibilityLine(measure, rows, None, None, None, 0)
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return PlausibilityLine(measure, rows, float(values.mean()), float(low), float(high), len(values))


def _rank(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """(n,) share of `among` that is smaller; equal ones count by half."""
    line = np.sort(among)
    return (np.searchsorted(line, values, "left") + np.searchsorted(line, values, "right")) / (2 * len(line))


def _given(values: np.ndarray | None) -> np.ndarray:
    return np.zeros(0) if values is None else values


def _cell(line: PlausibilityLine) -> str:
    if line.value is None or line.low is None or line.high is None:
        return FEW
    return f"{line.value:.3f} [{line.low:.3f}, {line.high:.3f}]"
