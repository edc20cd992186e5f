"""Who is worst off? A search over combinations of conditions, with an interval that the search does not bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.disparity import Difference
from turnabout.audit.estimate import Estimate
from turnabout.audit.fairness.contrasts import MeanDifference, difference_of
from turnabout.audit.fairness.outcomes import EXECUTION_NOISE, SHARES, Measure, Noise, outcomes
from turnabout.audit.fairness.subgroup_conditions import SubgroupCondition, columns_of, conditions
from turnabout.core import Problem, Recourse
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Share, Whole, checked
from turnabout.schema import as_frame

MOST_SUBGROUPS = 20_000_000  # conjunctions that may have to be looked at


@dataclass(frozen=True)
class Subgroup(Document):
    """The subgroup that a search found worst off, and what the other half of the people says about it.

    Attributes
    ----------
    conditions : that hold for its people, all of them; empty where there was no subgroup to look at.
    what : the measure.
    value : the measure in the subgroup, on the half that was not searched: the interval is valid.
    difference : the same minus everyone else's, on that half; None without a subgroup.
    searched : the measure in the subgroup on the searched half. It was chosen to look bad there: no interval.
    looked : how many subgroups of at least `least` counted people were looked at.
    people : how many counted people belong to it, both halves together.
    counted : how many people count for the measure at all.
    least, depth : fewest people and most conditions of a subgroup.
    """

    conditions: tuple[SubgroupCondition, ...]
    what: str
    value: Rate | Estimate
    difference: Difference | MeanDifference | None
    searched: float | None
    looked: int
    people: int
    counted: int
    least: int
    depth: int

    keys = "conditions what value difference is_worse searched looked people counted least depth"

    @property
    def name(self) -> str:
        """In words: "age <= 25 & housing = rent"."""
        return " & ".join(str(condition) for condition in self.conditions)

    @property
    def is_worse(self) -> bool | None:
        """Whether the interval of the difference, on the half that was not searched, leaves out 0 on the worse side."""
        gap = self.difference
        if gap is None or gap.low is None or gap.high is None or gap.value is None:
            return None
        return gap.high < 0 if isinstance(self.value, Rate) else gap.low > 0

    def holds(self, table: Any) -> np.ndarray:
        """(n,) True for the people of a table who belong to the subgroup; nobody where there is none."""
        frame = as_frame(table)
        out = np.full(len(frame), bool(self.conditions))
        for condition in self.conditions:
            out &= condition.holds(frame)
        return out

    _repr_html_ = report_html

    def __str__(self) -> str:
        if not self.conditions:
            return (
                f"no subgroup of at least {self.least} people, of the {self.counted} who count for {self.what}, within "
                f"{self.depth} conditions"
            )
        verdict = {True: "worse off than everyone else", False: "not shown to be worse off", None: "not compared"}
        worst = f"{'lowest' if isinstance(self.value, Rate) else 'highest'} {self.what}"
        return (
            f"{worst} among {self.looked} subgroups, looked at on one half of the people: {self.name} "
            f"({self.people} of {self.counted} people)\n  on the other half: {self.value}; "
            f"minus everyone else {self.difference}: {verdict[self.is_worse]}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Three lines: the measure on the searched half, on the other half, and the difference there."""
        gap = self.difference
        rows = [
            ("searched half", self.searched, None, None),
            ("other half", self.value.value, self.value.low, self.value.high),
            ("difference", None, None, None) if gap is None else ("difference", gap.value, gap.low, gap.high),
        ]
        table = pd.DataFrame(rows, columns=["where", "value", "low", "high"])
        return table.astype(dict.fromkeys(("value", "low", "high"), "Float64"))


def worst_subgroup(
    problem: Problem,
    answer: Recourse,
    columns: Any = None,
    *,
    measure: Measure = "availability",
    depth: int = 2,
    least: int = 50,
    bins: int = 4,
    noise: Noise | None = EXECUTION_NOISE,
    seed: int = 0,
    confidence: float = 0.95,
) -> Subgroup:
    """The subgroup of refused people for whom recourse is worst, by one measure; see `worst_of` for the search.

    Parameters
    ----------
    answer : to this problem, of any method.
    columns : what subgroups are made of: names of columns of the people, or a table of other attributes with the
        people's index; None for all features.
    measure : availability and robustness are worst where they are low; cost, changes, steps, duration where high.
    noise : execution noise, used by the measure "robustness" alone.
    """
    told = outcomes(problem, answer, noise if measure == "robustness" else None, seed)
    table = columns_of(answer, columns)
    return worst_of(
        told.of(measure),
        table,
        what=measure,
        is_share=measure in SHARES,
        depth=depth,
        least=least,
        bins=bins,
        seed=seed,
        confidence=confidence,
    )


