"""How many people have recourse, each share with its interval, for everyone and for each group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core import Recourse, Status
from turnabout.documents import Document
from turnabout.errors import TurnaboutError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.typing import Json


@dataclass(frozen=True)
class RecourseRates(Document):
    """Shares of people with recourse, in one answer.

    Attributes
    ----------
    refused : share of refused people with an option ("recourse neg"); unknown where nobody was refused.
    everyone : share of all people who are accepted or have an option ("recourse all").
    by_group : the same within each group.
    """

    refused: Rate
    everyone: Rate
    by_group: dict[Hashable, RecourseRates] = field(default_factory=dict)

    _repr_html_ = report_html

    def __str__(self) -> str:
        lines = [f"recourse among the refused: {self.refused}", f"accepted or with recourse:  {self.everyone}"]
        for group, rates in self.by_group.items():
            lines.append(f"  {group}: refused {rates.refused}; everyone {rates.everyone}")
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """Plain values for JSON; groups by the text of their labels, where there are any."""
        return {name: part for name, part in super().to_dict().items() if name != "by_group" or part}

    def to_frame(self) -> pd.DataFrame:
        """One line per group and metric: group (None for all), metric, value, low, high, n."""
        rows = []
        for group, rates in [(None, self), *self.by_group.items()]:
            for metric, rate in (("refused", rates.refused), ("everyone", rates.everyone)):
                rows.append((group, metric, rate.value, rate.low, rate.high, rate.n))
        table = pd.DataFrame(rows, columns=["group", "metric", "value", "low", "high", "n"])
        return table.astype({"value": "Float64"})


def recourse_rates(answer: Recourse, groups: Any = None) -> RecourseRates:
    """Shares of people with recourse: among the refused, among everyone, and by group.

    People whose row could not be read, or about whom the model had no answer, are left out.

    The published figures count "recourse neg" as 1 where nobody is refused; here it is unknown.

    Parameters
    ----------
    answer : of any method on any model.
    groups : one label per person: a Series with the people's index, or values in the people's order.
    """
    accepted = (answer.status == Status.ACCEPTED).to_numpy(dtype=bool)
    found = (answer.status == Status.FOUND).to_numpy(dtype=bool)
    refused = answer.refused.to_numpy(dtype=bool)
    by_group = {}
    for label, inside in members(groups, answer.people.index).items():
        by_group[label] = _rates(accepted[inside], refused[inside], found[inside])
    whole = _rates(accepted, refused, found)
    return RecourseRates(whole.refused, whole.everyone, by_group)


def _rates(accepted: np.ndarray, refused: np.ndarray, found: np.ndarray) -> RecourseRates:
    return RecourseRates(Rate.among(found[refused]), Rate.among((accepted | found)[accepted | refused]))


def members(groups: Any, index: pd.Index) -> dict[Hashable, np.ndarray]:
    """Label -> (n,) True for the people of that group; {} for None. Unused levels of a categorical are empty groups."""
    if groups is None:
        return {}
    column = one_label_each(groups, index)
    if column.isna().any():
        first = index[column.isna().to_numpy()].tolist()[0]
        raise TurnaboutError(
            f"person {first!r} belongs to no group: the label is missing.",
            hint="name the unknown, for example groups.fillna('unknown').",
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {label: (column.cat.codes == code).to_numpy() for code, label in enumerate(column.cat.categories)}
    try:
        codes, labels = pd.factorize(column)
    except TypeError:
        raise TurnaboutError(
            "the group labels cannot be told apart: some are lists or the like.", hint="use text or numbers as labels."
        ) from None
    inside = {label: codes == code for code, label in enumerate(labels.tolist())}
    try:
        return {label: inside[label] for label in sorted(inside, key=lambda label: (str(type(label)), label))}
    except TypeError:  # of one type, and without an order
        return {label: inside[label] for label in sorted(inside, key=lambda label: (str(type(label)), str(label)))}


def one_label_each(groups: Any, index: pd.Index) -> pd.Series:
    """One label per person in the people's order."""
    if isinstance(groups, pd.Series):
        if groups.index.has_duplicates:
            raise TurnaboutError("two group labels share an index label.", hint="give one label per person.")
        absent = index.difference(groups.index).tolist()
    elif isinstance(groups, Mapping):
        absent = [person for person in index if person not in groups]
    else:
        return pd.Series(_in_order(groups, len(index)), index=index)
    if absent:
        raise TurnaboutError(
            f"person {absent[0]!r} has no group label.",
            hint="index the labels as the people are, or pass plain values.",
        )
    if isinstance(groups, pd.Series):
        return groups.reindex(index)
    return pd.Series([groups[person] for person in index], index=index)


def _in_order(groups: Any, n: int) -> list[Any] | pd.Categorical:
    """Labels without an index, one for each of n people."""
    if isinstance(groups, (str, bytes, set, frozenset, pd.DataFrame)) or not isinstance(groups, Iterable):
        raise TurnaboutError(
            f"groups={f'<a {type(groups).__name__}>' if isinstance(groups, pd.DataFrame) else repr(groups)} gives no "
            "label per person.",
            hint="pass one column, such as people['sex'].",
        )
    if isinstance(groups, np.ndarray) and groups.ndim != 1:
        raise TurnaboutError(f"groups have the shape {groups.shape}.", hint="give one label per person.")
    values = groups if isinstance(groups, pd.Categorical) else list(groups)  # whose levels without people are known
    if len(values) != n:
        raise TurnaboutError(f"there are {len(values)} group labels for {n} people.", hint="give one label per person.")
    return values
