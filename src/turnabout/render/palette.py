"""Colors that are told apart in gray print, and what pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnabout.errors import TurnaboutError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOWARDS, AWAY = "#3b5ba5", "#e0a458"  # dark, and light and hatched
YES, EDGE = "#e3f0dc", "#222222"


def need_matplotlib() -> None:
    """Say what to install where matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise TurnaboutError(
            "pictures need matplotlib, which is not installed.",
            hint='pip install "turnabout[plot]"; tables and texts need nothing more.',
        ) from None


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or those of a new figure; `size` in inches."""
    need_matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def name_sides(ax: Axes, size: str = "medium") -> None:
    """Write what each side of 0 means, at the top."""
    for x, side, where in ((5, "accepted", "left"), (-5, "refused", "right")):
        ax.annotate(
            side,
            (0, 1),
            (x, -3),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha=where,
            va="top",
            color="0.25",
            fontsize=size,
            fontstyle="italic",
        )


def literal(text: str) -> str:
    """Dollars as dollars; matplotlib would set what stands between two of them as a formula."""
    return text.replace("$", r"\$")
