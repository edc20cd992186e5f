"""Whether the model is monotone along its own advice: doing more than was asked should not bring a refusal."""

from __future__ import annotations

from turnabout.audit.aligned import first_options
from turnabout.core import Problem, Recourse
from turnabout.errors import ProblemError
from turnabout.intervals import Rate
from turnabout.parameters import Finite, checked


@checked(ProblemError, factor=Finite(above=1, hint="use a number above 1, such as 1.5."))
def overshoot(problem: Problem, answer: Recourse, factor: float = 1.5) -> Rate:
    """Share of people whose recourse is lost by going on in the same direction.

        x + factor * (x_new - x),    lost if its margin is below 0                                            (1)

    First options count; the point of (1) is neither rounded nor held within bounds. A model that was trained to grant
    recourse may do so at values that few people have and everyone can reach; then this share is far above 0. It is 0
    for a model that is monotone in what people change, if every change is in the favorable direction; consequences by
    structural equations need not be.

    Parameters
    ----------
    factor : how far to go, above 1; 1.5 is half as far again.
    """
    first = first_options(answer)
    x, x_new = problem.schema.encode(answer.people.loc[first.index]), problem.schema.encode(first)
    return Rate.among((problem.margin(x + factor * (x_new - x)) < 0).numpy())
