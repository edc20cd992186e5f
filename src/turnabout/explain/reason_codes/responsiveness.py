"""Responsiveness: of the changes of one feature that a person can make, the share that turns a refusal into a yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, verify
from turnabout.core.limits import PersonLimits, limited, read_limits
from turnabout.documents import Document, plain_records
from turnabout.errors import ExplainError
from turnabout.markup import report_html
from turnabout.parameters import Instance, Whole, checked
from turnabout.schema import as_frame
from turnabout.schema.legal_values import Others, OtherValues, others_of
from turnabout.solvers.feature_counts import Count, breaks, count_steps, try_values
from turnabout.typing import Json, Tensor

FIXED = "the schema fixes it"
LIMITED = "their own limits leave it as it is"
MISSING = "their value is missing, and stays so"
AT_END = "no other value is within their reach"
FORBIDDEN = "the rules forbid every change of it alone"
UNSEEN = "the rules forbid every change of it that was tried"
COLUMNS = ["actionable", "share", "exact", "reachable", "nearest", "why"]


@dataclass(frozen=True, eq=False)
class Responsiveness(Document):
    """How refused people's decisions answer to each feature alone.

    Attributes
    ----------
    table : index (person, feature), refused people only:
        actionable : whether they can change the feature at all, alone. Where not, `why` says what stands against it.
        share : of the changes within their reach, those that turn the decision; <NA> where there are none to count.
        exact : whether every change within reach was counted. Otherwise the share is that of an even selection.
        reachable : how many changes are within reach; <NA> where only a selection was looked at.
        nearest : the smallest change that turns the decision, in their units (of a category, the level that is accepted
            most clearly); of a selection, the smallest in it. The original model accepted the row printed with it. None
            where no change was found.
    people : how many were asked about.
    refused : how many of them are refused.
    """

    table: pd.DataFrame
    people: int
    refused: int

    @property
    def shares(self) -> pd.DataFrame:
        """Index person, a column per feature; <NA> for what is not actionable."""
        features = self.table.index.unique("feature")
        return pd.DataFrame({name: self.table["share"].xs(name, level="feature") for name in features})

    @property
    def alone(self) -> pd.Series:
        """Index person: whether some feature alone turns their decision."""
        return (self.table["share"].fillna(0.0) > 0).groupby(level="person", sort=False).any()

    def of(self, person: Any) -> pd.DataFrame:
        """One person's features, the most responsive first, what is not actionable last."""
        if person not in self.table.index.get_level_values("person"):
            raise ExplainError(
                f"there is no refused person {person!r} here.", hint="people who are accepted have no scores."
            )
        mine = self.table[self.table.index.get_level_values("person") == person].droplevel("person")
        order = np.argsort(-mine["share"].fillna(-1.0).to_numpy(dtype=float), kind="stable")
        return mine.iloc[order]

    _repr_html_ = report_html

    def __str__(self) -> str:
        if not self.refused:
            return f"nobody of {self.people} people is refused: there is nothing to answer to."
        alone = int(self.alone.sum())
        some = self.table[self.table["actionable"]]
        counted = int(some["exact"].sum())
        lines = [
            f"{alone} of {self.refused} refused people are accepted after a change of one feature alone; "
            f"{counted} of {len(some)} scores count every change within reach."
        ]
        shares = some["share"].dropna().astype(float).groupby(level="feature", sort=False)
        means = shares.agg(["mean", "size"]).sort_values("mean", ascending=False, kind="stable")
        for feature, mean, count in means.itertuples():
            lines.append(f"  {feature}: mean share {mean:.3f} over {count} people")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """The table with person and feature as columns."""
        return self.table.reset_index()

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return super().to_dict() | {"scores": plain_records(self.to_frame())}


@checked(ExplainError, problem=Instance(Problem, hint="write Problem(schema, model, ...)."), values=Whole(2))
def responsiveness(problem: Problem, people: Any, values: int = 2000, limits: Any = None) -> Responsiveness:
    r"""Share of a feature's reachable changes that turn a refusal into a yes, for each refused person and feature.

        share_f(x) = #{v in R_f(x) : margin(x with f = v) is clear of 0} / #R_f(x)                                (1)

    R_f(x) holds the legal values v of feature f other than their own: within its bounds, in the direction it may move,
    printable, and such that the row with v, all else unchanged, keeps every rule. Each value counts once, so that
    for a continuous number the share is that of the length, up to one printed step. What is fixed is not actionable and
    has no share: 0 is said only of what they can change.

    Shares are exact, without trying each value, for tree ensembles (the margin only changes at the cuts) and for linear
    and additive models; by trying all values where a feature has at most `values` of them; otherwise an even selection
    of `values` is tried, and `exact` says so. They are counted with the fast form of the model. One change that flips,
    the smallest, is printed and put to the original for each score; where the original denies it, the score is done
    again by asking the original alone. Rules of your own kind are tried value by value.

    Use it to tell which reasons can be acted on. It is no plan: a plan may change several features, and costs count.
    Where downstream effects matter (a change of one feature moves others), it does not see them.

    Parameters
    ----------
    problem : the question; its rules limit what is reachable, its actions are not looked at.
    people : accepted ones are left out.
    values : how many values of a feature are tried, at most, where they are tried one by one.
    limits : what single people will not or cannot change, as of `Method.find`.

    References
    ----------
    Cheon, Wernerfelt, Friedler, Ustun (2024), Feature responsiveness scores: model-agnostic explanations for recourse.
    """
    frame = as_frame(people)
    if not len(frame):
        raise ExplainError("there are no people.", hint="pass some rows.")
    if frame.index.has_duplicates:
        raise ExplainError("two people share an index label.", hint="people.reset_index(drop=True)")
    table = problem.schema.table(frame)
    everyone = problem.schema.encode(table)
    margin = problem.judge(table)
    refused = np.flatnonzero(~(margin >= 0))  # where the model fails on a row, that is no yes
    own = read_limits(limits, frame.index, problem.schema)
    alike: dict[PersonLimits, list[int]] = {} if len(refused) else {(): []}  # people who share limits
    for row in refused.tolist():
        alike.setdefault(own.get(row, ()), []).append(row)
    parts = []
    for said, rows in alike.items():
        asked = limited(problem, said) if said else problem
        parts.append(_scores(asked, table.iloc[rows], everyone[rows], margin[rows], values))
    order = np.argsort([row for rows in alike.values() for row in rows])  # people as they stand in the table
    features = np.arange(len(problem.schema))
    lines = pd.concat(parts).iloc[(len(features) * order[:, None] + features).ravel()]
    return Responsiveness(lines, len(frame), len(refused))


