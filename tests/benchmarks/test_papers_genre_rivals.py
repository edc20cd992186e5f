"""The benchmark of GenRe's rivals: its small size runs and writes its figures; formulas equal their slow references."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
FILES = ("adult/carla_adult.csv.gz", "compas/carla_compas.csv.gz", "adult/adult.data.gz")
DATA = Path(os.environ.get("TURNABOUT_DATA", "nowhere"))
needs_data = pytest.mark.skipif(
    not all((DATA / file).is_file() for file in FILES), reason="TURNABOUT_DATA does not hold the files of the study"
)


def figures_of(tmp_path, *arguments):
    """A small run's figures."""
    out = tmp_path / "figures.json"
    command = [sys.executable, str(PAPERS / "genre_rivals.py"), "--small", "--json", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(out.read_text()), done.stdout


def test_formulas_equal_their_slow_references(tmp_path):
    figures, told = figures_of(tmp_path, "--only", "checks")
    assert figures["ROAR.inner_maximum.error"]["value"] < 1e-6
    assert figures["PROBE.rate.error"]["value"] < 0.01
    assert figures["FACE.ways.error"]["value"] < 1e-9
    assert figures["german.VAE.bound.after"]["value"] > figures["german.VAE.bound.before"]["value"] + 1
    assert figures["german.VAE.round_trip"]["value"] < 0.5 * figures["german.VAE.mean_row"]["value"]
    assert "| PROBE.rate.error |" in told


@needs_data
@pytest.mark.slow
def test_small_run_writes_its_figures(tmp_path):
    figures, told = figures_of(tmp_path)
    for name in (
        "paper.compas.nothing.score", "paper.compas.CRUDS.score", "paper.compas.NNR_both.score", "german.ROAR.cost",
        "german.PROBE.found", "german.possible", "adult.CCHVAE.people_per_second", "adult.VAE.seconds",
        "german.FACE.refined.score", "adult.FACE.all_seconds",
    ):  # fmt: skip
        assert figures[name]["seeds"] == 1 and figures[name]["people"] > 0 and figures[name]["value"] is not None
    for name in ("ROAR", "PROBE", "CRUDS", "FACE"):
        for place in ("paper.compas", "german"):
            assert figures[f"{place}.{name}.violations"]["value"] == 0
            assert figures[f"{place}.{name}.refined.violations"]["value"] == 0
            assert figures[f"{place}.{name}.valid"]["value"] == 1
    assert "### COMPAS, GenRe's protocol: 20 people, 1 seed" in told
