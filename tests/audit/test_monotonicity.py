"""Going further than told: harmless where the margin rises throughout, fatal where it is a hump."""

import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.audit.robustness.monotonicity import overshoot
from turnabout.errors import ProblemError

SCHEMA = ta.Schema((ta.Number("hours", 0, 100, step=1),))
PEOPLE = pd.DataFrame({"hours": [20, 30, 60]})


class Hump(torch.nn.Module):
    """Accepts from 50 to 56 hours, and nothing else."""

    def __init__(self, width):
        super().__init__()
        self.width = torch.nn.Parameter(torch.tensor(width, dtype=torch.float64))

    def forward(self, x):
        return self.width - (x - 0.53).abs()


def answered(model):
    problem = ta.Problem(SCHEMA, model)
    return problem, ta.methods.LocalSearch().fit(problem).find(PEOPLE)


def test_rising_margins_lose_nobody():
    line = torch.nn.Linear(1, 1).double()
    line.weight.data.fill_(1.0)
    line.bias.data.fill_(-0.5)
    problem, answer = answered(ta.models.wrap(line, SCHEMA, output="logit"))
    assert (answer.status == ta.Status.FOUND).sum() == 2
    rate = overshoot(problem, answer)
    assert (rate.hits, rate.n) == (0, 2)


def test_a_password_is_lost_by_doing_more():
    """20 -> 50 becomes 65, 30 -> 50 becomes 60, 60 -> 56 becomes 54: two of three are refused."""
    problem, answer = answered(ta.models.wrap(Hump(0.03), SCHEMA, output="logit"))
    assert (answer.status == ta.Status.FOUND).all()
    rate = overshoot(problem, answer)
    assert (rate.hits, rate.n) == (2, 3)


def test_the_factor_goes_further():
    problem, answer = answered(ta.models.wrap(Hump(0.03), SCHEMA, output="logit"))
    for factor in (1, float("inf"), float("nan"), "a"):
        with pytest.raises(ProblemError, match="is not a number above 1"):
            overshoot(problem, answer, factor=factor)
