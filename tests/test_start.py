"""What `import turnabout` and the command line load: nothing heavy before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import turnabout as ta

HEAVY = ("torch", "pandas", "numpy", "scipy", "sklearn", "matplotlib")


@pytest.mark.parametrize("code", ["import turnabout", "import turnabout.cli", "import turnabout; dir(turnabout)"])
def test_nothing_heavy_is_loaded_before_it_is_used(code):
    run = f"{code}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_is_there():
    for name in ta.__all__:
        assert getattr(ta, name) is not None
    assert ta.Schema is ta.schema.Schema
    assert ta.find is ta.methods.find


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'Shcema'"):
        _ = ta.Shcema
    with pytest.raises(ImportError):
        exec("from turnabout import nothing")
