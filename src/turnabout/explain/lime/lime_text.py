"""LIME for texts: which words speak for the answer (Ribeiro, Singh, Guestrin, 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turnabout.core import Attribution
from turnabout.explain.lime.common import MaskLime
from turnabout.explain.lime.maskers import TextMasker
from turnabout.explain.lime.masks import Law

TextFunction = Callable[[list[str]], np.ndarray]


@dataclass(frozen=True)
class LimeText(MaskLime):
    r"""Weighted ridge regression of the score on which words are kept.

        s ~ U{1..d} words are removed, a uniform subset of that size; x itself comes first
        min over (a, theta)   sum_i pi_i (f_i - a - theta @ z_i)^2 + ridge |theta|^2,    d_i = 1 - sqrt(1 - s_i / d)
        pi_i = exp(-d_i^2 / (2 width^2))                                                                          (1)

    Concepts are the distinct words, removed wherever they stand; spaces and punctuation stay. Defaults are the
    reference's (its width 25 on distances times 100 is 0.25 here), but for its selection of 10 words, which select=10
    gives. With the same masks both give the same numbers; seeds differ. `exact=True` asks all 2^m masks of a
    text of up to 18 words and gives the limit of infinitely many draws, without ridge and without x
    itself: see lime_theory.

    Use it to see which words a score rests on. Removing words makes texts nobody wrote; slopes depend on the width.
    Errors are those of the ridge fit about its expectation: the bias of the ridge is not in them. It falls like
    ridge / samples, but not for a word that no draw keeps, as in a text of one word: its slope rests on the given text
    alone, and a ridge of 1 leaves at most half of it however many samples there are. A note says so, and it has no
    error.

    Parameters
    ----------
    samples : texts asked, the given one counted.
    width : of the kernel (1).
    ridge : None is 1.0, and 0 if exact.
    exact : all masks in place of samples.
    select : keep so many words, as the reference chooses them; this breaks linearity in the score, and warns.
    batch : texts in one call.
    token : what is written in place of a removed word: "" or a model's mask token.

    References
    ----------
    Ribeiro, Singh, Guestrin (2016), "Why should I trust you?": explaining the predictions of any classifier.
    """

    samples: int = 5000
    batch: int = 500
    token: str = ""

    law: ClassVar[Law] = "text"

    def explain_text(self, function: TextFunction, text: str, seed: int = 0) -> Attribution:
        """Slopes of the distinct words of one text, for a function of texts: list of n -> (n,)."""
        self._check()
        masker = TextMasker.of(text, self.token)
        names = list(masker.words)
        return self._explain_masks(lambda masks: function(masker(masks)), names, masker.layout, seed, "texts")
