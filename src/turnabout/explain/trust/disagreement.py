"""Do explanations agree? Six measures for every two methods and every person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from turnabout.core import Attribution
from turnabout.documents import Document, plain_records
from turnabout.errors import ExplainError
from turnabout.markup import report_html
from turnabout.parameters import Whole, checked
from turnabout.typing import Json

METRICS = (
    "feature_agreement",
    "sign_agreement",
    "rank_agreement",
    "signed_rank_agreement",
    "rank_correlation",
    "pairwise_rank_agreement",
)


@dataclass(frozen=True, eq=False)
class Disagreement(Document):
    """How far methods agree, person by person.

    Attributes
    ----------
    table : index (first, second, person), a column per metric; <NA> where a correlation is undefined, because a method
        gives every feature of that person the same size.
    k : how many features count as the top.
    notes : what a reader must know before comparing these methods.
    """

    table: pd.DataFrame
    k: int
    notes: tuple[str, ...] = ()

    @property
    def means(self) -> pd.DataFrame:
        """Index (first, second): the mean of each metric over people for whom it is defined."""
        return self.table.groupby(level=["first", "second"], sort=False).mean()

    def to_frame(self) -> pd.DataFrame:
        """Tidy: first, second, person, metric, value."""
        wide = self.table.reset_index()
        return wide.melt(["first", "second", "person"], list(METRICS), var_name="metric", value_name="value")

    def to_dict(self) -> Json:
        """Plain values for JSON: the means and the notes."""
        return {"k": self.k, "means": plain_records(self.means.reset_index())} | super().to_dict()

    _repr_html_ = report_html

    def __str__(self) -> str:
        people = len(self.table.index.get_level_values("person").unique())
        lines = [f"agreement of methods over {people} people, top {self.k} features; mean (lowest to highest):"]
        for (first, second), part in self.table.groupby(level=["first", "second"], sort=False):
            said = []
            for name in METRICS:
                column = part[name].dropna().astype(float)
                what = name.replace("_", " ")
                if len(column):
                    said.append(f"{what} {column.mean():.2f} ({column.min():.2f} to {column.max():.2f})")
                else:
                    said.append(f"{what} undefined")
            lines.append(f"  {first} and {second}: {', '.join(said)}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


@checked(ExplainError, k=Whole(1))
def disagreement(attributions: Mapping[str, Attribution], k: int = 4) -> Disagreement:
    r"""Agreement between attributions of the same people by several methods.

    With T(a) the k features of largest size of attribution a, and r_a(j) the place of feature j among them:

        feature agreement        |T(a) & T(b)| / k                                                              (1)
        sign agreement           features of both, with the same sign, / k                                      (2)
        rank agreement           features of both, at the same place, / k                                       (3)
        signed rank agreement    features of both, at the same place with the same sign, / k                    (4)
        rank correlation         Spearman's, of the sizes of all features, ties at their mean rank               (5)
        pairwise rank agreement  share of pairs of features that both put in the same order of size             (6)

    Of equal sizes the first column comes first, so that (1) to (4) depend on the order of columns where there are ties.
    Agreement does not make methods right: they may err alike.

    Parameters
    ----------
    attributions : name of the method -> what it says; at least two, of the same people and columns. Contributions and
        slopes answer different questions, and need not agree in their signs; a note says where both are compared.
        Directions compare with directions only.
    k : features that count as the top; at most as many as there are.

    References
    ----------
    Krishna et al. (2022), The disagreement problem in explainable machine learning: a practitioner's perspective.
    """
    names, values, index, notes = _aligned(attributions)
    d = values.shape[2]
    if k > d:
        raise ExplainError(f"k={k!r} is not a whole number from 1 to {d}.", hint=f"there are {d} features.")
    sizes, signs = np.abs(values), np.sign(values)
    order = np.argsort(-sizes, axis=2, kind="stable")
    place = np.argsort(order, axis=2, kind="stable")  # (M, n, d) place of each feature, from 0
    ranks = mean_ranks(sizes)
    parts = {}
    for i, j in combinations(range(len(names)), 2):
        both = (place[i] < k) & (place[j] < k)
        same_sign, same_place = signs[i] == signs[j], place[i] == place[j]
        parts[names[i], names[j]] = pd.DataFrame(
            {
                "feature_agreement": both.sum(1) / k,  # (1)
                "sign_agreement": (both & same_sign).sum(1) / k,  # (2)
                "rank_agreement": (both & same_place).sum(1) / k,  # (3)
                "signed_rank_agreement": (both & same_place & same_sign).sum(1) / k,  # (4)
                "rank_correlation": pd.array(correlation(ranks[i], ranks[j]), dtype="Float64"),  # (5)
                "pairwise_rank_agreement": pd.array(_same_order(sizes[i], sizes[j]), dtype="Float64"),  # (6)
            },
            index=index,
        ).astype("Float64")
    table = pd.concat(parts, names=["first", "second"])
    table.index = table.index.set_names(["first", "second", "person"])
    return Disagreement(table, int(k), notes)


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks along the last axis from 1, equal values at the mean of their ranks."""
    from scipy.stats import rankdata

    return rankdata(values, axis=-1)


