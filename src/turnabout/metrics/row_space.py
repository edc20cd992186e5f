"""Whole rows as points: how far two rows are apart, and which rows of a table are near."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from turnabout.schema import Binary, Category, Schema
from turnabout.typing import Tensor

NEIGHBOURS = 5
CELLS = 1 << 21  # distances held at a time
SAME = 1e-9  # rows nearer than this are the same row


class RowSpace:
    """Distances between whole rows, feature by feature.

    Numbers and ordinals count by the difference of their places in [0, 1], binaries and categories by 1 where they
    differ. Missing is one more level of a category; of another feature, missing differs from a value v by
    1/2 + |v - 1/2|, and from missing by 0.

    With w the weight of an encoded column, and z the encoded row,

        distance(a, b)    = sum over columns   w |z_a - z_b|              (1)
        euclidean(a, b)^2 = sum over columns   w (z_a - z_b)^2            (2)

    where w = 1/2 for the columns of a category and for indicators of missing cells, since a switch changes two columns,
    and w = 1 elsewhere. A switch counts 1 in both.
    """

    def __init__(self, schema: Schema):
        self.schema = schema

    @cached_property
    def weight(self) -> Tensor:
        """(d,) weight of each encoded column."""
        out = torch.ones(self.schema.d, dtype=torch.float64)
        for f, s in zip(self.schema, self.schema.slices):
            if isinstance(f, Category):
                out[s] = 0.5
            elif f.missing:
                out[s.stop - 1] = 0.5
        return out

    @cached_property
    def _scalar_missing(self) -> list[tuple[int, int]]:
        """Value and indicator columns of the features that may be missing and are no categories."""
        pairs = zip(self.schema, self.schema.slices)
        return [(s.start, s.stop - 1) for f, s in pairs if f.missing and not isinstance(f, Category)]

    @cached_property
    def _switches(self) -> Tensor:
        """(d,) True for columns that only hold 0 and 1."""
        out = torch.zeros(self.schema.d, dtype=torch.bool)
        for f, s in zip(self.schema, self.schema.slices):
            if isinstance(f, Category) or (isinstance(f, Binary) and not f.missing):
                out[s] = True
            elif f.missing:
                out[s.stop - 1] = True
        return out

    def points(self, x: Tensor) -> Tensor:
        """Encoded rows (n, d) -> z (n, d); missing scalars stand at 1/2, and no cell is NaN."""
        z = torch.nan_to_num(x.detach().to("cpu", torch.float64)).clone()
        for value, indicator in self._scalar_missing:
            z[z[:, indicator] > 0.5, value] = 0.5
        return z

    def euclidean(self, z: Tensor) -> np.ndarray:
        """(n, d) -> (n, d) with distances (2), for what knows only Euclid's."""
        return (z * self.weight.sqrt()).numpy()  # (2)

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, d), (m, d) -> (n, m) distances (1); exactly 0 between equal rows."""
        flat, steep = self._switches, ~self._switches
        own, other = a[:, flat] * self.weight[flat], b[:, flat]
        # |p - q| = p + q - 2pq for 0 and 1: one product of matrices, in which halves add up exactly
        out = torch.addmm(other @ self.weight[flat], own, other.T, alpha=-2).add_(own.sum(1, keepdim=True))
        if bool(steep.any()):
            out += torch.cdist(a[:, steep] * self.weight[steep], b[:, steep] * self.weight[steep], p=1)
        return out  # (1)

    def near(
        self, z: Tensor, rows: Tensor, chosen: Tensor, own: Tensor | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(n,) distance to the nearest of `rows`, and (n,) mean distance to the 5 nearest of those that are chosen.

        The second is None where fewer than 5 are chosen.

        Parameters
        ----------
        z : (n, d) points.
        rows : (m, d) points to be near to.
        chosen : (m,) a mask.
        own : (n,) the place of each point among the rows, which is left out of the first distance; -1 for none.
        """
        nearest, mean = [torch.zeros(0, dtype=torch.float64)], [torch.zeros(0, dtype=torch.float64)]
        count = int(chosen.sum())
        step = max(1, CELLS // max(1, len(rows)))
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            apart = self.distance(z[part], rows)
            if count >= NEIGHBOURS:
                mean.append(apart[:, chosen].topk(NEIGHBOURS, largest=False).values.mean(1))
            if own is not None:
                mine = own[part]
                apart[torch.nonzero(mine >= 0).flatten(), mine[mine >= 0]] = torch.inf
            nearest.append(apart.min(1).values)
        return torch.cat(nearest).numpy(), torch.cat(mean).numpy() if count >= NEIGHBOURS else None
