"""Drawings as straight lines: the stored cats, other people's drawings, and jittered copies of both.

A drawing is 128 lines of four pixels (x1, y1, x2, y2) from 1 to 255; the lines it does not use hold 256 four times.
Each line starts at its smaller x (the smaller y where it is vertical), and the lines stand in the order of a quad-tree
over their starting points, equal starts by their ends: of every square first the quarter top left, then bottom left,
bottom right and top right. All 1,000 stored drawings obey this.

Drawings are by Google, https://quickdraw.withgoogle.com, under the Creative Commons Attribution 4.0 licence.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from turnabout.datasets.data_files import SourceFile
from turnabout.typing import Tensor

LINES = 128  # lines of a drawing, used or not
SIZE = 256  # pixels of its width and height; also what an unused line holds
JITTER = 5  # pixels by which a point of a copy is moved, at most

STUDIED = (58, 96, 208, 223, 317, 342, 361, 538, 592, 656, 711, 846, 851, 864, 883, 893)  # rows of the study

_BY_HAND = (
    "It is made from models/quickdraw/cat.missing.npz of https://github.com/goutham7r/synth-action-seq, times 256."
)
CATS = SourceFile(
    "quickdraw",
    "synth_action_seq_cat_missing.npz",
    "432a2181267cd4d0f0ae41fa7445b6e8603b0ebf495d84576f7e61355bad7ca3",
    by_hand=_BY_HAND,
)
OTHERS = SourceFile(
    "quickdraw",
    "quickdraw_simplified_25_per_class.ndjson",
    "eddc1e5ef9577d3ebc5042330cef53eb321df7def22d756b940d6ac7d40fcdfd",
    by_hand="It joins the first 25 lines of each file of https://quickdraw.withgoogle.com/data, 'simplified'.",
)


def stored_cats(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The paper's sample: lines (1000, 128, 4) in pixels, and whether each is a complete cat (1000,)."""
    stored = np.load(io.BytesIO(content), allow_pickle=False)
    return stored["lines"].astype(np.int64), stored["labels"][:, 1] == 1


def quad_key(x: Tensor, y: Tensor) -> Tensor:
    """Where pixels (...) from 0 to 255 come in the order of the quad-tree."""
    key = torch.zeros_like(x)
    for bit in range(7, -1, -1):
        right, low = (x >> bit) & 1, (y >> bit) & 1
        key = key * 4 + torch.where(right == 1, 3 - low, low)
    return key


def arrange(lines: Tensor, used: Tensor) -> Tensor:
    """Lines (n, m, 4) in pixels, those that are `used` (n, m), in their order -> drawings (n, 128, 4)."""
    x1, y1, x2, y2 = lines.unbind(-1)
    turned = (x2 < x1) | ((x2 == x1) & (y2 < y1))
    lines = torch.where(turned.unsqueeze(-1), lines[..., [2, 3, 0, 1]], lines)
    start, end = quad_key(lines[..., 0], lines[..., 1]), quad_key(lines[..., 2], lines[..., 3])
    last = 4**16
    order = torch.where(used, start * 4**8 + end, last).argsort(dim=1, stable=True)
    lines = torch.where(used.unsqueeze(-1), lines, SIZE)
    lines = lines.gather(1, order.unsqueeze(-1).expand_as(lines))
    out = lines.new_full((len(lines), LINES, 4), SIZE)
    out[:, : lines.shape[1]] = lines
    return out


def original(copies: np.ndarray) -> np.ndarray:
    """Lines (m, 4) of the drawing of which all these (n, 128, 4) are jittered copies.

    Over many copies each coordinate takes all values from 5 below the original's to 5 above, or to the frame. Copies
    stand in different orders and may turn a line round, so each is first matched with the middle of those before it.
    """
    from scipy.optimize import linear_sum_assignment

    used = [drawing[drawing[:, 0] < SIZE] for drawing in copies]
    guess = used[0].astype(float)
    for _ in range(4):  # a better guess matches better
        matched = np.stack([_matched(lines, guess, linear_sum_assignment) for lines in used]).astype(float)  # (n, m, 4)
        near = np.abs(matched - np.median(matched, axis=0)) <= 1.4 * JITTER
        guess = np.nanmean(np.where(near, matched, np.nan), axis=0)
    # the mean of even jitter is the original, except at the frame, where all beyond it is cut off
    middle = np.rint(guess).astype(np.int64)
    low, high = np.where(near, matched, SIZE).min(0), np.where(near, matched, 0).max(0)
    ends = np.where(low <= 1, high - JITTER, np.where(high >= SIZE - 1, low + JITTER, middle))
    return ends.astype(np.int64)


