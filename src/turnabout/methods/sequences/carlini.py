"""Problem (3) of the paper: one loss for the decision, the costs and the conditions, descended by Adam."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from turnabout.methods.gradient import Adam
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.typing import Tensor

Relaxation = Literal["projection", "exponential"]
STEEP = 1000.0  # tau and tau' of the paper's code, as a share of a condition's natural size
OVERFLOW = 50.0  # largest exponent


@dataclass(frozen=True)
class Descent:
    r"""Adam on the Carlini-Wagner objective, every row with its own weight.

        min over r   w h(x_k) + sum_i cost_i + conditions,    h = max(0, kappa - margin(x_k))                 (1)

    The margin is that of the desired class over the best of all others, so h is zero exactly where the model says yes
    (by kappa); the published code masks by multiplying with a one-hot and asks for a positive logit as well. The
    weight w grows by 1.5 where a row is refused and shrinks by 0.7 where it is accepted, every `patience` steps. (2)

    Conditions enter in one of two ways. "projection" (default) moves each parameter into the interval in which its
    step's conditions hold, and adds an augmented Lagrangian for those an earlier step must mend:

        (max(0, mu - rho s)^2 - mu^2) / (2 rho),   mu <- max(0, mu - rho s)                                   (3)

    with s the slack of a condition. "exponential" is the paper's:  tau exp(-tau' s), tau = tau' = 1000 / size.   (4)

    Parameters
    ----------
    steps : of Adam; lr its step size, in natural units of each parameter.
    weight : first w.
    patience : steps between two looks at w and mu.
    """

    steps: int = 40
    lr: float = 0.1
    weight: float = 1.0
    patience: int = 10

    def run(
        self,
        batch: Batch,
        r: Tensor,
        best: Best,
        target: Tensor,
        relaxation: Relaxation = "projection",
        expired: Callable[[], bool] = lambda: False,
    ) -> Tensor:
        """r (B, T, P) -> where it ended; the cheapest allowed and accepted point met is offered to best."""
        unit = sizes(batch)
        w = torch.full_like(target, self.weight)
        mu = torch.zeros_like(batch.script.roll(batch.start, r).slack)
        rho = 10.0
        adam = Adam(self.lr)
        for step in range(1, self.steps + 1):
            leaf = r.detach().requires_grad_()
            with torch.enable_grad():
                path = batch.script.roll(batch.start, leaf)
                margin, cost = batch.margin(path), path.cost.sum(1)
                h = (target - margin).clamp(min=0)
                if relaxation == "exponential":
                    extra = exponential(batch, path.slack)  # (4)
                else:
                    extra = ((mu - rho * path.slack).clamp(min=0) ** 2 - mu**2).sum((1, 2)) / (2 * rho)  # (3)
                (slope,) = torch.autograd.grad((w * h + cost + extra).sum(), leaf)  # (1)
            best.offer(leaf.detach(), cost.detach(), margin.detach(), batch.kept(path), target)
            slope = torch.nan_to_num(slope) * unit
            adam.lr = self.lr * (0.55 + 0.45 * math.cos(math.pi * step / self.steps))  # down to a tenth
            r = adam.step(leaf.detach() / unit, slope) * unit
            r = torch.where(batch.used, r, torch.zeros_like(r))
            if relaxation == "projection":
                r = batch.limits(r)[0]
            if step % self.patience == 0:
                w = torch.where(margin.detach() >= target, w * 0.7, w * 1.5).clamp(1e-5, 1e9)  # (2)
                mu = (mu - rho * path.slack.detach()).clamp(min=0)
                if expired():
                    break
        return r


def exponential(batch: Batch, slack: Tensor) -> Tensor:
    """(B,) the paper's relaxation of conditions with slack (B, T, C), summed; (4). Exponents stop short of overflow."""
    size = batch.script.size.transpose(0, 1)
    dull = (batch.script.of_old.abs().sum(-1) + batch.script.of_new.abs().sum(-1)).transpose(0, 1) == 0  # padding
    each = STEEP / size * torch.exp((-STEEP * slack).clamp(max=OVERFLOW))
    return torch.where(dull, torch.zeros_like(each), each).sum((1, 2))


def sizes(batch: Batch) -> Tensor:
    """(B, T, P) natural unit of each parameter: a change that costs about one, within what is declared."""
    from turnabout.methods.sequences.prices import own_price, reach

    unit = batch.script.unit.transpose(0, 1).clone()
    zero = torch.zeros_like(unit)
    old = batch.start
    for t in range(batch.script.steps):
        for p in range(unit.shape[2]):
            absolute, squared, _ = own_price(batch, t, old, zero[:, t], p)
            far = reach(absolute, squared, torch.ones_like(absolute))
            unit[:, t, p] = torch.minimum(unit[:, t, p], torch.where(torch.isfinite(far), far, unit[:, t, p]))
        old = batch.script.move(t, old, zero[:, t])
    return unit.clamp(min=1e-12)
