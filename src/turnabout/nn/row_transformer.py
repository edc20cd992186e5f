"""A transformer that writes a new row for a person, feature by feature, given theirs.

An encoder reads the person's row with what is asked (weights, wishes); a decoder writes tokens in the order of the
features, each seeing those before it. Keys and values of what was written are kept, so that a step costs what is new.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from turnabout.nn.cell_tokens import CellTokens
from turnabout.typing import Tensor

GROWTH = 2  # width of the feed-forward layers, in widths of the network


@dataclass
class Memory:
    """What a decoder needs of people (n): keys and values (n, 1, heads, F, width / heads) for each of its layers."""

    layers: list[tuple[Tensor, Tensor]]


@dataclass
class Written:
    """Keys and values of what was written so far, (n, k, heads, steps, width / heads) for each layer."""

    layers: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def grow(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, with those of a new step."""
        if layer == len(self.layers):
            self.layers.append((key, value))
        else:
            before = self.layers[layer]
            self.layers[layer] = torch.cat([before[0], key], -2), torch.cat([before[1], value], -2)
        return self.layers[layer]


class Attention(nn.Module):
    """Heads of scaled dot products: queries (..., t, width) over keys and values of other places."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(..., t, width) -> (..., heads, t, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of places x (..., t, width)."""
        key, value = self.key_value(x).chunk(2, -1)
        return self.split(key), self.split(value)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
        """x (..., t, width); hidden (t, s) True where a query may not look."""
        query = self.split(self.query(x))
        score = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if hidden is not None:
            score = score.masked_fill(hidden, -torch.inf)
        seen = score.softmax(-1) @ value
        return self.out(seen.transpose(-2, -3).flatten(-2))


