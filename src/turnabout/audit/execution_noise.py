"""Execution noise in people's rows: in which columns, and how much in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from turnabout.core import Problem
from turnabout.errors import ProblemError
from turnabout.parameters import Instance, Maybe, Positive, checked
from turnabout.schema import Binary, Scalar
from turnabout.solvers.legal_rows import movable
from turnabout.typing import Tensor, is_number


@dataclass(frozen=True)
class ExecutionNoise:
    """The columns that noise is added to, and one deviation of each in encoded units.

    Noise is added to numbers and ordinals among the features that may move; a level of a category or of a binary does
    not move, and a missing cell stays missing.
    """

    columns: Tensor  # (s,)
    sd: Tensor  # (s,)
    names: tuple[str, ...]
    indicator: Tensor  # (s,) column that says a cell is missing, or -1

    def stuck(self, x: Tensor) -> Tensor:
        """(n, s) True where a cell is missing."""
        flags = x[:, self.indicator.clamp(min=0)] > 0.5
        return flags & (self.indicator >= 0)

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        """x (n, d) with changes (n, s), counted in deviations, added to its columns."""
        out = x.clone()
        out[:, self.columns] += torch.where(self.stuck(x), 0.0, change * self.sd)
        return out


@checked(
    ProblemError,
    sd=Maybe(Instance(Mapping, "a mapping of features", hint="write sd={'hours': 1.2}, in the features' units.")),
    deviations=Positive(hint="use a number above 0, like 0.1."),
)
def execution_noise(
    problem: Problem, sd: Mapping[str, float] | None = None, deviations: float = 1.0, background: Tensor | None = None
) -> ExecutionNoise:
    """Deviations by name in the features' units, or `deviations` sample deviations of the background."""
    schema = problem.schema
    able = [
        f
        for f in movable(problem)
        if isinstance(schema.features[f], Scalar) and not isinstance(schema.features[f], Binary)
    ]
    if not able:
        raise ProblemError(
            "no number and no ordinal may move: there is nothing for noise to shake.",
            hint="look at moves= in the schema, and at the regions among the rules.",
        )
    if sd is not None:
        names, sizes = _named(problem, sd, able)
    else:
        names, sizes = _measured(problem, able, deviations, background)
    columns = torch.tensor([schema.slices[schema.index(name)].start for name in names], dtype=torch.long)
    indicator = schema.missing_column[columns]
    return ExecutionNoise(columns, torch.tensor(sizes, dtype=torch.float64), tuple(names), indicator)


def _named(problem: Problem, sd: Mapping[str, float], able: list[int]) -> tuple[list[str], list[float]]:
    schema = problem.schema
    known = [schema.names[f] for f in able]
    sizes = []
    for name, size in sd.items():
        if name not in known:
            raise ProblemError(
                f"noise is asked for on '{name}', which is no number or ordinal that may move.",
                hint=f"name some of {', '.join(known)}.",
            )
        if not (is_number(size) and size >= 0):
            raise ProblemError(f"the noise on '{name}' is {size!r}.", hint="give its deviation in the feature's units.")
        feature = schema[name]
        assert isinstance(feature, Scalar)
        sizes.append(float(size) / feature.span)
    return list(sd), sizes


def _measured(
    problem: Problem, able: list[int], deviations: float, background: Tensor | None
) -> tuple[list[str], list[float]]:
    """Sample deviations of the background's columns, missing cells left out."""
    rows = problem.background_x if background is None else background
    if rows is None or len(rows) < 2:
        raise ProblemError(
            "the size of the noise is not known: the problem has no background to measure it on.",
            hint="pass background=... to Problem, or sd={'hours': 1.2} in the features' units.",
        )
    names, sizes = [], []
    for f in able:
        column = problem.schema.slices[f].start
        flag = int(problem.schema.missing_column[column])
        present = rows[:, column] if flag < 0 else rows[rows[:, flag] < 0.5, column]
        names.append(problem.schema.names[f])
        sizes.append(deviations * float(present.std()) if len(present) > 1 else 0.0)
    return names, sizes
