"""The points, lines and regions drawn are those of the tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from turnabout.errors import TurnaboutError
from turnabout.render import draw_plane, save_planes
from turnabout.render.plane_drawing import _finding, _found

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

PEOPLE = pd.DataFrame({"x1": [0.0, 1.0, 2.0], "x2": [0.0, 1.0, 2.0], "good": [False, True, True]})
AXIS = np.linspace(0, 2, 5)
MARGINS = pd.DataFrame(np.add.outer(AXIS, AXIS) - 2, index=AXIS, columns=AXIS)
MOVES = pd.DataFrame({"x1": [0.5, 0.2], "x2": [0.5, 0.1], "new_x1": [1.5, np.nan], "new_x2": [0.5, np.nan]})


def panel(method="Wachter()", found=0.5, cost=0.25, inlier=1.0, moves=MOVES):
    moves = moves.astype(object).where(moves.notna(), None).to_dict("records")
    return {"method": method, "found": found, "validity": 1.0, "cost": cost, "inlier": inlier, "moves": moves}


def by_label(ax):
    return {artist.get_label(): artist for artist in ax.collections}


def test_points_and_lines():
    ax = draw_plane(PEOPLE, MARGINS, MOVES, title="all for $0")
    drawn = by_label(ax)
    assert drawn["good outcome"].get_offsets().tolist() == [[1, 1], [2, 2]]
    assert drawn["bad outcome"].get_offsets().tolist() == [[0, 0]]
    assert drawn["refused person"].get_offsets().tolist() == [[0.5, 0.5], [0.2, 0.1]]
    assert drawn["option"].get_offsets().tolist() == [[1.5, 0.5]]
    assert [line.tolist() for line in drawn["change"].get_segments()] == [[[0.5, 0.5], [1.5, 0.5]]]
    assert ax.get_title(loc="left") == r"all for \$0"
    matplotlib.pyplot.close(ax.figure)


def test_the_shaded_region_is_the_accepted_one():
    ax = draw_plane(PEOPLE, MARGINS)
    (region,) = ax.collections[0].get_paths()
    assert region.contains_point((1.8, 1.5)) and not region.contains_point((0.5, 0.4))
    assert "option" not in by_label(ax)
    matplotlib.pyplot.close(ax.figure)


@pytest.mark.parametrize(("shift", "is_shaded"), [(-10, False), (10, True)])
def test_a_model_that_gives_everybody_the_same_answer_is_drawn(shift, is_shaded):
    ax = draw_plane(PEOPLE, MARGINS + shift, MOVES)
    paths = [path for artist in ax.collections if artist.get_zorder() == 0 for path in artist.get_paths()]
    assert any(path.contains_point((0.5, 0.4)) for path in paths) is is_shaded
    assert by_label(ax)["option"].get_offsets().tolist() == [[1.5, 0.5]]
    matplotlib.pyplot.close(ax.figure)


def test_marks_are_told_apart_in_gray():
    drawn = by_label(draw_plane(PEOPLE, MARGINS, MOVES))

    def gray(label):
        return float(np.dot(drawn[label].get_facecolor()[0][:3], [0.3, 0.59, 0.11]))

    assert gray("bad outcome") - gray("good outcome") > 0.2 and gray("option") - gray("refused person") > 0.8
    matplotlib.pyplot.close("all")


def test_titles_state_the_finding():
    assert _found(panel()) == "Wachter\nfound 50%, valid 100%\ncost 0.25, inliers 100%"
    assert _found(panel(found=0.0, cost=None)) == "Wachter\nfound 0%"
    three = [panel(), panel("Face()", cost=0.5, inlier=0.5), panel("Half(a=1)", found=0.2, cost=0.01)]
    assert _finding("moons", three) == "moons: lowest cost (0.25) by Wachter; most inliers (100%) by Wachter"
    same = [panel(f"M{i}()") for i in range(4)]
    assert _finding("moons", same[:2]).endswith("most inliers (100%) by M0 and M1")
    assert _finding("moons", same).endswith("most inliers (100%) by 4 methods")
    assert _finding("moons", []) == "moons: no option was found"


@pytest.mark.parametrize("count", [0, 1, 6])
def test_a_picture_has_a_panel_for_people_and_each_method(count, tmp_path, monkeypatch):
    mesh = {"x1": list(AXIS), "x2": list(AXIS), "m": MARGINS.to_numpy().tolist()}
    document = {"data": "moons", "people": PEOPLE.to_dict("list"), "mesh": mesh, "panels": [panel()] * count}
    figures = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: figures.append(self) or save(self, *a, **k)
    )
    path = save_planes(document, tmp_path / "moons.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    titles = [ax.get_title(loc="left").split("\n")[0] for ax in figures[0].axes if ax.axison]
    assert titles == ["People"] + ["Wachter"] * count


def test_errors():
    with pytest.raises(TurnaboutError, match="the table of people has no column 'good'"):
        draw_plane(PEOPLE[["x1", "x2"]], MARGINS)
    with pytest.raises(TurnaboutError, match="the table of moves has no column 'x2'"):
        draw_plane(PEOPLE, MARGINS, MOVES[["x1"]])
    with pytest.raises(TurnaboutError, match="this is no picture of the plane"):
        save_planes({"data": "moons"}, "moons.png")
