"""What every option shown must be: allowed, accepted as printed, priced rightly, and no larger than needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from turnabout.core import GUARD
from turnabout.schema import Derived
from turnabout.testing.by_hand import differs, is_missing, keeps, out_of_reach, position, through_csv, wrong_value
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.generate import Case
from turnabout.testing.trial import Option, Trial, each_option, options_of
from turnabout.typing import Tensor


@check("what may not change does not change.")
def keeps_what_is_fixed(trial: Trial) -> Complaints:
    for option in each_option(trial):
        for f in option.case.problem.schema:
            own, new = option.own[f.name], option.new[f.name]
            if f.moves == "fixed" and not isinstance(f, Derived) and differs(own, new):
                yield f"{option}: '{f.name}' is fixed, and changes from {own!r} to {new!r}."


@check("what may only rise does not fall, and what may only fall does not rise.")
def keeps_directions(trial: Trial) -> Complaints:
    for option in each_option(trial):
        for f in option.case.problem.schema:
            own, new = option.own[f.name], option.new[f.name]
            if f.moves not in ("up", "down") or is_missing(own) or wrong_value(f, new) or not differs(own, new):
                continue
            rises = position(f, new) > position(f, own)
            if rises != (f.moves == "up"):
                yield f"{option}: '{f.name}' may only go {f.moves}, and goes from {own!r} to {new!r}."


@check("every changed cell is a value of its feature: in useful steps, within bounds and reach, one of the levels.")
def uses_legal_values(trial: Trial) -> Complaints:
    for option in each_option(trial):
        for name in option.changed:
            feature, own, new = option.case.problem.schema[name], option.own[name], option.new[name]
            if isinstance(feature, Derived) or is_missing(new):
                continue
            wrong = wrong_value(feature, new) or ("" if is_missing(own) else out_of_reach(feature, own, new))
            if wrong:
                yield f"{option}: '{name}' becomes {option.new[name]!r}, which {wrong}."


@check("what is missing stays missing, and nothing else becomes so.")
def keeps_missing(trial: Trial) -> Complaints:
    for option in each_option(trial):
        for name in option.case.problem.schema.names:
            own, new = option.own[name], option.new[name]
            if is_missing(own) and not is_missing(new):
                yield f"{option}: '{name}' was missing, and becomes {new!r}."
            if is_missing(new) and not is_missing(own):
                yield f"{option}: '{name}' was {own!r}, and becomes missing."
        for name in ("cost", "margin"):
            if not np.isfinite(float(option.new[name])):
                yield f"{option}: its {name} is {option.new[name]!r}."


@check("every option is accepted by the original when its printed row is read back from text.")
def is_accepted_as_printed(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        if not len(answer.options):
            continue
        try:
            margins = case.problem.model.judge(through_csv(case.problem.schema, answer.options))
        except Exception as error:
            yield f"{case}: the printed rows cannot be asked about ({type(error).__name__}: {error})."
            continue
        tolerance = max(1e-9, 10 * case.problem.model.noise)
        for key, told, margin in zip(answer.options.index, answer.options["margin"], margins, strict=True):
            where = f"{case}, person {key[0]!r}, option {key[1]}"
            if not margin >= 0:
                yield f"{where}: the original refuses the printed row, with margin {margin:.6g}."
            elif not abs(margin - told) <= tolerance * (1 + abs(margin)):
                yield f"{where}: its margin is told as {told:.9g}, and the original says {margin:.9g}."


@check("the encoded options have margins of a yes.")
def is_accepted_as_encoded(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        if not len(answer.options):
            continue
        x_new = case.problem.schema.encode(answer.options)
        margins = case.problem.model.margin(x_new).detach().cpu().numpy()
        for key, margin in zip(answer.options.index, margins, strict=True):
            if not margin >= 0:
                yield f"{case}, person {key[0]!r}, option {key[1]}: margin(encode(row)) is {margin:.6g}."


@check("the cost told is the cost of the printed row.")
def tells_the_cost(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        if not len(answer.options) or len(answer.steps):  # a plan costs what its steps do: see prices_every_step
            continue
        problem = case.problem
        own = case.people.loc[answer.options.index.get_level_values(0)]
        costs = problem.cost(problem.schema.encode(own), problem.schema.encode(answer.options)).numpy()
        for key, told, cost in zip(answer.options.index, answer.options["cost"], costs, strict=True):
            if not abs(told - cost) <= 1e-9 * (1 + abs(cost)):
                yield f"{case}, person {key[0]!r}, option {key[1]}: told {told:.9g}, and it costs {cost:.9g}."


@check("every rule is kept.")
def keeps_rules(trial: Trial) -> Complaints:
    for option in each_option(trial):
        problem = option.case.problem
        for rule in problem.declared_rules:
            if not _sound(option):
                continue  # named by other checks
            if keeps(rule, problem.schema, option.own, option.new) is False:
                yield f"{option} breaks the rule '{rule}'."
    for case, answer in trial.answered():  # and rules of kinds that are not known here
        if len(answer.options) and case.problem.rules:
            own = case.people.loc[answer.options.index.get_level_values(0)]
            schema = case.problem.schema
            broken = case.problem.violation(schema.encode(own), schema.encode(answer.options)).numpy() > 0
            for key in answer.options.index[broken]:
                yield f"{case}, person {key[0]!r}, option {key[1]}: problem.violation says that a rule is broken."


@check("no option could drop one of its changes for free.")
def drops_nothing_for_free(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        if len(answer.steps):  # of plans, needs_every_step asks the same
            continue
        less = [one for option in options_of(case, answer) if _sound(option) for one in _with_one_change_less(option)]
        if not less:
            continue
        problem, schema = case.problem, case.problem.schema
        printed = through_csv(schema, pd.DataFrame([row for _, _, row in less], dtype=object))
        own = case.people.loc[[option.person for option, _, _ in less], list(schema.names)]
        x, x_new = schema.encode(own), schema.encode(printed)
        clear = max(GUARD, 10 * problem.model.noise)
        shown = pd.DataFrame([option.new[list(schema.names)] for option, _, _ in less], dtype=object)
        meets = _met(trial, case, x, schema.encode(shown), x_new)
        passes = meets & (problem.violation(x, x_new) <= 0).numpy() & (problem.model.judge(printed) >= clear)
        for (option, name, _), cost, good in zip(less, problem.cost(x, x_new).tolist(), passes, strict=True):
            told = float(option.new["cost"])
            if good and cost < told - 1e-9:
                yield (
                    f"{option}: without its change of '{name}' it is accepted too, and costs {cost:.6g} in place of "
                    f"{told:.6g}."
                )


def _met(trial: Trial, case: Case, x: Tensor, shown: Tensor, x_new: Tensor) -> np.ndarray:
    """(m,) whether the rows shown and those with one change less, x_new, meet what the method aims for."""
    criterion = getattr(trial.fitted(case), "criterion", None)
    if criterion is None:
        return np.ones(len(x), dtype=bool)
    return np.asarray(criterion(x, x_new) & criterion(x, shown))


def _with_one_change_less(option: Option) -> Iterator[tuple[Option, str, pd.Series]]:
    """(option, feature, row without its change) of every change that the rules do not ask for."""
    problem = option.case.problem
    for name in option.changed:
        row = option.new[list(problem.schema.names)].copy()
        row[name] = option.own[name]
        if all(keeps(rule, problem.schema, option.own, row) is not False for rule in problem.declared_rules):
            yield option, name, row


def _sound(option: Option) -> bool:
    """Whether the cells of an option can be read at all."""
    schema = option.case.problem.schema
    return not any(wrong_value(schema[name], option.new[name]) for name in option.changed)
