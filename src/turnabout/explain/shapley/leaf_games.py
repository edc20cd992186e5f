r"""Trees as games: which features keep a person, or a background row, out of each leaf.

With some features of a person x kept (set S) and the others taken from a background row r, a leaf is reached when no
kept feature of x and no other feature of r fails its box. So a forest is a sum over leaves of

    value * 1[bad(x) and S share nothing] * 1[bad(r) lies within S]                                               (1)

with bad(.) the set of features that fail. Each term is a product game, whose Shapley values are known: if bad(x) and
bad(r) are disjoint, with c = |bad(x)| and a = |bad(r)|,

    i in bad(r):  value * (a - 1)! c! / (a + c)!         i in bad(x):  - value * a! (c - 1)! / (a + c)!           (2)

and 0 otherwise. Their sum is interventional TreeSHAP (Lundberg et al. 2020), for trees of any depth, without error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.models.forest import Forest
from turnabout.typing import Tensor

HELD = 1 << 22  # rows x leaves held at a time
DEEPEST = 62  # features that one leaf may look at: they are bits of a whole number


@dataclass(frozen=True, eq=False)
class LeafGames:
    """The leaves of a forest, and the bit that each feature has in each of them.

    Attributes
    ----------
    bit : (m, L) a power of 2, one for each feature that the leaf looks at; 0 for the others.
    value : (L,) what the leaf adds to the score.  bias : the rest of it.
    """

    forest: Forest
    bit: Tensor
    value: Tensor
    bias: float

    @classmethod
    def of(cls, forest: Forest, feature_of: Tensor, m: int) -> LeafGames | None:
        """None where a leaf looks at too many features, or where features are not those of the forest."""
        if not torch.equal(forest.feature_of, feature_of) or forest.value.shape[1] != 1:
            return None
        leaves = forest.leaves
        bound = ~leaves.allows | torch.isfinite(leaves.lower) | (leaves.upper < torch.inf)  # (L, d)
        looks = torch.zeros(len(bound), m, dtype=torch.float64).index_add_(1, feature_of, bound.double()).t() > 0
        if int(looks.sum(0).max()) > DEEPEST:
            return None
        bit = torch.where(looks, 2 ** (looks.long().cumsum(0) - 1).clamp(min=0), 0)  # (m, L)
        return cls(forest, bit, leaves.value[:, 0] / forest.divisor, float(forest.bias[0]))

    def bad(self, x: Tensor) -> Tensor:
        """Which features keep each row out of each leaf, as bits; (n, d) -> (n, L)."""
        leaves, level = self.forest.leaves, self.forest.is_level
        out = torch.zeros(len(x), len(self.value), dtype=torch.long)
        for f, bit in enumerate(self.bit):
            own = (self.forest.feature_of == f).nonzero()[:, 0]
            at = bit.nonzero()[:, 0]  # the leaves that look at it
            flags, numbers = own[level[own]], own[~level[own]]
            barred = (~leaves.allows[at][:, flags]).double()
            fails = x[:, flags] @ barred.t() > 0.5
            for j in numbers:  # one of them, with its missing indicator as the only flag
                value = x[:, j : j + 1]
                outside = (value <= leaves.lower[at, j]) | (value > leaves.upper[at, j])
                fails |= outside & ~(x[:, flags] > 0.5).any(1, keepdim=True)
            out[:, at] += fails * bit[at]
        return out

    def fits(self, x: Tensor) -> bool:
        """Whether every row has whole levels, one of each category: boxes do not apply to what lies between."""
        level = self.forest.is_level
        flags = x[:, level]
        held = x.new_zeros(len(x), len(self.bit)).index_add_(1, self.forest.feature_of[level], flags)
        return bool(((flags == 0) | (flags == 1)).all()) and bool((held <= 1).all())

    def kept(self, z: Tensor) -> Iterator[Tensor]:
        """Masks (s, m) as bits of each leaf (L,), one mask at a time: there may be many of them, and many leaves."""
        return (self.bit[row > 0.5].sum(0) for row in z)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """Rows (n, d) in parts whose `bad` can be held."""
        return x.split(max(1, HELD // len(self.value)))

    def scores(self, x: Tensor) -> Tensor:
        """The forest's scores as sums over leaves, (n, d) -> (n,)."""
        return torch.cat([(self.bad(part) == 0).double() @ self.value + self.bias for part in self.parts(x)])

    def shapley(self, bad: Tensor, behind: Tensor) -> Tensor:
        """Mean over background rows of (2), summed over leaves; bad of people (n, L) and of rows (b, L) -> (n, m)."""
        m, out = len(self.bit), np.zeros((len(bad), len(self.bit)))
        people, rows = bad.t().contiguous().numpy(), behind.t().contiguous().numpy()
        gain, loss = _weights(min(m, DEEPEST))
        for leaf, value in enumerate(self.value.tolist()):
            if not value:
                continue
            mine, place = np.unique(people[leaf], return_inverse=True)  # people differ in few ways
            theirs, count = np.unique(rows[leaf], return_counts=True)
            looked = self.bit[:, leaf].nonzero()[:, 0].numpy()
            bits = self.bit[looked, leaf].numpy()
            fails, behind_fails = (mine[:, None] & bits) > 0, (theirs[:, None] & bits) > 0  # (u, k), (w, k)
            weight = ((mine[:, None] & theirs) == 0) * (value / len(behind) * count)  # (u, w)
            a, c = behind_fails.sum(1), fails.sum(1)[:, None]
            share = (weight * gain[a, c]) @ behind_fails - fails * (weight * loss[a, c]).sum(1, keepdims=True)  # (2)
            out[:, looked] += share[place.reshape(-1)]
        return torch.from_numpy(out)


def _weights(m: int) -> tuple[np.ndarray, np.ndarray]:
    """(a - 1)! c! / (a + c)! and a! (c - 1)! / (a + c)!, for a, c in 0..m; 0 where a or c is 0 in turn."""
    gain = np.zeros((m + 1, m + 1))
    for a in range(1, m + 1):
        for c in range(m + 1):
            gain[a, c] = math.exp(math.lgamma(a) + math.lgamma(c + 1) - math.lgamma(a + c + 1))
    return gain, gain.T
