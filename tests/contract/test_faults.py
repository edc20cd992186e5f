"""The contract is no formality: methods with planted faults are caught, each by the check that names the fault."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Method, Problem, Proposal, Recourse, Run, Status, stages
from turnabout.models import Differentiable
from turnabout.schema import Number, Schema
from turnabout.testing import ContractError, Report, check_method, examine


class Honest(Method):
    """Corners of what a person may reach, and a few random points: crude, and faultless."""

    requires = Differentiable

    def __init__(self, samples: int = 12):
        self.samples = samples

    def _search(self, x):
        return Proposal(self.points(x, self.run.rng("points")))

    def points(self, x, rng):
        lo, hi = self.problem_.bounds(x)
        share = torch.from_numpy(rng.random((self.samples, x.shape[1])))
        share[:2] = torch.tensor([[0.0], [1.0]])
        toward = (self.problem_.model.gradient(x) > 0).to(x.dtype).unsqueeze(1)
        share = torch.cat([toward, share.expand(len(x), -1, -1)], 1)
        return lo.unsqueeze(1) + share * (hi - lo).unsqueeze(1)


def caught(cls, check: str) -> Report:
    """The report on a faulty method: the check must have failed."""
    report = examine(cls, examples=4, data=False, only=[check])
    assert tuple(report.failed) == (check,), str(report)
    return report


def test_the_honest_method_keeps_the_whole_contract():
    report = check_method(Honest, examples=4, data=False)
    assert report.ok
    assert report.excused == {}


# -- what a person may do ----------------------------------------------------------------------------------------


def loosened(problem: Problem) -> Problem:
    """The problem with every feature free to move."""
    loose = copy.copy(problem)
    loose.schema = Schema(tuple(replace(f, moves="free") for f in problem.schema))
    loose.model = copy.copy(problem.model)
    loose.model.schema = loose.schema
    return loose


class IgnoresDirections(Honest):
    def fit(self, problem, device="cpu"):
        return super().fit(loosened(problem), device)


@pytest.mark.parametrize("check", ["keeps_directions", "keeps_what_is_fixed", "never_beats_the_optimum"])
def test_ignored_directions(check):
    caught(IgnoresDirections, check)


class GradesRawTensors(Honest):
    """Asks the model about tensors, and prints them without rounding."""

    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        honest = super().find(people, options, seed, time_limit, progress)
        refused = (honest.status != Status.ACCEPTED).to_numpy()
        problem, x = self.problem_, self.problem_.schema.encode(people)[refused]
        if not len(x):
            return honest
        x_new = problem.relax(x, x + 0.731 * (self.points(x, Run().rng("points"))[:, 0] - x))
        good = (problem.margin(x_new) >= 0).numpy()
        rows = people.loc[refused, list(problem.schema.names)]
        for f, s in zip(problem.schema.features, problem.schema.slices):
            if isinstance(f, Number):
                rows[f.name] = f.low + x_new[:, s.start].numpy() * f.span
            else:
                rows[f.name] = f.decode(x_new[:, s].numpy())
        cost, margin = problem.cost(x, x_new).numpy(), problem.margin(x_new).numpy()
        rows = rows.assign(cost=cost, margin=margin)[good]
        status = honest.status.where(honest.status == Status.ACCEPTED, Status.NOT_FOUND)
        status[rows.index] = Status.FOUND
        keys = pd.MultiIndex.from_arrays([rows.index, np.zeros(len(rows), int)], names=["person", "option"])
        return replace(honest, options=rows.set_axis(keys), status=status)


@pytest.mark.parametrize("check", ["uses_legal_values", "is_accepted_as_printed"])
def test_raw_tensors_graded(check):
    caught(GradesRawTensors, check)


class KeepsNeedlessChanges(Honest):
    def __init__(self, samples: int = 3):
        super().__init__(samples)


def test_needless_changes(monkeypatch):
    monkeypatch.setattr(stages, "refine", lambda standard, x, x_new: x_new)
    report = caught(KeepsNeedlessChanges, "drops_nothing_for_free")
    assert "without its change of" in report.failed["drops_nothing_for_free"][0]


# -- chance and company ------------------------------------------------------------------------------------------


class UsesGlobalChance(Honest):
    def _search(self, x):
        return Proposal(self.points(x, np.random))


class SeedsGlobalChance(Honest):
    def _fit(self, problem):
        torch.manual_seed(0)


@pytest.mark.parametrize("cls", [UsesGlobalChance, SeedsGlobalChance])
def test_global_random_state(cls):
    caught(cls, "leaves_global_chance_alone")


class ForgetsItsSeed(Honest):
    def _search(self, x):
        return Proposal(self.points(x, np.random.default_rng())[:, 3:4])


def test_unseeded_chance():
    caught(ForgetsItsSeed, "repeats_itself")


class DrawsByPlace(Honest):
    """Every place in the batch gets numbers of its own, so that a person's answer depends on their neighbours."""

    def _search(self, x):
        lo, hi = self.problem_.bounds(x)
        share = torch.from_numpy(self.run.rng("points").random((2, len(x), x.shape[1]))).transpose(0, 1)
        return Proposal(lo.unsqueeze(1) + share * (hi - lo).unsqueeze(1))


