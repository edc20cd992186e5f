"""One question that methods are compared on, and how its answers are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from turnabout.core import Problem, Recourse
from turnabout.metrics.plausibility import RealPeople
from turnabout.models import Model

Judge = Callable[[Recourse], pd.DataFrame]
"""An answer -> one line per refused person, indexed by person; columns of numbers, NaN for people without an option.

A judge that counts people without an option as doing nothing, as published protocols do, gives them numbers and says
so.
"""


@dataclass(frozen=True)
class BenchCase:
    """A problem, the people who are asked about, and real people to compare their new rows with.

    Parameters
    ----------
    name : data set and model, as "adult/net".
    problem : the question that methods are fitted to.
    people : refused people, none of whom is in the problem's background.
    real : accepted people who are neither in the background nor among those asked about.
    judges : further measures of an answer, such as those of a published protocol.
    retrained : models of the same kind, trained on other draws of the training people.
    groups : columns of groups between which scores are compared, with the index of the people; None for no comparison.
    """

    name: str
    problem: Problem
    people: pd.DataFrame
    real: pd.DataFrame
    judges: tuple[Judge, ...] = ()
    retrained: tuple[Model, ...] = ()
    groups: pd.DataFrame | None = None
    _measured: dict[int, RealPeople] = field(default_factory=dict, init=False, repr=False, compare=False)

    def real_people(self, seed: int) -> RealPeople:
        """The real people, measured once for all methods."""
        if seed not in self._measured:
            self._measured[seed] = RealPeople.of(self.problem, self.real, seed)
        return self._measured[seed]
