r"""LIME on concepts: what its variants for tables, texts and images share (Ribeiro, Singh, Guestrin, 2016).

Concepts are kept (1) or removed (0). Draw masks z, ask f_x(z) = f(h_x(z)), weigh each mask by its nearness to x, fit

    min over (a, theta)   sum_i pi(z_i) (f_x(z_i) - a - theta @ z_i)^2 + ridge |theta|^2                             (1)
    pi(z) = exp(-dist(z, 1)^2 / (2 width^2))                                                                      (2)

The reference writes sqrt(exp(-dist^2 / width^2)), which is the same. theta approximates f_x on the concepts, smoothed
by the law of the masks. It is no approximation of f at x, and not what a person should do.

References
----------
Ribeiro, Singh, Guestrin (2016), "Why should I trust you?": explaining the predictions of any classifier.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from turnabout.core import Attribution
from turnabout.core.attribution import Kind, Layout
from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.explain.engine import Affine, Design, Family, Fit, LocalApproximation, Perturbation, SquaredError
from turnabout.explain.explainer import known_errors
from turnabout.explain.lime.masks import CosineKernel, EveryMask, Law, RandomMasks
from turnabout.explain.score import Score, check_seed
from turnabout.markup import report_html
from turnabout.parameters import Finite, Flag, Maybe, Positive, Whole, checked
from turnabout.typing import Tensor

FORWARD = 6  # up to so many features are chosen one after the other, more by size
SELECTION_RIDGE = 0.01  # of the fit whose largest weights are kept
SELECTION = (
    "features were selected: explanations are no longer linear in the score, "
    "and errors do not count the selection."
)  # fmt: skip


@dataclass(frozen=True)
class Keep:
    """A score that is a function of masks already."""

    def width(self, d: int) -> int:
        return d

    def values(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        return score.values(xi).expand(len(x), -1)

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        raise ExplainError("masks have no gradient.", hint="use the squared error.")


@dataclass(frozen=True)
class Selected:
    """Affine functions of at most `select` concepts, chosen as the reference chooses: see batched_fit."""

    select: int

    def fit(self, design: Design, omega: Tensor, values: Tensor, ridge: float) -> Fit:
        fit = batched_fit(design.xi.t().unsqueeze(0), omega.unsqueeze(0), values, ridge, self.select)
        return Fit(fit.slope, None, fit.intercept, True) if design.exact else fit


def batched_fit(
    columns: Tensor, omega: Tensor, values: Tensor, ridge: float, select: int | None = None, own: Tensor | None = None
) -> Fit:
    """(1) for n people with designs of their own: columns (n, m, s), weights and values (n, s); 1 for n where shared.

    Solved on centered normal equations (n, m, m). A column that does not vary gets slope 0 and no error. Errors are
    those of the sandwich, about the expectation of the ridge fit.

    Parameters
    ----------
    select : keep so many columns: up to 6 one after the other by the residual sum of squares, more by the size of
        slope * own in a fit with ridge 0.01.
    own : (n, m) the person's own row; ones by default.
    """
    m, s = columns.shape[1:]
    total = omega.sum(1, keepdim=True)
    weighted = columns * omega.unsqueeze(1)
    middle = weighted.sum(2) / total  # (n, m)
    level = (omega * values).sum(1, keepdim=True) / total
    raw = weighted @ columns.mT
    gram = raw - total.unsqueeze(2) * _outer(middle)
    moment = (weighted @ (values - level).unsqueeze(2)).squeeze(2)
    n = max(len(gram), len(moment))
    gram, moment = gram.expand(n, m, m), moment.expand(n, m)
    chosen = gram.diagonal(dim1=1, dim2=2) > 1e-12 * raw.diagonal(dim1=1, dim2=2).clamp(min=1e-300)
    if select is not None and select < m:
        at = torch.ones(1, m, dtype=torch.float64) if own is None else own
        if select <= FORWARD:
            chosen = _forward(gram, moment, chosen, select)
        else:
            chosen = _largest(gram, moment, chosen, select, at)
    inverse = _inverse(gram, chosen, ridge)
    slope = (inverse @ moment.unsqueeze(2)).squeeze(2)
    intercept = level.squeeze(1) - (middle * slope).sum(1)
    residual = values - intercept.unsqueeze(1) - (slope.unsqueeze(1) @ columns).squeeze(1)
    square = (omega * residual).square()
    squared = columns * square.unsqueeze(1)
    cross = squared.sum(2).unsqueeze(2) * middle.unsqueeze(1)
    meat = squared @ columns.mT - cross - cross.mT + square.sum(1)[:, None, None] * _outer(middle)
    variance = (inverse @ meat @ inverse).diagonal(dim1=1, dim2=2).clamp(min=0.0)
    free = (s - chosen.sum(1, keepdim=True) - 1).to(torch.float64)
    error = (variance * (s / free.clamp(min=1))).sqrt()
    return Fit(slope, error.masked_fill(~chosen | (free <= 0), torch.nan), intercept)


def _outer(v: Tensor) -> Tensor:
    return v.unsqueeze(2) * v.unsqueeze(1)


def _inverse(gram: Tensor, chosen: Tensor, ridge: float) -> Tensor:
    """(n, m, m) the inverse of gram + ridge on the chosen columns, 0 elsewhere."""
    both = chosen.unsqueeze(2) & chosen.unsqueeze(1)
    full = torch.where(both, gram, 0.0) + torch.diag_embed(torch.where(chosen, float(ridge), 1.0))
    scale = full.diagonal(dim1=1, dim2=2).rsqrt()
    root, info = torch.linalg.cholesky_ex(full * _outer(scale))
    if bool(info.any()) or float(root.diagonal(dim1=1, dim2=2).min()) < 1e-7:
        raise ExplainError(
            f"the samples do not determine {chosen.shape[1]} slopes.", hint="use more samples, or a ridge above 0."
        )
    return torch.where(both, torch.cholesky_inverse(root) * _outer(scale), 0.0)


def _forward(gram: Tensor, moment: Tensor, varying: Tensor, select: int) -> Tensor:
    """(n, m) the columns that lower the residual sum of squares most, one after the other; ties to the lowest."""
    gram, moment = gram.clone(), moment.clone()
    chosen, everyone = torch.zeros_like(varying), torch.arange(len(gram))
    least = 1e-10 * gram.diagonal(dim1=1, dim2=2)
    for _ in range(select):
        left = gram.diagonal(dim1=1, dim2=2)
        gain = torch.where(varying & ~chosen & (left > least), moment.square() / left.clamp(min=1e-300), -1.0)
        best = gain.argmax(1)
        found = gain[everyone, best] >= 0
        chosen[everyone[found], best[found]] = True
        column = gram[everyone, :, best]
        step = torch.where(found, 1 / gram[everyone, best, best].clamp(min=1e-300), 0.0)
        moment = moment - column * (moment[everyone, best] * step).unsqueeze(1)
        gram = gram - _outer(column) * step[:, None, None]
    return chosen


def _largest(gram: Tensor, moment: Tensor, varying: Tensor, select: int, own: Tensor) -> Tensor:
    """(n, m) the columns with the largest |slope * own| of a fit to all."""
    slope = (_inverse(gram, varying, SELECTION_RIDGE) @ moment.unsqueeze(2)).squeeze(2)
    order = (slope * own).abs().argsort(dim=1, descending=True, stable=True)[:, :select]
    return torch.zeros_like(varying).scatter(1, order, True) & varying


def warn_of_selection(select: int | None, m: int) -> tuple[str, ...]:
    """The note that belongs to a selection, after a warning; empty where nothing is selected."""
    if select is None or select >= m:
        return ()
    warnings.warn(SELECTION, UserWarning, stacklevel=4)
    return (SELECTION,)


def lone_notes(lone: Tensor, names: Sequence[str], ridge: float) -> tuple[str, ...]:
    """What to say of concepts that no draw keeps, (n, m) bool; nothing where there are none."""
    if not bool(lone.any()):
        return ()
    counts = [(name, int(count)) for name, count in zip(names, lone.sum(0), strict=True) if count]
    said = ", ".join(f"{name} ({count} {'row' if count == 1 else 'rows'})" for name, count in counts)
    pull = f"; a ridge of {ridge:g} leaves at most {1 / (1 + ridge):.2g} of it" if ridge else ""
    return (
        f"no draw shares: {said}. Such a value rests on the one row that is explained{pull}, however many samples are "
        "drawn. Its standard error is not known.",
    )


@dataclass(frozen=True)
@checked(
    ExplainError,
    samples=Whole(2),
    width=Positive(hint="the reference uses 0.25."),
    ridge=Maybe(Finite(least=0, hint="the reference uses 1.0.")),
    exact=Flag(),
    select=Maybe(Whole(1, hint="use None for all features.")),
    batch=Whole(1),
)
class MaskLime:
    """What LIME for texts and for images shares. See LimeText and LimeImage."""

    samples: int = 1000
    width: float = 0.25
    ridge: float | None = None
    exact: bool = False
    select: int | None = None
    batch: int = 64

    law: ClassVar[Law] = "image"
    kind: ClassVar[Kind] = "contribution"

    def _check(self) -> None:
        if self.exact and self.ridge:
            raise ExplainError(
                f"exact={self.exact!r} with ridge={self.ridge!r}.", hint="the exact fit has no ridge: leave it out."
            )

    def _explain_masks(
        self, f_x: Callable[[np.ndarray], np.ndarray], names: list[str], layout: Layout, seed: int, what: str
    ) -> Attribution:
        """The attribution to m named concepts of a function of masks (n, m) -> (n,), which makes `what` of them."""
        seed, m = check_seed(seed), len(names)
        notes = warn_of_selection(self.select, m)
        score = Score(lambda masks: torch.from_numpy(in_batches(f_x, masks.numpy(), self.batch, what)))
        family: Family = Affine() if not notes or self.select is None else Selected(self.select)
        ridge = (0.0 if self.exact else 1.0) if self.ridge is None else float(self.ridge)
        law: Perturbation = EveryMask(self.law) if self.exact else RandomMasks(self.samples, self.law)
        fit = LocalApproximation(
            perturbation=law,
            operation=Keep(),
            weight=CosineKernel(self.width),
            loss=SquaredError(ridge),
            family=family,
        ).fit(score, torch.ones(1, m, dtype=torch.float64), seed)
        assert fit.intercept is not None
        asked, errors = score.asked, None  # before the output
        own = score.values(torch.ones(1, m, dtype=torch.float64))
        if fit.error is not None:
            kept = law.design(m, np.random.default_rng(seed)).xi[1:] > 0.5  # the masks of the fit, but for x itself
            lone = ~kept.any(0, keepdim=True)
            errors = pd.DataFrame(known_errors(fit.error.masked_fill(lone, torch.nan)), columns=names)
            notes = (*notes, *lone_notes(lone, names, ridge))
        return Attribution(
            values=pd.DataFrame(fit.slope.numpy(), columns=names),
            errors=errors,
            base=pd.Series(fit.intercept.numpy(), name="base"),
            output=pd.Series(own.numpy(), name="output"),
            kind=self.kind,
            space="concept",
            score=score.title,
            made_by=repr(self),
            exact=fit.exact,
            asked=asked,
            seed=None if fit.exact else seed,
            notes=notes,
            layout=layout,
        )


def in_batches(function: Callable[[np.ndarray], np.ndarray], masks: np.ndarray, batch: int, what: str) -> np.ndarray:
    """(n,) values of masks, of which at most `batch` are turned into inputs at a time."""
    out = np.empty(len(masks))
    for start in range(0, len(masks), batch):
        part = masks[start : start + batch]
        values = np.asarray(function(part), dtype=np.float64)
        if values.shape != (len(part),):
            raise ExplainError(
                f"the function gave shape {values.shape} for {len(part)} {what}.",
                hint="it must give one number for each: the probability of one class, say.",
            )
        out[start : start + batch] = values
    return out


@dataclass(frozen=True)
class Stability(Document):
    """How alike the k largest concepts are over reseeds, by the Jaccard index: shared / named by either.

    Attributes
    ----------
    mean, least : over pairs of seeds, and over people.  k : concepts compared.  reseeds : how many seeds.
    """

    mean: float
    least: float
    k: int
    reseeds: int

    _repr_html_ = report_html

    def __str__(self) -> str:
        return f"top-{self.k} Jaccard {self.mean:.2f} over {self.reseeds} seeds (least {self.least:.2f})"


@checked(ExplainError, reseeds=Whole(2), k=Whole(1))
def stability(explain: Callable[[int], Attribution], reseeds: int = 10, k: int = 5, seed: int = 0) -> Stability:
    """Whether an explanation depends on its seed: the Jaccard index of its k largest concepts, over pairs of reseeds.

    Parameters
    ----------
    explain : seed -> Attribution: `lambda seed: LimeText().explain_text(function, text, seed=seed)`.
    reseeds : seeds seed, seed + 1, ...
    """
    seed = check_seed(seed)
    sizes = [explain(seed + i).values.abs().to_numpy() for i in range(reseeds)]
    k = min(k, sizes[0].shape[1])
    named = np.zeros((reseeds, *sizes[0].shape), dtype=bool)
    for own, size in zip(named, sizes, strict=True):
        np.put_along_axis(own, np.argsort(-size, axis=1, kind="stable")[:, :k], True, axis=1)
    pairs = np.array(list(itertools.combinations(range(reseeds), 2)))
    first, second = named[pairs[:, 0]], named[pairs[:, 1]]
    jaccard = (first & second).sum(2) / (first | second).sum(2)  # (pairs, n)
    return Stability(float(jaccard.mean()), float(jaccard.min()), k, reseeds)
