"""Recourse training of a bag of words: the network and the loop, without an estimator around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import embedding, embedding_bag, softplus

from turnabout.errors import TrainingError
from turnabout.nn.adam import Adam
from turnabout.train.stack import History, Keep, best_f1
from turnabout.typing import Progress, Tensor

PADDING, UNKNOWN = 0, 1  # ids; the words come after them
CHUNK = 4096  # sentences scored at once


@dataclass(frozen=True)
class Swaps:
    """One-word changes of n sentences, k at most for each: ids (n, k) of the words that go and that come."""

    out: Tensor
    into: Tensor  # PADDING where a sentence has fewer than k changes

    @property
    def real(self) -> Tensor:
        return self.into != PADDING

    def take(self, rows: Tensor) -> Swaps:
        return Swaps(self.out[rows], self.into[rows])


@dataclass(frozen=True)
class Texts:
    """Sentences as ids (n, length), padded; their labels (n,); and the changes their authors may make."""

    ids: Tensor
    y: Tensor
    swaps: Swaps

    def take(self, rows: Tensor) -> Texts:
        ids = self.ids[rows]
        longest = int((ids != PADDING).sum(1).max()) if len(ids) else 0
        return Texts(ids[:, :longest], self.y[rows], self.swaps.take(rows))


@dataclass(frozen=True)
class BagSettings:
    """How a bag is trained; the parameters of SentencePare under their own names."""

    lam: float
    dropout: float
    word_dropout: float
    epochs: int
    batch: int
    lr: float
    refused_only: bool
    keep: Keep
    patience: int | None
    seed: int


class Bag:
    """Mean of learned word vectors, one hidden layer, one logit. Word order plays no part.

    Words never seen in a training sentence start at zero, and stay there unless a change during training brings them
    in: they count in the mean and say nothing.
    """

    def __init__(self, words: int, seen: Tensor, dim: int, hidden: int, seed: int):
        generator = torch.Generator().manual_seed(int(seed))
        vectors = 0.1 * torch.randn(words, dim, generator=generator)
        vectors[~seen] = 0.0
        first = torch.randn(dim, hidden, generator=generator) * (2 / dim) ** 0.5
        last = torch.randn(hidden, generator=generator) * (1 / hidden) ** 0.5
        self.parameters = [vectors, first, torch.zeros(hidden), last, torch.zeros(())]

    def double(self) -> Bag:
        """The same network in float64; the rest of training is forgotten."""
        self.parameters = [p.detach().double() for p in self.parameters]
        return self

    def mean(self, ids: Tensor) -> Tensor:
        """(n, length) -> (n, dim)."""
        return self._sum(ids) / _count(ids)

    def mean_after(self, ids: Tensor, swaps: Swaps) -> Tensor:
        """The mean after each change: (n, length), (n, k) -> (n, k, dim)."""
        vectors = self.parameters[0]
        change = embedding(swaps.into, vectors) - embedding(swaps.out, vectors)
        return (self._sum(ids).unsqueeze(1) + change) / _count(ids).unsqueeze(1)

    def logits(self, mean: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """(..., dim) -> (...)."""
        _, first, bias, last, offset = self.parameters
        hidden = torch.relu(_drop(mean, dropout, generator) @ first + bias)
        return _drop(hidden, dropout, generator) @ last + offset

    def score(self, ids: Tensor) -> Tensor:
        """(n,) P(yes)."""
        with torch.no_grad():
            parts = [self.logits(self.mean(part)) for part in ids.split(CHUNK)]
        return torch.cat(parts).sigmoid()

    def best(self, ids: Tensor, swaps: Swaps) -> Swaps:
        """Of each sentence's changes the one with the highest score, (n, 1)."""
        with torch.no_grad():
            logits = self.logits(self.mean_after(ids, swaps))
            which = torch.where(swaps.real, logits, -torch.inf).argmax(1, keepdim=True)
        return Swaps(swaps.out.gather(1, which), swaps.into.gather(1, which))

    def _sum(self, ids: Tensor) -> Tensor:
        return embedding_bag(ids, self.parameters[0], mode="sum", padding_idx=PADDING)


