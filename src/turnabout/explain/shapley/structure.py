r"""Shapley values without enumeration, where the structure of the score is known.

    sum over features:   phi_i = t_i(x) - mean over rows of t_i(r)        linear scores: w_i (x_i - mean r_i)      (1)
    trees:               formula (2) of `leaf_games`, averaged over rows  interventional TreeSHAP                  (2)

Both hold for any number of features and are exact for the rows used. A structure is put to the test before it is used:
it has to say what the score says, at every person and every row.
"""

from __future__ import annotations

import torch

from turnabout.explain.score import Score
from turnabout.explain.shapley.leaf_games import LeafGames
from turnabout.explain.shapley.values import Mixture, agrees, parts_of, sum_of
from turnabout.typing import Tensor


def structured_shapley(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    """Shapley values (n, m) and the name of the structure; None where none is known."""
    return _of_sum(score, mix) or _of_trees(score, mix)


def _of_sum(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    terms = sum_of(score)
    if terms is None:
        return None
    if not agrees(score, mix, terms.margin):
        return None
    mine, theirs = (parts_of(terms, part, mix.feature_of, mix.m) for part in (mix.x, mix.rows))
    return mine - theirs.mean(0), "additive" if len(terms.knots) else "linear"  # (1)


def _of_trees(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    games = None if score.forest is None else LeafGames.of(score.forest, mix.feature_of, mix.m)
    if games is None or not (games.fits(mix.x) and games.fits(mix.rows)):
        return None
    if not agrees(score, mix, games.scores):
        return None
    out = mix.x.new_zeros(len(mix.x), mix.m)
    for rows in games.parts(mix.rows):
        behind, share = games.bad(rows), len(rows) / len(mix.rows)
        out += share * torch.cat([games.shapley(games.bad(x), behind) for x in games.parts(mix.x)])  # (2)
    return out, "tree ensemble"
