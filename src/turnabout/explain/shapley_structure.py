r"""Shapley values without enumeration, where the structure of the score is known.

    sum over features:   phi_i = t_i(x) - mean over rows of t_i(r)        linear scores: w_i (x_i - mean r_i)      (1)
    trees:               formula (2) of `leaf_games`, averaged over rows  interventional TreeSHAP                  (2)

Both hold for any number of features and are exact for the rows used. A structure is put to the test before it is used:
it has to say what the score says, at every person and every row.
"""

from __future__ import annotations

import torch

from turnabout.explain.coalition_values import Mixture, agree, parts_of, sum_of
from turnabout.explain.leaf_games import LeafGames
from turnabout.explain.score import Score
from turnabout.typing import Tensor

PEOPLE = 1 << 22  # people x leaves held at a time


def structured_shapley(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    """Shapley values (n, m) and the name of the structure; None where none is known."""
    return _of_sum(score, mix) or _of_trees(score, mix)


def _of_sum(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    terms = sum_of(score)
    if terms is None:
        return None
    points = torch.cat([mix.x, mix.rows])
    if not agree(score, points, terms.margin(points)):
        return None
    mine, theirs = (parts_of(terms, part, mix.feature_of, mix.m) for part in (mix.x, mix.rows))
    return mine - theirs.mean(0), "additive" if len(terms.knots) else "linear"  # (1)


def _of_trees(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    games = None if score.forest is None else LeafGames.of(score.forest, mix.feature_of, mix.m)
    if games is None or not (games.fits(mix.x) and games.fits(mix.rows)):
        return None
    behind = games.bad(mix.rows)
    if not agree(score, mix.rows, games.scores(behind)):
        return None
    parts = []
    for x in mix.x.split(max(1, PEOPLE // len(games.value))):
        bad = games.bad(x)
        if not agree(score, x, games.scores(bad)):
            return None
        parts.append(games.shapley(bad, behind))  # (2)
    return torch.cat(parts), "tree ensemble"
