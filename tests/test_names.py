"""One name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import turnabout as ta

PACKAGE = Path(ta.__file__).parent


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_a_module_tells_its_content_without_its_folder():
    """A name may be shared by two modules of rooms that mirror each other; more tell nothing."""
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            places[path.stem].append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in places.items() if len(files) > 1}
