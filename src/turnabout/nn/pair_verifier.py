"""A network that looks at two rows and says whether they are of different classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from turnabout.nn.network_training import Schedule, perceptron, train
from turnabout.typing import Progress, Tensor


class PairVerifier(nn.Module):
    """V(x, x'): the chance that two rows are of different classes, as a logit.

    Parameters
    ----------
    rows : (rows, d) what inputs are standardised by.
    hidden : widths of the hidden layers.
    seed : of the first weights.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, rows: Tensor, hidden: Sequence[int], seed: int):
        super().__init__()
        self.register_buffer("shift", rows.mean(0))
        spread = rows.std(0, correction=0)
        self.register_buffer("scale", torch.where(spread > 0, spread, torch.ones_like(spread)))
        self.layers = perceptron([2 * rows.shape[1], *hidden, 1], torch.Generator().manual_seed(seed))

    def forward(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (...)."""
        both = [(rows - self.shift) / self.scale for rows in (x, x_new)]
        out: Tensor = self.layers(torch.cat(both, -1))
        return out.squeeze(-1)


def train_verifier(
    network: PairVerifier,
    rows: Tensor,
    labels: Tensor,
    schedule: Schedule,
    seed: int,
    progress: Progress | None = None,
) -> list[float]:
    """Train in place on pairs of rows (rows, d) with labels (rows,), both of which occur; half of them differ."""
    x, y = rows.to(next(network.parameters())), labels.long()
    order = y.argsort(stable=True)  # the refused first
    first, size = (y == 0).sum() * torch.arange(2, device=y.device), torch.bincount(y, minlength=2)

    def loss(some: Tensor, done: float, noise: torch.Generator) -> Tensor:
        draw = torch.rand(2, len(some), generator=noise, device=x.device, dtype=torch.float64)
        differ = draw[0] < 0.5
        wanted = torch.where(differ, 1 - y[some], y[some])
        partner = order[first[wanted] + (draw[1] * size[wanted]).long()]
        logit = network(x[some], x[partner])
        return nn.functional.binary_cross_entropy_with_logits(logit, differ.to(logit), reduction="none")

    return train(network, loss, len(x), schedule, seed, progress)
