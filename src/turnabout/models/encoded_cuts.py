"""Carry cuts on an estimator's input back to the encoded column of the number it is made from, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from turnabout.models.libraries.raw_forest import NotCompilable
from turnabout.schema import Number

Floats = NDArray[np.float64]


def encoded_cuts(feature: Number, to_input: Callable[[Floats], Floats] | None, cuts: Floats) -> tuple[Floats, bool]:
    """Cuts on an input -> cuts on the encoded column of its Number; whether the input falls as the number rises.

    Encoding is monotone, so v <= t gives encode(v) <= encode(t), with the formula of `Schema.encode`; where values on
    both sides of a cut are encoded alike, see `encode_last`.
    """
    if to_input is None:
        return encode_last(feature, cuts, falling=False), False
    ends = _domain(feature, to_input)
    probe = to_input(np.linspace(feature.low, feature.high, 129))
    rise = np.diff(np.concatenate([to_input(ends[:1]), probe, to_input(ends[1:])]))
    if np.isnan(rise).any() or ((rise > 0).any() and (rise < 0).any()):
        raise NotCompilable(f"an input neither rises nor falls with {feature.name!r} over its range.")
    falling = bool((rise < 0).any())
    if falling:
        last = _last_true(lambda v: to_input(v) > cuts, ends, len(cuts))
    else:
        last = _last_true(lambda v: to_input(v) <= cuts, ends, len(cuts))
    return encode_last(feature, last, falling), falling


def encode_last(feature: Number, last: Floats, falling: bool) -> Floats:
    """Encoded cuts between each `last` value on the lower side and the next double.

    (v - low) / span rounds many doubles onto one encoding: with low = -9 the cut x < 0, whose last value is -7e-46, is
    encoded as 0 is. A cell with that encoding is then taken for the short decimal that has it, and goes the way of
    that decimal; if there is none, for the end that the estimator itself names (the next double if the input falls).
    """

    def encode(v: Floats) -> Floats:
        return (v - feature.low) / feature.span

    digits = min(feature.places + 6, 14)  # as many as decoding writes
    is_short = np.abs(last) < 2.0**53 / 10.0**digits  # beyond, rounding to digits would only add noise
    short = np.where(is_short, np.round(np.where(is_short, last, 0.0), digits), np.nan)
    encoded = encode(last)
    shared = np.isfinite(last) & (encode(np.nextafter(last, np.inf)) == encoded)
    goes_up = np.where(encode(short) == encoded, short > last, falling)
    return np.where(shared & goes_up, np.nextafter(encoded, -np.inf), encoded)


def _domain(feature: Number, to_input: Callable[[Floats], Floats]) -> Floats:
    """The widest interval about [low, high] where the input is known to be a finite number."""
    for reach in (1000.0, 1.0, 0.0):
        ends = np.array([feature.low - reach * feature.span, feature.high + reach * feature.span])
        with np.errstate(all="ignore"):
            values = to_input(ends)
        if np.isfinite(values).all():
            return ends
    raise NotCompilable(f"an input is not a finite number at the bounds of {feature.name!r}.")


def _last_true(test: Callable[[Floats], NDArray[np.bool_]], ends: Floats, count: int) -> Floats:
    """The last double in [ends] where a test that turns from true to false holds; infinite if it never turns."""
    low, high = np.full(count, rank(ends[:1])[0]), np.full(count, rank(ends[1:])[0])
    never, always = ~test(unrank(low)), test(unrank(high))
    while (high > low + 1).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # low + high may not fit a word
        holds = test(unrank(middle))
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return np.where(always, np.inf, np.where(never, -np.inf, unrank(low)))


def rank(v: Floats) -> NDArray[np.int64]:
    """Doubles -> whole numbers in the same order, neighbours to neighbours."""
    bits = v.astype(np.float64).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def unrank(ranks: NDArray[np.int64]) -> Floats:
    """The doubles that have these ranks."""
    return np.where(ranks >= 0, ranks, np.int64(-(2**63)) - ranks).view(np.float64)
