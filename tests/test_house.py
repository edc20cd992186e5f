"""Rules of the house: what is shipped, what an import costs, what no file may hold."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import importlib.resources
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

import turnabout as ta
from imports import loaded

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "turnabout"
MODULES = sorted(SOURCE.rglob("*.py"))
WITH_EXAMPLES = [path for path in MODULES if ">>>" in path.read_text(encoding="utf-8")]

# A path that starts at the root of somebody's machine. A letter before the slash makes it part of a longer word or URL.
MACHINE_PATH = re.compile(r"(?<![\w.:/~$})-])/(?:home|root|Users|work|tmp|mnt)/\w")


def name_of(path: Path) -> str:
    """Path of a module, as seen from the source folder: the name of its test."""
    return path.relative_to(SOURCE).as_posix()


def project_files() -> list[Path]:
    """Tracked files, and new ones that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: there is no list of tracked files")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_import_leaves_optional_packages_alone():
    optional = [
        "matplotlib",
        "scipy.optimize",
        "sklearn",
        "lightgbm",
        "xgboost",
        "catboost",
        "polars",
        "hypothesis",
        "pytest",
    ]
    assert [name for name in optional if name in loaded()["turnabout"]] == []


def test_types_are_shipped():
    assert importlib.resources.files("turnabout").joinpath("py.typed").is_file()


def test_version_is_that_of_the_installed_package():
    try:
        installed = importlib.metadata.version("turnabout")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("turnabout is imported from its sources and not installed")
    assert ta.__version__ == installed


def test_version_is_that_of_pyproject():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    assert ta.__version__ == declared[1]


def test_changelog_knows_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{ta.__version__}]" in text or "## [Unreleased]" in text


def test_no_path_of_a_machine_in_any_file():
    found = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_machine_path"),
    [
        ("see " + "/home" + "/ann/x.csv", True),
        ('open("' + "/tmp" + '/a")', True),
        ("https://example.org/home/page", False),
        ("docs/home/notes", False),
    ],
)
def test_a_path_of_a_machine_is_told_from_other_text(text, is_machine_path):
    assert bool(MACHINE_PATH.search(text)) is is_machine_path


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_module_is_called_utils():
    assert [name_of(path) for path in MODULES if path.stem in {"utils", "util", "helpers", "misc"}] == []


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=name_of)
def test_examples_in_docstrings_run(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_a_person_is_they():
    """In code, messages and docs; names of authors and of data stand in other words."""
    gendered = re.compile(r"\b(s?[h]e|[h]ers?|[h]im|[h]is|[h]erself|[h]imself)\b", re.IGNORECASE)
    found = []
    for path in project_files():
        if path.suffix in (".py", ".md", ".yaml", ".html"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{path.name}:{i}: {line.strip()}" for i, line in enumerate(lines, 1) if gendered.search(line)]
    assert found == []


def rooms():
    """The rooms that a user reaches from `turnabout`, and those that are imported by name."""
    import turnabout.core
    import turnabout.render
    import turnabout.schema

    public = [getattr(ta, name) for name in ta.__all__]
    inside = [room for room in public if isinstance(room, ModuleType)]
    return [ta, *inside, turnabout.core, turnabout.render, turnabout.schema]


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.__name__)
def test_a_room_shows_its_public_names_and_leaks_no_import(room):
    assert set(dir(room)) - {"__version__"} == set(room.__all__)
    assert all(hasattr(room, name) for name in room.__all__)
    for name, thing in vars(room).items():
        own = isinstance(thing, ModuleType) and thing.__name__ == f"{room.__name__}.{name}"
        assert own or name.startswith("_") or name in room.__all__, name


def test_the_guard_is_a_matter_of_the_core():
    assert not hasattr(ta, "GUARD") and ta.core.GUARD == 1e-9


RULE_BASES = {"Rule", "Region", "Box"}  # may be asked for where arguments and files are checked


def asked_for_rules(tree: ast.Module) -> list[str]:
    """Kinds of rules that a module asks for by isinstance, issubclass or a class pattern."""
    kinds = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[:2] == ["turnabout", "rules"]
        for alias in node.names
        if alias.name not in RULE_BASES
    }
    asked = [
        node.args[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"isinstance", "issubclass"}
    ]
    asked += [node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    found = []
    for part in (part for whole in asked for part in ast.walk(whole)):
        if isinstance(part, ast.Name) and part.id in kinds:
            found.append(part.id)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value).split(".")[-1] == "rules":
            found += [part.attr] if part.attr not in RULE_BASES else []
    return found


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("from turnabout.rules import BoundAtMost as Some\nisinstance(rule, (int, Some))", ["Some"]),
        ("from turnabout.rules.regions import BoundBox\nisinstance(rule, int | BoundBox)", ["BoundBox"]),
        ("from turnabout import rules\nisinstance(rule, rules.AtMost)", ["AtMost"]),
        ("from turnabout.rules import Linear\nmatch rule:\n    case Linear():\n        pass", ["Linear"]),
        ("from turnabout.rules import Rule\nisinstance(rule, Rule)", []),
        ("from torch import nn\nisinstance(layer, nn.Linear)", []),
        ("from turnabout.rules import Box\nBox()", []),
    ],
)
def test_asking_for_a_kind_of_rule_is_seen(text, kinds):
    assert asked_for_rules(ast.parse(text)) == kinds


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nobody_asks_which_kind_a_rule_is(path):
    """A rule says for itself what others need to know of it, so that rules of anyone's own are rules too."""
    if name_of(path).split("/")[0] in {"rules", "studies", "testing"}:
        return
    assert asked_for_rules(ast.parse(path.read_text(encoding="utf-8"))) == []