def _scores(problem: Problem, own: pd.DataFrame, x: Tensor, margin: np.ndarray, values: int) -> pd.DataFrame:
    """The table of refused people, with features within people."""
    doubted = torch.as_tensor(~problem.reads_back(own, x, margin)) if len(x) else torch.zeros(0).bool()
    if not problem.model.compiled:
        doubted = torch.ones(len(x), dtype=torch.bool)
    choices_of_each = [others_of(f, s, x) for f, s in zip(problem.schema.features, problem.schema.slices, strict=True)]
    counts = [_count(problem, f, choices, x, values) for f, choices in enumerate(choices_of_each)]
    for choices, count, denied in zip(choices_of_each, counts, _denied(problem, own, x, counts), strict=True):
        again = ((doubted | denied) & (choices.others > 0)).nonzero().squeeze(1)
        if len(again):
            count.put(again, try_values(problem, choices.take(again), x[again], values, own.iloc[again.numpy()]))
    parts = [_lines(problem, f, *both, own, x) for f, both in enumerate(zip(choices_of_each, counts, strict=True))]
    return _join(problem, own.index, parts)


def _denied(problem: Problem, own: pd.DataFrame, x: Tensor, counts: list[Count]) -> Tensor:
    """(F, n) where the judge of `find` does not accept the printed row of a change that is said to flip."""
    claimed = torch.stack([count.flips > 0 for count in counts])
    denied = torch.zeros_like(claimed)
    if claimed.any():
        person = claimed.nonzero()[:, 1]
        rows = torch.cat([count.nearest[flips] for count, flips in zip(counts, claimed, strict=True)])
        denied[claimed] = ~torch.as_tensor(verify(problem, own.iloc[person.numpy()], x[person], rows).good)
    return denied


def _count(problem: Problem, f: int, choices: Others, x: Tensor, values: int) -> Count:
    """By structure where that asks for fewer rows, or where there are too many values to try."""
    most = float(choices.others.max()) if len(x) else 0.0
    if isinstance(choices, OtherValues) and all(rule.turns_once(f) for rule in problem.rules):
        known = breaks(problem.model, choices.feature, choices.columns.start)
        if known is not None and most > min(values, 2 * len(known[0])):
            return count_steps(problem, choices, x, *known)
    if not problem.model.compiled:  # the original is asked later, row by row
        return Count(x.new_zeros(len(x)), x.new_zeros(len(x)), x.clone(), torch.ones(len(x), dtype=torch.bool))
    return try_values(problem, choices, x, values)


def _lines(problem: Problem, f: int, choices: Others, count: Count, own: pd.DataFrame, x: Tensor) -> pd.DataFrame:
    feature, columns = problem.schema.features[f], problem.schema.slices[f]
    movable = (choices.others > 0).numpy()
    reached, flips, whole = count.reached.numpy(), count.flips.numpy(), count.whole.numpy() | ~movable
    forbidden = movable & whole & (reached == 0)
    missing = (x[:, columns.stop - 1] > 0.5).numpy() if feature.missing else np.zeros(len(x), dtype=bool)
    why = np.select(
        [np.full(len(x), feature.moves == "fixed"), missing, ~movable, forbidden, reached == 0],
        [
            LIMITED if problem.declared_schema[feature.name].moves != "fixed" else FIXED,
            MISSING,
            AT_END,
            FORBIDDEN,
            UNSEEN,
        ],
        default="",
    )
    found = flips > 0
    nearest = problem.schema.write(own, x, count.nearest)[feature.name].to_numpy(dtype=object, copy=True)
    nearest[~found] = None
    share = pd.arrays.FloatingArray(flips / np.maximum(reached, 1), reached == 0)
    reachable = pd.arrays.IntegerArray(reached.astype(np.int64), ~whole)
    lines = (movable & ~forbidden, share, whole, reachable, nearest, why.astype(object))
    return pd.DataFrame(dict(zip(COLUMNS, lines, strict=True)), index=own.index)


def _join(problem: Problem, index: pd.Index, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Features within people, in the schema's order."""
    n, width = len(index), len(parts)
    order = np.arange(n * width).reshape(width, n).T.ravel()
    table = pd.concat(parts, ignore_index=True).iloc[order]
    keys = [label for label in index for _ in range(width)], list(problem.schema.names) * n
    table.index = pd.MultiIndex.from_arrays(keys, names=["person", "feature"])
    return table
