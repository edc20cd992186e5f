"""Which features are kept: laws of masks z in {0,1}^m, 1 where a feature stays as it is and 0 where it is removed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import Design
from turnabout.explain.shapley.games import MOST, coalitions, kernel_weights
from turnabout.parameters import Flag, Whole, checked
from turnabout.typing import Tensor

WIDEST = 1000  # features: the number of subsets is still a double
LISTED = 100_000  # subsets of one size that are listed to draw from; beyond, they are drawn until they differ


@dataclass(frozen=True)
class Strata(Design):
    """A design that took some of each kind of mask, without replacement. Rows 0 and 1 are the empty and the full mask.

    Attributes
    ----------
    stratum : (p,) the kind of each draw after the first two rows; a draw is a mask with its complement where paired.
    share : (kinds,) how much of each kind was taken: 1 for all of it, which leaves no sampling error.
    """

    stratum: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    share: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))


@dataclass(frozen=True)
class AllCoalitions:
    """Every mask once, each beside its complement; the first two are empty and full."""

    def design(self, width: int, rng: np.random.Generator) -> Design:
        half = coalitions(width)[: 2 ** (width - 1)]
        xi = torch.stack([half, 1 - half], 1).reshape(-1, width)
        return Design(xi, torch.ones(len(xi), dtype=torch.float64), exact=True, paired=True)


@dataclass(frozen=True)
class OneOut:
    """The full mask, and those with exactly one zero."""

    def design(self, width: int, rng: np.random.Generator) -> Design:
        xi = torch.cat([torch.ones(1, width), 1 - torch.eye(width)]).to(torch.float64)
        return Design(xi, torch.ones(width + 1, dtype=torch.float64), exact=True)


@dataclass(frozen=True)
@checked(ExplainError, samples=Whole(2), paired=Flag())
class ShapleySizes:
    """Masks under the Shapley kernel: sizes k with probability proportional to 1 / (k (m - k)), then a uniform subset.

    Small and large sizes are taken whole as long as the budget would draw that many of them anyway. The rest is
    shared out among the other sizes in proportion to their probability, and drawn without replacement within each: no
    mask is asked twice, and the error goes to 0 as the budget goes to 2^m - 2, where all masks are taken. A budget too
    small to draw two of each size draws the sizes too.

    Parameters
    ----------
    samples : masks between the empty and the full one, both of a pair counted.
    paired : every mask comes with its complement. Then games without interactions of three or more features are
        solved without error.
    """

    samples: int = 2048
    paired: bool = True

    def design(self, width: int, rng: np.random.Generator) -> Design:
        least = least_samples(width)
        if width > WIDEST:
            raise ExplainError(
                f"{width} features are too many to draw coalitions of.", hint=f"use {WIDEST} or fewer: group columns."
            )
        if width <= MOST and self.samples >= 2**width - 2:
            return AllCoalitions().design(width, rng)
        if self.samples < least:
            raise ExplainError(
                f"samples={self.samples} masks are too few for {width} features.", hint=f"use {least} or more."
            )
        return _draw(width, self.samples // 2 if self.paired else self.samples, self.paired, rng)


def least_samples(m: int) -> int:
    """The smallest budget of masks that determines m values and leaves something to estimate their error from."""
    return min(2**m - 2, 2 * m + 4) if m <= MOST else 2 * m + 4


def _draw(m: int, budget: int, paired: bool, rng: np.random.Generator) -> Strata:
    """The empty and the full mask, then `budget` masks or pairs of masks."""
    sizes = _sizes(m, paired)
    count = [math.comb(m, k) // (2 if paired and 2 * k == m else 1) for k in sizes]
    kernel = kernel_weights(m).tolist()
    mass = [n * kernel[k] for n, k in zip(count, sizes, strict=True)]  # of one mask of each draw
    whole, left = 0, budget
    while whole < len(sizes) and left >= count[whole]:
        affordable = left * mass[whole] / sum(mass[whole:]) >= count[whole]
        if not affordable and not (whole == 0 and paired):  # size 1 with its complements determines every value
            break
        left -= count[whole]
        whole += 1
    rest = range(whole, len(sizes))
    parts = [_subsets(m, sizes[i], count[i], paired, rng) for i in range(whole)]
    each = [torch.ones(count[i], dtype=torch.float64) for i in range(whole)]
    kinds = [i for i in range(whole) for _ in range(count[i])]
    share = [1.0] * whole
    if left >= 2 * len(rest):
        for i, n in zip(rest, _allot(left, [mass[i] for i in rest], [count[i] for i in rest]), strict=True):
            parts.append(_subsets(m, sizes[i], n, paired, rng))
            each.append(torch.full((n,), count[i] / n, dtype=torch.float64))
            kinds += [i] * n
            share.append(n / count[i])
    else:
        pool = sum(mass[i] for i in rest)
        drawn = rng.choice(len(rest), left, p=[mass[i] / pool for i in rest]) + whole
        for i in drawn:
            parts.append(_subsets(m, sizes[i], 1, paired, rng))
            each.append(torch.tensor([pool / left / kernel[sizes[i]]], dtype=torch.float64))
        kinds += [whole] * left
        share.append(0.0)
    z, weight = torch.cat(parts), torch.cat(each)
    if paired:
        z, weight = torch.stack([z, 1 - z], 1).reshape(-1, m), weight.repeat_interleave(2)
    ends = torch.stack([torch.zeros(m), torch.ones(m)]).to(torch.float64)
    return Strata(
        torch.cat([ends, z]),
        torch.cat([torch.ones(2, dtype=torch.float64), weight]),
        paired=paired,
        stratum=torch.tensor(kinds),
        share=torch.tensor(share, dtype=torch.float64),
    )


def _sizes(m: int, paired: bool) -> list[int]:
    """Sizes from the outside in: 1, 2, ... up to half; or 1, m - 1, 2, m - 2, ..."""
    half = list(range(1, m // 2 + 1))
    return half if paired else list(dict.fromkeys(k for small in half for k in (small, m - small)))


def _allot(left: int, mass: list[float], count: list[int]) -> list[int]:
    """Whole numbers that add up to `left`, in proportion to mass, from 2 (or all there are) to count."""
    most = np.array(count)
    out = np.minimum(2, most)
    while (spare := left - int(out.sum())) > 0 and (out < most).any():
        open_ = np.where(out < most, mass, 0.0)
        ideal = open_ / open_.sum() * left  # of what each should have in the end
        short = np.clip(np.minimum(ideal, most) - out, 0, None)
        if short.sum() < 1:
            short = np.where(out < most, most - out, 0).astype(float)
        step = np.floor(short * min(1.0, spare / short.sum())).astype(int)
        if not step.any():
            step[int(np.argmax(short))] = 1
        out = np.minimum(out + step, most)
    return [int(n) for n in out]


def _subsets(m: int, k: int, n: int, paired: bool, rng: np.random.Generator) -> Tensor:
    """n different masks with k ones, all there are if n is their number; half of a middle size stands for its pairs."""
    fixed = 1 if paired and 2 * k == m else 0  # of z and its complement, the one with the first feature
    free, ones = m - fixed, k - fixed
    total = math.comb(free, ones)
    if total <= LISTED:
        listed = _listed(free, ones)
        chosen = listed if n == total else listed[np.sort(rng.choice(total, n, replace=False))]
    else:
        chosen = np.zeros((0, ones), dtype=np.int64)
        while len(chosen) < n:
            more = np.sort(rng.random((n - len(chosen), free)).argpartition(ones, axis=1)[:, :ones], axis=1)
            both = np.concatenate([chosen, more])
            chosen = both[np.sort(np.unique(both, axis=0, return_index=True)[1])]
    z = np.zeros((n, m))
    z[:, :fixed] = 1.0
    np.put_along_axis(z, chosen + fixed, 1.0, axis=1)
    return torch.as_tensor(z)


@lru_cache(maxsize=64)
def _listed(m: int, k: int) -> np.ndarray:
    """Every subset of k out of m, (C(m, k), k)."""
    return np.array(list(combinations(range(m), k)), dtype=np.int64).reshape(math.comb(m, k), k)
