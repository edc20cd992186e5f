"""What an answer means for each person: an option or none, its cost, what it asks, whether it survives noise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch

from turnabout.audit.execution_noise import execution_noise
from turnabout.audit.robustness.decision_noise import kept
from turnabout.core import Problem, Recourse, Status
from turnabout.errors import AuditError, ProblemError
from turnabout.parameters import Choice, Instance, Maybe, Whole, checked

Measure = Literal["availability", "cost", "changes", "steps", "duration", "robustness"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
SHARES: tuple[Measure, ...] = ("availability", "robustness")
"""Measures that are shares of people, of which a low one is the worse; of the others, means, a high one is."""


@dataclass(frozen=True)
class Noise:
    """Gaussian noise in the execution of an option, as in `recourse_under_noise`.

    Parameters
    ----------
    sd : deviation of the noise by feature, in its units; other features get none.
    deviations : without sd, the deviation of the noise as a share of each feature's in the background.
    draws : of noise per option. With one, each person's option is kept or lost; with more they count by a share.
    """

    sd: Mapping[str, float] | None = None
    deviations: float = 0.1
    draws: int = 1


EXECUTION_NOISE = Noise()
"""The noise of the audits, unless another is given."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What each of n people gets from an answer; first options count.

    Attributes
    ----------
    refused : (n,) True for whom the model refuses.
    values : measure -> (n,) one number per person, NaN for people who are not counted: availability (0 or 1) is of the
        refused, everything else of those with an option. A measure that the answer cannot tell is absent: steps and
        duration without plans, robustness without noise.
    """

    refused: np.ndarray
    values: dict[Measure, np.ndarray]

    @checked(AuditError, measure=Choice(*MEASURES))
    def of(self, measure: Measure) -> np.ndarray:
        """(n,) one measure; refused where it is unknown to the library or to this answer."""
        if measure not in self.values:
            hint = "give noise=Noise()." if measure == "robustness" else "only answers with plans have steps and time."
            raise AuditError(f"the answer does not tell the {measure} of options.", hint=hint)
        return self.values[measure]


@checked(
    AuditError,
    noise=Maybe(Instance(Noise, hint="use Noise(deviations=0.1), or None to leave it out.")),
    seed=Whole(0, hint="use 0."),
)
def outcomes(problem: Problem, answer: Recourse, noise: Noise | None = None, seed: int = 0) -> Outcomes:
    """Read an answer person by person, after a check that it is one of this problem."""
    check_answer(problem, answer)
    found = (answer.status == Status.FOUND).to_numpy(dtype=bool)
    refused = answer.refused.to_numpy(dtype=bool)
    first, place = placed_first_options(answer)
    values: dict[Measure, np.ndarray] = {"availability": np.where(refused, found.astype(np.float64), np.nan)}

    def enter(measure: Measure, numbers: np.ndarray) -> None:
        values[measure] = np.full(len(answer.people), np.nan)
        values[measure][place] = numbers

    x_new = problem.schema.read(first).x
    enter("cost", first["cost"].to_numpy(dtype=np.float64))
    enter("changes", problem.schema.changed(problem.schema.read(answer.people.iloc[place]).x, x_new).sum(1).numpy())
    if len(answer.plans):
        plans = answer.plans.loc[first.index]
        enter("steps", plans["steps"].to_numpy(dtype=np.float64))
        enter("duration", plans["duration"].to_numpy(dtype=np.float64))
    if noise is not None:
        enter("robustness", _withstands(problem, x_new, noise, seed))
    return Outcomes(refused, values)


def _withstands(problem: Problem, x_new: torch.Tensor, noise: Noise, seed: int) -> np.ndarray:
    try:
        spread = execution_noise(problem, noise.sd, noise.deviations)
        yes = torch.ones(len(x_new), dtype=torch.bool)
        return kept(problem, x_new, yes, spread, noise.draws, seed).astype(np.float64)
    except ProblemError as error:
        raise AuditError(error.message, hint=f"{error.hint} noise=None leaves robustness out.") from None


def placed_first_options(answer: Recourse) -> tuple[pd.DataFrame, np.ndarray]:
    """Each person's first option, and their positions in the table."""
    first = answer.options[answer.options.index.get_level_values("option") == 0]
    return first, answer.people.index.get_indexer(first.index.get_level_values("person"))


def fingerprint(problem: Problem, answer: Recourse) -> str:
    """Tells the options of one answer from those of another, whatever their index says."""
    return hashlib.sha256(problem.schema.read(answer.options).x.numpy().tobytes()).hexdigest()


@checked(
    AuditError,
    problem=Instance(Problem, hint="pass the one the method was fitted to."),
    answer=Instance(Recourse, "an answer", hint="pass what method.find(people) returned."),
)
def check_answer(problem: Problem, answer: Recourse) -> None:
    """Refuse an answer that was not given for this problem: its model must decide as the answer says."""
    hint = "pass the problem that the method was fitted to."
    if not len(answer.people):
        raise AuditError("the answer is about nobody.", hint="find recourse for some people first.")
    if strange := [name for name in problem.schema.names if name not in answer.options.columns]:
        raise AuditError(f"the answer knows no feature '{strange[0]}': it is one to another problem.", hint=hint)
    said = (answer.status == Status.ACCEPTED).to_numpy(dtype=bool)
    decided = said | answer.refused.to_numpy(dtype=bool)
    asked = problem.judge(problem.schema.table(answer.people[decided])) >= 0
    odd = int((asked != said[decided]).sum())
    lost = int((~(problem.judge(problem.schema.table(answer.options)) >= 0)).sum()) if len(answer.options) else 0
    if odd or lost:
        raise AuditError(
            f"the problem's model decides otherwise than the answer says for {odd} of {len(said)} people, and refuses "
            f"{lost} of {len(answer.options)} options: the answer is one to another problem.",
            hint=hint,
        )
