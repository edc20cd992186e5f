"""LIME for images: which superpixels speak for the answer (Ribeiro, Singh, Guestrin, 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from turnabout.core import Attribution, Pixels
from turnabout.errors import ExplainError
from turnabout.explain.lime.common import MaskLime
from turnabout.explain.lime.maskers import Fill, ImageMasker, MeanColor
from turnabout.explain.lime.masks import Law
from turnabout.explain.lime.superpixels import Slic, check_image
from turnabout.parameters import Whole, checked

ImageFunction = Callable[[np.ndarray], np.ndarray]
Segmenter = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LimeImage(MaskLime):
    r"""Weighted ridge regression of the score on which superpixels are kept.

        every superpixel is kept with probability 1/2; x itself comes first
        min over (a, theta)   sum_i pi_i (f_i - a - theta @ z_i)^2 + ridge |theta|^2,    d_i = 1 - sqrt(share kept)
        pi_i = exp(-d_i^2 / (2 width^2))                                                                          (1)

    Defaults are the reference's but for the segments (SLIC here, quickshift there). With the same segments and masks
    both give the same numbers; seeds differ. The empty mask, where the cosine is 0 / 0, is at distance 1 in both.
    `exact=True` asks all 2^m masks of up to 18 superpixels and gives the limit of infinitely many draws without ridge.

    Use it to see where a score looks. Slopes depend on the segments, the fill and the width. With many superpixels
    they are 2 (E[f | kept] - E[f]) nearly, whatever the width: see lime_theory. Errors are those of the ridge fit about
    its expectation: the bias of the ridge is not in them. It falls like ridge / samples, once draws keep every segment.

    Parameters
    ----------
    samples : images asked, the given one counted.
    width : of the kernel (1).
    ridge : None is 1.0, and 0 if exact.
    exact : all masks in place of samples.
    select : keep so many superpixels, as the reference chooses them; this breaks linearity in the score, and warns.
    batch : images in one call.
    segmenter : image -> labels (h, w), 0..m-1: Slic(), Grid(), Felzenszwalb(), or a function.
    fill : what a removed superpixel shows: MeanColor(), Constant(), Blur(), Infill(), or a function.

    References
    ----------
    Ribeiro, Singh, Guestrin (2016), "Why should I trust you?": explaining the predictions of any classifier.
    """

    segmenter: Segmenter = field(default_factory=Slic)
    fill: Fill = field(default_factory=MeanColor)

    law: ClassVar[Law] = "image"

    def explain_image(self, function: ImageFunction, image: np.ndarray, seed: int = 0) -> Attribution:
        """Slopes of the superpixels of one image (h, w, c), for a function of images (n, h, w, c) -> (n,)."""
        self._check()
        check_image(image)
        segments = _labels(self.segmenter(image), image)
        masker = ImageMasker.of(image, segments, self.fill)
        names = [f"segment {k}" for k in range(int(segments.max()) + 1)]
        return self._explain_masks(lambda masks: function(masker(masks)), names, Pixels(segments), seed, "images")


@checked(ExplainError, k=Whole(1))
def top_segments(attribution: Attribution, k: int = 5, person: Any = None) -> np.ndarray:
    """(h, w) whether a pixel lies in one of the k superpixels with the largest slopes above 0; fewer if fewer are.

    Parameters
    ----------
    person : label of the row; the first by default.
    """
    if not isinstance(attribution.layout, Pixels):
        raise ExplainError("this attribution is not one of an image.", hint="pass what LimeImage.explain_image gave.")
    label = attribution.values.index[0] if person is None else person
    if label not in attribution.values.index:
        raise ExplainError(f"there is no row {label!r}.", hint="use a label of attribution.values.index.")
    slopes = attribution.values.loc[label].to_numpy(dtype=np.float64)
    best = np.argsort(-slopes, kind="stable")[:k]
    return np.isin(attribution.layout.segments, best[slopes[best] > 0])


def _labels(given: Any, image: np.ndarray) -> np.ndarray:
    """Whole labels (h, w), 0..m-1, each used."""
    labels = np.asarray(given)
    whole = labels.shape == image.shape[:2] and np.issubdtype(labels.dtype, np.integer) and labels.min() >= 0
    if not whole or not np.bincount(labels.ravel()).all():
        raise ExplainError(
            f"the segmenter gave shape {labels.shape} for an image {image.shape}, or labels that are not 0, 1, 2, ...",
            hint="it must map (h, w, c) to whole labels (h, w), every one from 0 up in use.",
        )
    return labels
