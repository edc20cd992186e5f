"""What importing turnabout loads: asked of one fresh process, for every test that wants to know."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

ROOMS = ("turnabout", "turnabout.render", "turnabout.testing")
CODE = f"""
import importlib, json, sys
found = {{}}
for name in {ROOMS}:
    importlib.import_module(name)
    found[name] = list(sys.modules)
print(json.dumps(found))
"""


@cache
def loaded() -> dict[str, set[str]]:
    """Names of all modules there are once a room, and those before it, are imported."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {room: set(names) for room, names in json.loads(done.stdout).items()}
