"""The benchmark of the lecture: a small run, and what its figures must say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
DATA = Path(os.environ.get("TURNABOUT_DATA", "nowhere"))
needs_data = pytest.mark.skipif(
    not (DATA / "heloc" / "heloc_dataset_v1.csv.gz").is_file(), reason="TURNABOUT_DATA does not hold HELOC"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Figures of a small run, without the rivals, which have a test of their own."""
    folder = tmp_path_factory.mktemp("lecture")
    parts = "gaussian,theorem,known,german,heloc,german_remedy,coverage,speed"
    command = [sys.executable, "lecture.py", "--small", "--only", parts, "--json", str(folder / "figures.json")]
    done = subprocess.run([*command, "--out", str(folder)], cwd=PAPERS, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Excess risk of recourse" in done.stdout and (folder / "risk.png").is_file()
    return json.loads((folder / "figures.json").read_text(encoding="utf-8"))


@needs_data
def test_known_answers_are_found_again(run, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    from lecture.published import TARGET

    sampled = ("gaussian.population", "gaussian.at", "gaussian.neutral", "gaussian.boundary.c", "gaussian.mirror.c")
    compared = 0
    for name, text in TARGET.items():
        if name not in run or not text.replace(".", "").replace("-", "").isdigit():
            continue
        digits = len(text.partition(".")[2])
        near = 0.02 if name.startswith(sampled) else 0.51 * 10**-digits  # 20,000 people, or the printed digits
        assert run[name]["value"] == pytest.approx(float(text), abs=near, rel=5e-6), name  # files hold six digits
        compared += 1
    assert compared > 50
    assert run["gaussian.before"]["value"] == 0.109 and run["gaussian.after"]["value"] == 0.3
    assert run["gaussian.boundary.break_even"]["value"] == pytest.approx(2.0, abs=1e-9)
    assert abs(run["gaussian.mirror.delta"]["value"]) < 1e-9
    assert run["shapley.slide_error"]["value"] > 0.1


@needs_data
def test_the_table_of_risks_holds_every_cell(run):
    for name in ("german", "heloc"):
        for method in ("Wachter", "LocalSearch", "GrowingSpheres", "NearestRow"):
            for kind in ("compliant", "mixed", "defiant"):
                entry = run[f"{name}.{method}.{kind}.delta"]
                assert entry["value"] is not None and entry["people"] > 40
            defiant, compliant = (run[f"{name}.{method}.{kind}.delta"]["value"] for kind in ("defiant", "compliant"))
            mixed = run[f"{name}.{method}.mixed.delta"]["value"]
            assert mixed == pytest.approx((defiant + compliant) / 2, abs=1e-6)  # the difference is linear in rho
            before, after = run[f"{name}.{method}.before"]["value"], run[f"{name}.{method}.compliant.after"]["value"]
            assert after - before == pytest.approx(compliant, abs=1e-6)
    assert run["german.LocalSearch.mirror.price"]["value"] > 1


@needs_data
def test_speed_and_coverage_are_measured(run):
    assert run["risk.seconds_100000"]["people"] == 100_000
    assert 0.85 <= run["interval.coverage"]["value"] <= 1.0 and run["interval.coverage"]["people"] == 100
    assert run["shapley.seconds_16_features"]["value"] < 0.1


def test_full_says_beforehand_how_long(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    spec = importlib.util.spec_from_file_location("lecture_script", PAPERS / "lecture.py")  # a folder has its name
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    cells = script.plan_cells(full=True)
    assert {cell.domain for cell in cells} >= {"german", "heloc", "adult", "gmc", "taiwan", "coverage", "speed"}
    assert len([cell for cell in cells if cell.name == "heloc.Wachter"]) == 10
    assert sum(cell.seconds for cell in cells) > 600
