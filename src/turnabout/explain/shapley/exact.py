"""Shapley values without sampling: by the structure of the score, or over all coalitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch

from turnabout.core.attribution import Kind, Space
from turnabout.errors import ExplainError
from turnabout.explain.engine import CHUNK, Fit, Operation
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask
from turnabout.explain.score import Score
from turnabout.explain.shapley.games import MOST, coalitions, shapley, shapley_of_pairs
from turnabout.explain.shapley.leaf_games import LeafGames
from turnabout.explain.shapley.remove import Background, Removal, Remove
from turnabout.explain.shapley.values import AGREES, Mixture, agrees, parts_of, slack, sum_of
from turnabout.parameters import Flag, Whole, checked
from turnabout.typing import Tensor

MASKS = 1 << 16  # coalitions written out at a time
PROBES = 16  # pairs of coalitions that test whether three features interact
PAIRWISE = (
    "it was declared that no three features interact; the coalitions asked do not contradict it, which is no proof."
)  # fmt: skip


@dataclass(frozen=True)
@checked(ExplainError, limit=Whole(1, most=MOST), structure=Flag(), pairwise=Flag())
class ExactShapley(Explainer):
    r"""Shapley values, exact for the stand-in rows used.

        phi_i = sum over S without i of   |S|! (m - |S| - 1)! / m!  * (f_x(S + i) - f_x(S))                       (1)

    with f_x(S) the score with the features outside S removed. base = f_x(empty), and base + sum of the values is the
    output. Linear and additive scores and tree ensembles are solved by their structure, for any number of features;
    other scores over all 2^m coalitions.

    It is the only attribution with all of Young's and Lundberg and Lee's axioms (see `check_axioms`), which does not by
    itself make it the answer to a question: it is no recourse and no effect of a cause.

    It agrees with shap's LinearExplainer and ExactExplainer with an Independent masker whose max_samples holds all
    rows (its default cuts them to 100), and with TreeExplainer with data and feature_perturbation="interventional".
    Not with TreeExplainer without data ("tree_path_dependent"), whose stand-ins are training counts of the nodes.

    Parameters
    ----------
    limit : most features whose coalitions are all asked; up to 22. Each feature doubles the work.
    removal : what stands in for removed features.
    structure : use the structure of the score where it is known.
    pairwise : take it that no three features interact: then 2 m + 2 coalitions suffice, for any number of features. A
        few more are asked to test this, and it is refused where they contradict it, or where the values do not add up
        to the score. That is no proof: such values are not called exact.

    References
    ----------
    Shapley (1953), A value for n-person games. Lundberg et al. (2020), From local explanations to global understanding
    with explainable AI for trees.
    """

    limit: int = 16
    removal: Removal = field(default_factory=Background)
    structure: bool = True
    pairwise: bool = False
    space: ClassVar[Space] = "concept"
    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        operation = self.removal.operation(question)
        exact = not self.removal.drawn  # for the stand-in rows used
        note = self.removal.note(question)
        if self.structure and isinstance(operation, Remove) and operation.near is None:
            mix = Mixture(question.x, operation.rows, operation.feature_of, operation.m)
            found = structured_shapley(question.score, mix)
            if found is not None:
                base = question.score.values(operation.rows).mean().expand(len(question.x)).clone()
                fit = Fit(found[0], None, base, exact)
                return Explained(
                    fit, question.features, base, (note, f"by the structure: {found[1]}."), drawn=not exact
                )
        m = len(question.features)
        if m > self.limit and not self.pairwise:
            raise ExplainError(
                f"{m} features have 2^{m} coalitions, and the limit is {self.limit} features.",
                hint=f"use KernelShap, or ExactShapley(limit={min(m, MOST)}) with patience (at most {MOST}).",
            )
        solve, masks = (_from_pairs, m * m + 1) if self.pairwise else (_enumerate, 2**m)
        notes = (note, PAIRWISE) if self.pairwise else (note,)
        parts = [solve(operation, question, x, m) for x in question.x.split(max(1, CHUNK // masks))]
        values, base = (torch.cat(part) for part in zip(*parts, strict=True))
        fit = Fit(values, None, base, exact and not self.pairwise)
        return Explained(fit, question.features, base, notes, drawn=not exact)


def _enumerate(operation: Operation, question: ExplanationTask, x: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Shapley values (n, m) and f_x(empty) (n,) of some people, over all coalitions."""
    starts = range(0, 2**m, MASKS)
    parts = [operation.values(question.score, x, coalitions(m, start, start + MASKS)) for start in starts]
    games = torch.cat(parts, 1)  # (n, 2^m)
    return shapley(games), games[:, 0]  # (1)


def _from_pairs(operation: Operation, question: ExplanationTask, x: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Shapley values (n, m) and f_x(empty) (n,) of scores in which no three features interact."""
    one, none = torch.eye(m, dtype=torch.float64), torch.zeros(1, m, dtype=torch.float64)
    probes = torch.as_tensor(np.random.default_rng(0).integers(0, 2, (PROBES, m)), dtype=torch.float64)
    masks = torch.cat([none, one, 1 - one, 1 - none, probes, 1 - probes])
    v = operation.values(question.score, x, masks)
    empty, alone, without, full, drawn, others = v.split([1, m, m, 1, PROBES, PROBES], 1)
    phi = shapley_of_pairs(empty[:, 0], alone, without, full[:, 0])
    gap = (drawn - others + full - empty) / 2 - phi @ probes.t()  # 0 where no three features interact
    gap = torch.cat([gap, full - empty - phi.sum(1, keepdim=True)], 1).abs().amax(1)
    if (gap > m * AGREES * slack(v)).any():
        raise ExplainError(
            "pairwise=True, but three or more features interact in this score.", hint="use KernelShap, or leave it out."
        )
    return phi, empty[:, 0]


def structured_shapley(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    r"""Shapley values (n, m) and the name of the structure; None where none is known.

        sum over features:   phi_i = t_i(x) - mean over rows of t_i(r)        linear: w_i (x_i - mean r_i)        (2)
        trees:               formula (2) of `leaf_games`, averaged over rows  interventional TreeSHAP             (3)

    Both hold for any number of features and are exact for the rows used. A structure is put to the test before it is
    used: it has to say what the score says, at every person and every row.
    """
    return _of_sum(score, mix) or _of_trees(score, mix)


def _of_sum(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    terms = sum_of(score)
    if terms is None:
        return None
    if not agrees(score, mix, terms.margin):
        return None
    mine, theirs = (parts_of(terms, part, mix.feature_of, mix.m) for part in (mix.x, mix.rows))
    return mine - theirs.mean(0), "additive" if len(terms.knots) else "linear"  # (2)


def _of_trees(score: Score, mix: Mixture) -> tuple[Tensor, str] | None:
    games = None if score.forest is None else LeafGames.of(score.forest, mix.feature_of, mix.m)
    if games is None or not (games.fits(mix.x) and games.fits(mix.rows)):
        return None
    if not agrees(score, mix, games.scores):
        return None
    out = mix.x.new_zeros(len(mix.x), mix.m)
    for rows in games.parts(mix.rows):
        behind, share = games.bad(rows), len(rows) / len(mix.rows)
        out += share * torch.cat([games.shapley(games.bad(x), behind) for x in games.parts(mix.x)])  # (3)
    return out, "tree ensemble"
