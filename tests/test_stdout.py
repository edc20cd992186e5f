"""Stdout belongs to data, also when a library in C prints behind Python's back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

from turnabout.stdout import stdout_for_data

NOISY = """
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
rng = np.random.default_rng(30)
n, m, kind = rng.integers(5, 40), rng.integers(3, 25), rng.integers(0, 4)
matrix = rng.normal(size=(m, n)) * 10.0 ** rng.integers(-4, 5, size=(m, 1)) * 10.0 ** rng.integers(-3, 4, size=(1, n))
b = matrix @ rng.integers(0, 5, n)
low = np.where(rng.random(m) < 0.3, b - 1e-7 * rng.integers(0, 3), -np.inf)
c, whole = rng.normal(size=n), (rng.random(n) < 0.6).astype(int)
rows = LinearConstraint(matrix, low, b + 1e-9)
def noisy():
    milp(c, constraints=rows, bounds=Bounds(0, 10.0 ** rng.integers(0, 7)), integrality=whole)
"""
"""A program of which HiGHS repairs a solution, and says so on stdout."""


def printed(code: str) -> tuple[str, str]:
    """Stdout and stderr of a process of its own, into pipes: C then keeps its text until the process ends."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_what_highs_prints_does_not_reach_stdout():
    guarded = "from turnabout.stdout import stdout_for_data\nprint('data')\nwith stdout_for_data():\n    noisy()\n"
    out, err = printed(NOISY + guarded + "print('more data')")
    assert out == "data\nmore data\n"
    if "tmpSolver" not in printed(NOISY + "noisy()")[0]:
        pytest.skip("this HiGHS is silent by itself")
    assert "tmpSolver" in err


def test_every_program_is_asked_in_silence(monkeypatch, capfd):
    import ctypes

    import scipy.optimize

    from turnabout.rules.regions.polytope import _is_empty
    from turnabout.rules.regions.vertices import solve_programs
    from turnabout.solvers.milp import MixedProgram
    from turnabout.studies.attribution_maps.conflict import _separate

    c = ctypes.CDLL(None)
    asked = []

    def loud(solve):
        def call(*given, **more):
            asked.append(c.puts(b"noise from C"))
            return solve(*given, **more)

        return call

    for name in ("milp", "linprog"):
        monkeypatch.setattr(scipy.optimize, name, loud(getattr(scipy.optimize, name)))
    ones = torch.ones(1, 2, dtype=torch.float64)
    assert not _is_empty([({"a": 1.0}, 0.0)], None)
    solve_programs(ones, 0 * ones, ones, ones, torch.ones(1, dtype=torch.float64))
    _separate(ones, ones)
    sheet = MixedProgram()
    sheet.objective = sheet.unknown(0, 1)
    sheet.solve(1.0, 0.0)
    c.fflush(None)
    seen = capfd.readouterr()
    assert len(asked) == 4 and seen.out == "" and seen.err.count("noise from C") == 4


def test_exact_linear_asks_in_silence():
    out, _ = printed(
        """
        import ctypes, scipy.optimize
        import pandas as pd
        import turnabout as ta
        solve, c = scipy.optimize.milp, ctypes.CDLL(None)
        def loud(*given, **more):
            c.puts(b"noise from C")
            return solve(*given, **more)
        scipy.optimize.milp = loud
        from sklearn.linear_model import LogisticRegression
        train = pd.DataFrame({"a": [0, 1, 2, 3, 4, 5], "b": [0, 2, 1, 5, 4, 3]})
        schema = ta.Schema((ta.Number("a", 0, 9, step=1), ta.Number("b", 0, 9, step=1)))
        model = ta.models.wrap(LogisticRegression().fit(train, train.a > 2), schema)
        rules = [ta.rules.Linear({"a": 1.0, "b": 1.0}, "<=", 9.0), ta.rules.AtMost(1)]
        problem = ta.Problem(schema, model, rules=rules)
        print(ta.methods.ExactLinear().fit(problem).find(train.head(1)).status[0])
        """
    )
    assert out == "FOUND\n"


def test_two_threads_leave_stdout_as_it_was(capfd):
    both = threading.Barrier(2)

    def work():
        with stdout_for_data():
            both.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    with stdout_for_data(), stdout_for_data():
        os.write(1, b"talk\n")
    os.write(1, b"data\n")
    seen = capfd.readouterr()
    assert (seen.out, seen.err) == ("data\n", "talk\n")


def test_an_error_inside_restores_stdout(capfd):
    with pytest.raises(ZeroDivisionError), stdout_for_data():
        raise ZeroDivisionError
    os.write(1, b"data\n")
    assert capfd.readouterr().out == "data\n"


def test_a_process_without_stdout_goes_on():
    out, err = printed(
        """
        import os, sys
        from turnabout.stdout import stdout_for_data
        os.close(1)
        with stdout_for_data():
            pass
        print("still here", file=sys.stderr)
        """
    )
    assert out == "" and "still here" in err
