"""Pictures of drawings and the strokes that a plan adds to them. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from turnabout.render.palette import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, ADDED = "#3b5ba5", "#d62728"  # blue and red; in gray print the added strokes are told by their width
FRAME = 256.0  # pixels


def draw_strokes(lines: np.ndarray, added: np.ndarray, ax: Axes | None = None) -> Axes:
    """A drawing in thin blue and what was added to it in thick red, with the origin at the top left.

    Parameters
    ----------
    lines, added : (m, 4) and (k, 4), one line each: x1, y1, x2, y2 in pixels of a frame of 256.
    ax : where to draw; on a new figure when None.
    """
    ax = axes_or_new(ax, (3, 3))
    from matplotlib.collections import LineCollection

    for strokes, color, width, label in ((lines, INK, 1.1, "drawing"), (added, ADDED, 2.4, "added")):
        ends = np.asarray(strokes, dtype=float).reshape(-1, 2, 2)
        ax.add_collection(LineCollection(list(ends), colors=color, linewidths=width, capstyle="round", label=label))
    margin = 0.03 * FRAME
    ax.set(xlim=(-margin, FRAME + margin), ylim=(FRAME + margin, -margin), aspect="equal", xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color="0.8", linewidth=0.8)
    return ax
