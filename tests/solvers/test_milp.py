"""The one builder of integer programs: what is written down is what the solver is asked."""

from __future__ import annotations

import numpy as np
import pytest

from turnabout.solvers.milp import LinearSum, MixedProgram


def test_weights_become_a_sum_without_those_that_are_zero():
    line = LinearSum.of(np.array([0.0, 2.0, -0.0, -3.0]))
    assert line.terms == {1: 2.0, 3: -3.0} and line.constant == 0.0
    assert line.at(np.array([7.0, 1.0, 7.0, 2.0])) == -4.0


@pytest.mark.parametrize("scaled", [True, False])
def test_the_cheapest_whole_numbers(scaled):
    """min 3 a + 2 b  s.t.  2000 a + 1000 b >= 5000,  a <= 2: a = 2, b = 1."""
    program = MixedProgram(scaled)
    a, b = (program.unknown(0.0, 10.0, whole=True) for _ in range(2))
    program.between(a * 2000.0 + b * 1000.0, low=5000.0)
    program.between(a, high=2.0)
    program.objective = LinearSum.of(np.array([3.0, 2.0]))
    result = program.solve(10.0, 0.0)
    assert result.x.tolist() == [2.0, 1.0] and result.fun == 8.0


def test_a_row_without_unknowns_may_say_that_there_is_no_solution():
    for scaled, status in ((False, 2), (True, 0)):
        program = MixedProgram(scaled)
        program.unknown(0.0, 1.0, whole=True)
        program.between(LinearSum(), high=-1.0)
        assert program.solve(10.0, 0.0).status == status
