"""Do people land where there are people? Elsewhere no probability is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.typing import Tensor

REFERENCE = 2_000  # people sampled as reference
SLICE = 4_096  # landing points compared at a time


@dataclass(frozen=True, eq=False)
class Support:
    """Landing points beside the people whose labels are known.

    Attributes
    ----------
    outside : (m,) whether a landing point lies beyond the ordinary.
    nearest : (m,) place, among the people with labels, of the nearest to each landing point.
    """

    outside: np.ndarray
    nearest: np.ndarray


def support(rows: Tensor, landings: Tensor, own: np.ndarray, quantile: float = 0.99, seed: int = 0) -> Support:
    r"""Which landing points lie farther from everyone than people do from each other.

        outside(z) = [ min over j of |z - x_j| > q ],    q the `quantile` of min over j != i of |x_i - x_j|          (1)

    in Euclidean distance of encoded rows, where every feature spans 1. A person's own former row does not count for
    their landing point. A sample of at most 2,000 people is used on both sides of (1). Of ordinary people the share
    1 - quantile is outside; the share among landing points is to be compared with that. Distance sees whole rows: a
    landing point near others in all but one narrow feature, whose range is wide, may pass as ordinary.

    Parameters
    ----------
    rows : (p, d) encoded rows of people whose labels are known; at least 2.
    landings : (m, d) encoded landing points.
    own : (m,) place of each landing person in `rows`, -1 for people who are not in it.
    """
    chosen = np.arange(len(rows))
    if len(rows) > REFERENCE:
        chosen = np.sort(np.random.default_rng(seed).choice(len(rows), REFERENCE, replace=False))
    reference = rows[torch.as_tensor(chosen)]
    itself = np.arange(len(chosen))
    apart, _ = _nearest(reference, reference, itself)
    ordinary = float(np.quantile(apart, quantile))
    place = np.full(len(rows) + 1, -1)
    place[chosen] = itself  # place[-1] stays -1: nobody's own
    distance, nearest = _nearest(landings, reference, place[own])
    return Support(distance > ordinary + 1e-9, chosen[nearest])


def _nearest(points: Tensor, reference: Tensor, but: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) least distance and where, leaving out reference but[i] for point i unless that is -1.

    The nearest person is found in single precision, by |z - x|^2 = |z|^2 - 2 z.x + |x|^2; the distance in double.
    """
    nearest = np.empty(len(points), dtype=np.int64)
    rows = reference.float()
    lengths = rows.square().sum(1)
    for start in range(0, len(points), SLICE):
        part = slice(start, start + SLICE)
        apart = torch.addmm(lengths, points[part].float(), rows.T, alpha=-2.0)
        skip = np.flatnonzero(but[part] >= 0)
        apart[torch.as_tensor(skip), torch.as_tensor(but[part][skip])] = torch.inf
        nearest[part] = apart.argmin(1).numpy()
    return torch.linalg.vector_norm(points - reference[torch.as_tensor(nearest)], dim=1).numpy(), nearest