def test_chance_by_place():
    caught(DrawsByPlace, "treats_twins_alike")


class ServesFirstComers(Honest):
    """Shows only the first half of the table its options."""

    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        answer = super().find(people, options, seed, time_limit, progress)
        return without(answer, list(people.index[len(people) // 2 :]))


def without(answer: Recourse, people: list) -> Recourse:
    """The answer with the options of some people taken away."""
    lost = [p for p in people if answer.status[p] == Status.FOUND]
    status, why = answer.status.copy(), answer.why.copy()
    for p in lost:
        status[p] = Status.NOT_FOUND
        why.loc[p, ["reason", "best_margin", "asked", "binding", "proof"]] = ["too late", 0.0, 0, "", ""]
    kept = [key not in lost for key in answer.options.index.get_level_values(0)]
    return replace(answer, options=answer.options[kept], status=status, why=why)


def test_order_of_people():
    caught(ServesFirstComers, "ignores_order")


# -- the tables --------------------------------------------------------------------------------------------------


class WritesIntoTheTable(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        answer = super().find(people, options, seed, time_limit, progress)
        for f in self.problem_.schema:
            people[f.name] = people[f.name].astype(object)
        return answer


class SortsTheTable(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        answer = super().find(people.copy(), options, seed, time_limit, progress)
        people.insert(0, "rank", range(len(people)))
        return answer


@pytest.mark.parametrize("cls", [WritesIntoTheTable, SortsTheTable])
def test_mutated_input(cls):
    caught(cls, "leaves_tables_untouched")


class ReadsColumnsByPlace(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        names = list(self.problem_.schema.names)
        if len(people.columns) == len(names):
            people = people.set_axis(names, axis=1)
        return super().find(people, options, seed, time_limit, progress)


def test_columns_by_place():
    caught(ReadsColumnsByPlace, "reads_columns_by_name")


class HoldsAFunction(Honest):
    def _fit(self, problem):
        self.score_ = lambda x: problem.margin(x)


def test_unpicklable():
    caught(HoldsAFunction, "survives_pickling")


class NeedsSomebody(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        people.iloc[0]
        return super().find(people, options, seed, time_limit, progress)


def test_empty_table():
    caught(NeedsSomebody, "answers_small_tables")


# -- what is said ------------------------------------------------------------------------------------------------


HONEST: dict[tuple, Recourse] = {}  # the honest answers, each searched once for all who tamper with it


class Tampers(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        asked = (self.problem_, people.to_csv(), options, seed)
        if asked not in HONEST:
            HONEST[asked] = super().find(people, options, seed, time_limit, progress)
        return self.tamper(HONEST[asked])


class UnderstatesCosts(Tampers):
    def tamper(self, answer):
        return replace(answer, options=answer.options.assign(cost=answer.options["cost"] * 0.9))


class OverstatesMargins(Tampers):
    def tamper(self, answer):
        return replace(answer, options=answer.options.assign(margin=answer.options["margin"] + 0.01))


class ShowsOptionsTwice(Tampers):
    def tamper(self, answer):
        first = answer.options[answer.options.index.get_level_values(1) == 0]
        people = first.index.get_level_values(0)
        twice = first.set_axis(
            pd.MultiIndex.from_arrays([people, np.ones(len(first), int)], names=["person", "option"])
        )
        return replace(answer, options=pd.concat([first, twice]).sort_index(level=0, sort_remaining=False))


class ShowsTheDearestFirst(Tampers):
    def tamper(self, answer):
        options = answer.options.iloc[::-1]
        number = options.groupby(level=0, sort=False).cumcount()
        keys = pd.MultiIndex.from_arrays([options.index.get_level_values(0), number], names=["person", "option"])
        return replace(answer, options=options.set_axis(keys))


class FillsWithNothing(Tampers):
    """The old habit: a row of NaN where nothing was found."""

    def tamper(self, answer):
        lost = answer.status.index[answer.status == Status.NOT_FOUND]
        keys = pd.MultiIndex.from_arrays([lost, np.zeros(len(lost), int)], names=["person", "option"])
        empty = pd.DataFrame(np.nan, index=keys, columns=answer.options.columns)
        options = pd.concat([answer.options.astype(object), empty.astype(object)])
        return replace(answer, options=options, status=answer.status.replace(Status.NOT_FOUND, Status.FOUND))


class TellsNothing(Tampers):
    def tamper(self, answer):
        return replace(answer, why=answer.why.iloc[:0])


class ForgetsTheAccepted(Tampers):
    def tamper(self, answer):
        return replace(answer, status=answer.status.replace(Status.ACCEPTED, Status.NOT_FOUND))


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (UnderstatesCosts, "tells_the_cost"),
        (UnderstatesCosts, "never_beats_the_optimum"),
        (OverstatesMargins, "is_accepted_as_printed"),
        (ShowsOptionsTwice, "shows_distinct_options"),
        (ShowsTheDearestFirst, "shows_distinct_options"),
        (FillsWithNothing, "keeps_missing"),
        (TellsNothing, "states_status_honestly"),
        (ForgetsTheAccepted, "leaves_accepted_alone"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_answers_tampered_with(cls, check):
    caught(cls, check)


class CallsEverythingImpossible(Honest):
    def _search(self, x):
        nothing = torch.full((len(x), 1, x.shape[1]), torch.nan, dtype=x.dtype)
        return Proposal(nothing, torch.ones(len(x), dtype=torch.bool), dict.fromkeys(range(len(x)), "take my word"))


def test_dishonest_impossible():
    caught(CallsEverythingImpossible, "proves_impossible_honestly")


class FindsNothing(Honest):
    def _search(self, x):
        return Proposal(torch.full((len(x), 1, x.shape[1]), torch.nan, dtype=x.dtype))


def test_a_method_that_finds_nothing():
    caught(FindsNothing, "finds_what_is_easy")


class CallsItselfExact(Honest):
    exact = True


def test_a_false_claim_of_exactness():
    caught(CallsItselfExact, "reaches_the_optimum")


class BreaksRules(Honest):
    def fit(self, problem, device="cpu"):
        free = copy.copy(problem)
        free.rules, free.declared_rules = (), ()
        return super().fit(free, device)


def test_broken_rules():
    report = caught(BreaksRules, "keeps_rules")
    assert "breaks the rule" in report.failed["keeps_rules"][0]


class RaisesWhenThereIsNone(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        answer = super().find(people, options, seed, time_limit, progress)
        if (answer.status == Status.NOT_FOUND).any():
            raise RuntimeError("no counterfactual found")
        return answer


def test_raising_for_want_of_recourse():
    report = caught(RaisesWhenThereIsNone, "answers_everyone")
    assert "no counterfactual found" in report.failed["answers_everyone"][0]


# -- conduct -----------------------------------------------------------------------------------------------------


class IgnoresTheClock(Honest):
    def _search(self, x):
        for _ in range(150):
            self.problem_.margin(x)  # `self.ask` would look at the clock
        return super()._search(x)


def test_time_limit_ignored():
    report = caught(IgnoresTheClock, "keeps_the_time_limit")
    assert "asked for 0.2 seconds" in report.failed["keeps_the_time_limit"][0]


class LosesParameters(Honest):
    def clone(self):
        return type(self)()


class ClipsParameters(Honest):
    def __init__(self, samples: int = 12):
        self.samples = samples if isinstance(samples, int) else 12


class RenamesParameters(Honest):
    def __init__(self, count: int = 12):
        self.samples = count


@pytest.mark.parametrize("cls", [LosesParameters, ClipsParameters, RenamesParameters])
def test_parameters_lost(cls):
    caught(cls, "keeps_parameters")


class StopsReporting(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        return super().find(people, options, seed, time_limit, progress and (lambda done, n: progress(done // 2, n)))


def test_progress_that_never_ends():
    caught(StopsReporting, "reports_progress")


class AnswersUnfitted(Honest):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        return super().find(people, options, seed, time_limit, progress) if hasattr(self, "problem_") else None


def test_find_before_fit():
    caught(AnswersUnfitted, "explains_find_before_fit")


class TakesAnyModel(Honest):
    def fit(self, problem, device="cpu"):
        self.problem_, self.device_ = problem, device
        return self


def test_a_model_without_the_capability():
    caught(TakesAnyModel, "fits_what_it_requires")


# -- the message -------------------------------------------------------------------------------------------------


def test_the_message_tells_what_is_wrong():
    with pytest.raises(ContractError) as caught_error:
        check_method(UnderstatesCosts, examples=2, data=False, only=["tells_the_cost", "keeps_rules"])
    text = str(caught_error.value)
    assert caught_error.value.names == ("tells_the_cost",)
    assert text.startswith("UnderstatesCosts() breaks 1 of 2 checks of the contract.")
    assert "tells_the_cost: the cost told is the cost of the printed row." in text
    assert "person" in text
    assert "excused =" in text
