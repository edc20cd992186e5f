"""The picture of a drawing shows its lines and, told apart, the strokes that were added."""

from __future__ import annotations

import numpy as np
import pytest

from turnabout.render.drawing import ADDED, INK, draw_strokes

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

LINES = np.array([[0, 0, 10, 20], [10, 20, 30, 20]])
STROKE = np.array([[200.5, 40, 250, 60]])


def test_lines_are_thin_and_blue_and_additions_thick_and_red() -> None:
    ax = draw_strokes(LINES, STROKE)
    drawing, added = ax.collections
    assert np.array_equal(np.array(drawing.get_segments()).reshape(-1, 4), LINES)
    assert np.array_equal(np.array(added.get_segments()).reshape(-1, 4), STROKE)
    assert matplotlib.colors.to_hex(drawing.get_color()[0]) == INK
    assert matplotlib.colors.to_hex(added.get_color()[0]) == ADDED
    assert added.get_linewidth()[0] > 2 * drawing.get_linewidth()[0]
    assert ax.yaxis_inverted() and ax.get_aspect() == 1
    matplotlib.pyplot.close(ax.figure)


def test_it_draws_where_it_is_told_and_may_have_nothing_to_add() -> None:
    _, given = matplotlib.pyplot.subplots()
    ax = draw_strokes(LINES, np.empty((0, 4)), given)
    assert ax is given
    assert [len(strokes.get_segments()) for strokes in ax.collections] == [2, 0]
    matplotlib.pyplot.close(ax.figure)