def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's correlation along the last axis; NaN where one of them does not vary."""
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    scale = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, np.clip((a * b).sum(-1) / scale, -1.0, 1.0), np.nan)


def _same_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n, d), (n, d) -> (n,) share of pairs of columns in the same order; NaN for one column."""
    d = a.shape[1]
    same = np.zeros(len(a))
    for j in range(d - 1):
        same += (np.sign(a[:, [j]] - a[:, j + 1 :]) == np.sign(b[:, [j]] - b[:, j + 1 :])).sum(1)
    return same / (d * (d - 1) / 2) if d > 1 else np.full(len(a), np.nan)


def _aligned(attributions: Mapping[str, Attribution]) -> tuple[list[str], np.ndarray, pd.Index, tuple[str, ...]]:
    """Names (M), values (M, n, d) in the columns and people of the first, its people, and notes."""
    if not isinstance(attributions, Mapping) or len(attributions) < 2:
        raise ExplainError(
            "agreement takes at least two methods, by name.", hint="write disagreement({'shap': a, 'lime': b})."
        )
    for name, one in attributions.items():
        if not isinstance(one, Attribution):
            raise ExplainError(f"{name!r} is a {type(one).__name__}, not an Attribution.", hint="use explainer.explain")
    names = list(attributions)
    first = attributions[names[0]]
    parts = []
    for name, one in attributions.items():
        if (one.kind == "direction") != (first.kind == "direction"):
            raise ExplainError(
                f"{names[0]!r} holds {first.kind}s and {name!r} {one.kind}s, which do not compare.",
                hint="a direction says where to move, the others what counts in the score.",
            )
        if len(one.names) != len(first.names) or set(one.names) != set(first.names):
            odd = sorted(set(map(str, one.names)) ^ set(map(str, first.names)))
            raise ExplainError(
                f"{names[0]!r} and {name!r} speak of different columns, such as {odd[:3]}.",
                hint="add columns of a feature up with attribution.grouped({'housing': ['housing=own', ...]}).",
            )
        if len(one) != len(first) or len(one.values.index.symmetric_difference(first.values.index)):
            raise ExplainError(f"{names[0]!r} and {name!r} are of different people.", hint="explain the same table.")
        array = one.values.loc[first.values.index, first.names].to_numpy(dtype=np.float64)
        if not len(array):
            raise ExplainError("there are no people in these attributions.", hint="explain some rows.")
        if not np.isfinite(array).all():
            raise ExplainError(f"{name!r} holds NaN or an infinity.", hint="every attribution must be a number.")
        parts.append(array)
    notes = []
    for what in ("kind", "space", "score"):
        told = {str(getattr(one, what)) for one in attributions.values()}
        if len(told) > 1:
            notes.append(f"the methods differ in their {what}: {', '.join(sorted(told))}.")
    return names, np.stack(parts), first.values.index, tuple(notes)
