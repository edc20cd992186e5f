"""Recourse training of a stack of networks: the loop, without tables and without an estimator around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch.nn.functional import softplus

from turnabout.errors import TrainingError
from turnabout.nn.adam import Adam
from turnabout.nn.inner import Inner, LinearStep
from turnabout.nn.mlp import Pass, StackedMlp
from turnabout.rules.regions import Around
from turnabout.typing import Progress, Tensor

Keep = Literal["loss", "f1", "last"]
CUTS = torch.linspace(0.05, 0.95, 19)  # thresholds tried when an epoch is judged by its F1


@dataclass(frozen=True)
class Examples:
    """Rows of a stack: all people's x (n, d), y (n,) and surroundings, and the rows (M, k) each member reads."""

    x: Tensor
    y: Tensor
    around: Around
    train: Tensor
    validation: Tensor


@dataclass(frozen=True)
class StackSettings:
    """How a stack is trained; the parameters of Pare under their own names."""

    lam: Tensor  # (M,)
    weights: Tensor  # (M, 2): of refused and accepted examples in the supervised term
    inner: Inner = field(default_factory=LinearStep)
    dropout: float = 0.3
    epochs: int = 15
    batch: int = 64
    lr: float = 0.002
    refused_only: bool = False
    keep: Keep = "loss"
    patience: int | None = None
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class History:
    """(epochs, M) losses on training and validation rows, and the epoch (M,) whose weights were kept."""

    train: np.ndarray
    validation: np.ndarray
    kept: np.ndarray


def train_stack(
    net: StackedMlp, examples: Examples, settings: StackSettings, progress: Progress | None = None
) -> History:
    """Minimise, for every member on its own rows,

        sum  w_y * l(g(x), y)  +  lam * min over delta in Delta  l(g(x + delta), 1)                            (1)

    by Adam, l the cross-entropy. By the envelope theorem the derivative of the minimum is that at the minimiser, held
    fixed. Without dropout on the validation rows, the best epoch's weights are kept.
    """
    generator = torch.Generator(device=net.parameters.device).manual_seed(_mix(settings.seeds))
    shuffles = [np.random.default_rng([seed, 1]) for seed in settings.seeds]
    adam = Adam(settings.lr)
    best, score = net.parameters.clone(), np.full(net.members, -np.inf)
    kept, idle = np.zeros(net.members, dtype=int), 0
    k = examples.train.shape[1]
    total = settings.epochs * -(-k // settings.batch)
    done, losses, checks = 0, [], []
    for epoch in range(settings.epochs):
        order = np.stack([shuffle.permutation(k) for shuffle in shuffles])
        rows = examples.train.gather(1, torch.as_tensor(order, device=examples.train.device))
        loss = torch.zeros(net.members, dtype=torch.float64, device=rows.device)
        for batch in rows.split(settings.batch, dim=1):
            loss += _step(net, examples, settings, batch, generator) * batch.shape[1]
            net.parameters.copy_(adam.step(net.parameters, net.gradients))
            done += 1
            if progress is not None:
                progress(done, total)
        losses.append((loss / k).cpu().numpy())
        check, value = _judge(net, examples, settings)
        checks.append(check)
        _refuse_nan(losses[-1], check, epoch)
        better = value > score if settings.keep != "last" else np.full(net.members, True)
        _copy_members(net, best, better)
        score, kept = np.where(better, value, score), np.where(better, epoch, kept)
        idle = 0 if better.any() else idle + 1
        if settings.patience is not None and idle >= settings.patience:
            break
    net.parameters.copy_(best)
    if progress is not None and done < total:
        progress(total, total)
    return History(np.stack(losses), np.stack(checks), kept)


def _step(net: StackedMlp, examples: Examples, s: StackSettings, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Gradients of (1) on one batch, rows (M, b); returns its loss (M,)."""
    x, y = examples.x[rows], examples.y[rows]
    b = rows.shape[1]
    seen = net.forward(x, net.masks(b, s.dropout, generator))
    weight = torch.where(y > 0.5, s.weights[:, 1:], s.weights[:, :1])
    loss = (weight * (softplus(seen.logits) - y * seen.logits)).mean(1)
    net.backward(seen, weight * (seen.logits.sigmoid() - y) / b)
    if bool((s.lam == 0).all()):
        return loss.double()
    delta = _inner(net, seen, examples.around.take(rows), s.inner)
    moved = net.forward(x + delta, net.masks(b, s.dropout, generator))
    lam = s.lam.unsqueeze(1) * (seen.logits < 0 if s.refused_only else 1.0)
    net.backward(moved, -lam * (-moved.logits).sigmoid() / b, add=True)
    return (loss + (lam * softplus(-moved.logits)).mean(1)).double()


def _inner(net: StackedMlp, seen: Pass, around: Around, inner: Inner) -> Tensor:
    """The change held fixed in (1); an inner minimiser that needs only the slope gets the one at hand."""
    from_slope: Callable[[Tensor, Around], Tensor] | None = getattr(inner, "from_slope", None)
    if from_slope is not None:
        return from_slope(net.slope(seen), around)
    return inner(net, around)


def _judge(net: StackedMlp, examples: Examples, s: StackSettings) -> tuple[np.ndarray, np.ndarray]:
    """Loss (1) on the validation rows (M,), and the value by which an epoch is preferred."""
    rows = examples.validation
    x, y = examples.x[rows], examples.y[rows]
    seen = net.forward(x)
    logits = seen.logits
    weight = torch.where(y > 0.5, s.weights[:, 1:], s.weights[:, :1])
    loss = (weight * (softplus(logits) - y * logits)).mean(1)
    if bool((s.lam > 0).any()):
        moved = net.margin(x + _inner(net, seen, examples.around.take(rows), s.inner))
        lam = s.lam.unsqueeze(1) * (logits < 0 if s.refused_only else 1.0)
        loss = loss + (lam * softplus(-moved)).mean(1)
    value = best_f1(logits.sigmoid(), y) if s.keep == "f1" else -loss
    return loss.double().cpu().numpy(), value.double().cpu().numpy()


def best_f1(p: Tensor, y: Tensor) -> Tensor:
    """The highest F1 over a grid of thresholds, p and y (M, n) -> (M,)."""
    values = []
    for cut in CUTS.to(p):
        yes = p >= cut
        both = (yes & (y > 0.5)).sum(1)
        values.append(2 * both / (yes.sum(1) + (y > 0.5).sum(1)).clamp(min=1))
    return torch.stack(values).amax(0)


def _copy_members(net: StackedMlp, into: Tensor, which: np.ndarray) -> None:
    mask = torch.as_tensor(which, device=into.device)
    for old, new in zip(net.cut(into), net.cut(net.parameters)):
        old[mask] = new[mask]


def _refuse_nan(loss: np.ndarray, check: np.ndarray, epoch: int) -> None:
    odd = ~np.isfinite(loss) | ~np.isfinite(check)
    if odd.any():
        raise TrainingError(
            f"the loss is no longer a finite number in epoch {epoch + 1}"
            + (f" (network {int(odd.argmax())} of {len(odd)})." if len(odd) > 1 else "."),
            hint="lower lr, or look for extreme values in the columns and for lam or class weights that are too large.",
        )


def _mix(seeds: Sequence[int]) -> int:
    """One seed of several."""
    return int(np.random.SeedSequence(list(seeds)).generate_state(1)[0])
