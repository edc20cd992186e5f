r"""Games: a value for every coalition of m features, and what each feature's share of it is.

The values of a game are a vector of length 2^m. Coalition z in {0,1}^m stands at place z_1 2^(m-1) + ... + z_m, so that
the vector is an m-way 2 x 2 x ... x 2 array with one axis for each feature: the first place is the empty coalition, the
last one holds everybody. `coalitions(m)` lists them in this order.

    phi_i = sum over S without i of   |S|! (m - |S| - 1)! / m!   * (v(S + i) - v(S))                              (1)

is the Shapley value. Written over coalitions z with i the weight is (|z| - 1)! (m - |z|)! / m!; some texts print the
weight of one form beside the sum of the other, which is wrong.

KernelSHAP is the same number as a regression under a kernel over sizes,

    pi(k) = (m - 1) / (C(m, k) k (m - k)),   1 <= k <= m - 1,    g(empty) = v(empty),   g(all) = v(all)            (2)

    phi = A^{-1} (b - 1 (1' A^{-1} b - (v(all) - v(empty))) / (1' A^{-1} 1))                                        (3)

with A = E[z z'] and b = E[z (v(z) - v(empty))] under the normalised kernel. A does not depend on the game: it has 1/2
on the diagonal, and

    A_ij = sum_{k=2}^{m-1} (k - 1) / (m - k)  /  (m (m - 1) sum_{k=1}^{m-1} 1 / (k (m - k)))                       (4)

References
----------
Shapley (1953), A value for n-person games. Lundberg, Lee (2017), A unified approach to interpreting model predictions.
Covert, Lee (2021), Improving KernelSHAP: practical Shapley value estimation using linear regression.
"""

from __future__ import annotations

import math

import torch

from turnabout.errors import ExplainError
from turnabout.parameters import Whole, checked
from turnabout.typing import Tensor

MOST = 22  # features whose coalitions can all be held: 2^22 numbers are 32 MiB


@checked(ExplainError, m=Whole(1, most=MOST))
def coalitions(m: int, start: int = 0, stop: int | None = None) -> Tensor:
    """(2^m, m) every coalition, 1 where a feature takes part; the first is empty, the last is everybody.

    start, stop : only those at these places.
    """
    places = torch.arange(start, 2**m if stop is None else min(stop, 2**m)).unsqueeze(1)
    return (places >> torch.arange(m - 1, -1, -1)).bitwise_and(1).to(torch.float64)


def players(values: Tensor) -> int:
    """m, for values (..., 2^m) of a game."""
    count = values.shape[-1] if values.dim() else 0
    m = count.bit_length() - 1
    if count < 2 or count != 2**m or m > MOST:
        raise ExplainError(
            f"{count} values are no game: there is one for each coalition of m features.",
            hint=f"pass 2^m numbers with m from 1 to {MOST}, in the order of coalitions(m).",
        )
    return m


def shapley(values: Tensor) -> Tensor:
    """Shapley values of games by enumeration, (..., 2^m) -> (..., m); formula (1).

    Each coalition counts for feature i with weight (k-1)! (m-k-1)! / (m-1)! if i is in it, less a term that is the
    same for every i. So one sum over the array for each axis suffices; here the axes are taken in two halves, which
    reads the values twice instead of m times.
    """
    m = players(values)
    gain = values - values[..., :1]  # v - v(empty): keeps large values from swamping small shares
    size = coalition_sizes(m)
    inside, outside = _size_weights(m)
    front, back = 2 ** (m // 2), 2 ** (m - m // 2)
    weighted = (gain * (inside + outside)[size]).reshape(*gain.shape[:-1], front, back)
    parts = [weighted.sum(-1) @ coalitions(m // 2)] if m > 1 else []
    parts.append(weighted.sum(-2) @ coalitions(m - m // 2))
    return torch.cat(parts, -1) - (gain @ outside[size]).unsqueeze(-1)  # (1)


def coalition_sizes(m: int) -> Tensor:
    """(2^m,) how many take part in each coalition."""
    size = torch.zeros(1, dtype=torch.long)
    for _ in range(m):
        size = torch.cat([size, size + 1])
    return size


def _size_weights(m: int) -> tuple[Tensor, Tensor]:
    """Weights (m + 1,) by size, of coalitions with the feature (counted with it) and of those without it; (1)."""
    fact = [math.factorial(k) for k in range(m + 1)]
    inside = [0.0] + [fact[k - 1] * fact[m - k] / fact[m] for k in range(1, m + 1)]
    outside = [fact[k] * fact[m - k - 1] / fact[m] for k in range(m)] + [0.0]
    return torch.tensor(inside, dtype=torch.float64), torch.tensor(outside, dtype=torch.float64)


def dividends(values: Tensor) -> Tensor:
    """Harsanyi dividends, (..., 2^m) -> (..., 2^m): v(S) is the sum of the dividends of the subsets of S.

    The interaction order of a game is the size of the largest coalition whose dividend is not 0, and the Shapley
    value is the sum of dividend / size over the coalitions with i.
    """
    m = players(values)
    out = values.clone()
    for axis in range(m):
        cube = out.reshape(*values.shape[:-1], 2**axis, 2, -1)
        cube[..., 1, :] -= cube[..., 0, :]
    return out


def shapley_of_pairs(empty: Tensor, alone: Tensor, without: Tensor, full: Tensor) -> Tensor:
    r"""Shapley values of games without interactions of three or more features, from 2m + 2 values of each:

        phi_i = (v({i}) - v(empty) + v(all) - v(all but i)) / 2

    empty, full (...); alone, without (..., m). For games of a higher order this is no Shapley value.
    """
    return (alone - empty.unsqueeze(-1) + full.unsqueeze(-1) - without) / 2


def kernel_weights(m: int) -> Tensor:
    """(m + 1,) the Shapley kernel by size, (2); infinite at 0 and m, where it stands for a hard constraint."""
    inner = [(m - 1) / (math.comb(m, k) * k * (m - k)) for k in range(1, m)]
    return torch.tensor([math.inf, *inner, math.inf], dtype=torch.float64)


@checked(ExplainError, m=Whole(2))
def kernel_matrix(m: int) -> Tensor:
    """A = E[z z'] (m, m) under the normalised kernel; formula (4)."""
    mass = sum(1 / (k * (m - k)) for k in range(1, m))
    off = sum((k - 1) / (m - k) for k in range(2, m)) / (m * (m - 1) * mass)
    return torch.full((m, m), off, dtype=torch.float64).fill_diagonal_(0.5)


def constrained(inverse: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """The least-squares slopes whose sum is `total`: A^{-1} (m, m), b (..., m), total (...) -> (..., m); (3)."""
    slope, ones = b @ inverse, inverse.sum(0)
    return slope - ones * ((slope.sum(-1) - total) / ones.sum()).unsqueeze(-1)
