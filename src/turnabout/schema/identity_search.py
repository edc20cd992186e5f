"""Find columns that are computed from others, by trying exact relations on the rows of a table.

    t = k a    t = k a / b    t = k a b    t = a + b    t = a - b    t = a + b - c + ...    t = [a >= c]
    t = [a is at a level]

A relation counts where it holds for nearly all rows, and for nearly all in which t is not at its commonest value, to
within the rounding of t. Of the columns in a relation, the one with most decimals is taken for the computed one, of
equals the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from turnabout.schema.formula import Formula, quoted

HOLDS = 0.99  # share of the rows for which a relation must hold
ROWS = 4000  # looked at
FIRST = 32  # rows that sort out nearly all relations
DIFFERENT = 8  # different values that t must have, for a relation to be no accident
BOTH = 20  # rows on each side of a threshold, or with and without a level
MOST = 80  # columns among which all pairs are tried
TERMS = 12  # columns that a sum may have
DECIMALS = 6
EXACT = 1e-7  # relative error of a relation between numbers that are not rounded
FACTORS = {1.0: "", 100.0: "100 * ", 12.0: "12 * ", 1000.0: "1000 * ", 0.01: "0.01 * ", 1 / 12: "1 / 12 * "}


@dataclass(frozen=True)
class Relation:
    """A column that follows: its formula, its decimals (None: not rounded), and the share of rows that keep it."""

    target: str
    formula: str
    decimals: int | None
    share: float


def find_relations(columns: Mapping[str, np.ndarray], levels: Mapping[str, np.ndarray] | None = None) -> list[Relation]:
    """Relations among numeric columns (n,), NaN where missing; a column follows from others at most once.

    levels : columns of texts, of which a column of 0 and 1 may be a dummy.
    """
    return _Search(columns, levels or {}).relations()


class _Search:
    def __init__(self, columns: Mapping[str, np.ndarray], levels: Mapping[str, np.ndarray]):
        count = len(next(iter(columns.values()), np.zeros(0)))
        some = np.arange(count) if count <= ROWS else np.random.default_rng(0).choice(count, ROWS, replace=False)
        self.table = {n: np.asarray(v, dtype=float)[some] for n, v in columns.items()}
        self.levels = {n: np.asarray(v, dtype=object)[some] for n, v in levels.items()}
        self.table = {n: v for n, v in self.table.items() if len(np.unique(v[np.isfinite(v)])) > 1}
        self.decimals = {n: _decimals(v) for n, v in self.table.items()}
        self.found: dict[str, Relation] = {}

    def relations(self) -> list[Relation]:
        order = {
            n: (DECIMALS + 1 if self.decimals[n] is None else self.decimals[n], i) for i, n in enumerate(self.table)
        }
        for target in sorted(self.table, key=lambda n: order[n], reverse=True):
            values = self.table[target]
            kinds = np.unique(values[np.isfinite(values)])
            tried: tuple[Callable[[str], Iterator[str]], ...] = ()
            if len(kinds) >= DIFFERENT:
                tried = (self._multiples, self._pairs, self._sums)
            elif set(kinds) <= {0.0, 1.0}:
                tried = (self._thresholds, self._dummies)
            for kind in tried:
                if any(self._enter(target, formula) for formula in kind(target)):
                    break
        return [self.found[n] for n in self.table if n in self.found]

    def _enter(self, target: str, text: str) -> bool:
        """Note a relation if it holds, and makes no circle of those that are noted."""
        formula = Formula(text)
        if any(target in self._behind(parent) for parent in formula.parents):
            return False
        share = self._share(target, formula)
        if share < HOLDS:
            return False
        self.found[target] = Relation(target, text, self.decimals[target], share)
        return True

    def _behind(self, name: str) -> set[str]:
        """A column and all that it follows from."""
        if name not in self.found:
            return {name}
        return {name}.union(*(self._behind(p) for p in Formula(self.found[name].formula).parents))

    def _share(self, target: str, formula: Formula) -> float:
        """The share of rows that keep a relation: of all, or of those off the commonest value, whichever is less."""
        import torch

        cells: dict[str, torch.Tensor] = {n: torch.from_numpy(v) for n, v in self.table.items()}
        for name, column in self.levels.items():
            cells |= {
                f"{name}={level}": torch.from_numpy((column == level).astype(float)) for level in set(column.tolist())
            }
        value, t = formula.compute(cells).numpy(), self.table[target]
        known = np.isfinite(t)
        for name in formula.parents:
            known &= np.isfinite(self.table[name]) if name in self.table else True
        if known.sum() < BOTH:
            return 0.0
        near = np.abs(value - t) <= self._tolerance(target, t)
        near &= np.isfinite(value)
        kinds, count = np.unique(t[known], return_counts=True)
        rare = known & (t != kinds[count.argmax()])
        return float(min(near[known].mean(), near[rare].mean() if rare.sum() >= DIFFERENT else 0.0))

    def _tolerance(self, target: str, t: np.ndarray) -> np.ndarray:
        places = self.decimals[target]
        rounding = 0.0 if places is None else 0.5 * 10.0**-places * (1 + 1e-6)
        return rounding + EXACT * np.abs(t)

    def _others(self, target: str) -> list[str]:
        return [n for n in self.table if n != target]

    def _first(self, target: str, names: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some rows, mostly those off the commonest value of t: t (r,), its tolerance (r,), other columns (m, r)."""
        t = self.table[target]
        kinds, count = np.unique(t[np.isfinite(t)], return_counts=True)
        rows = np.flatnonzero(np.isfinite(t) & (t != kinds[count.argmax()]))[:FIRST]
        return t[rows], self._tolerance(target, t[rows]), np.array([self.table[n][rows] for n in names])

    def _multiples(self, target: str) -> Iterator[str]:
        names = self._others(target)
        t, near, others = self._first(target, names)
        for name, a in zip(names, others):
            some = np.isfinite(a) & (a != 0)
            if some.sum() < DIFFERENT:
                continue
            factor = float(f"{np.median(t[some] / a[some]):.6g}")
            if factor and (np.abs(factor * a - t) <= near)[np.isfinite(a)].mean() >= 0.9:
                yield quoted(name) if factor == 1 else f"{factor:g} * {quoted(name)}"

    def _pairs(self, target: str) -> Iterator[str]:
        names = self._others(target)
        if not 2 <= len(names) <= MOST:
            return
        t, near, a = self._first(target, names)
        with np.errstate(all="ignore"):
            tables = {"/": a[:, None] / a[None], "*": a[:, None] * a[None]}
            tables |= {"+": a[:, None] + a[None], "-": a[:, None] - a[None]}
            for sign, value in tables.items():
                for factor, text in FACTORS.items() if sign in "/*" else ((1.0, ""),):
                    good = np.abs(factor * value - t) <= near
                    unknown = ~np.isfinite(value)
                    share = good.sum(2) / np.maximum((~unknown).sum(2), 1)
                    share[(~unknown).sum(2) < DIFFERENT] = 0
                    np.fill_diagonal(share, 0)
                    for i, j in zip(*np.nonzero(share >= 0.9)):
                        if sign in "/-" or i < j:
                            yield f"{text}{quoted(names[i])} {sign} {quoted(names[j])}"

    def _sums(self, target: str) -> Iterator[str]:
        names = [n for n in self._others(target) if n not in self.found]
        if not 2 <= len(names) <= 3 * MOST:
            return
        parts = np.column_stack([self.table[n] for n in names])
        known = np.isfinite(parts).all(1) & np.isfinite(self.table[target])
        if known.sum() < 3 * len(names):
            return
        scale = np.abs(parts[known]).max(0)
        scale[scale == 0] = 1.0  # 0 wherever all are known
        weights = np.linalg.lstsq(parts[known] / scale, self.table[target][known], rcond=None)[0] / scale
        whole = np.rint(weights)
        if not 2 <= (whole != 0).sum() <= TERMS or np.abs(whole).max() > 1:
            return
        signed = [(w, quoted(n)) for w, n in zip(whole, names) if w]
        signed.sort(key=lambda part: -part[0])
        text = " ".join(f"{'+' if w > 0 else '-'} {n}" for w, n in signed)
        yield text.removeprefix("+ ")

    def _thresholds(self, target: str) -> Iterator[str]:
        t = self.table[target]
        for name in self._others(target):
            a = self.table[name]
            known = np.isfinite(a) & np.isfinite(t)
            no, yes = a[known & (t == 0)], a[known & (t == 1)]
            if min(len(no), len(yes)) < BOTH or len(np.unique(a[known])) < DIFFERENT:
                continue
            if no.max() < yes.min():
                yield f"{quoted(name)} >= {yes.min():.12g}"
            elif yes.max() < no.min():
                yield f"{quoted(name)} <= {yes.max():.12g}"

    def _dummies(self, target: str) -> Iterator[str]:
        t = self.table[target]
        for name, column in self.levels.items():
            for level in dict.fromkeys(column[t == 1].tolist()):
                here = column == level
                said = isinstance(level, str) and '"' not in level and BOTH <= here.sum() <= len(here) - BOTH
                if said and (here == (t == 1)).all():
                    yield f'{quoted(name)} == "{level}"'


def _decimals(values: np.ndarray) -> int | None:
    """Decimals with which all values are written; None where they are not rounded."""
    there = values[np.isfinite(values)]
    for places in range(DECIMALS + 1):
        if (np.abs(there - np.round(there, places)) <= 1e-9 * np.maximum(1, np.abs(there))).all():
            return places
    return None