@checked(
    AuditError,
    depth=Whole(1),
    least=Whole(2),
    bins=Whole(2),
    seed=Whole(0),
    confidence=Share(above=0, below=1),
)
def worst_of(
    values: np.ndarray,
    table: pd.DataFrame,
    *,
    what: str = "value",
    is_share: bool = False,
    depth: int = 2,
    least: int = 50,
    bins: int = 4,
    seed: int = 0,
    confidence: float = 0.95,
) -> Subgroup:
    r"""The worst-off subgroup by any number per person: every conjunction of conditions, looked at on half the people.

    A random half of the people who count is searched. With m_g the mean of the n_g members of a subgroup there, s the
    deviation over the half, and M the number of subgroups looked at, the one with the worst bound is taken, for shares

        argmin over g   m_g + s sqrt(2 log M / n_g)                                                              (1)

    (for means the highest m_g less the same): a mean alone would pick the smallest subgroup, as the square root is how
    far the worst of M goes by chance. The other half then measures the subgroup that was picked. It had no part in the
    choice, so that the interval is as valid as for a group named beforehand; that is paid for with half of the people.
    It is the worst that the search could make sure of; a smaller or deeper subgroup may be worse off.

    Which half a person is in depends on the seed and on the index labels of the table; if these are unique, not on the
    order of its rows.

    Parameters
    ----------
    values : (n,) one number per person, NaN for people who do not count.
    table : (n rows) indexed by people. Conditions are the levels of its columns of text, categories and booleans, the
        two sides of the bins - 1 quantiles of its columns of numbers, and missing cells. Two sides of one number make a
        range.
    what : name of the number, for the report.
    is_share : whether the values are shares from 0 to 1, of which a low mean is worse; otherwise a high mean is.
    depth : most conditions of a subgroup.
    least : fewest people, of those who count, in a subgroup.
    """
    values = _numbers(values, table, is_share)
    order = np.argsort(pd.util.hash_pandas_object(table.index, index=False).to_numpy(), kind="stable")
    counted = order[~np.isnan(values[order])]  # in an order that is the people's own
    values, table = values[counted], table.iloc[counted]
    atoms = conditions(table, bins)
    if _is_too_many(len(atoms), depth):
        raise AuditError(
            f"depth={depth} makes too many subgroups of {len(atoms)} conditions to look at them all.",
            hint="use a smaller depth, fewer columns or fewer bins.",
        )
    masks = np.stack([atom.holds(table) for atom in atoms]) if atoms else np.zeros((0, len(table)), dtype=bool)
    return _measured(values, atoms, masks, what, is_share, depth, least, seed, confidence)


def _numbers(values: Any, table: pd.DataFrame, is_share: bool) -> np.ndarray:
    """(n,) one number for each row of a table, or NaN."""
    if not isinstance(table, pd.DataFrame):
        raise AuditError(f"the table is a {type(table).__name__}.", hint="give a DataFrame with one row per person.")
    if not table.columns.is_unique:
        raise AuditError("two columns of the table share a name.", hint="give each column its own name.")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.full(len(table), np.inf)
    if np.isinf(numbers).any():
        raise AuditError("the values hold what is no number.", hint="give one per person, NaN for who does not count.")
    if numbers.shape != (len(table),):
        raise AuditError(
            f"there are {numbers.size} numbers for the {len(table)} rows of the table.", hint="give one per person."
        )
    if is_share and ((numbers < 0) | (numbers > 1)).any():
        raise AuditError("the values are no shares.", hint="give numbers from 0 to 1, or leave is_share= out.")
    return numbers


def _is_too_many(conditions: int, depth: int) -> bool:
    """Whether the conjunctions of up to `depth` conditions are more than can be looked at."""
    total = 0
    for size in range(1, min(depth, conditions) + 1):
        total += math.comb(conditions, size)
        if total > MOST_SUBGROUPS:
            return True
    return False


def _measured(
    values: np.ndarray,
    atoms: list[SubgroupCondition],
    masks: np.ndarray,
    what: str,
    is_share: bool,
    depth: int,
    least: int,
    seed: int,
    confidence: float,
) -> Subgroup:
    """Search one half of the n people, measure on the other; masks (m, n) say for whom each condition holds."""
    searched = np.zeros(len(values), dtype=bool)
    searched[np.random.default_rng(seed).permutation(len(values))[: len(values) // 2]] = True
    best, looked = _search(masks, values if is_share else -values, searched, depth, least)
    chosen = tuple(atoms[i] for i in best)
    inside = masks[list(best)].all(0) if best else np.zeros(len(values), dtype=bool)
    mine, others = values[inside & ~searched], values[~inside & ~searched]
    return Subgroup(
        chosen,
        what,
        Rate.among(mine, confidence) if is_share else Estimate.mean(mine, confidence),
        difference_of(mine, others, is_share, confidence) if chosen else None,
        float(values[inside & searched].mean()) if chosen else None,
        looked,
        int(inside.sum()),
        len(values),
        least,
        depth,
    )


def _search(
    masks: np.ndarray, values: np.ndarray, searched: np.ndarray, depth: int, least: int
) -> tuple[tuple[int, ...], int]:
    """(the subgroup with the lowest bound (1), how many were looked at); masks (m, n), values of which low is worse."""
    found: list[tuple[int, ...]] = []
    means: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    frontier: list[tuple[int, ...]] = [()]
    add = np.stack([np.ones(len(values)), searched, values * searched], axis=1)  # (n, 3)
    for _ in range(min(depth, len(masks))):
        grown: list[tuple[int, ...]] = []
        for stem in frontier:
            inside = masks[list(stem)].all(0) if stem else np.ones(masks.shape[1], dtype=bool)
            start = stem[-1] + 1 if stem else 0
            rest = masks[start:, inside].astype(np.float64)
            people, n, total = (rest @ add[inside]).T
            new = people < inside.sum()  # a condition that everyone there meets adds nothing
            enough = np.flatnonzero((people >= least) & (n >= 1) & new)
            leaves = [(*stem, int(start + j)) for j in enough]
            found += leaves
            grown += leaves
            means.append(total[enough] / n[enough])
            sizes.append(n[enough])
        frontier = grown
    if not found:
        return (), 0
    spread = float(values[searched].std())
    bound = np.concatenate(means) + spread * np.sqrt(2.0 * math.log(len(found)) / np.concatenate(sizes))  # (1)
    return found[int(np.argmin(bound))], len(found)
