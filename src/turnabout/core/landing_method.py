"""Finding recourse that lands where it must: several searches, and one answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from turnabout.core.builder import RecourseBuilder
from turnabout.core.intake import take_in
from turnabout.core.landing_targets import Calibration, Landing, levels
from turnabout.core.limits import PersonLimits, limits_within
from turnabout.core.problem import Problem
from turnabout.core.progress import Done
from turnabout.core.result import TABLES, Recourse, Status
from turnabout.core.run import Run
from turnabout.errors import MethodError
from turnabout.models import Model
from turnabout.typing import Progress

if TYPE_CHECKING:
    from turnabout.core.method import Method

STEPS = 12  # margins that are asked for one after the other, where eta cannot be searched with
BEYOND = (1.5, 2.0, 3.0, 4.0)  # then these times the margin of the surest people
LATE = "the time limit passed before this person was searched."


class LandingMethod:
    """A method whose options land where they must: several searches of any other, and one answer.

    People who must land at the same P(good) are searched together, by the method fitted to a decision maker who asks
    for that much. With more than 24 different targets, these are rounded up, so that some land a little higher than
    they must. A method that cannot search with eta (it needs a gradient, or a linear model, and eta is neither) asks
    the decision maker itself for more and more margin, and keeps the first option that eta finds high enough. Every
    option is accepted by the original model, whose margins are shown.
    """

    def __init__(self, method: Method, landing: Landing, limits: Mapping[int, PersonLimits]):
        self.method = method
        self.landing = landing
        self.limits = limits
        _check(method.problem_, landing)

    def __repr__(self) -> str:
        return f"{self.method!r}, landing={self.landing!r}"

    def answer(self, people: pd.DataFrame, run: Run, progress: Progress | None) -> Recourse:
        """Recourse for the people of a table, within one call of `find`."""
        problem, method, landing = self.method.problem_, self.method, self.landing
        intake = take_in(problem, people, method.device_, run)
        mine = intake.margin < 0
        refused = intake.place[mine]
        targets = landing.targets(landing.chances(problem.model, intake.table[mine], intake.margin[mine]))
        unknown = ~np.isfinite(targets)
        intake.builder.without(refused[unknown], Status.FAILED, "eta gives no P(good) for this person's own row.")
        done = Done(len(people), progress, len(people) - int((~unknown).sum()))
        search = _Search(method, people, landing, run, intake.builder, done, self.limits)
        if search.can_ask_eta:
            search.by_level(refused[~unknown], levels(targets[~unknown]))
        else:
            search.by_margin(refused[~unknown], targets[~unknown], intake.margin)
        rest = intake.builder.collect(people, repr(method), 0.0, method.ranked)
        return _join(rest, search.parts, repr(self), run.seconds)


class _Search:
    """The searches of one call: what was found so far, and who is left."""

    def __init__(
        self,
        method: Method,
        people: pd.DataFrame,
        landing: Landing,
        run: Run,
        builder: RecourseBuilder,
        done: Done,
        limits: Mapping[int, PersonLimits],
    ):
        self.limits = limits_within(limits, people.index)
        self.method, self.people, self.landing, self.run = method, people, landing, run
        self.builder, self.done = builder, done
        self.problem = method.problem_
        self.parts: list[Recourse] = []

    @property
    def can_ask_eta(self) -> bool:
        """Whether the method can be fitted to a decision maker who asks eta too."""
        asked = self.landing.demanding(self.problem.model, 0.5)
        return asked is None or self.method.requires is None or isinstance(asked, self.method.requires)

    def by_level(self, refused: np.ndarray, targets: np.ndarray) -> None:
        """One search for each target."""
        for target in np.unique(targets):
            rows = refused[targets == target]
            demanding = self.landing.demanding(self.problem.model, float(target))
            if demanding is None:
                reason = f"nobody is known to land where P(good) >= {target:.6g}, which is asked of this person."
                self._give_up(rows, Status.NOT_FOUND, reason)
            elif self.run.late:
                self._give_up(rows, Status.UNFINISHED, LATE)
            else:
                part = self._find(demanding, rows)
                self.parts.append(_asked_by(self.problem, part, f"asked: P(good) >= {target:.6g} at the new row"))
                self.done.add(len(rows))

    def by_margin(self, refused: np.ndarray, targets: np.ndarray, margin: np.ndarray) -> None:
        """One search for each of several rising margins, for those whom no lower one brought high enough."""
        unfinished = ""
        for more in self._margins(margin):
            if not len(refused) or self.run.late:
                break
            part = self._find(self.problem.model.shifted(more), refused)
            options = self.problem.schema.table(part.options)
            owner = part.people.index.get_indexer(part.options.index.get_level_values("person"))
            high = self.landing.chances(self.problem.model, options) >= targets[owner] if len(owner) else owner > 0
            there = np.zeros(len(refused), dtype=bool)
            there[owner[high]] = True
            kept = _numbered(part, high)
            self.parts.append(_asked_by(self.problem, _of_people(kept, there), self.landing.words))
            self.done.add(int(there.sum()))
            unfinished = unfinished or _unfinished(part)
            refused, targets = refused[~there], targets[~there]
            if not len(options):  # no one reaches this target, so no one reaches a higher one
                break
        reason = f"no option was found that lands where asked: {self.landing.words}."
        if self.run.late or unfinished:
            self._give_up(refused, Status.UNFINISHED, unfinished or LATE)
        else:
            self._give_up(refused, Status.NOT_FOUND, reason)

    def _margins(self, margin: np.ndarray) -> np.ndarray:
        """Margins from 0 up to those of the surest people there are, then some times as much."""
        known = self.problem.background_margin
        sure = margin[margin >= 0] if known is None else known[known >= 0].cpu().numpy()
        top = float(np.quantile(sure, 0.99)) if len(sure) else float(np.abs(margin).max(initial=1.0))
        return np.concatenate([np.linspace(0.0, top, STEPS), top * np.array(BEYOND)])

    def _find(self, demanding: Model, rows: np.ndarray) -> Recourse:
        worker = self.method.clone().fit(self.problem.decided_by(demanding), self.method.device_)
        left = None if self.run.time_limit is None else max(1e-3, self.run.left)
        people = self.people.iloc[rows]
        return worker.find(
            people,
            options=self.run.options,
            seed=self.run.seed,
            time_limit=left,
            query_limit=self.run.query_limit,
            refine=self.run.refines,
            limits={person: own for person in people.index if (own := self.limits.get(person))} or None,
        )

    def _give_up(self, rows: np.ndarray, status: Status, reason: str) -> None:
        self.builder.without(rows, status, reason)
        self.done.add(len(rows))


def _check(problem: Problem, landing: Landing) -> None:
    if landing.eta is not None and not isinstance(landing.eta, (Model, Calibration)):
        raise MethodError(
            f"eta={landing.eta!r} is no wrapped model of the outcome.",
            hint="write eta=models.wrap(classifier, schema), or eta=landing.Calibration.of(model, people, outcomes).",
        )
    if (asked := landing.asked) is not None and not asked.schema.encodes_like(problem.schema):
        raise MethodError("eta was wrapped with another schema.", hint="wrap it with the problem's schema.")


def _unfinished(part: Recourse) -> str:
    """Why a search did not end for some people; empty where it ended for all."""
    short = part.status.index[[status is Status.UNFINISHED for status in part.status]]
    return str(part.why["reason"][short[0]]) if len(short) else ""


def _numbered(part: Recourse, keep: np.ndarray) -> Recourse:
    """A part with some of its options, counted anew for each person."""
    options = part.options[keep]
    old = {key: i for i, key in enumerate(options.index)}
    person = options.index.get_level_values("person")
    count = options.groupby(level="person", sort=False).cumcount().to_numpy()
    options = options.set_axis(pd.MultiIndex.from_arrays([person, count], names=["person", "option"]))

    def renumber(table: pd.DataFrame) -> pd.DataFrame:
        table = table[[key[:2] in old for key in table.index]]
        keys = [(key[0], int(count[old[key[:2]]]), *key[2:]) for key in table.index]
        return table.set_axis(pd.MultiIndex.from_tuples(keys, names=table.index.names)) if keys else table

    tables: dict[str, Any] = {name: renumber(getattr(part, name)) for name in TABLES}
    return replace(part, options=options, **tables)


def _of_people(part: Recourse, there: np.ndarray) -> Recourse:
    """A part with some of its people, all of whom have options."""
    people = part.people[there]
    return replace(part, people=people, status=part.status[there], why=part.why.iloc[:0])


def _asked_by(problem: Problem, part: Recourse, asked: str) -> Recourse:
    """A part with margins of the original decision maker, and reasons that say what was asked."""
    options, why, steps = part.options.copy(), part.why.copy(), part.steps.copy()
    if len(options):
        options["margin"] = problem.judge(problem.schema.table(options))
    why["reason"] = [f"{reason} ({asked})" for reason in why["reason"]]
    if len(steps):
        steps["margin"] = problem.judge(problem.schema.table(_states(part)))
    return replace(part, options=options, why=why, steps=steps)


def _states(part: Recourse) -> pd.DataFrame:
    """The printed row after every step, in the order of `part.steps`."""
    own = part.people[part.features]
    places = part.people.index.get_indexer(part.steps.index.get_level_values("person"))
    rows: list[dict[str, object]] = []
    key: tuple[object, object] | None = None
    for (person, option, _), place, becomes in zip(part.steps.index, places, part.steps["becomes"], strict=True):
        before = rows[-1] if key == (person, option) else own.iloc[place].to_dict()
        key = (person, option)
        rows.append(before | json.loads(becomes))
    return pd.DataFrame(rows)


def _join(rest: Recourse, parts: list[Recourse], made_by: str, seconds: float) -> Recourse:
    """One answer, people in their given order."""
    status = rest.status.copy()
    for part in parts:
        status.loc[part.status.index] = part.status
    place = {label: i for i, label in enumerate(rest.people.index)}

    def gather(name: str) -> pd.DataFrame:
        own = getattr(rest, name)
        frames = [frame for frame in (own, *(getattr(part, name) for part in parts)) if len(frame)]
        if not frames:
            return own
        table = pd.concat(frames)
        labels = table.index.get_level_values(0)
        return table.iloc[np.argsort([place[label] for label in labels], kind="stable")]

    tables: dict[str, Any] = {name: gather(name) for name in ("options", "why", *TABLES)}
    return replace(rest, status=status, made_by=made_by, seconds=seconds, **tables)