def _matched(lines: np.ndarray, guess: np.ndarray, assign: Callable[[np.ndarray], Any]) -> np.ndarray:
    """The lines of a copy (m, 4), each at the place and turned the way of the line of the guess that it copies."""
    ways = np.stack([lines, lines[:, [2, 3, 0, 1]]])  # (2, m, 4) as it stands, and turned round
    apart = np.abs(ways[:, None] - guess[:, None])  # (2, m of the guess, m of the copy, 4)
    far = apart.sum(-1) + 1000 * (apart.max(-1) > 2 * JITTER)
    mine, theirs = assign(far.min(0))
    return ways[far[:, mine, theirs].argmin(0), theirs][np.argsort(mine)]


@dataclass(frozen=True)
class Sketches:
    """Drawings that can be jittered: points (s, p, 2), and the two points of each line (s, m, 2), -1 for none."""

    points: Tensor
    ends: Tensor

    @classmethod
    def of(cls, drawings: Iterable[Sequence[Sequence[Sequence[int]]]]) -> Self:
        """From strokes, each a list of points (x, y)."""
        points, ends = [], []
        for strokes in drawings:
            points.append(torch.tensor([point for stroke in strokes for point in stroke]))
            firsts = itertools.accumulate((len(stroke) for stroke in strokes), initial=0)
            joined = [(i, i + 1) for f, stroke in zip(firsts, strokes) for i in range(f, f + len(stroke) - 1)]
            ends.append(torch.tensor(joined))
        pad = torch.nn.utils.rnn.pad_sequence
        return cls(pad(points, batch_first=True), pad(ends, batch_first=True, padding_value=-1))

    @classmethod
    def cat(cls, content: bytes) -> Self:
        """The one cat that all stored cats are copies of: number 9384 of Google's simplified cats, 94 lines."""
        lines, whole = stored_cats(content)
        points, ends = np.unique(original(lines[whole]).reshape(-1, 2), axis=0, return_inverse=True)
        return cls(torch.from_numpy(points).unsqueeze(0), torch.from_numpy(ends.reshape(1, -1, 2)))

    @classmethod
    def others(cls, content: bytes) -> Self:
        """What else people drew: every drawing of at most 128 lines that is not meant to be a cat."""
        drawings = []
        for line in content.splitlines():
            drawing = json.loads(line)
            strokes = [list(zip(*stroke)) for stroke in drawing["drawing"]]
            if drawing["word"] != "cat" and 0 < sum(len(stroke) - 1 for stroke in strokes) <= LINES:
                drawings.append(strokes)
        return cls.of(drawings)

    def __len__(self) -> int:
        return len(self.points)

    def split(self, every: int) -> tuple[Sketches, Sketches]:
        """The drawings without each `every`th, and those left out."""
        out = torch.arange(len(self)) % every == 0
        return Sketches(self.points[~out], self.ends[~out]), Sketches(self.points[out], self.ends[out])

    def copies(self, which: Tensor, remove: Tensor, generator: torch.Generator) -> Tensor:
        """Jittered copies of the drawings `which` (n,), each with its own number of lines removed (n,): (n, 128, 4).

        Each point moves by whole pixels, up to 5 in x and y, and stays in the frame; the lines that meet in a point
        move with it. Removed are any lines, all alike.
        """
        points, ends = self.points[which], self.ends[which]
        shift = torch.randint(-JITTER, JITTER + 1, points.shape, generator=generator)
        points = (points + shift).clamp(1, SIZE - 1)
        used = ends[..., 0] >= 0
        lots = torch.rand(used.shape, generator=generator).masked_fill(~used, 2.0)
        used &= lots.argsort(1).argsort(1) >= remove.unsqueeze(1)
        at = ends.clamp(min=0).reshape(len(which), -1, 1).expand(-1, -1, 2)
        lines = points.gather(1, at).reshape(len(which), -1, 4)
        return arrange(lines, used)
