"""The best and the nearest point of {lo <= z <= hi, a @ z + b >= 0}, the same rows for many people."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.typing import Tensor

MOST = 512  # sets of constraints that are tried
CELLS = 1 << 22  # numbers held at a time
TOGETHER = 256  # people in one program of the solver
SAME = 1e-12


@dataclass(frozen=True)
class Vertices:
    """Where s of the m + 2s constraints meet: z = inverse @ (their right-hand sides).

    The constraints of all people have the same directions, so the inverses are theirs in common; the right-hand
    sides lo and hi are each person's own.
    """

    pick: Tensor  # (v, s) which constraints: the m rows, then the s lower limits, then the upper ones
    inverse: Tensor  # (v, s, s)

    def __len__(self) -> int:
        return len(self.pick)

    @classmethod
    def of(cls, a: Tensor) -> Vertices | None:
        """All sets of constraints of the rows a (m, s) and limits that meet in a point; None for too many sets."""
        m, s = a.shape
        if s == 0 or math.comb(m + 2 * s, s) > MOST:
            return None
        eye = torch.eye(s, dtype=a.dtype)
        normals = torch.cat([a, eye, eye])
        pick = torch.tensor(list(itertools.combinations(range(m + 2 * s), s)), dtype=torch.long)
        matrix = normals[pick]  # (v, s, s)
        apart = torch.linalg.svdvals(matrix)[:, -1] > 1e-9
        return cls(pick[apart], torch.linalg.inv(matrix[apart]))

    def all(self, lo: Tensor, hi: Tensor, a: Tensor, b: Tensor, noise: float) -> Tensor:
        """(n, v, s): the vertices of people with limits lo, hi (n, s); 0 where a meeting point lies outside."""
        right = torch.cat([-b.expand(lo.shape[0], -1), lo, hi], 1)  # (n, m + 2s)
        pick, inverse = self.pick.to(lo.device), self.inverse.to(lo.device)
        z = torch.einsum("vij,nvj->nvi", inverse, right[:, pick])
        inside = ((z @ a.T + b) >= -noise).all(-1)
        inside &= ((z >= lo.unsqueeze(1) - noise) & (z <= hi.unsqueeze(1) + noise)).all(-1)
        z = torch.minimum(torch.maximum(z, lo.unsqueeze(1)), hi.unsqueeze(1))
        return torch.where(inside.unsqueeze(-1), z, torch.zeros_like(z))

    def best(self, slope: Tensor, lo: Tensor, hi: Tensor, a: Tensor, b: Tensor, noise: float) -> Tensor:
        """(n, s): the vertex with the largest slope @ z; of equal ones that which changes least."""
        out = torch.empty_like(lo)
        size = max(1, CELLS // (len(self) * (a.shape[0] + 2 * a.shape[1])))
        for part in torch.arange(lo.shape[0], device=lo.device).split(size):
            z = self.all(lo[part], hi[part], a, b, noise)
            value = (z * slope[part].unsqueeze(1)).sum(-1)  # (n, v)
            top = value.amax(1, keepdim=True).clamp(min=0)
            tied = value >= top - SAME * slope[part].abs().amax(1, keepdim=True)
            effort = torch.where(tied, z.abs().sum(-1), torch.full_like(value, torch.inf))
            chosen = z.gather(1, effort.argmin(1)[:, None, None].expand(-1, 1, z.shape[2])).squeeze(1)
            out[part] = torch.where(top > 0, chosen, torch.zeros_like(chosen))
        return out


def solve_programs(slope: Tensor, lo: Tensor, hi: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(n, s): the same by the solver, many people in one program of independent blocks."""
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, csr_matrix

    out = np.zeros(tuple(lo.shape))
    if not lo.numel():
        return torch.zeros_like(lo)
    steep = (slope / slope.abs().amax(1, keepdim=True).clamp(min=1e-300)).cpu().numpy()
    low, high, rows, most = lo.cpu().numpy(), hi.cpu().numpy(), -a.cpu().numpy(), b.cpu().numpy()
    for start in range(0, len(steep), TOGETHER):
        part = slice(start, start + TOGETHER)
        count = len(steep[part])
        found = linprog(  # type: ignore[call-overload]
            -steep[part].ravel(),
            A_ub=block_diag([csr_matrix(rows)] * count, format="csr"),
            b_ub=np.tile(most, count),
            bounds=np.column_stack([low[part].ravel(), high[part].ravel()]),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert found.status == 0, found.message  # 0 is inside, and the limits are finite
        out[part] = found.x.reshape(count, -1)
    best = torch.from_numpy(out).to(lo.device)
    best = torch.minimum(torch.maximum(best, lo), hi)
    return torch.where((slope != 0).any(1, keepdim=True), best, torch.zeros_like(best))


def nearest_points(y: Tensor, lo: Tensor, hi: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(n, s): the point nearest to y, one person after another, some 50 microseconds each.

    The shortest u = z - y with rows @ u >= right is found as a least squares problem with multipliers of at least 0
    (Lawson and Hanson, 1974, chapter 23).
    """
    from scipy.optimize import nnls

    eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    rows = torch.cat([a, eye, -eye])
    right = (torch.cat([-b.expand(y.shape[0], -1), lo, -hi], 1) - y @ rows.T).cpu().numpy()
    matrix = np.vstack([rows.T.cpu().numpy(), right[:1]])
    target = np.append(np.zeros(a.shape[1]), 1.0)
    out = np.zeros(tuple(y.shape))
    for i, last in enumerate(right):
        matrix[-1] = last
        rest = matrix @ nnls(matrix, target, maxiter=30 * len(rows))[0] - target
        out[i] = -rest[:-1] / rest[-1]
    return torch.minimum(torch.maximum(y + torch.from_numpy(out).to(y), lo), hi)
