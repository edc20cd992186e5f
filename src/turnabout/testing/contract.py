"""check_method: the contract that every method keeps, for anyone's method."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from turnabout.core import Problem
from turnabout.errors import MethodError
from turnabout.testing.checks import Check, checks
from turnabout.testing.chooser import SeededDice
from turnabout.testing.deciders import kinds_for
from turnabout.testing.generate import Case, random_case
from turnabout.testing.known import known_problems
from turnabout.testing.real import estimators_for, real_case
from turnabout.testing.trial import Trial, kept_random_states, quiet

SHOWN = 3  # complaints shown for each check
CONDUCT = 2  # cases on which find is called again and again


@dataclass(frozen=True)
class Report:
    """What came of a method's examination.

    passed, excused and failed go by the names of checks; failed holds complaints in sentences, excused the reason given
    by the class; refused says which problems fit does not take, and why.
    """

    method: str
    passed: tuple[str, ...]
    excused: dict[str, str]
    failed: dict[str, tuple[str, ...]]
    refused: dict[str, str]
    cases: int
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = [
            f"{self.method}: {len(self.passed)} checks passed, {len(self.failed)} failed, {len(self.excused)} excused "
            f"({self.cases} problems, {self.seconds:.1f} s)."
        ]
        lines += [f"  passed   {name}" for name in self.passed]
        lines += [f"  excused  {name}: {reason}" for name, reason in self.excused.items()]
        lines += [f"  failed   {name}: {complaints[0]}" for name, complaints in self.failed.items()]
        lines += [f"  not taken: {case}: {reason}" for case, reason in self.refused.items()]
        return "\n".join(lines)


class ContractError(AssertionError):
    """A method breaks the contract; `names` are the checks that failed, `report` is the whole report."""

    def __init__(self, report: Report):
        self.report = report
        self.names = tuple(report.failed)
        meaning = checks()
        total = len(report.passed) + len(report.failed)
        lines = [f"{report.method} breaks {len(report.failed)} of {total} checks of the contract."]
        for name, complaints in report.failed.items():
            lines += ["", f"{name}: {meaning[name].meaning}"]
            lines += [f"  - {complaint}" for complaint in complaints[:SHOWN]]
            if len(complaints) > SHOWN:
                lines.append(f"  - and {len(complaints) - SHOWN} more.")
        lines += [
            "",
            "Hint: the first check that failed often explains the others. A check that cannot apply to a method is "
            f'excused on its class: excused = {{"{self.names[0]}": "the reason"}}.',
        ]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[ContractError], tuple[Report]]:
        return type(self), (self.report,)


def check_method(
    method: Any,
    *,
    problems: Iterable[Case | tuple[Problem, pd.DataFrame]] | None = None,
    people: int = 6,
    examples: int = 10,
    data: bool = True,
    only: Iterable[str] | None = None,
) -> Report:
    """Examine a method against every check of the contract.

    Returns a report when all is well; raises ContractError, an AssertionError that tells in sentences what is not.
    `print(check_method(MyMethod))` lists the checks. Nothing here is random: a failure comes back on the next run.

    Parameters
    ----------
    method : a class (its `small()` is examined, or an instance without arguments) or an unfitted instance.
    problems : (problem, people) pairs of your own, examined beside the made-up ones. Needed where `requires` asks for
        a capability of your own making. Those made up for a method that needs actions have drafted ones.
    people : people in each made-up problem.
    examples : made-up problems.
    data : whether to examine it on the embedded German credit data too.
    only : names of checks to run; all by default.
    """
    report = examine(method, problems=problems, people=people, examples=examples, data=data, only=only)
    if not report.ok:
        raise ContractError(report)
    return report


def examine(
    method: Any,
    *,
    problems: Iterable[Case | tuple[Problem, pd.DataFrame]] | None = None,
    people: int = 6,
    examples: int = 10,
    data: bool = True,
    only: Iterable[str] | None = None,
) -> Report:
    """As `check_method`, but the report comes back whatever it says."""
    start = time.monotonic()
    instance = _instance(method)
    excused = dict(getattr(instance, "excused", {}))
    wanted = _wanted(only, excused)
    with kept_random_states(), quiet():
        trial = _trial(instance, _own(problems), people, examples, data)
        failed: dict[str, tuple[str, ...]] = {}
        passed: list[str] = []
        for check in wanted:
            if check.name in excused:
                continue
            if complaints := tuple(_run(check, trial)):
                failed[check.name] = complaints
            else:
                passed.append(check.name)
    return Report(
        _title(instance),
        tuple(passed),
        {name: reason for name, reason in excused.items() if name in {check.name for check in wanted}},
        failed,
        trial.refused,
        len(trial.every),
        time.monotonic() - start,
    )


def _run(check: Check, trial: Trial) -> Iterable[str]:
    try:
        yield from check.run(trial)
    except Exception as error:
        yield f"the check could not be carried out: {type(error).__name__}: {error}"


def _title(instance: Any) -> str:
    try:
        return repr(instance)
    except Exception:  # named by keeps_parameters
        return type(instance).__name__


def _instance(method: Any) -> Any:
    if inspect.isclass(method):
        return method.small() if hasattr(method, "small") else method()
    return method


def _wanted(only: Iterable[str] | None, excused: dict[str, str]) -> list[Check]:
    every = checks()
    for name in [*excused, *(only or ())]:
        if name not in every:
            raise MethodError(f"'{name}' is not a check of the contract.", hint=f"the checks are {', '.join(every)}.")
    for name, reason in excused.items():
        if not isinstance(reason, str) or not reason.strip():
            raise MethodError(f"the check '{name}' is excused without a reason.", hint="say why it cannot apply.")
    return [check for name, check in every.items() if only is None or name in set(only)]


def _own(problems: Iterable[Case | tuple[Problem, pd.DataFrame]] | None) -> list[Case]:
    out = []
    for i, entry in enumerate(problems or ()):
        out.append(entry if isinstance(entry, Case) else Case(f"your problem {i}", *entry))
    return out


def _trial(instance: Any, own: list[Case], people: int, examples: int, data: bool) -> Trial:
    requires, acts = getattr(instance, "requires", None), bool(getattr(instance, "needs_actions", False))
    if not kinds_for(requires) and not own:
        name = getattr(requires, "__name__", requires)
        raise MethodError(
            f"no made-up model is {name}.", hint="pass problems=[(problem, people)] with a model that is."
        )
    made_up = [_example(i, requires, people, acts) for i in range(examples if kinds_for(requires) else 0)]
    real = []
    if data and estimators_for(requires):
        real = [real_case("german", estimators_for(requires)[-1], actions=acts)]
    cases = [*own, *made_up, *real]
    answers = known_problems(requires, actions=acts) if made_up or not own else ()
    # where find is called again and again: two made-up problems with several refused people, or the first there are
    by_refused = sorted(made_up or cases, key=lambda case: -(case.problem.model.judge(case.people) < 0).sum())
    return Trial(instance, cases, answers, by_refused[:CONDUCT] or answers[:CONDUCT])


@lru_cache(maxsize=256)
def _example(i: int, requires: type | None, people: int, actions: bool) -> Case:
    case = random_case(SeededDice(i, 41), requires, people, actions=actions)
    return Case(f"example {i}: {case.name}", case.problem, case.people)
