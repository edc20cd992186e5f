"""What a grid may say, and how it refuses what it may not."""

from __future__ import annotations

import numpy as np
import pytest

import turnabout as ta
from turnabout.bench import Grid
from turnabout.errors import BenchError, TurnaboutError

YAML = """
protocol: strict
data: [german]
models: [logistic, net]
methods:
  - NearestRow
  - Wachter: {lam: 0.1}
seeds: 2
people: all
options: 1
"""


def load(tmp_path, text):
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    return Grid.load(file)


def test_a_file_and_its_cells(tmp_path):
    grid = load(tmp_path, YAML)
    assert grid.people is None and grid.seeds == (0, 1) and grid.models == ("logistic", "net")
    assert [entrant.label for entrant in grid.methods] == ["NearestRow()", "Wachter(lam=0.1)"]
    cells = list(grid.cells())
    assert len(cells) == 2 * 2 * (1 + 2 * 2) == len({cell.key for cell in cells})
    assert cells[0].entrant.label == "doing nothing" and (cells[1].refine, cells[2].refine) == (True, False)


def test_all_methods_but_those_of_actions():
    labels = [entrant.label for entrant in Grid().methods]
    assert len(labels) == sum(not cls.needs_actions for cls in ta.methods.ALL)
    assert "ActionSequences()" not in labels
    assert [e.label for e in Grid(methods="all").methods] == labels


def test_methods_as_objects_and_classes():
    grid = Grid(methods=[ta.methods.Wachter(lam=0.2), ta.methods.Face, {ta.methods.Wachter: None}])
    assert [entrant.label for entrant in grid.methods] == ["Wachter(lam=0.2)", "Face()", "Wachter()"]


def test_small_is_a_part():
    grid = Grid(data=["german", "pima"], models=["net", "forest"], seeds=5, people=None, retrained=9).small()
    assert (grid.data, grid.models, grid.seeds) == (("german",), ("net",), (0,))
    assert (grid.people, grid.retrained) == (20, 2)
    assert Grid(people=7, retrained=1).small().people == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: [germany]", r"no data set 'germany'[\s\S]*did you mean 'german'"),
        ("models: [nets]", r"no model 'nets'[\s\S]*did you mean 'net'"),
        ("protocol: lax", r"no protocol 'lax'[\s\S]*known: strict, paper"),
        ("protocol: [strict]", r"no protocol \['strict'\]"),
        ("data: [[german]]", r"no data set \['german'\]"),
        ("models: 3", "3 names no model"),
        ("seeds: true", "seeds=True names no seeds"),
        ("methods: [Wacther]", r"no method 'Wacther'[\s\S]*did you mean 'Wachter'"),
        ("methods: Wachter", r"methods='Wachter' is no list"),
        ("methods: []", r"methods=\[\] is no list"),
        ("methods: [3]", "3 is no method"),
        ("methods: [{Wachter: {la: 1}}]", r"Wachter cannot be made of \{'la': 1\}"),
        ("methods: [{Wachter: 1}]", "Wachter has parameters 1"),
        ("methods: [Face, Face]", r"Face\(\) stands twice"),
        ("methods: ['no_such_package.x:Y']", r"'no_such_package.x:Y' cannot be imported: ModuleNotFoundError"),
        ("methods: ['turnabout.methods:Nobody']", "cannot be imported: AttributeError"),
        ("methods: ['turnabout:Schema']", "'turnabout:Schema' is no class of a Method"),
        ("seeds: 0", "seeds=0 names no seeds"),
        ("seeds: [1, 1]", r"seeds=\[1, 1\] names no seeds"),
        ("seeds: []", "names no seeds"),
        ("people: some", "people='some', which is not a whole number"),
        ("people: 1", "people=1, which is not a whole number from 2 up"),
        ("data: [german, german]", "name one twice"),
        ("data: []", "names no data set"),
        ("method: [Face]", r"a grid has no 'method'[\s\S]*did you mean 'methods'"),
        ("- german", "a grid is a mapping"),
        ("data: [german", "this grid is no YAML"),
    ],
)
def test_bad_files_say_what_would_be_right(tmp_path, text, said):
    with pytest.raises(BenchError, match=said) as error:
        load(tmp_path, text)
    assert "Hint:" in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TurnaboutError, match=r"the grid .* cannot be read"):
        Grid.load(tmp_path / "none.yaml")


def test_numbers_of_numpy_are_numbers():
    grid = Grid(people=np.int64(20), options=np.int64(2), time_limit=np.float32(3), seeds=[np.int64(1)])
    assert grid.fingerprint == Grid(people=20, options=2, time_limit=3, seeds=[1]).fingerprint


def test_parameters_are_checked_before_anything_is_measured():
    with pytest.raises(TurnaboutError, match="lam=-1"):
        Grid(methods=[{"Wachter": {"lam": -1}}])
    with pytest.raises(BenchError, match="options"):
        Grid(options=10**9)
    for seeds in (10**30, [2**32], 10_001):
        with pytest.raises(BenchError, match="names no seeds"):
            Grid(seeds=seeds)
