"""How probably acts succeed when structural equations are estimates: draws of their coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from turnabout.core import Problem
from turnabout.errors import MethodError
from turnabout.parameters import Whole, checked
from turnabout.rules import BoundRule, StructuralEquations, equations_of
from turnabout.rules.equations_bound import BoundEquations
from turnabout.typing import Tensor

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1 << 16  # rows under drawn equations asked of the model at a time


class Judged(BoundRule):
    """A rule that only says yes or no: it repairs nothing."""

    def relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        return x_new

    def snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.schema.snap(x, x_new)

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        return x_new

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        return x_new


class Chance(Judged):
    """Accepted in a share of the drawn sets of equations, one standard error beyond what is asked for. (3)"""

    def __init__(self, problem: Problem, equations: BoundEquations, draws: int, chance: float, seed: int):
        super().__init__(f"accepted in {chance:.4g} of {draws} draws of the equations", problem.schema, ())
        self.problem, self.equations = problem, equations
        self.draws = _draws(equations, draws, seed)
        self.aim = min(1.0, chance + (chance * (1 - chance) / draws) ** 0.5)

    def share(self, x: Tensor, x_new: Tensor, held: Tensor) -> Tensor:
        """(n,) of the draws after which the model says yes."""
        return share_accepted(self.problem, self.equations, x, x_new, held, self.draws)

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        x = x.expand_as(x_new)
        gap = torch.full_like(x_new[..., 0], self.aim)  # what is refused as it stands need not be drawn
        yes = self.problem.margin(x_new) >= 0
        if yes.any():
            own, row = x[yes], x_new[yes]
            gap[yes] = self.aim - self.share(own, row, self.equations.held(own, row))
        return gap


def share_accepted(
    problem: Problem, equations: BoundEquations, x: Tensor, x_new: Tensor, held: Tensor, draws: Mapping[str, Tensor]
) -> Tensor:
    """(n, d), (n, d), (n, q) -> (n,): share of the draws under which the acts of x_new lead to a yes."""
    count = len(next(iter(draws.values())))
    share = torch.zeros_like(x_new[:, 0])
    for some in torch.arange(len(x), device=x.device).split(max(1, ROWS // count)):
        rows = equations.predict(x[some], x_new[some], held[some], draws, printed=True)  # (s, n, d)
        share[some] = (problem.margin(rows) >= 0).to(x.dtype).mean(0)
    return share


@checked(MethodError, draws=Whole(1), seed=Whole(0))
def success_probability(
    problem: Problem, people: pd.DataFrame, rows: pd.DataFrame, draws: int = 200, seed: int = 0
) -> pd.DataFrame:
    """How probably rows lead to a yes when the equations are estimates: columns probability and standard_error.

    Coefficients are drawn from the Gaussian of least squares; under each draw the person's noise is abducted, the acts
    are taken (features without an equation, and those of `acts` that did not just follow), and their consequences
    rounded and judged. The standard error is binomial, sqrt(q (1 - q) / draws) with q = (yes + 1/2) / (draws +
    1), so that it is not 0 where every draw says yes. It is that of the simulation, not of a wrong graph.

    Parameters
    ----------
    problem : with one `StructuralEquations` rule that has covariances, as from its `fit`.
    people : as given to find.
    rows : `options` of an answer, or rows under the index of people.
    """
    found = equations_of(problem.rules)
    if len(found) != 1:
        raise MethodError(
            f"the problem has {len(found)} sets of structural equations.", hint="pass rules=[StructuralEquations(...)]."
        )
    if people.index.has_duplicates:
        twice = people.index[people.index.duplicated()].tolist()[0]
        raise MethodError(f"two people share the index label {twice!r}.", hint="give each person a label of their own.")
    equations = found[0]
    place = people.index.get_indexer(rows.index.get_level_values(0))
    if (place < 0).any():
        stranger = rows.index.get_level_values(0)[int((place < 0).argmax())]
        raise MethodError(f"row {stranger!r} belongs to none of the people.", hint="rows carry the people's index.")
    x, x_new = problem.schema.encode(people.iloc[place]), problem.schema.encode(rows)
    drawn = _draws(equations, draws, seed)
    share = share_accepted(problem, equations, x, x_new, equations.held(x, x_new), drawn).numpy()
    near = (share * draws + 0.5) / (draws + 1)
    return rows[[]].assign(probability=share, standard_error=np.sqrt(near * (1 - near) / draws))


def _draws(equations: BoundEquations, draws: int, seed: int) -> dict[str, Tensor]:
    if not any(equation.covariance is not None for equation in equations.equations):
        raise MethodError(
            "none of the structural equations has a covariance: they are taken as known, and there is nothing to draw.",
            hint="estimate them with StructuralEquations.fit, give Equation(covariance=...), or use draws=0.",
        )
    return StructuralEquations(equations.equations).draw(seed, draws)
