"""Method: parameters in __init__, the question in fit, people in find."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
import torch

from turnabout.core.arguments import as_device, as_landing, as_progress
from turnabout.core.builder import Ended
from turnabout.core.chunk import Chunk, Verified
from turnabout.core.different import Aim, among, dearest, new_ways
from turnabout.core.intake import Intake, as_people, take_in
from turnabout.core.landing_method import LandingMethod
from turnabout.core.landing_targets import Landing
from turnabout.core.limits import by_limits, limits_within, near_first, read_limits, told
from turnabout.core.plan_stages import stages_for
from turnabout.core.problem import Problem
from turnabout.core.progress import Done
from turnabout.core.project import check_shape
from turnabout.core.providing import providable, with_provided
from turnabout.core.refine import Criterion
from turnabout.core.result import Proposal, Recourse, Status
from turnabout.core.run import Run
from turnabout.errors import MethodError, ModelError, TurnaboutError, also
from turnabout.parameters import Declared, Maybe, Parameters, Positive, Whole, check_parameters, parameters_of
from turnabout.typing import Progress, Tensor

SEARCH = 0.65  # share of the time left that a search may take; the rest is for verifying what it found
MOST_OPTIONS = 1_000_000
PROBE = 64  # people asked twice, to catch a model whose answers change between calls
ASKED = Declared(
    MethodError,
    options=Whole(1, most=MOST_OPTIONS, hint=f"ask for 1 or more, {MOST_OPTIONS:,} at most."),
    seed=Whole(0, hint="use seed=0."),
    time_limit=Maybe(Positive(hint="give seconds above 0, or None.")),
    query_limit=Maybe(Whole(1, hint="give 1 or more rows, or None.")),
)  # not by @checked: warnings count the frames between them and who called `find`


class Method(Parameters, ABC):
    """Answers a problem of recourse.

    A subclass stores its parameters in `__init__` under their own names, may prepare in `_fit`, and proposes new
    points, or plans of steps, in `_search`. It never grades itself: `find` projects, refines and verifies points, and
    replays and verifies plans.

    Class attributes
    ----------------
    requires : the capability a model must have (a Protocol of `turnabout.models`), or None for any model.
    needs_background : whether the problem must carry a background table.
    needs_actions : whether the problem must carry actions; such a method proposes plans of steps.
    ranked : whether options are shown cheapest first (the default) or in the order proposed.
    searches_again : whether `find` searches more than once: within what people usually do first, and for further ways.
    finds_ways : whether the search itself looks for ways without the features that cost most; then `find` does not.
    exact : whether the first option is the cheapest there is.
    chunk : people searched at a time; the memory of the search grows with this.
    excused : checks of the contract that do not apply, with the reason.
    criterion : what the method aims for beyond bare acceptance (a robust margin, a density), or None: a method of its
        own, rows (m, d) of people x (m, d) -> (m,) bool. Refinement drops a change or comes nearer only where it is
        met, and rows that meet it are shown before rows that do not. The judge asks for acceptance alone.
    """

    refuses = MethodError
    requires: ClassVar[type | None] = None
    needs_background: ClassVar[bool] = False
    needs_actions: ClassVar[bool] = False
    ranked: ClassVar[bool] = True
    searches_again: ClassVar[bool] = True
    finds_ways: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    chunk: ClassVar[int] = 2048
    excused: ClassVar[dict[str, str]] = {}
    criterion: Criterion | None = None

    problem_: Problem
    device_: str
    run: Run
    _training: Progress | None = None  # who is told of the training, while `fit` goes on

    # -- parameters -------------------------------------------------------------------------------------------

    @classmethod
    def small(cls) -> Self:
        """An instance with cheap parameters, for tests."""
        return cls()

    def clone(self) -> Self:
        """An unfitted copy with the same parameters."""
        return type(self)(**copy.deepcopy(self.get_params()))

    def __repr__(self) -> str:
        defaults = parameters_of(type(self))
        shown = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default)]
        return f"{type(self).__name__}({', '.join(shown)})"

    # -- the question -----------------------------------------------------------------------------------------

    @final
    def fit(self, problem: Problem, device: str = "cpu", progress: Progress | bool | None = None) -> Self:
        """Learn what the search needs of the problem; returns self.

        progress : called with (steps done, steps in all) by methods that train a network; True for a bar on stderr.
        """
        if not isinstance(problem, Problem):
            raise also(MethodError, TypeError)(
                f"fit takes a Problem, not {type(problem).__name__}.", hint="Problem(schema, model, ...) makes one."
            )
        check_parameters(self)
        name = type(self).__name__
        if self.requires is not None and not isinstance(problem.model, self.requires):
            raise MethodError(
                f"{name} needs a model that is {self.requires.__name__}, and {problem.model!r} is not.",
                hint="turnabout.find picks a method that fits; LocalSearch works with any model.",
            )
        if self.needs_background and problem.background_x is None:
            raise MethodError(f"{name} needs a background table.", hint="pass background=... to Problem.")
        if self.needs_actions and problem.actions is None:
            raise MethodError(
                f"{name} needs actions, and the problem has none.",
                hint="pass actions=ActionSet([...]) to Problem; ActionSet.draft(schema) drafts one to begin with.",
            )
        if self.needs_actions and not problem.limits:  # actions say themselves by how much and how far
            problem = problem.under(problem.schema.plain())
        self.device_ = as_device(device)
        self.problem_ = problem.on(self.device_)
        self._training = as_progress(progress, "training")
        try:
            self._fit(self.problem_)
        finally:
            self._training = None
        return self

    def _fit(self, problem: Problem) -> None:
        """Prepare; learned things end in an underscore."""

    @abstractmethod
    def _search(self, x: Tensor) -> Proposal:
        """x (n, d), all refused -> proposals (n, k, d). Stops early when `self.run.expired`."""

    def ask(self, x: Tensor) -> Tensor:
        """(..., d) -> (...): margins without gradients, counted; -inf for rows that may not be asked any more.

        Under a time limit rows are asked in shorter calls, and none when the stage at hand is over.
        """
        flat, run, compiled = x.reshape(-1, x.shape[-1]), self.run, self.problem_.model.compiled
        granted = len(flat) if compiled else run.spend(len(flat))
        margin = flat.new_full((len(flat),), -torch.inf)
        done = 0
        for part in run.calls(granted, "compiled" if compiled else "original"):
            margin[part], unanswered = self.problem_.ask(flat[part])
            done = part.stop
            if unanswered.rows:
                run.failed, run.failure = run.failed + len(unanswered), unanswered.last.message
                if granted > 1:
                    unanswered.check(margin)
        run.asked, run.skipped = run.asked + done, run.skipped + granted - done
        return margin.reshape(x.shape[:-1])

    # -- the people -------------------------------------------------------------------------------------------

    @final
    def propose(self, x: Tensor, options: int = 1, seed: int = 0, time_limit: float | None = None) -> Proposal:
        """What the search itself proposes for refused people x (n, d): nothing is projected, refined or verified."""
        self._check(options, seed, time_limit, None)
        worker, x = copy.copy(self), x.to(self.device_)
        worker.run = Run(options=options, seed=seed, time_limit=time_limit)
        with worker.run.within(SEARCH):
            proposal = worker._search(x)
        if proposal.plans is None:
            check_shape(proposal.x_new, x)
        return proposal

    @final
    def find(
        self,
        people: Any,
        options: int = 1,
        seed: int = 0,
        time_limit: float | None = None,
        progress: Progress | bool | None = None,
        landing: Landing | float | None = None,
        query_limit: int | None = None,
        limits: Any = None,
        refine: bool = True,
    ) -> Recourse:
        """Recourse for every refused person of a table; never raises because there is none, nor for one person's row.

        Parameters
        ----------
        people : a table with the schema's columns, in any order.
        options : how many different options to look for, at most, for each person.
        seed : same seed, same answer.
        time_limit : seconds after which `find` returns what it has. It may take half as long again, and one call of the
            model; whoever was not searched to the end by then, and has no verified option, is UNFINISHED.
        progress : called with (people done, people in all) after each chunk; True for a bar on stderr.
        landing : where new rows must land, beyond bare acceptance: `turnabout.landing.Probability(0.7)`, for which 0.7
            may be written, and others.
        query_limit : rows of the original that may be asked in the search for each refused person, for models that
            are slow or cost money; people searched together share them. Compiled models are searched without asking.
            A row to be verified counts once, although a model whose answers depend on the batch is asked again alone.
            Plans of actions come without lower bounds then, which would need every row.
        limits : what single people will not or cannot change: {"Ada": {"job": "fixed", "income": (None, 60000),
            "housing": ["rent"]}} by their label in the table, or a table of person, feature, low, high, fixed and
            difficulty. People with the same limits are searched together.
        refine : whether found rows are walked back towards the person before they are verified. False shows what the
            method's own search reaches, for comparisons; plans of actions are never walked back.
        """
        problem = self._check(options, seed, time_limit, query_limit)
        run = Run(options=options, seed=seed, time_limit=time_limit, query_limit=query_limit, refines=bool(refine))
        given, progress, landing = as_people(people), as_progress(progress), as_landing(landing)
        own_limits = read_limits(limits, given.index, problem.schema)
        if landing is not None:
            return LandingMethod(self, landing, own_limits).answer(given, run, progress)
        intake = take_in(problem, given, self.device_, run)
        intake.builder.limits = {place: told(own) for place, own in own_limits.items()}
        run.note_call(len(given), run.seconds)
        problem.schema.warn_outside(intake.x)
        self._probe(intake, run)
        done = Done(len(given), progress, len(given) - int((intake.margin < 0).sum()))
        groups = by_limits(intake.groups(run.late), intake.place, own_limits)
        for group in near_first(groups, intake) if self.searches_again and not self.needs_actions else groups:
            if self.needs_actions and group.problem.actions is None:
                cannot = f"no action is left that this person may take: {group.problem.limits}."
                intake.builder.impossible(intake.place[group.rows], cannot)
                done.add(len(group.rows))
                continue
            worker = self if run.late else self._for(group.problem)
            complete = group.complete and worker.problem_.model is group.problem.model
            share = 1 / (1 + group.later)  # of the time and of the queries: wider searches need theirs
            for start in range(0, len(group.rows), self.chunk):
                rows = group.rows[start : start + self.chunk]
                with run.within(share):
                    worker._answer(intake, rows, run, complete, share)
                ended = intake.builder.status[intake.place[rows]] == Status.FOUND
                done.add(int(ended.sum()) if group.later else len(rows))
        answer = intake.builder.collect(given, repr(self), run.seconds, self.ranked)
        if self.needs_actions or not providable(problem):
            return answer
        left = None if time_limit is None else max(1e-3, run.left)
        rows_left = None if query_limit is None else int(min(map(run.query_left, range(len(given))), default=0))
        asked: dict[str, Any] = {"seed": seed, "time_limit": left, "query_limit": rows_left, "refine": refine}
        return with_provided(self, answer, options, **asked, limits=limits_within(own_limits, given.index))

    def _for(self, problem: Problem) -> Self:
        """This method for the same question put to another decision maker; itself if it cannot search with that one."""
        if self.requires is not None and not isinstance(problem.model, self.requires):
            if problem.limits == self.problem_.limits:
                return self
            problem = problem.decided_by(self.problem_.model)
        if problem is self.problem_:
            return self
        return self.clone().fit(problem, self.device_)

    def _answer(self, intake: Intake, rows: np.ndarray, run: Run, complete: bool, share: float = 1.0) -> None:
        """Propose, project, refine, verify and enter, for some people.

        complete : whether their encoded rows tell all of them, so that what is proved of these holds for the people.
        share : of the rows that may still be asked for them.
        """
        problem, builder = self.problem_, intake.builder
        rows = self._those_who_can_move(intake, rows)
        if not len(rows):
            return
        if run.late:
            late = "the time limit passed before this person was searched."
            builder.without(intake.place[rows], Status.UNFINISHED, late)
            return
        x = intake.x[torch.as_tensor(rows, device=intake.x.device)]
        worker = copy.copy(self)  # so that a fitted method may serve several calls at once
        worker.run, before = run, copy.copy(run)
        run.allow(intake.place[rows].tolist(), share)
        chunk = Chunk(problem, intake.table.iloc[rows], x, self.ranked, worker.ask, run, worker.criterion)
        try:
            with run.within(SEARCH):
                proposal = worker._search(x)
            verified = stages_for(chunk, proposal).options()
            if run.options > 1 and proposal.plans is None:
                worker._look_elsewhere(chunk, verified)
        except ModelError as error:
            run.charge()
            self._give_up(intake, rows, run, complete, error)
            return
        run.charge()
        ended = Ended.of(run, before, len(rows))
        if ended.status is Status.FAILED and len(rows) > 1:  # on whose rows? those without an option are searched alone
            for i in np.flatnonzero(~builder.enter(intake.place[rows], verified)):
                self._answer(intake, rows[[i]], run, complete)
            return
        asked_all = complete and (run.failed, run.skipped) == (before.failed, before.skipped)
        self._check_proofs(chunk, proposal, intake.margin[rows] if asked_all else None)
        builder.add(intake.place[rows], x, verified, proposal, ended)

    def _look_elsewhere(self, chunk: Chunk, verified: Verified) -> None:
        """For people with fewer options than they asked for: search again without what their options change most.

        Whose options meet the method's criterion is shown no further one that does not.
        """
        run, tried = chunk.run, set[tuple[int, frozenset[int]]]()
        aim = Aim.of(chunk.criterion, chunk.x, *verified.so_far(chunk.x))
        for _ in range(run.options if self.searches_again and not self.finds_ways else 0):
            rows, owner = verified.so_far(chunk.x)
            avoid = dearest(self.problem_, chunk.x, owner.cpu().numpy(), rows)
            groups: dict[frozenset[int], list[int]] = {}
            for i in (verified.left > 0).nonzero().squeeze(1).tolist():
                if i in avoid and (i, avoid[i]) not in tried:
                    groups.setdefault(avoid[i], []).append(i)
                    tried.add((i, avoid[i]))
            for features, people in sorted(groups.items(), key=lambda group: sorted(group[0])):
                if run.late:
                    return
                try:
                    self._without(features, people, chunk, verified, aim)
                except ModelError:  # the model does not answer about these rows: what was found before stays
                    continue
            if not groups:
                return

    def _without(self, features: frozenset[int], people: list[int], chunk: Chunk, verified: Verified, aim: Aim) -> None:
        """Options of some people that leave some features as they are, entered where they are new ways."""
        place = torch.tensor(people, device=chunk.x.device)
        try:
            problem = self.problem_.without(features)
            other = self.clone().fit(problem, self.device_)
        except TurnaboutError:  # what is left is no question: a consequence cannot be held, or no rule be kept
            return
        other.run, x = chunk.run, chunk.x[place]
        lo, hi = problem.bounds(x)
        able = (hi > lo).any(1)
        place, x = place[able], x[able]
        if not len(x):
            return
        part = Chunk(
            problem, chunk.table.iloc[place.cpu().numpy()], x, chunk.ranked, other.ask, chunk.run, other.criterion
        )
        with chunk.run.within(SEARCH):
            proposal = other._search(x)
        found = stages_for(part, proposal).options()
        for rows, owner, x_new in zip(found.rows, found.owner, found.x_new, strict=True):
            whose = place[torch.as_tensor(owner, device=place.device)]
            fit = aim.allows(chunk.x, whose, x_new).nonzero().squeeze(1)
            whose, x_new, rows = whose[fit], x_new[fit], rows.iloc[fit.cpu().numpy()]
            before = verified.so_far(chunk.x)
            fresh = new_ways(self.problem_.schema, chunk.x, whose, x_new, *before)
            fresh &= among(whose, fresh) < verified.left[whose]
            keep = fresh.cpu().numpy()
            verified.enter(whose.cpu().numpy()[keep], rows[keep], x_new[fresh])

    def _those_who_can_move(self, intake: Intake, rows: np.ndarray) -> np.ndarray:
        """The rows of people who may change something; the others are entered as they are."""
        lo, hi = self.problem_.bounds(intake.x[torch.as_tensor(rows, device=intake.x.device)])
        movable = (hi > lo).any(1).cpu().numpy()
        stuck = "none of this person's features may change, and their own row is refused."
        intake.builder.impossible(intake.place[rows[~movable]], stuck)
        return rows[movable]

    def _check_proofs(self, chunk: Chunk, proposal: Proposal, margin: np.ndarray | None) -> None:
        """Keep proofs for people whom the search saw as the original does; margin: the original's, None if unknown."""
        if proposal.impossible is None:
            return
        if margin is None:  # what was not asked proves nothing
            proposal.impossible = None
            return
        claimed = proposal.impossible.nonzero().squeeze(1).cpu()
        if len(claimed):
            people, x = chunk.table.iloc[claimed.numpy()], chunk.x[claimed.to(chunk.x.device)]
            sound = self.problem_.reads_back(people, x, margin[claimed.numpy()])
            proposal.impossible[claimed] = torch.as_tensor(sound, device=proposal.impossible.device)

    def _give_up(self, intake: Intake, rows: np.ndarray, run: Run, complete: bool, error: ModelError) -> None:
        """The model failed during a search: try fewer people at a time, unless it does not answer at all any more."""
        if len(rows) > 1 and not intake.problem.ask_original(intake.table.iloc[rows[:1]])[1].is_down:
            for half in np.array_split(rows, 2):
                self._answer(intake, half, run, complete)
            return
        warnings.warn(
            f"the model failed during a search, {len(rows)} people have no answer: {error.message}", stacklevel=4
        )
        reason = f"the model failed during the search: {error.message}"
        intake.builder.without(intake.place[rows], Status.FAILED, reason)

    def _check(self, options: int, seed: int, time_limit: float | None, query_limit: int | None) -> Problem:
        if not hasattr(self, "problem_"):
            raise MethodError(
                f"{type(self).__name__} has not seen a problem yet.", hint="call fit(problem) before find(people)."
            )
        ASKED.check(options=options, seed=seed, time_limit=time_limit, query_limit=query_limit)
        return self.problem_

    def _probe(self, intake: Intake, run: Run) -> None:
        """Ask some people again: a model that changes its mind cannot be promised anything of."""
        if run.late:
            return
        few, began = intake.table.iloc[:PROBE], run.seconds
        again, _ = self.problem_.ask_original(few)
        run.note_call(len(few), run.seconds - began)
        first = intake.margin[: len(few)]
        apart = (
            ~np.isclose(first, again, rtol=1e-4, atol=max(1e-6, self.problem_.model.noise))
            & ~np.isnan(first)
            & ~np.isnan(again)
        )
        if apart.any():
            i = int(apart.argmax())
            raise ModelError(
                f"the model's answers change between calls: person {few.index[i]!r} got margin {first[i]:.6g}, "
                f"then {again[i]:.6g}.",
                hint="fix its random state, switch off dropout (module.eval()), or average over draws before wrapping.",
            )
