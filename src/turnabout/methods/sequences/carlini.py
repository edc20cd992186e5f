"""Problem (3) of the paper: one loss for the decision, the costs and the conditions, descended by Adam."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch

from turnabout.actions.steps import Path
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.parameter_prices import own_prices, reach
from turnabout.nn.adam import Adam
from turnabout.parameters import Named
from turnabout.typing import Tensor

STEEP = 1000.0  # tau and tau' of the paper's code, as a share of a condition's natural size
OVERFLOW = 50.0  # largest exponent


@dataclass(frozen=True)
class Descent:
    r"""Adam on the Carlini-Wagner objective, every row with its own weight.

        min over r   w h(x_k) + sum_i cost_i + conditions,    h = max(0, kappa - margin(x_k))                 (1)

    The margin is that of the desired class over the best of all others, so h is zero exactly where the model says yes
    (by kappa); the published code masks by multiplying with a one-hot and asks for a positive logit as well. The
    weight w grows by 1.5 where a row is refused and shrinks by 0.7 where it is accepted, every `patience` steps. (2)

    How conditions enter is a `Relaxation`.

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
        relaxation: Relaxation,
        expired: Callable[[], bool] = lambda: False,
    ) -> Tensor:
        """r (B, T, P) -> where it ended; the cheapest allowed and accepted point met is offered to best."""
        unit = sizes(batch)
        w = torch.full_like(target, self.weight)
        mu = torch.zeros_like(batch.script.roll(batch.start, r).slack)
        adam = Adam(self.lr)
        for step in range(1, self.steps + 1):
            leaf = r.detach().requires_grad_()
            with torch.enable_grad():
                path = batch.script.roll(batch.start, leaf)
                margin, cost = batch.margin(path), path.cost.sum(1)
                h = (target - margin).clamp(min=0)
                conditions = relaxation.penalty(batch, path.slack, mu)
                (slope,) = torch.autograd.grad((w * h + cost + conditions).sum(), leaf)  # (1)
            best.offer(leaf.detach(), cost.detach(), margin.detach(), batch.kept(path), target)
            slope = torch.nan_to_num(slope) * unit
            adam.lr = self.lr * (0.55 + 0.45 * math.cos(math.pi * step / self.steps))  # down to a tenth
            r = adam.step(leaf.detach() / unit, slope) * unit
            r = torch.where(batch.used, r, torch.zeros_like(r))
            r = relaxation.moved(batch, r)
            if step % self.patience == 0:
                w = torch.where(margin.detach() >= target, w * 0.7, w * 1.5).clamp(1e-5, 1e9)  # (2)
                mu = relaxation.multipliers(path.slack.detach(), mu)
                if expired():
                    break
        return r


# -- how conditions enter ---------------------------------------------------------------------------------------------


class Relaxation(ABC):
    """How the conditions of a sequence, with slack s, enter the loss that a `Descent` makes small."""

    descent: Descent | None = None  # what goes before the walk where the effort names none

    @abstractmethod
    def penalty(self, batch: Batch, slack: Tensor, mu: Tensor) -> Tensor:
        """(B,) what is added to the loss for slack and multipliers (B, T, C)."""

    def moved(self, batch: Batch, r: Tensor) -> Tensor:
        """The parameters (B, T, P) after a step of Adam; where they are, unless a relaxation moves them."""
        return r

    def multipliers(self, slack: Tensor, mu: Tensor) -> Tensor:
        """mu (B, T, C) after a few steps; unchanged, unless a relaxation has use for them."""
        return mu


@dataclass(frozen=True)
class ProjectedConditions(Relaxation):
    r"""Moves each parameter into the interval in which its step's conditions hold.

    An augmented Lagrangian stands for those that an earlier step must mend:

        (max(0, mu - rho s)^2 - mu^2) / (2 rho),   mu <- max(0, mu - rho s)                                   (3)
    """

    rho: float = 10.0

    def penalty(self, batch: Batch, slack: Tensor, mu: Tensor) -> Tensor:
        return ((mu - self.rho * slack).clamp(min=0) ** 2 - mu**2).sum((1, 2)) / (2 * self.rho)  # (3)

    def moved(self, batch: Batch, r: Tensor) -> Tensor:
        return batch.limits(r)[0]

    def multipliers(self, slack: Tensor, mu: Tensor) -> Tensor:
        return (mu - self.rho * slack).clamp(min=0)


@dataclass(frozen=True)
class ExponentialConditions(Relaxation):
    """The paper's relaxation:  tau exp(-tau' s), tau = tau' = 1000 / size; needs many small steps.               (4)"""

    descent: Descent | None = Descent(steps=200, lr=0.05)

    def penalty(self, batch: Batch, slack: Tensor, mu: Tensor) -> Tensor:
        return exponential(batch, slack)


