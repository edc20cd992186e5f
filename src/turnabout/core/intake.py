"""The people of a table: read, judged and sorted into groups before the first search."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core.builder import RecourseBuilder
from turnabout.core.problem import Problem
from turnabout.core.result import Status
from turnabout.core.run import Run
from turnabout.documents.cells import is_single
from turnabout.errors import MethodError
from turnabout.models.column_types import is_nullable
from turnabout.models.derived import pinned
from turnabout.models.estimators import in_types
from turnabout.models.filled import bare
from turnabout.schema import Reading, as_frame
from turnabout.schema.raw_cells import is_missing
from turnabout.typing import Tensor

TIES = 256  # people on the boundary itself who are asked about alone; more of them are ties of a model with few values
TIE_TIME = 0.2  # share of the time limit that this may take
SURE = 30.0  # log-odds of a probability that differs from 0 or 1 by little more than rounding
AGREE = 1e-6  # share by which an encoded row's margin may differ from the original's


@dataclass(frozen=True)
class SearchGroup:
    """People who are searched together, and the decision maker as they know it."""

    problem: Problem
    rows: np.ndarray  # places among the people read
    complete: bool  # whether x represents all that the original sees of them: proofs need it
    later: int = 0  # wider searches that follow for those who have no option by then


@dataclass(frozen=True)
class Intake:
    """The people whose rows could be read, m of them; the others are entered in the builder."""

    problem: Problem
    builder: RecourseBuilder
    place: np.ndarray  # (m,) of each in the table as given
    table: pd.DataFrame  # (m rows) the schema's columns
    x: Tensor  # (m, d)
    margin: np.ndarray  # (m,) of the original; NaN where it gave none
    odd: np.ndarray  # (m, F) cells, fixed or missing, that x does not represent as the model sees them

    def groups(self, late: bool = False) -> Iterator[SearchGroup]:
        """The refused, in a canonical order: results may depend on a row's place in a batch, answers must not.

        People of whom x tells all are one group. The others are first searched like these, if at least their own row
        has the margin that x says. Those who have no option by then are searched with a decision maker who is asked
        about just their cells: the groups are to be searched one by one, as they come. Nobody is asked about when it is
        too late for a search.
        """
        refused = np.flatnonzero(self.margin < 0)
        refused = refused[np.lexsort(self.x[refused].cpu().numpy().T)]
        odd = refused[self.odd[refused].any(1)]
        if len(odd) and not late:
            fast = self.problem.ask(self.x[odd])[0].cpu().numpy()
            same = _agrees(self.problem, fast, self.margin[odd])
            plain = ~np.isin(refused, odd)
            yield SearchGroup(self.problem, refused[plain], complete=True)
            yield SearchGroup(self.problem, odd[same], complete=False)
            left = ~same | (self.builder.status[self.place[odd]] != Status.FOUND)
            yield from self._pinned(odd[left], fast[left])
        else:
            yield SearchGroup(self.problem, refused, complete=True)

    def _pinned(self, rows: np.ndarray, fast: np.ndarray) -> Iterator[SearchGroup]:
        """Groups of people who share their odd cells."""
        names = np.array(self.problem.schema.names, dtype=object)
        members: dict[tuple[object, ...], list[int]] = {}
        for i, row in enumerate(rows):
            own = [(name, self.table[name].iloc[int(row)]) for name in names[self.odd[row]]]
            key = tuple((name, type(cell).__name__, str(cell)) for name, cell in own)
            members.setdefault(key, []).append(i)
        for places in members.values():
            mine = rows[places]
            cells = self.table.iloc[mine[:1]][list(names[self.odd[mine[0]]])]
            effect = self.margin[mine] - fast[places]
            effect[_is_sure(self.problem, self.margin[mine])] = np.nan  # by how much is not known
            model = pinned(bare(self.problem.model), cells, effect)
            yield SearchGroup(self.problem.decided_by(model), mine, complete=True)


def as_people(people: Any) -> pd.DataFrame:
    """A table of people as a frame; refuses those in which people cannot be told apart by their labels."""
    given = as_frame(people)
    odd_label = given.index.dtype == object and any(isinstance(label, tuple) for label in given.index)
    if isinstance(given.index, pd.MultiIndex) or odd_label or given.index.hasnans:
        raise MethodError("people have an index of several levels, or with gaps.", hint="people.reset_index() first.")
    if not given.index.is_unique:
        twice = given.index[given.index.duplicated()][0]
        raise MethodError(f"two people share the index label {twice!r}.", hint="people.reset_index(drop=True)")
    return given


def take_in(problem: Problem, given: pd.DataFrame, device: str, run: Run) -> Intake:
    """Read and judge the people of a table; the builder records who cannot be read and who has no answer."""
    reading = problem.schema.read(given)
    builder = RecourseBuilder(problem, reading.table)
    lost = reading.unreadable.any(1) if problem.model.encoded else reading.lost
    for row in np.flatnonzero(lost):
        builder.without(np.array([row]), Status.UNREADABLE, reading.complaint(int(row)).message)
    place = np.flatnonzero(~lost)
    table = reading.readable(reading.table, place)
    margin, unanswered = problem.ask_original(table)
    _judge_ties(problem, table, margin, run)
    builder.status[place[margin >= 0]] = Status.ACCEPTED
    builder.without(place[np.isnan(margin)], Status.FAILED, "the model gives no number for this person's own row.")
    for i, error in unanswered.rows.items():
        builder.without(place[[i]], Status.FAILED, f"the model failed on this person's own row: {error.message}")
    _warn(builder, int(lost.sum()), len(unanswered))
    x = reading.x[torch.as_tensor(place)].to(device)
    asked = _in_their_precision(problem, table)
    odd = _odd(problem, reading, place)
    if not problem.model.encoded:
        odd |= _unlike(problem, table, x, margin)
    return Intake(asked, builder, place, table, x, margin, odd)


def _unlike(problem: Problem, table: pd.DataFrame, x: Tensor, margin: np.ndarray) -> np.ndarray:
    """(m, F) missing cells of people whose encoded row has another margin: their mark means more in another type."""
    absent = table.isna().to_numpy(dtype=bool, copy=True)
    if not problem.model.compiled:  # what a search asks is told from what was asked in types with <NA> alone
        absent &= [is_nullable(dtype) for dtype in table.dtypes]
    some = np.flatnonzero(absent.any(1) & np.isfinite(margin))
    if len(some):
        fast = problem.ask(x[torch.as_tensor(some, device=x.device)])[0].cpu().numpy()
        absent[some] &= ~_agrees(problem, fast, margin[some])[:, None]
    absent[~np.isfinite(margin)] = False
    return absent


def _agrees(problem: Problem, fast: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """(n,) whether encoded rows have the margins that the original gives the rows themselves."""
    near = np.abs(fast - margin) <= AGREE * (1 + np.abs(margin)) + problem.model.noise
    sure = _is_sure(problem, margin) & _is_sure(problem, fast) & ((fast < 0) == (margin < 0))
    return np.asarray(near | sure)


def _is_sure(problem: Problem, margin: np.ndarray) -> np.ndarray:
    """(n,) margins made of probabilities that are 0 or 1 but for rounding: they do not tell how sure a model is."""
    return (np.abs(margin) > SURE) & (problem.model.scale == "log-odds")


def _in_their_precision(problem: Problem, table: pd.DataFrame) -> Problem:
    """The question as the search must put it, so that it sees numbers as the original sees those of the people.

    Where the training table is not known, only the people say that numbers are in single precision: a cut may lie
    between 0.3 as a float and as a double, and sums in single precision depend on the other rows of a batch.
    """
    model = problem.model
    known = model.encoded or model.like is not None
    types = {} if known else {str(name): dtype for name, dtype in table.dtypes.items() if is_single(dtype)}
    return problem.decided_by(in_types(bare(model), types)) if types else problem


def _judge_ties(problem: Problem, table: pd.DataFrame, margin: np.ndarray, run: Run) -> None:
    """Ask again about people on the boundary itself, whose margin may depend on the other rows, as time allows.

    Where answers depend on the batch they are accepted only if they are so alone and among others, and count as refused
    while that is not known. Elsewhere they are judged as they are alone: it is a matter of the last bit.
    """
    alone, near = problem.model.alone, np.flatnonzero(np.abs(margin) <= problem.model.noise)
    if not alone and len(near) > TIES:
        return
    batch = margin[near]
    if alone:
        margin[near] = -problem.model.noise
    with run.within(TIE_TIME):
        for part in run.calls(len(near), "ties", first=1):
            rows = table.iloc[near[part]]
            margin[near[part]] = (
                np.minimum(batch[part], problem.ask_otherwise(rows)) if alone else problem.ask_alone(rows)
            )


def _odd(problem: Problem, reading: Reading, place: np.ndarray) -> np.ndarray:
    """(m, F) cells that the model looks at and x does not tell: unread ones, and marks of missing cells unlike
    those of the training table, or unlike NaN where that is not known."""
    schema, model = problem.schema, problem.model
    odd = reading.odd[place].copy()
    if model.encoded:
        return np.zeros_like(odd)
    like = model.like
    for f, feature in enumerate(schema.features):
        if feature.name not in model.columns:
            odd[:, f] = False
        elif feature.missing:
            column = reading.table[feature.name].iloc[place]
            trained = column.iloc[:0].astype(object) if like is None else like[feature.name]
            if is_nullable(column.dtype, trained.dtype) and not model.keeps_nullable:  # made plain before it is seen
                continue
            absent = column.isna().to_numpy(dtype=bool)
            usual = next((cell for cell in trained if is_missing(cell)), np.nan)
            if absent.any():
                odd[absent, f] = [type(cell) is not type(usual) for cell in column[absent]]
    return odd


def _warn(builder: RecourseBuilder, unreadable: int, failed: int) -> None:
    """Say once how many people have no answer because of their row or the model."""
    for count, status in ((unreadable, Status.UNREADABLE), (failed, Status.FAILED)):
        if count:
            first = next(p for p in sorted(builder.why) if builder.status[p] == status)
            what = "cannot be read" if status == Status.UNREADABLE else "have no answer of the model"
            warnings.warn(
                f"{count} of {len(builder.table)} people {what} and are {status.value}; person "
                f"{builder.table.index[first]!r}: {builder.why[first][0]}",
                stacklevel=4,
            )
