"""A short attack with fixed seeds. `make fuzz` is the long one; a fault prints the command that reproduces it."""

from __future__ import annotations

import pytest

from fuzz.questions import PER_WORLD
from fuzz.run import safely

BLOCKS, PROBLEMS = 6, PER_WORLD


@pytest.mark.parametrize("block", range(BLOCKS))
def test_attack(block):
    reports = [safely(seed) for seed in range(block * PROBLEMS, (block + 1) * PROBLEMS)]
    faults = [f"make fuzz ONE={r.seed}  {fault.kind}: {fault.text}" for r in reports for fault in r.faults]
    assert not faults, "\n".join(faults)
    assert sum(report.people for report in reports) > 2 * PROBLEMS
