r"""The values of coalitions: the mean score of a person with some features kept and the others taken from given rows.

    f_x(z) = mean over rows r of f(h(x, r, z)),     h_j = x_j where the feature of column j is kept, else r_j       (1)

Any score can be asked row by row, n * s * b of them for n people, s masks and b rows. Where its structure is known
the same numbers come from less work: what a feature adds to a sum does not depend on the others, so it is computed once
for each person and once for each row, and only combined for each mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from turnabout.explain.score import Score
from turnabout.explain.shapley.leaf_games import LeafGames
from turnabout.models.forms import run_layers
from turnabout.models.model import Terms
from turnabout.typing import Tensor

Values = Callable[[Tensor], Tensor]  # masks (s, m) -> values (n, s)

HELD = 1 << 23  # numbers held at a time
ROWS = 1 << 20  # numbers put to a score at a time
BLOCK = 1 << 18  # numbers combined at a time: they stay near the processor
AGREES = 1e-8  # of the structure and the score, as a share of how much the score varies
ROUNDING = 1e-4  # the same share of the values themselves, which rounding may take: 1e-12


@dataclass(frozen=True, eq=False)
class Mixture:
    """People, the rows that stand in for what is removed, and which feature each column belongs to.

    x (n, d), rows (b, d), feature_of (d,) in 0..m-1.
    """

    x: Tensor
    rows: Tensor
    feature_of: Tensor
    m: int


def coalition_values(score: Score, mix: Mixture, z: Tensor) -> Tensor:
    """(1) for every person and mask: z (s, m) -> (n, s)."""
    values = next(found for way in WAYS if (found := way(score, mix)) is not None)
    held = max(len(mix.x), len(mix.rows)) * (1 if score.net is None else len(score.net.layers[0][1]))
    return torch.cat([values(part) for part in z.split(max(1, HELD // held))], 1)


def _by_rows(score: Score, mix: Mixture) -> Values:
    """Ask for every row."""

    def values(z: Tensor) -> Tensor:
        keep = z[:, mix.feature_of].unsqueeze(1) > 0.5  # (s, 1, d)
        out = mix.x.new_empty(len(mix.x), len(z))
        for people, masks in _blocks(len(mix.x), len(z), mix.rows.numel(), ROWS):
            mixed = torch.where(keep[masks], mix.x[people, None, None, :], mix.rows)  # (n', s', b, d)
            out[people, masks] = score.values(mixed).mean(-1)
        return out

    return values


def parts_of(terms: Terms, x: Tensor, feature_of: Tensor, m: int) -> Tensor:
    """What each feature adds to an additive score, (n, d) -> (n, m); without the bias."""
    out = x.new_zeros(len(x), m).index_add_(1, feature_of, x * terms.weights)
    if len(terms.knots):
        bent = torch.relu(x[:, terms.columns] - terms.knots) * terms.slopes
        out.index_add_(1, feature_of[terms.columns], bent)
    if terms.jumps is not None:
        out.index_add_(1, feature_of[terms.jumps.columns], terms.jumps.parts(x))
    return out


def sum_of(score: Score) -> Terms | None:
    """The score as a sum over features, where it is one."""
    if score.terms is not None:
        return score.terms
    if score.ridge is not None and score.ridge.link == "identity":
        return Terms.straight(score.ridge.weights, score.ridge.bias)
    return None


def slack(values: Tensor) -> Tensor:
    """How much values (..., k) vary, with room for the rounding of large ones; (...,). A common offset adds no more."""
    return values.amax(-1) - values.amin(-1) + ROUNDING * (1 + values.abs().amax(-1))


def agrees(score: Score, mix: Mixture, claim: Callable[[Tensor], Tensor]) -> bool:
    """Whether a structure, points (k, d) -> (k,), says what the score says, at every person and every row."""
    points = torch.cat([mix.x, mix.rows])
    asked = score.values(points)
    return bool((asked - claim(points)).abs().max() <= AGREES * slack(asked))


def _of_sum(score: Score, mix: Mixture) -> Values | None:
    terms = sum_of(score)
    if terms is None or not agrees(score, mix, terms.margin):
        return None
    mine, theirs = (parts_of(terms, part, mix.feature_of, mix.m) for part in (mix.x, mix.rows))
    return lambda z: mine @ z.t() + theirs.mean(0) @ (1 - z).t() + terms.bias


def _of_ridge(score: Score, mix: Mixture) -> Values | None:
    ridge = score.ridge
    if ridge is None or ridge.link != "logit":
        return None
    terms = Terms.straight(ridge.weights, ridge.bias)
    if not agrees(score, mix, lambda points: torch.sigmoid(terms.margin(points))):
        return None
    mine, theirs = (parts_of(terms, part, mix.feature_of, mix.m) for part in (mix.x, mix.rows))
    return lambda z: _mean_sigmoid(mine @ z.t() + terms.bias, (1 - z) @ theirs.t())


def _mean_sigmoid(a: Tensor, c: Tensor) -> Tensor:
    """Mean over b of sigmoid(a + c), a (n, s), c (s, b) -> (n, s); with e^-(a + c) as a product, far faster."""
    a, c = ((-part).clamp(-340.0, 340.0).exp() for part in (a, c))
    out = torch.empty_like(a)
    for people, masks in _blocks(a.shape[0], a.shape[1], c.shape[1], BLOCK):
        out[people, masks] = (a[people, masks, None] * c[masks]).add_(1.0).reciprocal_().mean(-1)
    return out


def _of_leaves(score: Score, mix: Mixture) -> Values | None:
    """Formula (1) of `leaf_games`: one product of two tables of 0 and 1 for each mask."""
    forest = score.forest if score.forest is not None else score.log_odds
    games = None if forest is None else LeafGames.of(forest, mix.feature_of, mix.m)
    if games is None or not (games.fits(mix.x) and games.fits(mix.rows)):
        return None
    bent = score.forest is None
    if not agrees(score, mix, lambda points: torch.sigmoid(games.scores(points)) if bent else games.scores(points)):
        return None

    def values(z: Tensor) -> Tensor:
        out = mix.x.new_zeros(len(mix.x), len(z))
        for rows in games.parts(mix.rows):
            behind, share = games.bad(rows), len(rows) / len(mix.rows)  # (b', L)
            out += share * torch.cat([_leaf_values(games, games.bad(x), behind, z, bent) for x in games.parts(mix.x)])
        return out

    return values


def _leaf_values(games: LeafGames, bad: Tensor, behind: Tensor, z: Tensor, bent: bool) -> Tensor:
    """Bad of people (n, L) and of rows (b, L), masks (s, m) -> (n, s); `bent` for the mean probability."""
    if int(games.bit.max()) < 1 << 30:
        bad, behind = bad.int(), behind.int()
    everything = games.bit.sum(0).to(bad.dtype)
    out = torch.empty(len(z), len(bad), dtype=torch.float64)
    clash = torch.empty_like(bad), torch.empty_like(behind)
    mine, theirs = (torch.empty(part.shape, dtype=torch.float64) for part in clash)
    for i, bits in enumerate(games.kept(z)):
        kept = bits.to(bad.dtype)
        torch.eq(torch.bitwise_and(bad, kept, out=clash[0]), 0, out=mine)  # (n, L)
        torch.eq(torch.bitwise_and(behind, everything - kept, out=clash[1]), 0, out=theirs)  # (b, L)
        if bent:
            out[i] = torch.sigmoid((mine @ (theirs * games.value).t()).add_(games.bias)).mean(1)
        else:
            out[i] = mine @ (theirs.mean(0) * games.value) + games.bias
    return out.t()


def _of_net(score: Score, mix: Mixture) -> Values | None:
    """The first layer is a sum over features; the other layers run on its combinations."""
    net = score.net
    if net is None or len(net.layers) < 2:
        return None
    (weight, bias), *rest = net.layers
    through = torch.sigmoid if net.link == "logit" else torch.clone
    if not agrees(score, mix, lambda points: through(run_layers(net.layers, points)[..., 0])):
        return None
    mine, theirs = (_first_parts(part, weight, mix) for part in (mix.x, mix.rows))  # (n, m, k), (b, m, k)

    def values(z: Tensor) -> Tensor:
        kept = torch.einsum("nmk,sm->nsk", mine, z) + bias
        other = torch.einsum("bmk,sm->sbk", theirs, 1 - z)
        out = mix.x.new_empty(len(mix.x), len(z))
        for people, masks in _blocks(len(mix.x), len(z), other[0].numel(), BLOCK):
            hidden = (kept[people, masks, None, :] + other[masks]).relu_()  # (n', s', b, k)
            if len(rest) == 1 and net.link == "identity":
                out[people, masks] = hidden.mean(2) @ rest[0][0][0] + rest[0][1][0]
            else:
                out[people, masks] = through(run_layers(tuple(rest), hidden)[..., 0]).mean(-1)
        score.asked += out.numel() * len(mix.rows)
        return out

    return values


def _first_parts(x: Tensor, weight: Tensor, mix: Mixture) -> Tensor:
    """What each feature adds to each unit of the first layer: (n, d), (k, d) -> (n, m, k)."""
    every = x.unsqueeze(2) * weight.t()  # (n, d, k)
    return x.new_zeros(len(x), mix.m, len(weight)).index_add_(1, mix.feature_of, every)


def _blocks(n: int, s: int, width: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Slices of people and masks whose combinations with `width` numbers each fit into `most`."""
    masks = max(1, min(s, most // max(1, width)))
    people = max(1, most // max(1, width * masks))
    for j in range(0, s, masks):
        for i in range(0, n, people):
            yield slice(i, i + people), slice(j, j + masks)


WAYS = (_of_sum, _of_ridge, _of_leaves, _of_net, _by_rows)  # the first that applies
