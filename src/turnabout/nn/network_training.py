"""Training a network: seeded, with the best checkpoint by a held-out loss, with progress."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from turnabout.typing import Progress, Tensor

HELD_OUT = 0.1  # share of the rows that choose the checkpoint
MOST_HELD = 4096
LOOKS = 20  # at the held-out loss
MOST_EPOCHS = 300  # small tables are not gone through more often
CLIP = 5.0  # largest norm of a gradient


Loss = Callable[[Tensor, float, torch.Generator], Tensor]
"""(places of some rows, share of the training done, source of random numbers) -> the loss of each row."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a network is trained: Adam with a learning rate that falls to 0 along a half cosine.

    epochs : how often a table is gone through at most; more where what is learned of a row is drawn anew each time.
    """

    steps: int
    batch: int = 256
    lr: float = 2e-3
    epochs: int = MOST_EPOCHS

    def steps_on(self, rows: int) -> int:
        """How many steps are taken on a table with so many rows."""
        return max(1, min(self.steps, math.ceil(self.epochs * (rows - held_out(rows)) / self.batch)))


def held_out(rows: int) -> int:
    """How many rows choose the checkpoint; none apart from the others where there is but one."""
    held = min(MOST_HELD, max(1, round(HELD_OUT * rows)))
    return held if rows > held else 0


def perceptron(widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with SiLU between them; first weights are uniform within sqrt(3 / inputs)."""
    parts: list[nn.Module] = []
    for i, o in itertools.pairwise(widths):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch remarks on layers without outputs
            linear = nn.utils.skip_init(nn.Linear, i, o)
        bound = math.sqrt(3 / max(1, i))
        with torch.no_grad():
            linear.weight.copy_((2 * torch.rand(o, i, generator=generator) - 1) * bound)
            linear.bias.zero_()
        parts += [linear, nn.SiLU()]
    return nn.Sequential(*parts[:-1])


def train(
    network: nn.Module,
    loss: Loss,
    rows: int,
    schedule: Schedule,
    seed: int,
    progress: Progress | None = None,
) -> list[float]:
    """Train a network in place; returns its held-out losses, and leaves it at the weights of the lowest.

    A loss that is not finite ends the training at the best checkpoint. The device is that of the network; random
    numbers are drawn on the CPU, so that the same seed gives the same batches everywhere.
    """
    order = torch.Generator().manual_seed(seed)
    device = next(network.parameters()).device
    noise = torch.Generator(device).manual_seed(seed + 1)
    places = torch.randperm(rows, generator=order)
    seen = places[held_out(rows) :]
    held = places[: max(1, held_out(rows))]
    steps = schedule.steps_on(rows)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.lr)
    looks = max(1, steps // LOOKS)
    losses: list[float] = []
    best = copy.deepcopy(network.state_dict())
    network.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = schedule.lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        some = seen[torch.randint(len(seen), (min(schedule.batch, len(seen)),), generator=order)].to(device)
        optimizer.zero_grad()
        value = loss(some, step / steps, noise).mean()
        if not bool(torch.isfinite(value)):
            break
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        if (step + 1) % looks == 0 or step + 1 == steps:
            losses.append(_held_out(network, loss, held.to(device), seed))
            if losses[-1] <= min(losses):
                best = copy.deepcopy(network.state_dict())
            if progress is not None:
                progress(step + 1, steps)
    network.load_state_dict(best)
    network.eval()
    return losses


def _held_out(network: nn.Module, loss: Loss, held: Tensor, seed: int) -> float:
    """The loss of the held-out rows, with the same random numbers at every look; infinite where it is not finite."""
    network.eval()
    with torch.no_grad():
        value = float(loss(held, 1.0, torch.Generator(held.device).manual_seed(seed + 2)).mean())
    network.train()
    return value if math.isfinite(value) else math.inf