class Layer(nn.Module):
    """Attention to one's own places, to a memory where there is one, and a feed-forward net; norms come first."""

    def __init__(self, width: int, heads: int, crosses: bool):
        super().__init__()
        self.own, self.first = Attention(width, heads), nn.LayerNorm(width)
        self.other = Attention(width, heads) if crosses else None
        self.second = nn.LayerNorm(width) if crosses else None
        self.third = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, GROWTH * width), nn.GELU(), nn.Linear(GROWTH * width, width))

    def forward(
        self,
        x: Tensor,
        look: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """x (..., t, width); `look` turns keys and values of these places into all that are looked at."""
        inside = self.first(x)
        key, value = self.own.keys(inside)
        if look is not None:
            key, value = look(key, value)
        x = x + self.own(inside, key, value, hidden)
        if self.other is not None and self.second is not None and memory is not None:
            x = x + self.other(self.second(x), *memory)
        return x + self.feed(self.third(x))


class RowTransformer(nn.Module):
    """p(tokens | person, asked) = product over features j of p(token_j | tokens before j, person, asked).   (1)

    Parameters
    ----------
    tokens : the tokens of each feature.
    extras : numbers that are told of each feature beside the person's cell: whether it may change, its difficulty, ...
    width, heads, layers : of the network; as many layers in the encoder as in the decoder.
    seed : of the first weights.
    """

    def __init__(
        self, tokens: CellTokens, extras: int, width: int = 64, heads: int = 4, layers: int = 3, seed: int = 0
    ):
        super().__init__()
        self.tokens, self.width = tokens, width
        features, levels = tokens.values.shape
        self.place, self.start = nn.Parameter(torch.empty(features, width)), nn.Parameter(torch.empty(width))
        self.number = nn.Parameter(torch.empty(features, 3, width))  # of a scalar: value, its square, missing
        self.level = nn.Parameter(torch.empty(features, levels, width))
        self.extra = nn.Linear(extras, width)
        self.kept = nn.Parameter(torch.empty(width))
        self.encoder = nn.ModuleList([Layer(width, heads, False) for _ in range(layers)])
        self.decoder = nn.ModuleList([Layer(width, heads, True) for _ in range(layers)])
        self.encoded, self.decoded = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Parameter(torch.empty(features, width, tokens.tokens))
        self.bias = nn.Parameter(torch.zeros(features, tokens.tokens))
        noise = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weight)
            elif weight.dim() > 1 or name in ("start", "kept"):
                bound = 1 / math.sqrt(weight.shape[-1] if weight.dim() == 2 else width)
                with torch.no_grad():
                    weight.copy_((2 * torch.rand(weight.shape, generator=noise) - 1) * bound)
        ahead = torch.ones(features, features, dtype=torch.bool).triu(1)
        self.register_buffer("ahead", ahead, persistent=False)

    def embed(self, x: Tensor, features: Tensor) -> Tensor:
        """Cells of rows x (..., d) in some features (k,) -> (..., k, width)."""
        cell = self.tokens.cells(x)[..., features].to(self.place.dtype)
        gone = self.tokens.missing(x)[..., features].to(cell.dtype)
        told = torch.stack([cell, cell * cell, gone], -1).unsqueeze(-2)
        number = (told @ self.number[features]).squeeze(-2)
        at = cell.long().clamp(0, self.level.shape[1] - 1)
        level = self.level[features.expand(at.shape), at] * (1 - gone).unsqueeze(-1)
        return torch.where(self.tokens.is_category[features].unsqueeze(-1), level, number) + self.place[features]

    def remember(self, x: Tensor, asked: Tensor) -> Memory:
        """People x (n, d) and what is asked, (n, F, extras) -> what the decoder needs of them."""
        features = torch.arange(len(self.place), device=x.device)
        seen = self.embed(x, features) + self.extra(asked.to(self.place.dtype))
        for layer in self.encoder:
            seen = layer(seen)
        seen = self.encoded(seen).unsqueeze(1)  # (n, 1, F, width): samples of a person share it
        return Memory([layer.other.keys(seen) for layer in self.decoder])  # type: ignore[union-attr,operator]

    def logits(self, x: Tensor, token: Tensor, memory: Memory) -> Tensor:
        """(1) for tokens (n, k, F) of people x (n, d): (n, k, F, tokens), each place seeing those before it."""
        rows = self.tokens.written(x.unsqueeze(1).expand(*token.shape[:2], -1), token)
        said = self._said(rows, token)[..., :-1, :]
        seen = torch.cat([self.start.expand(*token.shape[:2], 1, -1), said], -2) + self.place
        for layer, known in zip(self.decoder, memory.layers, strict=True):
            seen = layer(seen, None, known, self.ahead)
        return torch.einsum("nkfw,fwt->nkft", self.decoded(seen), self.head) + self.bias

    def step(self, j: int, before: Tensor | None, memory: Memory, written: Written, samples: int) -> Tensor:
        """Logits (n, k, tokens) of feature j, given the embedded cell (n, k, width) written before it."""
        n = len(memory.layers[0][0])
        first = self.start.expand(n, samples, -1) if before is None else before
        seen = (first + self.place[j]).unsqueeze(-2)  # (n, k, 1, width)
        for i, (layer, known) in enumerate(zip(self.decoder, memory.layers, strict=True)):
            seen = layer(seen, lambda key, value, i=i: written.grow(i, key, value), known)
        return self.decoded(seen).squeeze(-2) @ self.head[j] + self.bias[j]

    def _said(self, rows: Tensor, token: Tensor) -> Tensor:
        """Embedded cells (..., F, width) of written rows, and whether they were kept."""
        features = torch.arange(len(self.place), device=rows.device)
        return self.embed(rows, features) + (token == 0).unsqueeze(-1) * self.kept

    @torch.no_grad()
    def sample(
        self, x: Tensor, asked: Tensor, legal: Tensor, samples: int, uniform: Tensor, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Rows drawn for people x (n, d): tokens (n, k, F) and their log-probabilities (n, k).

        legal : (n, F, tokens), what each may take. uniform : (k, F) random numbers in (0, 1), the same for everyone.
        temperature : of the softmax; near 0 the likeliest token is taken.
        """
        memory, written = self.remember(x, asked), Written()
        rows = x.unsqueeze(1).expand(len(x), samples, -1).clone()
        tokens, total, before = [], x.new_zeros(len(x), samples), None
        for j in range(len(self.place)):
            place = torch.tensor([j], device=x.device)
            logits = self.step(j, before, memory, written, samples)
            logits = logits.masked_fill(~legal[:, j].unsqueeze(1), -torch.inf) / temperature
            chance = logits.double().softmax(-1)
            point = uniform[:, j].to(chance).view(1, -1, 1)
            token = (chance.cumsum(-1) < point).sum(-1)  # the first token whose share reaches the random number
            last = (chance > 0).long().cumsum(-1).argmax(-1)  # rounding may leave the sum below 1
            token = torch.minimum(token, last)
            token = torch.where(chance.gather(-1, token.unsqueeze(-1)).squeeze(-1) > 0, token, chance.argmax(-1))
            total = total + chance.gather(-1, token.unsqueeze(-1)).squeeze(-1).log().to(total)
            rows = self.tokens.put(rows, token.unsqueeze(-1), place)
            before = self.embed(rows, place).squeeze(-2) + (token == 0).unsqueeze(-1) * self.kept
            tokens.append(token)
        return torch.stack(tokens, -1), total
