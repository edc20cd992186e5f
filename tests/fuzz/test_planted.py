"""The oracle: silent about true answers, and aware of every planted fault."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import turnabout as ta
from fuzz.columns import Column
from fuzz.frames import as_parquet
from fuzz.oracle import judge
from fuzz.planted import PLANTED, planted_world, true_answer
from fuzz.planted_advice import ADVISED_FAULTS, advised_answer, advised_world

JUDGES = (
    "columns", "frames", "constraints", "costs", "grids", "oracle", "plans", "deciders", "formulas", "reaches", "ways",
)  # fmt: skip


@pytest.fixture(scope="module")
def answer() -> ta.Recourse:
    return true_answer(*planted_world())


def test_true_answers_are_not_accused(answer):
    assert (answer.counts()["FOUND"], answer.counts()["ACCEPTED"]) == (3, 1)
    assert judge(*planted_world(), answer).faults == []


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_seen(name, answer):
    plant, kind = PLANTED[name]
    found = [fault.kind for fault in judge(*planted_world(), plant(answer)).faults]
    assert kind in found


@pytest.fixture(scope="module")
def advice() -> ta.Recourse:
    return advised_answer(*advised_world())


def test_true_advice_is_not_accused(advice):
    assert advice.counts()["FOUND"] == 3
    assert len(advice.provided) and len(advice.options) > 5
    assert judge(*advised_world(), advice).faults == []


@pytest.mark.parametrize("name", ADVISED_FAULTS)
def test_planted_faults_of_advice_are_seen(name, advice):
    plant, kind = ADVISED_FAULTS[name]
    assert kind in [fault.kind for fault in judge(*advised_world(), plant(advice)).faults]


@pytest.mark.parametrize("name", JUDGES)
def test_judges_share_no_code_with_the_library(name):
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [alias.name for node in imports for alias in node.names]
    names += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.split(".")[0] == "turnabout" or name.startswith("fuzz.attack")]


def test_gaps_of_files():
    """Parquet tells no NaN from None among objects: what a model says of NaN is no evidence against a file."""
    flag = Column("debt", "binary", missing=True, dtype="object", levels=(False, True), mark="nan")
    number = Column("years", "number", missing=True, dtype="Float32", mark="NA")
    assert [column.mark for column in as_parquet((flag, number))] == ["None", "NA"]
