"""Closed forms for linear models with one numeric action for each feature."""

from __future__ import annotations

import torch

from turnabout.typing import Tensor


def cheapest_squared(weights: Tensor, scale: Tensor, need: Tensor) -> tuple[Tensor, Tensor]:
    r"""The cheapest changes (n, d) that raise a linear margin by need (n,), and their cost (n,), for squared prices.

        min  sum_j (D_j / s_j)^2   s.t.  w . D >= m          D_j = s_j^2 w_j m / S,  cost = m^2 / S,
                                                             S = sum_k s_k^2 w_k^2                               (1)

    weights and scale s are (d,) or (n, d). Free where m <= 0; inf, with no change, where no weight can help.
    """
    need = need.clamp(min=0)
    pull = (scale * scale * weights).expand(len(need), -1)
    total = (pull * weights).sum(-1)
    able = total > 0
    change = pull * (need / torch.where(able, total, 1.0)).unsqueeze(-1)
    cost = need * need / torch.where(able, total, 1.0)
    return change, torch.where(able | (need == 0), cost, torch.inf)


def cheapest_absolute(
    weights: Tensor, scale: Tensor, need: Tensor, low: Tensor | None = None, high: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The same for absolute prices, sum_j |D_j| / s_j, with low <= D <= high around zero: a fractional knapsack.

    A unit of margin costs 1 / (|w_j| s_j) by feature j; features are used up in that order.                     (2)
    """
    need = need.clamp(min=0)
    weights, scale = weights.expand(len(need), -1), scale.expand(len(need), -1)
    none = torch.full_like(weights, torch.inf)
    room = torch.where(weights > 0, none if high is None else high, none if low is None else -low)
    most = torch.where(weights == 0, 0.0, weights.abs() * room.clamp(min=0))  # margin each feature can give
    worth, order = (weights.abs() * scale).sort(-1, descending=True)
    most = most.gather(-1, order)
    before = torch.cat([torch.zeros_like(most[:, :1]), most.cumsum(-1)[:, :-1]], -1)
    taken = torch.minimum((need.unsqueeze(-1) - before).clamp(min=0), most)
    cost = torch.where(taken > 0, taken / torch.where(worth > 0, worth, 1.0), 0.0).sum(-1)
    gain = torch.zeros_like(taken).scatter(-1, order, taken)
    change = torch.where(weights == 0, 0.0, gain / torch.where(weights == 0, 1.0, weights))
    able = most.sum(-1) >= need * (1 - 1e-12)
    return torch.where(able.unsqueeze(-1), change, 0.0), torch.where(able, cost, torch.inf)
