"""What the pictures of the plane hold is what methods answered; the command writes it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from command_line import turnabout
from turnabout.bench import TOYS, pictures
from turnabout.bench.toy_tables import pose_toy
from turnabout.errors import BenchError


class Refuses(ta.Method):
    """Raises when it is fitted."""

    def _fit(self, problem):
        raise RuntimeError("out of order")

    def _search(self, x):
        raise AssertionError


@pytest.fixture(scope="module")
def moons():
    (picture,) = pictures("moons", ["NearestRow", "LocalSearch", "ExactLinear", Refuses], people=6, seed=1)
    return picture


@pytest.mark.parametrize("name", TOYS)
def test_the_network_has_learned_the_shape(name):
    case = pose_toy(name, 1000, 0)
    problem = case.problem
    said = problem.judge(problem.schema.table(problem.background)) >= 0
    assert (said == problem.labels.numpy()).mean() > 0.95
    refused = problem.judge(problem.schema.table(case.people)) < 0
    assert refused.all() and not set(case.people.index) & set(problem.background.index)
    assert len(case.people) + len(case.real) == 300


def test_seeds_draw_other_people_and_one_seed_the_same():
    first, again, other = (pose_toy("moons", 5, seed).people for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert not np.array_equal(first, other)


def test_panels_hold_what_find_answers(moons):
    case = pose_toy("moons", 6, 1)
    answer = ta.methods.LocalSearch().fit(case.problem).find(case.people, seed=1, refine=False)
    panel = next(one for one in moons.panels if one.method == "LocalSearch()")
    first = answer.options.xs(0, level="option").loc[panel.moves["person"]]
    assert np.array_equal(panel.moves[["new_x1", "new_x2"]], first[["x1", "x2"]])
    assert np.array_equal(panel.moves[["x1", "x2"]], case.people[["x1", "x2"]])
    assert panel.found == panel.validity == 1
    low, high = (np.array([getattr(f, end) for f in case.problem.schema]) for end in ("low", "high"))
    apart = panel.moves[["new_x1", "new_x2"]].to_numpy() - panel.moves[["x1", "x2"]].to_numpy()
    assert panel.cost == pytest.approx((np.abs(apart) / (high - low)).sum(1).mean(), rel=1e-4)
    assert 0 <= panel.inlier <= 1


def test_refined_options_are_no_farther(moons):
    (refined,) = pictures("moons", ["LocalSearch", "NearestRow"], people=6, seed=1, refine=True)
    costs = {panel.method: panel.cost for panel in moons.panels}
    assert refined.refined and not moons.refined
    assert all(panel.cost <= costs[panel.method] + 1e-6 for panel in refined.panels)


def test_methods_that_do_not_apply_are_told(moons):
    assert [panel.method for panel in moons.panels] == ["NearestRow()", "LocalSearch()"]
    apart, fails = moons.left_out.values()
    assert "needs a model that is Additive" in apart and fails == "RuntimeError: out of order"


def test_the_mesh_is_the_models_margin(moons):
    problem = pose_toy("moons", 6, 1).problem
    x1, x2 = float(moons.margins.columns[70]), float(moons.margins.index[20])
    asked = problem.judge(problem.schema.table(pd.DataFrame({"x1": [x1], "x2": [x2]})))
    assert moons.margins.iloc[20, 70] == pytest.approx(asked[0])
    assert moons.mesh["m"][20][70] == pytest.approx(asked[0], abs=1e-4)
    assert (moons.people["good"].to_numpy() == problem.labels.numpy()).all() and len(moons.people) == 300


def test_people_without_an_option_keep_their_line():
    (circles,) = pictures("circles", ["OneStep"], people=5)
    (panel,) = circles.panels
    assert panel.found == 0 and panel.cost is None and panel.validity is None
    assert panel.moves["new_x1"].isna().all() and len(panel.moves) == 5
    document = json.loads(circles.to_json())
    assert document["panels"][0]["moves"][0]["new_x1"] is None


def test_strange_arguments():
    with pytest.raises(BenchError, match=r"there is no picture 'moon'[\s\S]*did you mean 'moons'"):
        pictures("moon")
    with pytest.raises(BenchError, match=r"there is no method 'Wachtr'"):
        pictures(methods=["Wachtr"])
    with pytest.raises(BenchError, match="people=0"):
        pictures(people=0)
    with pytest.raises(BenchError, match="seed=-1"):
        pictures(seed=-1)


def test_progress_counts_methods():
    told = []
    pictures(["moons", "circles"], ["LocalSearch"], people=2, progress=lambda *at: told.append(at))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_the_command_writes_a_picture_and_its_data(tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "planes"
    asked = ("--out", folder, "--method", "LocalSearch", "--method", "ExactLinear", "--small")
    done = turnabout("pictures", *asked)
    assert done.returncode == 0 and not done.stdout
    assert sorted(file.name for file in folder.iterdir()) == ["circles.json", "circles.png", "moons.json", "moons.png"]
    assert (folder / "moons.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((folder / "moons.json").read_text())
    assert [panel["method"] for panel in document["panels"]] == ["LocalSearch()"]
    assert len(document["panels"][0]["moves"]) == 12 and document["versions"]["turnabout"] == ta.__version__
    assert "not drawn on moons: ExactLinear(): MethodError" in done.told


def test_the_command_fails_where_no_method_applies(tmp_path):
    pytest.importorskip("matplotlib")
    done = turnabout("pictures", "--out", tmp_path, "--method", "ExactLinear", "--data", "moons", "--small")
    assert done.returncode == 1 and "no method is drawn" in done.told


def test_the_command_refuses_what_it_cannot_draw(tmp_path):
    pytest.importorskip("matplotlib")
    assert turnabout("pictures").returncode == 2
    (tmp_path / "file").write_text("")
    assert "is not a folder" in turnabout("pictures", "--out", tmp_path / "file").told
    wrong = turnabout("pictures", "--out", tmp_path / "planes", "--method", "Wachtr")
    assert wrong.returncode == 1 and "did you mean 'Wachter'?" in wrong.told
    assert not (tmp_path / "planes").exists()
