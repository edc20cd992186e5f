"""How a method behaves: its parameters, its manners before fit, its clock."""

from __future__ import annotations

import inspect
import time
from itertools import pairwise
from typing import Any

import pandas as pd

from turnabout.core import Problem, Recourse, Status
from turnabout.errors import TurnaboutError
from turnabout.models import Model
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.deciders import slowed_model
from turnabout.testing.generate import Case
from turnabout.testing.trial import Trial, find, quiet

NAP = 0.02  # seconds that the slowed model takes for each call
LIMIT = 0.2  # seconds allowed to find
GRACE = 2.0  # seconds by which it may overrun: the calls it takes to round, verify and print what was found


@check("__init__ stores its arguments unchanged under their own names; get_params, clone and repr keep them.")
def keeps_parameters(trial: Trial) -> Complaints:
    method, cls = trial.fresh(), type(trial.method)
    names = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    if cls.__init__ is object.__init__:
        names = []
    for name in names:
        if not hasattr(method, name):
            yield f"__init__ takes '{name}', and the method has no attribute of that name."
            return
    given = {name: getattr(method, name) for name in names}
    try:
        params = method.get_params()
    except Exception as error:
        yield f"get_params raises {type(error).__name__}: {error}"
        return
    if set(params) != set(names):
        yield f"get_params names {sorted(params)}, and __init__ takes {sorted(names)}."
    marked = {name: Marker(name) for name in names}
    try:
        probe = cls(**marked)
    except Exception as error:
        yield f"__init__ does more than store its arguments: given odd ones, it raises {type(error).__name__}: {error}"
    else:
        for name in names:
            if getattr(probe, name, None) is not marked[name]:
                yield f"__init__ does not store '{name}' unchanged."
    other = _other_values(given)
    for values in (given, other):
        try:
            clone = cls(**values).clone()
        except Exception as error:
            yield f"clone raises {type(error).__name__}: {error}"
            return
        if type(clone) is not cls:
            yield f"clone makes a {type(clone).__name__}."
        for name, value in values.items():
            if repr(getattr(clone, name, None)) != repr(value):
                yield f"clone loses {name}={value!r}: it has {getattr(clone, name, None)!r}."
    if hasattr(method.clone(), "problem_"):
        yield "clone of an unfitted method has a problem."
    if repr(method.clone()) != repr(method) or cls.__name__ not in repr(method):
        yield f"repr of a clone is {method.clone()!r}, and that of the method {method!r}."


class Marker:
    """An argument that is nothing but itself."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _other_values(given: dict[str, Any]) -> dict[str, Any]:
    """Numbers a little larger, everything else as it is."""
    numbers = (int, float)
    return {k: v + 1 if isinstance(v, numbers) and not isinstance(v, bool) else v for k, v in given.items()}


@check("find before fit explains itself.")
def explains_find_before_fit(trial: Trial) -> Complaints:
    people = pd.DataFrame({"a": [1]})
    try:
        find(trial.fresh(), people)
    except TurnaboutError as error:
        if "fit" not in str(error):
            yield f"the error does not speak of fit: {error}"
    except Exception as error:
        yield f"it raises {type(error).__name__} ({error}), not a TurnaboutError that speaks of fit."
    else:
        yield "it raises nothing."


@check("fit returns the method itself, and refuses a model without the capability it requires.")
def fits_what_it_requires(trial: Trial) -> Complaints:
    for case in trial.conduct[:1]:
        method = trial.fresh()
        try:
            with quiet():
                fitted = method.fit(case.problem)
        except Exception:
            return  # named by answers_everyone
        if fitted is not method:
            yield "fit does not return the method itself."
        requires = getattr(trial.method, "requires", None)
        problem = case.problem
        bare = Model(problem.schema, problem.model._judge)
        if requires is None or isinstance(bare, requires):
            return
        labels = None if problem.labels is None else problem.labels.numpy()
        unfit = Problem(
            problem.schema, bare, background=problem.background, labels=labels, actions=problem.declared_actions
        )
        try:
            trial.fresh().fit(unfit)
        except TurnaboutError as error:
            if requires.__name__ not in str(error):
                yield f"refusing a model that is not {requires.__name__}, the error does not say so: {error.message}"
        except Exception as error:
            yield f"a model that is not {requires.__name__} makes fit raise {type(error).__name__}: {error}"
        else:
            yield f"fit takes a model that is not {requires.__name__}."


@check("a method that needs actions says so to a problem that has none.")
def asks_for_actions(trial: Trial) -> Complaints:
    if not getattr(trial.method, "needs_actions", False):
        return
    for case in trial.conduct[:1]:
        problem = case.problem
        labels = None if problem.labels is None else problem.labels.numpy()
        bare = Problem(problem.schema, problem.model, background=problem.background, labels=labels)
        try:
            trial.fresh().fit(bare)
        except TurnaboutError as error:
            if "actions" not in str(error):
                yield f"refusing a problem without actions, the error does not speak of them: {error.message}"
        except Exception as error:
            yield f"a problem without actions makes fit raise {type(error).__name__}: {error}"
        else:
            yield "fit takes a problem without actions."


@check("progress never goes back, and ends with all people done.")
def reports_progress(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        for people in (case.people, case.people.iloc[:0]):
            seen: list[tuple[int, int]] = []
            find(method, people, progress=lambda done, total, seen=seen: seen.append((done, total)))
            n = len(people)
            if not seen or seen[-1] != (n, n):
                yield f"{case}: progress over {n} people ends with {seen[-1] if seen else 'no call at all'}."
            if any(total != n for _, total in seen) or any(b < a for (a, _), (b, _) in pairwise(seen)):
                yield f"{case}: progress goes {seen} over {n} people."


@check(
    f"with a slow model and a time limit, find returns within the limit and {GRACE:g} seconds, with honest statuses."
)
def keeps_the_time_limit(trial: Trial) -> Complaints:
    for case in list(trial.conduct)[:2]:
        slow = slowed(case)
        try:
            method = trial.fit(slow.problem)
        except Exception:
            continue  # named by answers_everyone
        for limit in (LIMIT, 1e-6):
            answer, seconds = _timed(method, slow, limit)
            if seconds > limit + GRACE:  # once more, in case the machine was busy with something else
                seconds = min(seconds, _timed(method, slow, limit)[1])
            if seconds > limit + GRACE:
                yield f"{case}: asked for {limit:g} seconds, find took {seconds:.2f}."
            with_options = set(answer.options.index.get_level_values(0))
            for person, status in answer.status.items():
                if (status == Status.FOUND) != (person in with_options):
                    yield f"{case}: out of time, person {person!r} is {status}."
                if status not in (Status.ACCEPTED, Status.FOUND) and person not in answer.why.index:
                    yield f"{case}: out of time, nothing is said to person {person!r}."
            if len(answer.options):
                margins = case.problem.model.judge(answer.options[list(case.problem.schema.names)])
                if not (margins >= 0).all():
                    yield f"{case}: out of time, an option is shown that the original refuses."


def _timed(method: Any, case: Case, limit: float) -> tuple[Recourse, float]:
    start = time.monotonic()
    answer = find(method, case.people, time_limit=limit)
    return answer, time.monotonic() - start


def slowed(case: Case) -> Case:
    """The case with a model that takes its time."""
    problem = case.problem
    model = slowed_model(problem.model, NAP)
    labels = None if problem.labels is None else problem.labels.numpy()
    slow = Problem(
        problem.schema,
        model,
        problem.declared_cost,
        problem.declared_rules,
        problem.background,
        labels,
        problem.declared_actions,
    )
    return Case(f"{case} with a slow model", slow, case.people)
