"""SP-LIME: a few people whose explanations together show most features (Ribeiro, Singh, Guestrin, 2016)."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from turnabout.core import Attribution
from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.markup import report_html
from turnabout.parameters import Finite, Whole, checked
from turnabout.typing import Level


@dataclass(frozen=True, eq=False)
class Pick(Document):
    """People who stand for many.

    Attributes
    ----------
    people : labels of those picked, in the order of picking.
    positions : their rows, from 0.
    importance : of each feature.
    covered : features that some picked person shows.
    share : coverage of those picked, as a share of the coverage of everyone; None where nobody shows anything.
    """

    people: tuple[Level, ...]
    positions: tuple[int, ...]
    importance: pd.Series
    covered: tuple[str, ...]
    share: float | None

    _repr_html_ = report_html

    def __str__(self) -> str:
        if self.share is None:
            return f"nobody is picked: no weight of {len(self.importance)} features is large enough to be shown"
        return (
            f"{len(self.people)} people show {len(self.covered)} of {len(self.importance)} features "
            f"({self.share:.0%} of what everyone together shows): {', '.join(map(str, self.people))}"
        )


@checked(ExplainError, budget=Whole(1), tol=Finite(least=0, hint="0 counts every weight but 0."))
def pick(explanations: Attribution | pd.DataFrame | np.ndarray, budget: int = 5, tol: float = 0.0) -> Pick:
    r"""A few people whose explanations cover the features that matter, by lazy greedy search.

        importance_j = sqrt(sum_i |W_ij|),    coverage(V) = sum_j importance_j [some i in V has |W_ij| > tol]        (1)

    Coverage is monotone and submodular, so that the greedy choice has at least 1 - 1/e = 63 % of the best coverage of
    `budget` people. Ties go to the lowest row, and the search stops when nobody adds anything; the reference goes on
    with arbitrary people, and gives ties to the highest row.

    Use it to choose whose explanations to read. On directions of recourse (`answer.to_directions(schema)`) it picks
    refused people whose advice, taken together, shows most of what people are told to change.

    Parameters
    ----------
    explanations : (people, features), signed: attributions of any kind, a table, or an array.
    budget : people to pick at most.
    tol : weights up to this size do not count as shown. They count in the importance.

    References
    ----------
    Ribeiro, Singh, Guestrin (2016), "Why should I trust you?": explaining the predictions of any classifier.
    """
    table = _table(explanations)
    size = np.abs(table.to_numpy(dtype=np.float64))
    importance = np.sqrt(size.sum(0))
    shows = [np.flatnonzero(row > tol) for row in size]
    chosen, covered = _greedy(shows, importance.tolist(), budget)
    reachable = (size > tol).any(0)
    everyone = math.fsum(importance[reachable])
    return Pick(
        people=tuple(table.index[chosen].tolist()),
        positions=tuple(chosen),
        importance=pd.Series(importance, index=table.columns, name="importance"),
        covered=tuple(str(name) for name in table.columns[sorted(covered)]),
        share=math.fsum(importance[sorted(covered)]) / everyone if everyone else None,
    )


def _greedy(shows: list[np.ndarray], importance: list[float], budget: int) -> tuple[list[int], set[int]]:
    """Rows by falling gain, and the features they cover. Gains only fall, so that an old one is a bound."""
    covered: set[int] = set()
    chosen: list[int] = []

    def gain(i: int) -> float:
        return math.fsum(importance[j] for j in shows[i] if j not in covered)  # (1); the same for the same features

    queue = [(-gain(i), i, 0) for i in range(len(shows))]  # and how many were chosen when it was computed
    heapq.heapify(queue)
    while queue and len(chosen) < budget:
        bound, i, when = heapq.heappop(queue)
        if when < len(chosen):
            heapq.heappush(queue, (-gain(i), i, len(chosen)))
            continue
        if bound >= 0:
            break  # nobody adds anything
        chosen.append(i)
        covered.update(shows[i].tolist())
    return chosen, covered


def _table(explanations: Attribution | pd.DataFrame | np.ndarray) -> pd.DataFrame:
    if isinstance(explanations, Attribution):
        table = explanations.values
    elif isinstance(explanations, pd.DataFrame):
        table = explanations
    else:
        array = np.asarray(explanations)
        if array.ndim != 2:
            raise ExplainError(f"weights of shape {array.shape}.", hint="pass (people, features).")
        table = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])
    try:
        finite = bool(np.isfinite(table.to_numpy(dtype=np.float64)).all())
    except (TypeError, ValueError):
        finite = False
    if table.empty or not finite:
        raise ExplainError(
            f"{table.shape[0]} x {table.shape[1]} weights, not all of them finite numbers.",
            hint="pass at least one person and one feature, and no NaN.",
        )
    return table
