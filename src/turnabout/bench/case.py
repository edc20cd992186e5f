"""One question that methods are compared on, and how its answers are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from turnabout.core import Problem, Recourse

Judge = Callable[[Recourse], pd.DataFrame]
"""An answer -> one line per refused person, indexed by person; columns of numbers, NaN for people without an option."""


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
    """

    name: str
    problem: Problem
    people: pd.DataFrame
    real: pd.DataFrame
    judges: tuple[Judge, ...] = ()
