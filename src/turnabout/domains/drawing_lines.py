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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from turnabout.datasets.files import Source
from turnabout.typing import Tensor

LINES = 128  # lines of a drawing, used or not
SIZE = 256  # pixels of its width and height; also what an unused line holds
JITTER = 5  # pixels by which a point of a copy is moved, at most

STUDIED = (58, 96, 208, 223, 317, 342, 361, 538, 592, 656, 711, 846, 851, 864, 883, 893)  # rows of the study

# Number 9384 of Google's simplified cats, x,y of each point; 19 strokes, 94 lines. It was found from the 500 complete
# cats of the sample: over them each coordinate takes all values from 5 below to 5 above this one (or to the frame).
CAT = (
    "66,56 63,72 65,90 69,102 75,111 128,146 138,149 163,147 173,144 199,127 213,98 218,78 217,52 212,38 199,20",
    "87,75 99,62 107,57 118,56 130,61 133,66 127,76 113,84 94,77",
    "171,71 183,76 198,75 202,70 204,56 201,48 192,48 179,53 171,62",
    "96,184 69,189 56,186 42,179 21,154 8,113 2,133 0,158 0,170 6,185 26,207 45,216 80,219 112,212",
    "117,171 132,224 121,234 119,244 123,249 134,255 151,253 158,242 168,234 159,205 154,173",
    "185,165 185,186 191,213 185,224 185,230 190,236 204,240 215,234 219,227 220,215 209,188 201,135",
    "109,28 131,21 160,19 175,0 182,4 197,23",
    "108,28 92,15 87,17 75,51",
    "116,223 104,209 93,182 92,160 97,129",
    "158,98 161,107 169,116 180,117",
    "66,118 87,107 113,101",
    "69,138 78,132 113,120",
    "224,202 226,169 211,122",
    "160,91 158,105 139,114",
    "187,113 204,111 227,116",
    "175,100 190,96 226,96",
    "115,81 115,62",
    "144,92 156,87",
    "187,77 186,55",
)

_BY_HAND = (
    "It is made from models/quickdraw/cat.missing.npz of https://github.com/goutham7r/synth-action-seq, times 256."
)
CATS = Source(
    "quickdraw",
    "synth_action_seq_cat_missing.npz",
    "432a2181267cd4d0f0ae41fa7445b6e8603b0ebf495d84576f7e61355bad7ca3",
    by_hand=_BY_HAND,
)
OTHERS = Source(
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
    def cat(cls) -> Self:
        """The one cat that all stored cats are copies of."""
        return cls.of([[[tuple(map(int, point.split(","))) for point in stroke.split()] for stroke in CAT]])

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
