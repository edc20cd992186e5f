"""Groups of people by labels: of one attribute or several, and of attributes crossed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.rates import members
from turnabout.errors import AuditError

MOST_GROUPS = 200  # of one attribute; more are numbers that somebody forgot to cut


@dataclass(frozen=True, eq=False)
class Group:
    """Who belongs to a group, (n,) bool."""

    attributes: tuple[str, ...]
    labels: tuple[Hashable, ...]
    inside: np.ndarray


def named_groups(groups: Any, index: pd.Index, crossed: int) -> Iterator[Group]:
    """Each group of each attribute, then of crossed ones."""
    if groups is None:
        raise AuditError(
            "groups=None gives no label per person.", hint="pass people['sex'], or a table of several columns."
        )
    if not isinstance(groups, pd.DataFrame):
        name = getattr(groups, "name", None)
        groups = {"group" if name is None else str(name): groups}
    elif not groups.shape[1]:
        raise AuditError("the table of groups has no columns.", hint="give at least one attribute.")
    elif len({str(name) for name in groups}) < groups.shape[1]:
        raise AuditError("two columns of groups share a name.", hint="give each attribute its own name.")
    attributes = {str(name): members(groups[name], index) for name in groups}
    for name, inside in attributes.items():
        if len(inside) > MOST_GROUPS:
            raise AuditError(
                f"the attribute '{name}' has {len(inside)} different labels, more than {MOST_GROUPS}.",
                hint="cut numbers into ranges first, for example by pandas.qcut(column, 4).",
            )
        yield from (Group((name,), (label,), mask) for label, mask in inside.items())
    for size in range(2, min(crossed, len(attributes)) + 1):
        for names in combinations(attributes, size):
            yield from _crossed(names, [attributes[name] for name in names])


def _crossed(names: tuple[str, ...], parts: list[dict[Hashable, np.ndarray]]) -> Iterator[Group]:
    """The combinations of labels that somebody has."""
    codes = np.stack([np.argmax(np.stack(list(part.values())), axis=0) for part in parts], axis=1)
    labels = [list(part) for part in parts]
    for row in np.unique(codes, axis=0):
        label = tuple(column[code] for column, code in zip(labels, row, strict=True))
        yield Group(names, label, (codes == row).all(1))
