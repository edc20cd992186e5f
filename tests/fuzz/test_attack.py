"""A short attack with fixed seeds. `make fuzz` is the long one; a fault prints the command that reproduces it."""

from __future__ import annotations

import pytest

from fuzz.advised import ADVISED
from fuzz.questions import PER_WORLD
from fuzz.run import safely, warm_up

PROBLEMS = PER_WORLD
BLOCKS = [*range(6), *range(ADVISED // PROBLEMS, ADVISED // PROBLEMS + 4)]  # of both kinds of worlds


@pytest.mark.parametrize("block", BLOCKS)
def test_attack(block):
    warm_up()
    reports = [safely(seed) for seed in range(block * PROBLEMS, (block + 1) * PROBLEMS)]
    faults = [f"make fuzz ONE={r.seed}  {fault.kind}: {fault.text}" for r in reports for fault in r.faults]
    assert not faults, "\n".join(faults)
    assert sum(report.people for report in reports) > 2 * PROBLEMS
