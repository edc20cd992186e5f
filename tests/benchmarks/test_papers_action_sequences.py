"""The benchmark of the paper on action sequences: its own arithmetic, its ledger, and a small run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.fixture
def parts(monkeypatch):
    """The folder of the benchmark's modules, importable."""
    monkeypatch.syspath_prepend(str(PAPERS))


def test_closed_forms_are_no_dearer_than_random_plans(parts):
    from action_sequences.linear import cheapest_absolute, cheapest_squared

    rng = np.random.default_rng(0)
    w, s, room = np.array([1.0, -2.0, 0.5]), np.array([0.7, 1.5, 3.0]), np.array([1.0, 0.8, 9.0])
    moves = rng.uniform(-1, 1, (20_000, 3)) * room
    gain = moves @ w
    moves, gain = moves[gain > 0.3], gain[gain > 0.3]
    squared = ((moves / s) ** 2).sum(1)
    assert (squared / gain**2 >= cheapest_squared(w, s, 1.0) * (1 - 1e-9)).all()
    absolute = (np.abs(moves) / s).sum(1)
    exact = np.array([cheapest_absolute(w, s, need, room) for need in gain])
    assert (absolute >= exact * (1 - 1e-9)).all()
    assert (absolute / exact).min() < 1.2
    assert cheapest_absolute(w, s, 1e9, room) == np.inf


def test_scan_finds_the_boundary_of_a_network_that_counts_months(parts):
    from action_sequences.scan import DEVIATION, DURATION, MEAN, Network, one_action

    network = Network.__new__(Network)  # accepts loans of at most 12 months
    first = np.zeros((63, 1))
    first[DURATION] = -DEVIATION[DURATION]
    network.layers = [(first, np.array([12 - MEAN[DURATION] + 1000])), (np.eye(1), np.zeros(1))]
    network.layers.append((np.array([[1.0, 0.0]]), np.array([-1000.0, 0.0])))
    z = np.zeros(63)
    z[DURATION] = (36 - MEAN[DURATION]) / DEVIATION[DURATION]
    assert one_action(network, z, "ChangeLoanPeriod", 1000) == pytest.approx((24 / 36) ** 2, rel=1e-9)
    assert one_action(network, z, "WaitYears", 1000) == np.inf


def test_a_stopped_run_goes_on_and_other_code_does_not_count(parts, tmp_path, monkeypatch):
    import ledger

    asked = []

    def measure(seed: int) -> ledger.Outcome:
        asked.append(seed)
        return ledger.Outcome({"toy.cost": (1.0 + seed, 5), "toy.nothing": (np.nan, 5)})

    cells = [ledger.Cell("toy", "toy", 1.0, lambda seed=seed: measure(seed), seed) for seed in (0, 1)]
    first = ledger.Ledger(tmp_path, {"full": True})
    first.do(cells[0])
    with first.file.open("a") as file:
        file.write('{"cell": "toy", "se')  # stopped while writing
    with first.file.open("a") as file:
        file.write("\n")
    second = ledger.Ledger(tmp_path, {"full": True})
    for cell in cells:
        if not second.has(cell):
            second.do(cell)
    assert asked == [0, 1]
    figures = ledger.gather(second.lines.values())
    cost = figures["toy.cost"]
    assert (cost["value"], cost["people"], cost["seeds"], cost["min"], cost["max"]) == (1.5, 5, 2, 1.0, 2.0)
    assert cost["high"] - 1.5 == pytest.approx(12.7062 * 0.5, rel=1e-4)  # Student's, one degree of freedom
    assert cost["low"] + cost["high"] == pytest.approx(3.0)
    assert figures["toy.nothing"]["value"] is None
    assert not ledger.Ledger(tmp_path, {"full": False}).lines
    monkeypatch.setattr(ledger, "fingerprint", lambda proofs: "other")
    assert not ledger.Ledger(tmp_path, {"full": True}).lines


def run(tmp_path: Path, data_home: Path, *options: str) -> tuple[dict, str]:
    """The figures of a small run, and what it printed."""
    file = tmp_path / "figures.json"
    command = [sys.executable, str(PAPERS / "action_sequences.py"), "--small", "--json", str(file), *options]
    environment = os.environ | {"TURNABOUT_DATA": str(data_home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), done.stdout


def test_small_run_names_its_figures(tmp_path, data_home):
    figures, told = run(tmp_path, data_home, "--only", "german,linear", "--out", str(tmp_path))
    assert "cells on cpu" in told and "german.len1_worst_gap_to_scan" in told
    for name in (
        *("solved", "mean_cost", "median_cost", "len1.mean_cost", "len2.mean_cost", "hard_check_share"),
        *("seconds", "ms_per_sequence", "ms_per_nominal_sequence", "one_person_seconds", "do_nothing_solved"),
        *("len1_worst_gap_to_scan", "certified_share", "certificate_seconds", "plain_share"),
        *("iterations_breadth", "iterations_objective", "iterations_gradient", "scores_end_at_brute_force"),
    ):
        assert set(figures[f"german.{name}"]) == {"value", "people", "seeds"}, name
    assert figures["german.solved"]["value"] == figures["german.solved"]["people"]
    assert figures["german.hard_check_share"]["value"] == 100
    assert figures["german.do_nothing_solved"]["value"] == 0
    assert figures["german.len1_worst_gap_to_scan"]["value"] < 1e-3
    assert figures["linear.worst_relative_gap"]["value"] < 1e-4
    assert figures["german.scores_end_at_brute_force"]["value"] == 100


@pytest.mark.slow
def test_small_run_knows_every_domain(tmp_path, data_home):
    figures, _ = run(tmp_path, data_home)
    for name in ("german", "adult", "fanniemae"):
        assert figures[f"{name}.hard_check_share"]["value"] == 100
        assert figures[f"{name}.solved"]["value"] == figures[f"{name}.solved"]["people"]
    assert {"adult.robust_share", "adult.robust_extra_cost", "adult.plain_share"} <= set(figures)


def test_misuse_is_explained(parts, capsys):
    spec = importlib.util.spec_from_file_location("action_sequences_script", PAPERS / "action_sequences.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)  # by its file: a folder has its name
    spec.loader.exec_module(script)
    with pytest.raises(SystemExit) as stop:
        script.main(["--only", "mars"])
    assert stop.value.code == 2 and "there is no mars" in capsys.readouterr().err
