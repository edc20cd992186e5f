"""An attribution over the image that it explains."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from turnabout.core import Attribution, Pixels
from turnabout.errors import TurnaboutError
from turnabout.render.attribution_drawing import Bars, layout_of, least, read_bars, rim
from turnabout.render.palette import AWAY, EDGE, TOWARDS, axes_or_new, literal
from turnabout.render.plan_words import number, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRONG = 0.55  # opacity of the most important superpixel


def draw_overlay(attribution: Attribution, image: np.ndarray, ax: Axes | None = None, most: int = 5) -> Axes:
    """An image with the parts that count most: raising the score in blue within a solid line, lowering it hatched in
    orange within a dashed line, each with its signed number.

    Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    attribution : of one image, with a layout of Pixels.
    image : (height, width) or (height, width, 3 or 4), numbers from 0 to 1 or bytes from 0 to 255.
    ax : where to draw; on a new figure when None.
    most : parts shown; parts of no more value than rounding never are.
    """
    segments = _segments(attribution)
    picture = _picture(image, segments.shape)
    bars = read_bars(attribution, attribution.values.index[0], most)
    high, wide = segments.shape
    ax = axes_or_new(ax, (4.6, max(1.5, min(4.6 * high / wide, 9.0)) + 0.9))
    ax.imshow(picture, cmap="gray", vmin=0.0, vmax=1.0)
    values = attribution.values.iloc[0].to_numpy(dtype=np.float64)
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    shown = [int(k) for k in order if abs(values[k]) > least(attribution)]
    for k in shown:
        _draw_part(ax, segments == k, float(values[k]), abs(float(values[k])) / float(np.abs(values).max()))
    up = sum(values[k] > 0 for k in shown)
    ax.set_title(
        literal(textwrap.fill(_parts_title(attribution, bars, up, len(shown)), 46)), loc="left", fontweight="bold"
    )
    ax.set(xticks=[], yticks=[])
    key = "solid line: raises it; dashed and hatched: lowers it"
    ax.set_xlabel(literal(f"numbers: contribution of a part to the {attribution.score}\n{key}"))
    return ax


def _parts_title(attribution: Attribution, bars: Bars, up: int, shown: int) -> str:
    if not shown:
        return f"No part of the image counts in the {attribution.score}"
    which = "part" if shown == 1 else "parts"
    of = "" if bars.end is None else f" of {number(bars.end)}"
    return f"Of the {shown} {which} that count most, {up} raise the {attribution.score}{of}"


def _draw_part(ax: Axes, inside: np.ndarray, value: float, strength: float) -> None:
    """One superpixel: tinted, outlined, hatched where it lowers the score, and its number."""
    from matplotlib.colors import to_rgba

    color = TOWARDS if value > 0 else AWAY
    tint = np.zeros((*inside.shape, 4))
    tint[inside] = to_rgba(color, STRONG * (0.35 + 0.65 * strength))
    ax.imshow(tint)
    padded = np.pad(inside.astype(float), 1)  # so that a part at the border is closed
    high, wide = padded.shape
    grid = np.arange(-1, wide - 1), np.arange(-1, high - 1)
    if value < 0:
        hatched = ax.contourf(*grid, padded, levels=[0.5, 1.5], colors="none", hatches=["///"])
        hatched.set_edgecolor(EDGE)
        hatched.set_linewidth(0.0)
    line = "solid" if value > 0 else "dashed"
    for width, shade in ((3.4, "white"), (1.6, EDGE)):  # a light rim keeps the line visible on dark pictures
        ax.contour(*grid, padded, levels=[0.5], colors=shade, linewidths=width, linestyles=line)
    y, x = np.nonzero(inside)
    near = int(np.argmin((y - y.mean()) ** 2 + (x - x.mean()) ** 2))
    text = ax.text(x[near], y[near], signed(value).replace("-", "−"), ha="center", va="center", fontsize="small")
    text.set_path_effects([rim()])
    ax.set(xlim=(-0.5, inside.shape[1] - 0.5), ylim=(inside.shape[0] - 0.5, -0.5))


def _segments(attribution: Attribution) -> np.ndarray:
    needs = "an overlay needs an attribution of one image, with a layout of pixels."
    segments = np.asarray(layout_of(attribution, Pixels, "an overlay", needs, "LimeImage gives one.").segments)
    width = attribution.values.shape[1]
    if segments.ndim != 2 or not segments.size or segments.min() < 0 or segments.max() >= width:
        raise TurnaboutError(
            f"the segments of shape {segments.shape} do not name the {width} concepts.", hint="labels go from 0 up."
        )
    return segments


def _picture(image: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The image as numbers from 0 to 1."""
    picture = np.asarray(image)
    if picture.ndim == 3 and picture.shape[2] == 1:
        picture = picture[:, :, 0]
    fits = picture.shape[:2] == shape and (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (3, 4)))
    if not fits or picture.dtype.kind not in "fiub":
        raise TurnaboutError(
            f"an image of shape {picture.shape} does not lie under segments of shape {shape}.",
            hint="pass the image that was explained: (height, width) or (height, width, 3).",
        )
    scaled = picture / 255.0 if picture.dtype.kind in "iu" else picture.astype(np.float64)
    if not np.isfinite(scaled).all() or scaled.min() < 0 or scaled.max() > 1:
        raise TurnaboutError("the image holds numbers outside 0 to 1.", hint="pass 0 to 1, or bytes from 0 to 255.")
    return scaled
