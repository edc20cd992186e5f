"""RecourseBuilder: collects statuses, options and reasons chunk by chunk, and wraps them into a Recourse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from turnabout.core.chunk import Verified
from turnabout.core.problem import Problem
from turnabout.core.result import (
    NUMBERS,
    PLANS,
    STEPS,
    Proposal,
    Recourse,
    Status,
    empty_plans,
    empty_steps,
    empty_waived,
)
from turnabout.core.run import Run
from turnabout.schema import Category
from turnabout.typing import Tensor

NOT_ASKED = ("", np.nan, 0, "", "")
WHY = ("reason", "best_margin", "asked", "binding", "proof")


@dataclass(frozen=True)
class Ended:
    """How the search of a chunk ended: by itself, or early, which is what those without an option are told."""

    asked: int  # rows for each person
    status: Status | None = None  # None where it ended by itself
    reason: str = ""

    @classmethod
    def of(cls, run: Run, before: Run, people: int) -> Ended:
        """What happened since `before`, a copy of the run made as the search began."""
        asked = (run.asked - before.asked) // people
        if failed := run.failed - before.failed:
            rows = run.asked - before.asked
            return cls(asked, Status.FAILED, f"the model failed on {failed} of {rows} rows asked: {run.failure}")
        if run.late or run.cut:
            late = "the time limit passed before an accepted row was found; allow more time."
            return cls(asked, Status.UNFINISHED, late)
        if run.skipped > before.skipped:
            return cls(asked, Status.UNFINISHED, "the query limit was reached before an accepted row was found.")
        return cls(asked)


class RecourseBuilder:
    """An answer in the making, for the people of one table."""

    def __init__(self, problem: Problem, table: pd.DataFrame):
        self.problem = problem
        self.table = table
        self.status = np.full(len(table), Status.NOT_FOUND, dtype=object)
        self.options: list[pd.DataFrame] = []
        self.owner: list[np.ndarray] = []
        self.plans: list[pd.DataFrame] = []
        self.steps: list[pd.DataFrame] = []
        self.why: dict[int, tuple[str, float, int, str, str]] = {}
        self.limits: dict[int, str] = {}  # of single people, in words

    def without(self, rows: np.ndarray, status: Status, reason: str) -> None:
        """Enter people who have no option, and why."""
        self.status[rows] = status
        for row in rows:
            self.why[int(row)] = (reason, np.nan, 0, "", "")

    def impossible(self, rows: np.ndarray, proof: str) -> None:
        self.status[rows] = Status.IMPOSSIBLE
        for row in rows:
            limits = [text for text in (self.limits.get(int(row), ""), *self.problem.schema.reaches()) if text]
            binds = f"limits: {'; '.join(limits)}" if limits else ""
            self.why[int(row)] = ("no allowed row is accepted.", np.nan, 0, binds, proof)

    def add(self, rows: np.ndarray, x: Tensor, verified: Verified, proposal: Proposal, ended: Ended) -> None:
        """Enter one chunk: rows are places in the table, x (n, d) their encoded selves."""
        found = self.enter(rows, verified)
        proved = np.zeros(len(rows), dtype=bool)
        if proposal.impossible is not None:
            proved = proposal.impossible.cpu().numpy() & ~found
        for i in np.flatnonzero(proved):
            self.impossible(rows[[i]], proposal.proof.get(int(i), "shown by the method."))
        short = np.flatnonzero(~found & ~proved)
        if len(short):
            nothing = self._nothing(proposal)
            self._explain(rows, short, x, verified, ended, nothing)

    def enter(self, rows: np.ndarray, verified: Verified) -> np.ndarray:
        """Enter the options of one chunk; (n,) True for people who have one."""
        found = np.zeros(len(rows), dtype=bool)
        entered = sum(map(len, self.options))
        for part, steps in zip(verified.plans, verified.steps, strict=True):
            self.plans.append(part.assign(place=entered + np.arange(len(part))))
            self.steps.append(steps.assign(place=entered + steps["place"]))
            entered += len(part)
        for part, owner in zip(verified.rows, verified.owner, strict=True):
            found[owner] = True
            self.options.append(part)
            self.owner.append(rows[owner])
        self.status[rows[found]] = Status.FOUND
        for row in rows[found]:
            self.why.pop(int(row), None)  # of an earlier, less complete search
        return found

    def _nothing(self, proposal: Proposal) -> str:
        """What to say when not one allowed row was proposed."""
        if proposal.plans is not None:
            return "no plan whose steps can all be taken was found; look at the actions' conditions and the rules."
        if self.problem.rules:
            return "no row that keeps all rules was found; look at the rules."
        return "the search proposed no row."

    def _explain(
        self, rows: np.ndarray, short: np.ndarray, x: Tensor, verified: Verified, ended: Ended, nothing: str
    ) -> None:
        index = torch.as_tensor(short, device=x.device)
        binding = self._binding(x[index], verified.best[index], rows[short])
        margins = verified.best_margin[index].cpu().numpy()
        for i, margin, binds in zip(short, margins, binding, strict=True):
            status = Status.NOT_FOUND
            if ended.status is not None:
                status, reason = ended.status, ended.reason
            elif not np.isfinite(margin):
                reason = nothing
            elif margin >= 0:
                reason = "rows were accepted only on the very boundary, or not as printed; use finer steps."
            else:
                reason = f"the best allowed row found is refused by {-margin:.4g}; see what binds."
            self.status[rows[i]] = status
            asked = ended.asked + self.why.get(int(rows[i]), NOT_ASKED)[2]  # in narrower searches too
            self.why[int(rows[i])] = (reason, float(margin) if np.isfinite(margin) else np.nan, asked, binds, "")

    def _binding(self, x: Tensor, best: Tensor, rows: np.ndarray) -> list[str]:
        """What holds the best row back: features at their limit, features that may not change, rules broken."""
        schema = self.problem.schema
        lo, hi = self.problem.bounds(x)
        broken = {rule.name: (rule.violation(x, best) > 0).cpu().numpy() for rule in self.problem.rules}
        fixed = ", ".join(f.title for f in schema if f.moves == "fixed")
        at_limit = {}
        for feature, s in zip(schema.features, schema.slices, strict=True):
            if isinstance(feature, Category) or feature.moves == "fixed":
                continue
            own, there = x[:, s.start], best[:, s.start]
            limit = ((there - hi[:, s.start]).abs() < 1e-9) & (there > own) | (
                (there - lo[:, s.start]).abs() < 1e-9
            ) & (there < own)
            at_limit[feature.title] = limit.cpu().numpy()
        texts = []
        for i in range(len(x)):
            parts = []
            if names := [name for name, limit in at_limit.items() if limit[i]]:
                parts.append(f"at their limit: {', '.join(names)}")
            if fixed:
                parts.append(f"may not change: {fixed}")
            if said := self.limits.get(int(rows[i])):
                parts.append(f"limits: {said}")
            if names := [name for name, bad in broken.items() if bad[i]]:
                parts.append(f"rules: {'; '.join(names)}")
            texts.append("; ".join(parts))
        return texts

    def collect(self, people: pd.DataFrame, made_by: str, seconds: float, ranked: bool) -> Recourse:
        """The finished answer; options of a person stand by cost when ranked, else as they were entered."""
        index = self.table.index
        status = pd.Series([Status(s) for s in self.status], index=index, name="status", dtype=object)
        places = sorted(self.why)
        why = pd.DataFrame([self.why[p] for p in places], columns=list(WHY), index=index[places])
        why = why.astype({"best_margin": float, "asked": int}).rename_axis("person")
        given = people.set_axis(people.columns.map(str), axis=1)
        given = given.loc[:, ~given.columns.duplicated()].copy()
        options, position = self._options(ranked)
        steps, plans = self._steps(options.index, position), self._plans(options.index, position)
        yes, waived = self.problem.model.rule, self._waived(options)
        derived = tuple(f.name for f in self.problem.schema.identities.derived)
        return Recourse(given, options, status, why, made_by, seconds, steps, plans, yes, waived, derived)

    def _waived(self, options: pd.DataFrame) -> pd.DataFrame:
        """Which options do without a rule that could not be checked."""
        rules = [rule for rule in self.problem.rules if rule.waivable]
        if not rules or not len(options):
            return empty_waived()
        place = self.table.index.get_indexer(options.index.get_level_values("person"))
        own = self.table.iloc[place]
        x, x_new = (self.problem.schema.read(table).x for table in (own, options))
        waived = np.column_stack([rule.waived(x, x_new).cpu().numpy() for rule in rules])
        texts = ["; ".join(rule.name for rule, which in zip(rules, row, strict=True) if which) for row in waived]
        table = pd.DataFrame({"rule": texts}, index=options.index, dtype=object)
        return table.iloc[np.flatnonzero(waived.any(1))]

    def _plans(self, index: pd.Index, position: np.ndarray) -> pd.DataFrame:
        """The plans in the order of their options; position says where the option entered as i-th stands now."""
        if not self.plans:
            return empty_plans()
        table = pd.concat(self.plans)
        where = position[table["place"].to_numpy()]
        order = np.argsort(where)
        return table.iloc[order][list(PLANS)].set_axis(index[where[order]])

    def _steps(self, index: pd.Index, position: np.ndarray) -> pd.DataFrame:
        if not self.steps:
            return empty_steps()
        table = pd.concat(self.steps)
        where = position[table["place"].to_numpy()]
        order = np.lexsort((table["step"], where))
        table, keys = table.iloc[order], index[where[order]]
        levels = [keys.get_level_values("person"), keys.get_level_values("option"), table["step"].to_numpy()]
        return table[list(STEPS)].set_axis(pd.MultiIndex.from_arrays(levels, names=["person", "option", "step"]))

    def _options(self, ranked: bool) -> tuple[pd.DataFrame, np.ndarray]:
        """All options in their final order, and where in it the option entered as i-th stands."""
        names = ["person", "option"]
        if not any(len(part) for part in self.options):
            empty = self.table.iloc[:0].assign(**{n: pd.Series(dtype=float) for n in NUMBERS})
            keys = pd.MultiIndex.from_arrays([self.table.index[:0], np.zeros(0, int)], names=names)
            return empty.set_axis(keys), np.zeros(0, int)
        kept = [(p, o) for p, o in zip(self.options, self.owner, strict=True) if len(p)]
        table = pd.concat([p for p, _ in kept])
        owner = np.concatenate([o for _, o in kept])
        order = np.lexsort((table["cost"], owner)) if ranked else np.argsort(owner, kind="stable")
        table, owner = table.iloc[order], owner[order]
        first = np.searchsorted(owner, owner)
        keys = pd.MultiIndex.from_arrays([self.table.index[owner], np.arange(len(owner)) - first], names=names)
        return table.set_axis(keys), np.argsort(order)
