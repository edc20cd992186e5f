"""People as a graph: who is near whom, how many are between them, and the shortest ways to some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from turnabout.schema import Category, Schema
from turnabout.typing import Tensor

BLOCK = 1 << 19  # numbers in one block of distances, small enough for a processor's cache
SAME = 9  # decimals of distances, so that no answer hangs on the order in which a processor adds
Allowed = Callable[[Tensor], Tensor]
"""Encoded rows (a, d) -> (a, m) bool, which of the m nodes each may become."""


class PointMap:
    """Encoded rows as points z of Euclid's, in which another level of a category counts as much as a number's range.

    Missing numbers stand in the middle of their range, and apart from all others by their indicator.
    """

    def __init__(self, schema: Schema):
        self.scale = torch.ones(schema.d, dtype=torch.float64)
        self.missing: list[tuple[int, int]] = []
        for feature, s in zip(schema.features, schema.slices, strict=True):
            if isinstance(feature, Category):
                self.scale[s] = 0.5**0.5  # a switch changes two columns
            elif feature.missing:
                self.missing.append((s.start, s.stop - 1))

    def __call__(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)"""
        z = x * self.scale.to(x.device)
        for value, indicator in self.missing:
            z[..., value] = torch.where(x[..., indicator] > 0.5, 0.5, z[..., value])
        return z


