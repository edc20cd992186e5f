"""Every script in examples/ runs and prints something."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_runs(script):
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        scope = runpy.run_path(str(script), run_name="__main__")
    assert heard.getvalue().strip()
    answer = scope["answer"]
    assert answer.counts()["FOUND"] == len(answer) and len(answer.options) == 3
