"""How concepts of a text or an image are removed: h_x, from masks of 0 and 1 to inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turnabout.core import ConceptSpans
from turnabout.errors import ExplainError
from turnabout.parameters import Positive, checked
from turnabout.typing import is_number

Fill = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""image (h, w, c), segments (h, w) -> what each pixel becomes when its segment is removed, (h, w, c)."""


@dataclass(frozen=True)
class TextMasker:
    """The distinct words of a text, each removed wherever it stands.

    Attributes
    ----------
    layout : where the words stand.  words : the distinct ones, in order of appearance, as written.
    token : what is written in place of a removed word.
    """

    layout: ConceptSpans
    words: tuple[str, ...]
    token: str = ""

    @classmethod
    def of(cls, text: str, token: str = "") -> TextMasker:
        r"""Words are runs of letters, digits and underscores (`\w+`); what lies between them always stays."""
        if not isinstance(text, str) or not isinstance(token, str):
            raise ExplainError(f"text={text!r}, token={token!r}: both must be strings.", hint='token="" removes words.')
        places: dict[str, int] = {}
        spans = []
        for match in re.finditer(r"\w+", text):
            spans.append((match.start(), match.end(), places.setdefault(match.group(), len(places))))
        if not spans:
            raise ExplainError(f"the text {text[:40]!r} has no words.", hint="pass a text with letters or digits.")
        return cls(ConceptSpans(text, tuple(spans)), tuple(places), token)

    def __call__(self, masks: np.ndarray) -> list[str]:
        """Masks (n, m) -> n texts."""
        text, spans = self.layout.text, self.layout.spans
        starts, ends = [0, *(end for _, end, _ in spans)], [start for start, _, _ in spans] + [len(text)]
        between = [text[a:b] for a, b in zip(starts, ends, strict=True)]
        pieces = np.empty((len(masks), 2 * len(spans) + 1), dtype=object)
        pieces[:, ::2] = between
        own = np.array([text[a:b] for a, b, _ in spans], dtype=object)
        kept = masks[:, [concept for _, _, concept in spans]] > 0.5
        pieces[:, 1::2] = np.where(kept, own, self.token)
        return ["".join(row) for row in pieces.tolist()]


@dataclass(frozen=True)
class MeanColor:
    """A removed segment takes its mean color."""

    def __call__(self, image: np.ndarray, segments: np.ndarray) -> np.ndarray:
        return segment_means(image, segments)[segments]


@dataclass(frozen=True)
class ConstantColor:
    """A removed segment takes one color: a number, or one for each channel."""

    color: float | tuple[float, ...] = 0.0

    def __call__(self, image: np.ndarray, segments: np.ndarray) -> np.ndarray:
        colors = self.color if isinstance(self.color, tuple) else (self.color,)
        if len(colors) not in (1, image.shape[2]) or not all(is_number(color) for color in colors):
            raise ExplainError(
                f"color={self.color!r} is no color of an image with {image.shape[2]} channels.",
                hint="use a number, or one for each channel.",
            )
        return np.broadcast_to(np.array(colors, dtype=np.float64), image.shape).copy()


@dataclass(frozen=True)
@checked(ExplainError, sigma=Positive())
class Blur:
    """A removed segment shows the image blurred by a Gaussian of `sigma` pixels."""

    sigma: float = 10.0

    def __call__(self, image: np.ndarray, segments: np.ndarray) -> np.ndarray:
        from scipy.ndimage import gaussian_filter

        return np.asarray(gaussian_filter(image.astype(np.float64), (self.sigma, self.sigma, 0), mode="nearest"))


@dataclass(frozen=True)
class Infill:
    """A removed segment is painted over smoothly from the pixels around it: every pixel is the mean of its neighbors.

    Each segment is filled from the image as it is, so that the paint does not depend on which others are removed.
    """

    def __call__(self, image: np.ndarray, segments: np.ndarray) -> np.ndarray:
        from scipy.sparse import coo_matrix
        from scipy.sparse.linalg import splu

        h, w, c = image.shape
        if segments.min() == segments.max():
            return MeanColor()(image, segments)  # nothing lies around
        pixels, colors, label = h * w, image.reshape(h * w, c).astype(np.float64), segments.ravel()
        one, other = neighbors(h, w)
        p, q = np.concatenate([one, other]), np.concatenate([other, one])
        inside = label[p] == label[q]
        around = np.zeros((pixels, c))
        np.add.at(around, p[~inside], colors[q[~inside]])
        degree = np.bincount(p, minlength=pixels).astype(np.float64)
        rows = np.concatenate([np.arange(pixels), p[inside]])
        columns = np.concatenate([np.arange(pixels), q[inside]])
        entries = np.concatenate([degree, -np.ones(int(inside.sum()))])
        laplacian = coo_matrix((entries, (rows, columns)), shape=(pixels, pixels)).tocsc()
        return np.asarray(splu(laplacian).solve(around)).reshape(h, w, c)


@dataclass(frozen=True, eq=False)
class ImageMasker:
    """An image whose segments are removed: image, hidden (h, w, c) of one dtype; the segment of every number in it."""

    image: np.ndarray
    hidden: np.ndarray
    segment_of: np.ndarray  # (h * w * c,)

    @classmethod
    def of(cls, image: np.ndarray, segments: np.ndarray, fill: Fill) -> ImageMasker:
        hidden = np.asarray(fill(image, segments))
        if hidden.shape != image.shape or not np.isfinite(hidden).all():
            raise ExplainError(
                f"the fill gave shape {hidden.shape}, or values that are no numbers, for an image {image.shape}.",
                hint="a fill maps (image, segments) to an image of the same shape.",
            )
        if np.issubdtype(image.dtype, np.integer):
            limits = np.iinfo(image.dtype)
            hidden = np.clip(np.rint(hidden), limits.min, limits.max)
        return cls(image, hidden.astype(image.dtype), np.repeat(segments.ravel(), image.shape[2]))

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Masks (n, m) -> images (n, h, w, c)."""
        kept = np.take(masks > 0.5, self.segment_of, axis=1)  # flat: a broadcast over channels takes four times as long
        return np.where(kept, self.image.ravel(), self.hidden.ravel()).reshape(len(masks), *self.image.shape)


def neighbors(h: int, w: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of every edge between 4-neighbors, as places in the flat image."""
    at = np.arange(h * w).reshape(h, w)
    across, down = (at[:, :-1].ravel(), at[:, 1:].ravel()), (at[:-1].ravel(), at[1:].ravel())
    return np.concatenate([across[0], down[0]]), np.concatenate([across[1], down[1]])


def segment_means(image: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """(m, c) mean color of every segment."""
    label = segments.ravel()
    count = np.bincount(label)
    colors = image.reshape(len(label), -1).astype(np.float64)
    return np.stack([np.bincount(label, column) / count for column in colors.T], 1)