class RowDensity:
    """Gaussian kernels K around points z_s, given what nobody can change, u:

        log p(z) = log sum_s K(z - z_s) - log sum_s K(u - u_s),      K(a) = exp(-|a|^2 / (2 h^2))              (1)

    up to a constant. Without such columns it is the plain kernel density.

    Parameters
    ----------
    centres : (s, d) the points z_s.
    fixed : (d,) True for the columns of u.
    width : h.
    """

    def __init__(self, centres: Tensor, fixed: Tensor, width: float):
        self.centres, self.fixed, self.width = centres, fixed, width

    def __call__(self, z: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, d) -> (n,) log densities; the kernel at the place `own` (n,) is left out, -1 for none."""
        out, u = z.new_empty(len(z)), self.fixed
        for part in blocks(len(z), len(self.centres)):
            given = squared_distances(z[part][:, u], self.centres[:, u])
            whole = squared_distances(z[part][:, ~u], self.centres[:, ~u]).add_(given)
            if own is not None:
                left_out = (own[part] >= 0).nonzero().squeeze(1)
                given[left_out, own[part][left_out]] = whole[left_out, own[part][left_out]] = torch.inf
            out[part] = self._mass(whole) - self._mass(given)  # (1)
        return torch.nan_to_num(out, nan=-torch.inf)

    def _mass(self, square: Tensor) -> Tensor:
        """Squared distances (n, s), which are used up -> (n,) log sum_s K."""
        return torch.logsumexp(square.mul_(-0.5 / self.width**2), 1)


@dataclass(frozen=True)
class Ways:
    """From each of m nodes to a target: length of the shortest way, the target it ends at, the next node on it.

    Nodes without a way have infinite length, and -1 for both places. A target is its own end, and has no next node.
    """

    length: Tensor
    end: Tensor
    after: Tensor


class PeopleGraph:
    r"""Rows joined to the rows near them, with edges that are short where many people are.

        w(a, b) = |z_a - z_b| * (1 + log(p_max / p((z_a + z_b) / 2)))                                     (2)

    p_max is the highest density at a node, and p no higher. Edges go both ways, or where `allowed` says.

    Parameters
    ----------
    points : how rows become points.
    rows : (m, d) encoded rows, all different points.
    fixed : (d,) True for encoded columns that nobody can change.
    neighbours : nodes that each is joined to.
    longest : length |z_a - z_b| of the longest edge.
    centres : kernels of the density, at most.
    allowed : which nodes a row may become; None for all.
    """

    def __init__(
        self,
        points: PointMap,
        rows: Tensor,
        fixed: Tensor,
        neighbours: int,
        longest: float = torch.inf,
        centres: int = 1024,
        allowed: Allowed | None = None,
    ):
        self.points, self.rows, self.z = points, rows, points(rows)
        self.neighbours, self.longest, self.allowed = neighbours, longest, allowed
        m = len(rows)
        apart, near = self.near(rows, neighbours + 1)  # itself among them
        place = torch.arange(m, device=rows.device)
        widths = apart.masked_fill(~torch.isfinite(apart), 0.0).amax(1) if apart.shape[1] else apart.new_zeros(m)
        widths = widths[widths > 0]
        chosen = torch.linspace(0, m - 1, min(m, centres), device=rows.device).long()
        self.centre_of = torch.full((m,), -1, device=rows.device)  # which kernel stands at a node
        self.centre_of[chosen] = torch.arange(len(chosen), device=rows.device)
        self.density = RowDensity(self.z[chosen], fixed, float(widths.median()) if len(widths) else 1.0)
        self.highest = float(self.density(self.z).max()) if m else 0.0
        edge = torch.isfinite(apart) & (near != place.unsqueeze(1))
        a, b = place.unsqueeze(1).expand_as(near)[edge], near[edge]
        weight = self.weight(self.z[a], self.z[b]).cpu().numpy()
        graph = csr_array((weight, (a.cpu().numpy(), b.cpu().numpy())), shape=(m, m))
        self.graph = graph.maximum(graph.T).tocsr() if allowed is None else graph

    def near(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Rows (n, d) -> distances and places (n, k) of the nearest nodes they may become; infinite for fewer."""
        return self.near_among(x, torch.arange(len(self.z), device=x.device), k)

    def near_among(self, x: Tensor, nodes: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """As `near`, of some nodes only."""
        k = min(k, len(nodes))
        apart, near = x.new_empty(len(x), k), torch.empty(len(x), k, dtype=torch.long, device=x.device)
        z, others = self.points(x), self.z[nodes]
        for part in blocks(len(x) if k else 0, len(self.z)):
            square = squared_distances(z[part], others).round(decimals=SAME)
            if self.allowed is not None:
                square.masked_fill_(~self.allowed(x[part])[:, nodes], torch.inf)
            square, place = square.topk(k, largest=False)
            far = square.sqrt()
            apart[part], near[part] = far.masked_fill(far > self.longest, torch.inf), nodes[place]
        return apart, near

    def weight(self, a: Tensor, b: Tensor) -> Tensor:
        """(2) of edges between points (n, d) and (n, d)."""
        sparse = (self.highest - self.density((a + b) / 2)).clamp(min=0.0)
        return (a - b).norm(dim=1) * (1 + sparse)  # (2)

    def ways(self, targets: Tensor) -> Ways:
        """From every node to the nearest of the targets (m,) bool, along the edges: one search from all targets."""
        from scipy.sparse.csgraph import dijkstra

        device, places = self.z.device, np.flatnonzero(targets.cpu().numpy())
        if not len(places):
            nowhere = torch.full((len(self.z),), -1, device=device)
            return Ways(torch.full((len(self.z),), torch.inf, dtype=torch.float64, device=device), nowhere, nowhere)
        backwards = self.graph.T.tocsr()
        length, after, end = dijkstra(backwards, indices=places, return_predecessors=True, min_only=True)
        return Ways(
            torch.as_tensor(length, device=device),
            torch.as_tensor(end, device=device).long().clamp(min=-1),
            torch.as_tensor(after, device=device).long().clamp(min=-1),
        )


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """(n, d), (m, d) -> (n, m) of Euclid's."""
    product = torch.addmm((b * b).sum(1).expand(len(a), -1), a, b.T, alpha=-2)
    return product.add_((a * a).sum(1, keepdim=True)).clamp_(min=0.0)


def blocks(rows: int, width: int) -> list[slice]:
    """Slices of rows, each of about `BLOCK` numbers."""
    size = max(1, BLOCK // max(1, width))
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]