RELAXATIONS: Named[Relaxation] = Named(
    Relaxation, projection=ProjectedConditions(), exponential=ExponentialConditions()
)


# -- the published code -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    r"""The released code's schedule on (1) and (4), for replays: Adam with momentum 0.99, weight from 1e5.

    Every t steps (100 at first), with h = max(0, -margin):
        h = 0:                     w <- max(1e-5, w / 10),  t <- max(2 t, 10000), reached
        h > 0, reached:            w <- min(1e9, 2 w),      t <- max(t / 2, 10)
        h > 0, never reached:      w <- 1 if h has not moved at all, else min(1e9, 2 w)
    and every hundredth of the steps it stops where neither h nor, once reached, the relaxed cost fell by a
    ten-thousandth. What is kept is the lowest *relaxed* cost with h = 0; nothing checks the conditions. Parameters are
    counted in `units`, the standard deviations of the features they shift.

    Parameters
    ----------
    units : for each parameter (T, P), what Adam counts as one.
    logits : encoded rows (B, d) -> (B, 2), those of the other and of the desired class. With them h is the released
        code's, max(0, max(0, other) - desired), which asks for a positive logit as well; without, the true margin's.
    """

    units: tuple[tuple[float, ...], ...]
    logits: Callable[[Tensor], Tensor] | None = None
    steps: int = 200_000
    lr: float = 0.005

    def run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Parameters (B, T, P) and relaxed costs (B,), inf where no iterate was accepted; every row on its own."""
        unit = torch.tensor(self.units, dtype=batch.start.dtype, device=batch.start.device)
        kept = [self._row(batch.take(row.unsqueeze(0)), unit) for row in torch.arange(len(batch.owner))]
        return torch.stack([r for r, _ in kept]), torch.tensor([cost for _, cost in kept])

    def _miss(self, batch: Batch, path: Path) -> Tensor:
        if self.logits is None:
            return (-batch.margin(path)).clamp(min=0).sum()
        rows = batch.decision.tables.encoded(batch.decision.x[batch.owner], path.end)
        other, desired = self.logits(rows).unbind(1)
        return (other.clamp(min=0) - desired).clamp(min=0).sum()

    def _row(self, batch: Batch, unit: Tensor) -> tuple[Tensor, float]:
        r = torch.zeros(1, *unit.shape, dtype=unit.dtype, device=unit.device)
        adam = Adam(self.lr, beta1=0.99)
        w, t, due = 1e5, 100.0, 100.0
        reached, seen, best, best_cost = False, math.nan, r[0], math.inf
        stop = [math.inf, math.inf]  # h and relaxed cost at the last look
        for step in range(1, self.steps + 1):
            leaf = r.requires_grad_()
            with torch.enable_grad():
                path = batch.script.roll(batch.start, leaf)
                h = self._miss(batch, path)
                cost = path.cost.sum() + exponential(batch, path.slack).sum()
                (slope,) = torch.autograd.grad(w * h + cost, leaf)
            here, price = float(h.detach()), float(cost.detach())
            if not math.isfinite(price):
                break
            if here == 0 and price < best_cost:
                best, best_cost = leaf.detach()[0].clone(), price
            if step >= due:
                if here == 0:
                    w, t, reached = max(1e-5, w / 10), max(2 * t, 10_000.0), True
                elif reached:
                    w, t = min(1e9, 2 * w), max(t / 2, 10.0)
                else:
                    w = 1.0 if here == seen else min(1e9, 2 * w)
                seen, due = here, step + t
            if step % max(1, self.steps // 100) == 0:
                successful = math.isfinite(best_cost)
                if here > 0.9999 * stop[0] if not successful else here == 0 and price > 0.9999 * stop[1]:
                    break
                stop = [min(stop[0], here), min(stop[1], price) if here == 0 else stop[1]]
            r = adam.step(leaf.detach() / unit, slope * unit) * unit
        return best, best_cost


def exponential(batch: Batch, slack: Tensor) -> Tensor:
    """(B,) the paper's relaxation of conditions with slack (B, T, C), summed; (4). Exponents stop short of overflow."""
    size = batch.script.size.transpose(0, 1)
    dull = (batch.script.of_old.abs().sum(-1) + batch.script.of_new.abs().sum(-1)).transpose(0, 1) == 0  # padding
    each = STEEP / size * torch.exp((-STEEP * slack).clamp(max=OVERFLOW))
    return torch.where(dull, torch.zeros_like(each), each).sum((1, 2))


def sizes(batch: Batch) -> Tensor:
    """(B, T, P) natural unit of each parameter: a change that costs about one, within what is declared."""
    unit = batch.script.unit.transpose(0, 1)
    absolute, squared, _ = own_prices(batch, torch.zeros_like(unit))
    far = reach(absolute, squared, torch.ones_like(unit))
    return torch.where(torch.isfinite(far), torch.minimum(unit, far), unit).clamp(min=1e-12)
