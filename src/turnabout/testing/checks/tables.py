"""Tables in and answers out: untouched, read by name, of any size, and able to travel."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pandas as pd

from turnabout.core import Recourse, Status, json_schema
from turnabout.errors import TurnaboutError
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.trial import Trial, difference, find, quiet


@check("the people's table and the background are left as they were.")
def leaves_tables_untouched(trial: Trial) -> Complaints:
    for case in {id(case): case for case in [*trial.conduct, *trial.cases[-1:]]}.values():
        people, background = case.people.copy(deep=True), case.problem.background
        kept = None if background is None else background.copy(deep=True)
        labels = None if case.problem.labels is None else case.problem.labels.tolist()
        try:
            method = trial.fit(case.problem)
            with quiet():
                method.find(people, options=1, seed=0)
        except Exception:
            continue  # named by answers_everyone
        if changed := _unlike(people, case.people):
            yield f"{case}: after find, the people's table is not what it was ({changed})."
        if kept is not None and (changed := _unlike(case.problem.background, kept)):
            yield f"{case}: after fit and find, the background is not what it was ({changed})."
        if case.problem.labels is not None and case.problem.labels.tolist() != labels:
            yield f"{case}: after fit and find, the labels are not what they were."


def _unlike(a: Any, b: pd.DataFrame) -> str:
    try:
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


@check("columns are read by name: shuffled and further columns change nothing, an absent one is named.")
def reads_columns_by_name(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        answer = trial.answer(case)
        shuffled = case.people[list(case.people.columns[::-1])]
        further = case.people.assign(remark="none", margin_of_error=1.5)
        for what, table in (("shuffled columns", shuffled), ("further columns", further)):
            if apart := difference(case, answer, find(method, table)):
                yield f"{case}: with {what}, {apart}."
        name = case.problem.schema.names[-1]
        try:
            find(method, case.people.drop(columns=name))
        except TurnaboutError as error:
            if name not in str(error):
                yield f"{case}: without the column '{name}', the error does not name it: {error.message}"
        except Exception as error:
            yield f"{case}: without the column '{name}', {type(error).__name__} is raised, not a TurnaboutError."
        else:
            yield f"{case}: without the column '{name}', no error is raised."


@check("an empty table, one row, and a table without refused people are answered.")
def answers_small_tables(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        accepted = case.problem.model.judge(case.people) >= 0
        tables = {
            "an empty table": case.people.iloc[:0],
            "one row": case.people.iloc[:1],
            "a table without refused people": case.people[accepted],
        }
        for what, table in tables.items():
            try:
                answer = find(method, table)
                answer.to_json()
            except Exception as error:
                yield f"{case}, {what}: {type(error).__name__}: {error}"
                continue
            if len(answer.status) != len(table):
                yield f"{case}, {what}: {len(answer.status)} statuses for {len(table)} people."
            if what != "one row" and (answer.status != Status.ACCEPTED).any():
                yield f"{case}, {what}: somebody is not called accepted."


@check("an answer travels as JSON and comes back the same; the JSON keeps to its schema.")
def travels_as_json(trial: Trial) -> Complaints:
    validate = _validator()
    for case, answer in trial.answered():
        text = answer.to_json()
        back = type(answer).from_json(text)
        if back.fingerprint != answer.fingerprint or back != answer:
            yield f"{case}: the answer read back from JSON is another one."
        for part in ("people", "options", "why", "steps", "plans"):
            before, after = getattr(answer, part), getattr(back, part)
            if len(before) == len(after) == 0 and list(before) == list(after):
                continue  # an empty index has no type
            if apart := _unlike(after, before):
                yield f"{case}: '{part}' read back from JSON is not what it was ({apart})."
        if list(back.status) != list(answer.status):
            yield f"{case}: the statuses read back from JSON are not what they were."
        if wrong := validate(json.loads(text)):
            yield f"{case}: the JSON breaks its schema: {wrong}"


def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return lambda document: ""
    validator = Draft202012Validator(json_schema())
    return lambda document: next((error.message for error in validator.iter_errors(document)), "")


@check("a fitted method and an answer survive pickling.")
def survives_pickling(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        answer = trial.answer(case)
        try:
            thawed, copied = pickle.loads(pickle.dumps(method)), pickle.loads(pickle.dumps(answer))
        except Exception as error:
            yield f"{case}: pickling raises {type(error).__name__}: {error}"
            continue
        if not isinstance(copied, Recourse) or copied.fingerprint != answer.fingerprint:
            yield f"{case}: the unpickled answer is another one."
        if apart := difference(case, answer, find(thawed, case.people)):
            yield f"{case}: the unpickled method answers otherwise: {apart}."