def objective(
    net: Bag, texts: Texts, s: BagSettings, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """The mean over sentences of

        l(g(x), y)  +  lam * min over changes delta of  l(g(x with delta), 1)                                  (1)

    and g's logits (n,). With a generator, words and cells are dropped at random; the change is chosen without that,
    and held fixed in the derivative. Sentences that cannot be changed have no second term; with refused_only neither
    have those of P(yes) >= 0.5.
    """
    ids, dropout = texts.ids, 0.0
    if generator is not None:
        dropout = s.dropout
        lost = torch.rand(ids.shape, generator=generator) < s.word_dropout
        ids = torch.where(lost, PADDING, ids)
    own = net.logits(net.mean(ids), dropout, generator)
    loss = (softplus(own) - texts.y * own).mean()
    if s.lam > 0:
        asked = texts.swaps.real.any(1)
        if s.refused_only:
            asked &= own.detach() < 0
        rows = asked.nonzero().squeeze(1)
        if len(rows):
            ids, swaps = texts.ids[rows], texts.swaps.take(rows)
            moved = net.logits(net.mean_after(ids, net.best(ids, swaps)), dropout, generator)
            loss = loss + s.lam * softplus(-moved).sum() / len(texts.y)
    return loss, own


def train_bag(net: Bag, train: Texts, dev: Texts, s: BagSettings, progress: Progress | None = None) -> History:
    """Minimise (1) by Adam; the weights of the epoch that did best on the dev sentences are kept, in float64."""
    generator = torch.Generator().manual_seed(int(s.seed))
    shuffle = np.random.default_rng([s.seed, 1])
    adams = [Adam(s.lr) for _ in net.parameters]
    n = len(train.y)
    total, done = s.epochs * -(-n // s.batch), 0
    best, score, kept = net.parameters, -np.inf, 0
    losses: list[float] = []
    checks: list[float] = []
    for epoch in range(s.epochs):
        loss = 0.0
        for rows in torch.as_tensor(shuffle.permutation(n)).split(int(s.batch)):
            loss += _step(net, train.take(rows), s, generator, adams) * len(rows) / n
            done += 1
            if progress is not None:
                progress(done, total)
        check, value = _judge(net, dev, s)
        losses.append(loss)
        checks.append(check)
        if not np.isfinite([loss, check]).all():
            raise TrainingError(f"the loss is no longer a finite number in epoch {epoch + 1}.", hint="lower lr or lam.")
        if value > score or s.keep == "last":
            best, score, kept = net.parameters, value, epoch  # a step makes new tensors and leaves these alone
        if s.patience is not None and epoch - kept >= s.patience:
            break
    net.parameters = best
    if progress is not None and done < total:
        progress(total, total)
    net.double()
    return History(np.array(losses), np.array(checks), np.array(kept))


def _step(net: Bag, texts: Texts, s: BagSettings, generator: torch.Generator, adams: Sequence[Adam]) -> float:
    for parameter in net.parameters:
        parameter.requires_grad_()
    loss, _ = objective(net, texts, s, generator)
    gradients = torch.autograd.grad(loss, net.parameters)
    with torch.no_grad():
        net.parameters = [adam.step(p, g) for adam, p, g in zip(adams, net.parameters, gradients)]
    return float(loss.detach())


def _judge(net: Bag, dev: Texts, s: BagSettings) -> tuple[float, float]:
    """(1) on the dev sentences, and the value by which an epoch is preferred."""
    with torch.no_grad():
        loss, own = objective(net, dev, s)
        value = best_f1(own.sigmoid().unsqueeze(0), dev.y.unsqueeze(0))[0] if s.keep == "f1" else -loss
    return float(loss), float(value)


def _count(ids: Tensor) -> Tensor:
    """How many words each sentence has, (n, 1); an empty one counts as one word."""
    return (ids != PADDING).sum(1, keepdim=True).clamp(min=1)


def _drop(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    if generator is None or share == 0:
        return x
    return x * (torch.rand(x.shape, generator=generator) >= share) / (1 - share)
