"""The cheapest point of a box under one linear condition, by its dual."""

from __future__ import annotations

import torch

from turnabout.methods.sequences.certificate.parameter_boxes import PriceBound, Rows
from turnabout.typing import Tensor

ERROR = 1e-11  # share of the terms of a sum that rounding may have cost
JUMP = 1 + 1e-9  # just before and after the start of a z_k: without a curved price it goes to its end at once
PAIRS, HALVINGS = 2, 10
BROKEN = 1e-6  # share of its size by which a condition must be broken to be worth a look


def cheapest_in_box(price: PriceBound, low: Tensor, high: Tensor, slope: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lower bounds (B,) on the price over boxes (B, K) where slope . delta + top >= 0, and points (B, K) near it.

    For any multiplier lam >= 0,

        g(lam) = constant - lam beta + sum_k min over z_k in its interval of
                     linear_k |z_k| + curved_k z_k^2 - lam alpha_k z_k                                       (1)

    is a bound, with alpha . z + beta the condition in z = theta - kink. g is concave and, between the few lam at which
    some z_k starts or stops moving, quadratic: it is evaluated at all of these, and at the point where the condition
    becomes tight, so the best bound is found without iterations. inf where no point of the box meets the condition.
    """
    radius = (high - low) / 2
    alpha = torch.where(radius > 0, slope / torch.where(radius > 0, radius, 1.0), 0.0)
    first, last = low - price.kink, high - price.kink
    beta = top - (alpha * (first + last) / 2).sum(-1)
    reachable = slope.abs().sum(-1) + top >= 0

    size = torch.where(alpha == 0, torch.inf, alpha.abs())
    ends = torch.stack([first, last], -1)
    stops = (price.linear.unsqueeze(-1) + 2 * price.curved.unsqueeze(-1) * ends.abs()) / size.unsqueeze(-1)
    starts = price.linear / size
    turns = torch.cat([torch.zeros_like(starts[:, :1]), starts / JUMP, starts * JUMP, stops.flatten(1)], 1)
    lam = turns.clamp(max=1e30).sort(1).values  # where some z_k starts or stops
    z = _minimizers(price, alpha, first, last, lam)  # (B, N, K)
    value = (alpha.unsqueeze(1) * z).sum(-1) + beta.unsqueeze(1)  # rises with lam
    at = (value < 0).sum(1, keepdim=True).clamp(1, lam.shape[1] - 1)  # first lam that meets the condition
    a, b = value.gather(1, at - 1), value.gather(1, at)
    share = torch.where(b > a, (-a / torch.where(b > a, b - a, 1.0)).clamp(0, 1), (a < 0).to(a.dtype))
    tight = lam.gather(1, at - 1) + share * (lam.gather(1, at) - lam.gather(1, at - 1))
    lam = torch.cat([lam, tight], 1)
    z = torch.cat([z, _minimizers(price, alpha, first, last, tight)], 1)
    linear, curved = price.linear.unsqueeze(1), price.curved.unsqueeze(1)
    own = linear * z.abs() + curved * z * z
    pull = lam.unsqueeze(-1) * alpha.unsqueeze(1) * z
    sums = own.sum(-1) - pull.sum(-1) - lam * beta.unsqueeze(1)  # (1)
    error = ERROR * (own.sum(-1) + pull.abs().sum(-1) + lam * beta.abs().unsqueeze(1))
    bound = price.constant + (sums - error).amax(1)

    wide = at.unsqueeze(-1).expand(-1, 1, z.shape[-1])
    before, after = z.gather(1, wide - 1).squeeze(1), z.gather(1, wide).squeeze(1)
    point = before + share * (after - before) + price.kink  # the condition is just met
    return torch.where(reachable, bound, torch.inf), torch.minimum(torch.maximum(point, low), high)


def cheapest_under_rows(
    price: PriceBound, low: Tensor, high: Tensor, slope: Tensor, top: Tensor, rows: Rows, known: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    r"""Better bounds and points where the known ones (bound, point) break another condition, r of `rows`.

    Any sum  slope . delta + top + mu (slope_r . delta + top_r) >= 0  with mu >= 0 is a condition too, so
    `cheapest_in_box` bounds the price under it. mu is raised while its point breaks row r, else lowered, by halving
    on a logarithmic scale; then the sum takes the place of the plane and the row broken most is the next r.       (2)
    """
    bound, point = known
    scale = (rows.slope.abs().sum(-1) + rows.top.abs().nan_to_num(posinf=0.0)).clamp(min=1e-300)
    middle, radius = (low + high) / 2, (high - low) / 2
    for _ in range(PAIRS):
        delta = torch.where(radius > 0, (point - middle) / torch.where(radius > 0, radius, 1.0), 0.0)
        value = ((rows.slope @ delta.unsqueeze(-1)).squeeze(-1) + rows.top) / scale
        worst, r = value.min(1, keepdim=True)
        if not bool((worst < -BROKEN).any()):
            break
        other = rows.slope.gather(1, r.unsqueeze(-1).expand(-1, 1, slope.shape[1])).squeeze(1)
        lift = rows.top.gather(1, r).squeeze(1)
        sizes = (slope.abs().sum(-1) + top.abs()) / scale.gather(1, r).squeeze(1)
        least, most = torch.full_like(top, -12.0), torch.full_like(top, 12.0)  # of log2 mu, in natural sizes
        best, weight = bound, torch.zeros_like(bound)
        for _ in range(HALVINGS):
            power = (least + most) / 2
            mu = sizes * power.exp2()
            value, at = cheapest_in_box(price, low, high, slope + mu.unsqueeze(-1) * other, top + mu * lift)
            better = value > best
            best, weight = torch.where(better, value, best), torch.where(better, mu, weight)
            point = torch.where(better.unsqueeze(-1), at, point)
            delta = torch.where(radius > 0, (at - middle) / torch.where(radius > 0, radius, 1.0), 0.0)
            broken = (other * delta).sum(-1) + lift < 0
            least, most = torch.where(broken, power, least), torch.where(broken, most, power)
        bound = best
        slope, top = slope + weight.unsqueeze(-1) * other, top + weight * lift
    return bound, point


def _minimizers(price: PriceBound, alpha: Tensor, first: Tensor, last: Tensor, lam: Tensor) -> Tensor:
    """(B, N, K): the z that (1) takes for each lam (B, N)."""
    pull = lam.unsqueeze(-1) * alpha.unsqueeze(1)
    force = (pull.abs() - price.linear.unsqueeze(1)).clamp(min=0) * pull.sign()
    curved = price.curved.unsqueeze(1)
    free = torch.where(curved > 0, force / (2 * curved).clamp(min=1e-300), force.sign() * torch.inf)
    free = torch.where(force == 0, 0.0, free)
    return torch.minimum(torch.maximum(free, first.unsqueeze(1)), last.unsqueeze(1))
