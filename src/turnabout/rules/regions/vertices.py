"""The best and the nearest point of {lo <= z <= hi, a @ z + b >= 0}, the same rows for many people."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.stdout import stdout_for_data
from turnabout.typing import Tensor

MOST = 512  # sets of constraints that are tried
CELLS = 1 << 22  # numbers held at a time
TOGETHER = 256  # people in one program of the solver
SAME = 1e-12
NEAR = 1e-14  # encoded units between a nearest point and the edges that hold it


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


@stdout_for_data()
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
    """(n, s): the point nearest to y, one person after another, some 100 microseconds each.

    The shortest u = z - y with rows @ u >= right is found as a least squares problem with multipliers of at least 0
    (Lawson and Hanson, 1974, chapter 23). Answers that miss the conditions of a nearest point, as they may where many
    rows meet, are found again by steps that stay inside.
    """
    rows, right = _constraints(lo, hi, a, b)  # (n, c, s), (n, c)
    y = torch.where(hi > lo, y, torch.zeros_like(y))
    short = right - torch.einsum("ncs,ns->nc", rows, y)
    far = short.amax(1).clamp(min=1e-300)
    matrix = torch.cat([rows, (short / far.unsqueeze(1)).unsqueeze(-1)], -1).transpose(1, 2)  # (n, s + 1, c)
    matrix = matrix / matrix.norm(dim=1, keepdim=True)
    force = torch.from_numpy(_multipliers(matrix.cpu().numpy())).to(y)
    rest = torch.einsum("nsc,nc->ns", matrix, force)
    gap = 1 - rest[:, -1:]
    move = rest[:, :-1] / gap * far.unsqueeze(1)
    spare = torch.einsum("ncs,ns->nc", rows, move) - short
    fits = ((gap > 0) & (spare >= -NEAR) & ((spare <= NEAR) | (force <= 0))).all(1)  # not where nan
    out = y + move
    for i in (~fits).nonzero().squeeze(1).tolist():
        found = walk_inside(*(t[i].cpu().numpy() for t in (y, rows, right)))
        out[i] = torch.from_numpy(found).to(y)
    return torch.minimum(torch.maximum(out, lo), hi)


def _constraints(lo: Tensor, hi: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """rows (n, c, s) of length 1 and right (n, c) with rows @ z >= right; 0 and -1 where a person needs none.

    What cannot move has no limits of its own, and is left out of the rows; a row that no point within the limits
    breaks is no row.
    """
    free = hi > lo
    rows = a * free.unsqueeze(1)
    lowest = torch.where(rows > 0, rows * lo.unsqueeze(1), rows * hi.unsqueeze(1)).sum(-1)
    length = torch.where(lowest + b < 0, rows.norm(dim=-1), torch.full_like(lowest, torch.inf))
    eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device) * free.unsqueeze(1)
    none = -torch.ones_like(lo)
    right = torch.where(length.isinf(), -torch.ones_like(length), -b / length)
    limits = [torch.where(free, lo, none), torch.where(free, -hi, none)]
    return torch.cat([rows / length.unsqueeze(-1), eye, -eye], 1), torch.cat([right, *limits], 1)


def _multipliers(matrix: np.ndarray) -> np.ndarray:
    """(n, c): the w >= 0 with the least |matrix @ w - (0, ..., 0, 1)|; nan where the solver gives up."""
    from scipy.optimize import nnls

    target = np.append(np.zeros(matrix.shape[1] - 1), 1.0)
    out = np.full((matrix.shape[0], matrix.shape[2]), np.nan)
    for i, each in enumerate(matrix):
        with contextlib.suppress(RuntimeError):
            out[i] = nnls(each, target, maxiter=30 * len(out[i]))[0]
    return out


def walk_inside(y: np.ndarray, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(s,): the point of rows (c, s) @ z >= right nearest to y, by an active set method from 0, which is inside.

    Each step goes along the rows that are held towards y, and stops at the first other row, which is held from then
    on; where it can go no nearer, a row that pushes away from y is let go. The lowest of several is taken (Bland's
    rule), so that it does not turn in circles where many rows meet.
    """
    z, held = np.zeros_like(y), list[int]()
    for _ in range(50 * len(rows)):
        way = y - z
        along, upper = np.linalg.qr(rows[held].T)
        step = way - along @ (along.T @ way)
        step -= along @ (along.T @ step)
        size = np.linalg.norm(step)
        if size <= SAME * (1 + np.linalg.norm(way)):
            push = np.linalg.lstsq(upper, -along.T @ way)[0]
            wrong = [row for row, p in zip(held, push, strict=True) if p < -SAME * (1 + np.abs(push).max())]
            if not wrong:
                break
            held.remove(min(wrong))
            continue
        speed = rows @ step
        speed[held] = 0.0
        meets = speed < -SAME * size
        share = np.full(len(rows), np.inf)
        share[meets] = (rows[meets] @ z - right[meets]).clip(min=0) / -speed[meets]
        first = int(share.argmin())
        z = z + min(1.0, share[first]) * step
        if share[first] < 1:
            held.append(first)
    return z
