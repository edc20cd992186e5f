"""How much an explanation changes when the person hardly does: Lipschitz estimates, angles, churn, jumps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Each, Positive, Whole, checked
from turnabout.studies.attribution_maps.map_questions import AttributionMap, Directions, ask_map, read_points
from turnabout.typing import Tensor

RHOS = (1e-1, 1e-2, 1e-3, 1e-4)
NOISE = 0.01  # a difference counts when its standard error is below this share of it
STEPS = 60  # halvings of a segment in the search for a jump
WIDTH = 1e-10  # how short a segment becomes, relative to its place
SEGMENTS = 64  # of the largest differences, halved
JUMP = 1e-3  # share of the largest |phi| that must remain on the last segment


@dataclass(frozen=True)
class AtRadius(Document):
    """Changes of a map between points and their neighbours at one distance.

    Attributes
    ----------
    rho : the distance.
    lipschitz : largest |phi(x) - phi(x')| / rho; None where noise hides every difference.
    typical : the median of that over points, each with its worst neighbour.
    angle : largest angle between phi(x) and phi(x'), in degrees; None for several options, or where one is 0.
    churn : mean share of the main columns that are not main ones at the neighbour; None for several options.
    noisy : share of pairs whose difference does not stand out from the sampling noise.
    """

    rho: float
    lipschitz: float | None
    typical: float | None
    angle: float | None
    churn: float | None
    noisy: float


@dataclass(frozen=True)
class Continuity(Document):
    """How much a map changes near some points.

    Attributes
    ----------
    radii : one entry per distance, the largest first.
    diverges : whether the largest difference falls more slowly than the square root of the last two distances, or a
        jump was found. A signal and no proof: a steep map looks so until the distance is small enough.
    jump : the largest difference that remained when segments with large differences were halved, with its place and
        the length of the last segment; None where none remained.
    noise_limited : whether sampling noise hides every difference at some distance.
    """

    radii: tuple[AtRadius, ...]
    diverges: bool
    jump: Jump | None
    noise_limited: bool
    n: int

    keys = "n diverges noise_limited radii jump"

    def at(self, rho: float) -> AtRadius:
        """The entry of one distance."""
        for entry in self.radii:
            if entry.rho == rho:
                return entry
        raise AuditError(f"nothing was measured at rho={rho!r}.", hint=f"use one of {[r.rho for r in self.radii]}.")

    def __str__(self) -> str:
        lines = [f"continuity at {self.n} points"]
        for r in self.radii:
            if r.lipschitz is None:
                lines.append(f"  within {r.rho:g}: noise limited" if r.noisy else f"  within {r.rho:g}: unknown")
                continue
            angle = "" if r.angle is None else f", angle {r.angle:.3g} degrees"
            churn = "" if r.churn is None else f", churn of the main columns {r.churn:.3f}"
            noisy = f", {r.noisy:.0%} of pairs noise limited" if r.noisy else ""
            lines.append(
                f"  within {r.rho:g}: Lipschitz {r.lipschitz:.4g} (typical {r.typical:.4g}){angle}{churn}{noisy}"
            )
        if self.jump is not None:
            lines.append(f"  {self.jump}")
        lines.append("  diverges: a jump is likely" if self.diverges else "  no sign of divergence at these points")
        return "\n".join(lines)


@dataclass(frozen=True)
class Jump(Document):
    """A change of a map over a very short segment."""

    x: tuple[float, ...]
    size: float
    width: float

    def __str__(self) -> str:
        return f"changes by {self.size:.6g} over a length of {self.width:.1e} at {show_point(self.x)}"


@checked(
    AuditError,
    rhos=Each(Positive(), hint="use numbers above 0, such as (0.1, 0.01)."),
    directions=Whole(1),
    top=Whole(1),
    repeats=Whole(1),
    seed=Whole(0),
)
def continuity(
    phi: AttributionMap,
    points: Tensor,
    rhos: Sequence[float] = RHOS,
    directions: int = 8,
    top: int = 4,
    repeats: int = 16,
    seed: int = 0,
) -> Continuity:
    r"""Local Lipschitz estimates of a map, over several distances.

        max over x' with |x' - x| = rho of   |phi(x) - phi(x')| / rho                                            (1)

    with x' in random directions and their opposites; a lower bound of the true constant, since not every x' is tried.
    Several options are compared by the Hausdorff distance of the two sets. A map that returns (phi, standard errors)
    is asked again, and averaged, until the error of a difference is below 1 % of it; pairs for which that is not
    reached are noise limited and left out. A map that repeats the same draws cannot be averaged.

    Parameters
    ----------
    points : (n, d), encoded.
    rhos : distances.
    directions : random directions at each point, each tried both ways; one is enough on a line.
    top : how many columns count as main ones in the churn.
    repeats : most times that a noisy map is asked.
    """
    x = read_points(points)
    rng = np.random.default_rng(seed)
    n, d = x.shape
    one_way = 1 if d == 1 else directions
    ways = torch.as_tensor(rng.standard_normal((n, one_way, d))) if d > 1 else torch.ones(n, 1, 1, dtype=x.dtype)
    ways = ways / ways.norm(dim=2, keepdim=True)
    ways = torch.cat([ways, -ways], 1)
    radii, largest, pairs, scale = [], [], [], 0.0
    own = _Asked(phi, x) if n else None
    for rho in sorted({float(r) for r in rhos}, reverse=True):
        if own is None:
            radii.append(AtRadius(rho, None, None, None, None, 0.0))
            continue
        beside = x.unsqueeze(1) + rho * ways
        near = _Asked(phi, beside.reshape(-1, d))
        gap, noisy = _differences(own, near, ways.shape[1], repeats)
        radii.append(_at(rho, own.mean, near.mean, gap, noisy, top))
        scale = max(scale, float(own.mean.size().max()), float(near.mean.size().max()))
        known = torch.where(noisy, 0.0, gap)
        largest.append(float(known.max()))
        pairs.append((known.flatten(), x.repeat_interleave(ways.shape[1], 0), beside.reshape(-1, d)))
    limited = any(r.lipschitz is None and r.noisy > 0 for r in radii)
    noisy_map = own is not None and own.mean.error is not None
    jump = None if own is None or noisy_map else steepest_jump(phi, pairs, JUMP * scale)
    stays = False
    if len(largest) > 1:  # a straight map's differences fall as rho does, those across a jump do not fall
        stays = largest[-1] > max(JUMP * scale, math.sqrt(radii[-1].rho / radii[-2].rho) * largest[-2])
    return Continuity(tuple(radii), stays or jump is not None, jump, limited, n)


def hausdorff(a: Tensor, b: Tensor) -> Tensor:
    """The Hausdorff distance of sets of directions, (n, k, d) and (n, l, d) -> (n,); the plain one for k = l = 1."""
    if a.shape[1] == b.shape[1] == 1:
        return (a - b).norm(dim=2).squeeze(1)
    apart = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")  # (n, k, l)
    return torch.maximum(apart.amin(2).amax(1), apart.amin(1).amax(1))


class _Asked:
    """A map at some points, asked as often as it takes."""

    def __init__(self, phi: AttributionMap, x: Tensor):
        self.phi, self.x, self.times = phi, x, 1
        self.mean = ask_map(phi, x)
        self.repeats_itself = self.mean.error is None

    def again(self) -> None:
        """Ask once more and average; the draws are independent unless the answer is the very same."""
        more = ask_map(self.phi, self.x)
        assert self.mean.error is not None and more.error is not None
        if torch.equal(more.values, self.mean.values):
            self.repeats_itself = True
            return
        m = self.times
        values = (self.mean.values * m + more.values) / (m + 1)
        error = ((self.mean.error * m).square() + more.error.square()).sqrt() / (m + 1)
        self.times, self.mean = m + 1, Directions(values, error, self.mean.is_set)


def _differences(own: _Asked, near: _Asked, ways: int, repeats: int) -> tuple[Tensor, Tensor]:
    """(n, w) |phi(x) - phi(x')|, and where that is noise limited."""
    while True:
        a, b = own.mean, near.mean
        gap = hausdorff(a.values.repeat_interleave(ways, 0), b.values)
        if a.error is None or b.error is None:
            noisy = torch.zeros_like(gap, dtype=torch.bool)
            break
        wide = a.error.square().sum(2).amax(1).repeat_interleave(ways) + b.error.square().sum(2).amax(1)
        noisy = wide.sqrt() > NOISE * gap
        if not noisy.any() or own.repeats_itself or near.repeats_itself or near.times >= repeats:
            break
        own.again()
        near.again()
    return gap.reshape(-1, ways), noisy.reshape(-1, ways)


def _at(rho: float, own: Directions, near: Directions, gap: Tensor, noisy: Tensor, top: int) -> AtRadius:
    share = float(noisy.double().mean())
    if bool(noisy.all()):
        return AtRadius(rho, None, None, None, None, share)
    worst = torch.where(noisy, -torch.inf, gap).amax(1) / rho  # (1)
    kept = worst[torch.isfinite(worst)]
    angle = churn = None
    if not own.is_set:
        a, b = own.values.repeat_interleave(gap.shape[1], 0)[:, 0], near.values[:, 0]
        live = (a.norm(dim=1) > 0) & (b.norm(dim=1) > 0) & ~noisy.flatten()
        if live.any():
            a_, b_ = (v[live] / v[live].norm(dim=1, keepdim=True) for v in (a, b))
            angle = float(torch.rad2deg(2 * torch.atan2((a_ - b_).norm(dim=1), (a_ + b_).norm(dim=1))).max())
        k = min(top, a.shape[1])
        first, second = (_main(v[~noisy.flatten()], k) for v in (a, b))
        churn = float((1 - (first & second).double().sum(1) / k).mean())
    return AtRadius(rho, float(kept.max()), float(kept.quantile(0.5)), angle, churn, share)


def _main(v: Tensor, k: int) -> Tensor:
    """(m, d) True for the k columns with the largest |v|."""
    return torch.zeros_like(v, dtype=torch.bool).scatter(1, v.abs().topk(k, dim=1).indices, True)


def steepest_jump(phi: AttributionMap, pairs: list[tuple[Tensor, Tensor, Tensor]], least: float) -> Jump | None:
    """Halve the segments with the largest differences, keeping the half that changes more; None if less remains.

    Pairs are differences (m,) between the ends (m, d) and (m, d) of segments.
    """
    gap, a, b = (torch.cat(list(some)) for some in zip(*pairs))
    best = gap.topk(min(SEGMENTS, len(gap))).indices
    a, b = a[best], b[best]
    left, right = ask_map(phi, a).values, ask_map(phi, b).values
    for _ in range(STEPS):
        if float((b - a).norm(dim=1).max()) <= WIDTH * (1 + float(a.abs().max())):
            break
        middle = a + (b - a) * 0.5
        inside = ask_map(phi, middle).values
        first = (hausdorff(left, inside) >= hausdorff(inside, right)).reshape(-1, 1)
        a, b = torch.where(first, a, middle), torch.where(first, middle, b)
        whole = first.unsqueeze(2)
        left, right = torch.where(whole, left, inside), torch.where(whole, inside, right)
    size = hausdorff(left, right)
    i = int(size.argmax())
    if not float(size[i]) > least:
        return None
    where = (a[i] + b[i]) / 2
    return Jump(tuple(where.tolist()), float(size[i]), float((b[i] - a[i]).norm()))


def show_point(x: tuple[float, ...]) -> str:
    """A point in a few digits."""
    shown = ", ".join(f"{v:.6g}" for v in x[:6])
    return f"({shown}{', ...' if len(x) > 6 else ''})"
