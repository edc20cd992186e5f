"""The lines and bands drawn are those of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from turnabout.errors import TurnaboutError
from turnabout.render import draw_sweep

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture
def table():
    rows = []
    for lam in (0.8, 0.0, 0.4):
        rows += [(lam, "f1", 0.7 - lam / 10, 0.6 - lam / 10, 0.8), (lam, "recourse", lam, lam / 2, 1.0)]
    return pd.DataFrame(rows, columns=["lam", "metric", "value", "low", "high"])


def test_lines_and_bands(table):
    ax = draw_sweep(table, y=["recourse", "f1"], title="Recourse rises with lam at $0 cost", labels={"f1": "F1 score"})
    first, second = ax.lines
    assert np.array_equal(first.get_xydata(), [[0.0, 0.0], [0.4, 0.4], [0.8, 0.8]])
    assert np.allclose(second.get_ydata(), [0.7, 0.66, 0.62])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["recourse", "F1 score"]
    assert ax.get_title(loc="left") == r"Recourse rises with lam at \$0 cost" and ax.get_xlabel() == "lam"
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 0.0 and corners[:, 1].max() == 1.0
    matplotlib.pyplot.close(ax.figure)


def test_lines_are_told_apart_without_color(table):
    many = pd.concat([table.assign(metric=table.metric + str(i)) for i in range(3)])
    ax = draw_sweep(many)
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in ax.lines}) == 6
    assert len({line.get_marker() for line in ax.lines}) == 6
    matplotlib.pyplot.close(ax.figure)


def test_unknown_values_are_left_out_and_bands_may_be_absent(table):
    table["value"] = table["value"].astype("Float64")
    table.loc[0, "value"] = pd.NA
    _, given = matplotlib.pyplot.subplots()
    ax = draw_sweep(table[["lam", "metric", "value"]], ax=given)
    assert ax is given and len(ax.lines[0].get_xdata()) == 2 and not ax.collections
    matplotlib.pyplot.close(ax.figure)


def test_errors_say_what_to_do(table):
    with pytest.raises(TurnaboutError, match="no column 'theta'"):
        draw_sweep(table, x="theta")
    with pytest.raises(TurnaboutError, match="no metric 'accuracy'"):
        draw_sweep(table, y=["accuracy"])
    with pytest.raises(TurnaboutError, match="more than one line for metric 'f1' at lam="):
        draw_sweep(pd.concat([table, table]))
    many = pd.concat([table.assign(metric=table.metric + str(i)) for i in range(4)])
    with pytest.raises(TurnaboutError, match="8 lines cannot be told apart"):
        draw_sweep(many)
    for name in ("lam", "value", "low"):
        with pytest.raises(TurnaboutError, match=f"column '{name}' holds 'x'"):
            draw_sweep(table.assign(**{name: "x"}))
