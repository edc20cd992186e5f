"""The benchmark of sensible advice: its small size runs, writes its figures, and what is promised holds there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sensible.py"


def test_the_small_size_writes_its_figures(tmp_path):
    out = tmp_path / "figures.json"
    done = subprocess.run([sys.executable, SCRIPT, "--small", "--json", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    for name in ("against", "tiny_share", "duplicate_share", "off_grid", "beyond"):
        assert figures[f"german.logistic.{name}"] == 0, name
    assert figures["german.logistic.off_grid_before"] > 0.5  # what is measured can be seen
    assert figures["german.logistic.found"] == 1 and figures["german.logistic.effort"] < 1.1
    assert figures["identities.found_share"] == 1 and figures["identities.inconsistent"] == 0
    assert figures["identities.inconsistent_before"] > 0.5
