r"""What LIME on masks tends to, in closed form (Garreau and Mardaoui, 2021; Mardaoui and Garreau, 2021).

Masks B in {0, 1}^d keep or remove d concepts. The number S of removed ones has a law that depends on the variant:

    images   every concept removed with probability 1/2: S ~ Bin(d, 1/2)
    texts    S uniform on 1..d, then a uniform subset of that size

and a mask counts by pi = psi(S / d), psi(t) = exp(-(1 - sqrt(1 - t))^2 / (2 width^2)), the reference's kernel on the
cosine distance. The least-squares slopes of f_x(B) on (1, B), without ridge, are

    theta_j = c1 E[pi f] + c2 E[pi B_j f] + c3 sum_{k != j} E[pi B_k f]                                          (1)

With W = E[pi], and under the law of B with density pi / W: a = P(B_1 = 1), g = P(B_1 = 1, B_2 = 0), v = Var(S) / d,

    c1 = -a / (v W),  c3 = (g - v) / (d g v W),  c2 = 1 / (g W) + c3,  intercept = E[pi f] / W - a sum theta_j      (2)

which is the inverse of the normal matrix, written without differences of near numbers. All are sums over S, taken in
logarithms, so that thousands of concepts and narrow kernels do no harm.

References
----------
Garreau, Mardaoui (2021), What does LIME really see in images?
Mardaoui, Garreau (2021), An analysis of LIME for text data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.documents.frames import plain
from turnabout.errors import ExplainError
from turnabout.explain.engine import Affine, Design
from turnabout.explain.explainer import known_errors
from turnabout.explain.lime.masks import MOST, Law, draw_masks, log_kernel, log_size_law
from turnabout.explain.score import check_seed
from turnabout.explain.shapley.games import coalitions
from turnabout.parameters import Choice, Finite, Whole, checked
from turnabout.typing import Json, is_number, is_whole

MaskFunction = Callable[[np.ndarray], np.ndarray]

WIDTH = 0.25
SLICE = 1 << 14  # masks asked in one call


@dataclass(frozen=True)
class Tilted:
    """The law of the number of removed concepts, tilted by the kernel.

    Attributes
    ----------
    d : concepts.  share : (d + 1,) probabilities of S = 0..d under the density pi / W.  log_mass : log W.
    """

    d: int
    share: np.ndarray
    log_mass: float
    width: float

    @classmethod
    def of(cls, d: int, width: float = WIDTH, law: Law = "image") -> Tilted:
        _check(d, width, law)
        logs = log_size_law(d, law) + log_kernel(np.arange(d + 1) / d, width)
        top = logs.max()
        total = np.exp(logs - top).sum()
        return cls(d, np.exp(logs - top) / total, float(top + np.log(total)), width)

    def mean(self, of: np.ndarray) -> float:
        return math.fsum(self.share * of)

    @property
    def kept(self) -> float:
        """a: the tilted probability that a concept is kept."""
        return self.mean((self.d - np.arange(self.d + 1)) / self.d)

    def all_kept(self, p: int) -> float:
        """The tilted probability that p given concepts are all kept: a_p / a_0."""
        s = np.arange(self.d + 1)
        chance = np.ones(self.d + 1)
        for k in range(p):
            chance *= np.maximum(self.d - s - k, 0) / max(self.d - k, 1)
        return self.mean(chance)

    @property
    def from_mean(self) -> np.ndarray:
        """(d + 1,) S less its mean, taken from the most likely S, so that narrow kernels leave digits."""
        steps = np.arange(self.d + 1) - int(self.share.argmax())
        return steps - self.mean(steps)

    @property
    def spreads(self) -> tuple[float, float]:
        """g and v of (2); one concept has no g, and v in its place."""
        s, d = np.arange(self.d + 1), self.d
        v = self.mean(self.from_mean**2) / d
        g = v if d == 1 else self.mean(s * (d - s)) / (d * (d - 1))
        if v <= 0 or g <= 0:
            raise ExplainError(
                f"{d} concepts with width={self.width!r}: every mask that counts removes equally many.",
                hint="use a wider kernel, or the law of images.",
            )
        return g, v

    @property
    def unscaled(self) -> tuple[float, float, float]:
        """(c1, c2, c3) times W, (2)."""
        g, v = self.spreads
        c3 = (g - v) / (self.d * g * v)
        return -self.kept / v, 1 / g + c3, c3


@dataclass(frozen=True)
class LimeConstants(Document):
    """c1, c2 and c3 of (1)."""

    c1: float
    c2: float
    c3: float

    def __str__(self) -> str:
        return f"c1 {self.c1:.6f}, c2 {self.c2:.6f}, c3 {self.c3:.6f}"


def lime_constants(d: int, width: float = WIDTH, law: Law = "image") -> LimeConstants:
    """The constants of (1) for d concepts; width=math.inf weighs all masks alike.

    >>> print(lime_constants(6))
    c1 -6.941846, c2 8.529944, c3 0.565745
    """
    tilted = Tilted.of(d, width, law)
    if tilted.log_mass < -700:
        raise ExplainError(
            f"width={width!r} with {d} concepts: the mean weight exp({tilted.log_mass:.0f}) is too small for a number.",
            hint="use a wider kernel; lime_exact and lime_limit work with ratios and have no such bound.",
        )
    return LimeConstants(*(c / math.exp(tilted.log_mass) for c in tilted.unscaled))


def wide_constants(d: int, law: Law = "image") -> LimeConstants:
    """What the constants tend to as the kernel widens: (-2, 4, 0) for images, and for texts of at least two words

    c1 = -6 / (d + 1),    c2 = 6 (d^2 - 2 d + 3) / (d^2 - 1),    c3 = -6 (d - 3) / (d^2 - 1)
    """
    _check(d, WIDTH, law)
    if law == "image":
        return LimeConstants(-2.0, 4.0, 0.0)
    if d < 2:
        raise ExplainError("a text of one word has no masks but the empty one.", hint="use at least two words.")
    square = d * d - 1
    return LimeConstants(-6 / (d + 1), 6 * (d * d - 2 * d + 3) / square, -6 * (d - 3) / square)


def crowd_constants(width: float = WIDTH) -> LimeConstants:
    """What the constants of images tend to as concepts grow many: (-2, 4, 0) / psi(1/2).

    E[pi f] carries the same factor, so that image LIME with many superpixels is 2 (E[f | B_j = 1] - E[f]), nearly.
    """
    _check(1, width, "image")
    half = math.exp(float(log_kernel(np.array(0.5), width)))
    if half == 0:
        raise ExplainError(f"width={width!r} is too narrow: psi(1/2) is 0.", hint="use 0.25.")
    return LimeConstants(-2 / half, 4 / half, 0.0)


def shape_slopes(d: int, p: int, width: float = WIDTH, law: Law = "image") -> tuple[float, float]:
    """LIME's slopes for a detector that answers 1 if p given concepts are all kept: of one of them, and of any other.

    E[pi f] = a_p, E[pi B_j f] = a_p for concepts of the shape and a_{p+1} for others, put into (1).
    """
    if not is_whole(p, 1) or not is_whole(d, 1) or p > d:
        raise ExplainError(f"a shape of p={p!r} among d={d!r} concepts.", hint="use 1 <= p <= d.")
    tilted = Tilted.of(d, width, law)
    c1, c2, c3 = tilted.unscaled
    own, other = tilted.all_kept(p), tilted.all_kept(p + 1)
    inside = c1 * own + c2 * own + c3 * ((p - 1) * own + (d - p) * other)
    outside = c1 * own + c2 * other + c3 * (p * own + (d - p - 1) * other)
    return inside, outside


@dataclass(frozen=True, eq=False)
class LimeSlopes(Document):
    """Slopes of LIME on masks.

    Attributes
    ----------
    values : (m,).  intercept : the fit with every concept removed.
    errors : (m,) standard errors, NaN where there were too few masks to tell; None where the values are exact.
    asked : masks put to the function.
    """

    values: np.ndarray
    intercept: float
    errors: np.ndarray | None
    asked: int

    def __str__(self) -> str:
        how = "exact" if self.errors is None else f"largest standard error {self.errors.max():.2g}"
        if self.errors is not None and np.isnan(self.errors).any():
            how = "standard errors not known"
        return f"{len(self.values)} slopes from {self.asked} masks ({how})"

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return super().to_dict() | {"errors": None if self.errors is None else [plain(error) for error in self.errors]}


def lime_exact(f_x: MaskFunction, m: int, width: float = WIDTH, law: Law = "image") -> LimeSlopes:
    """The limit (1) of LIME with infinitely many samples, from all 2^m masks; m <= 18.

    Parameters
    ----------
    f_x : masks (n, m) of 0 and 1 -> (n,).
    """
    tilted = Tilted.of(m, width, law)
    if m > MOST:
        raise ExplainError(f"m={m} concepts have 2^{m} masks.", hint=f"use lime_limit beyond {MOST} concepts.")
    masks = coalitions(m).numpy()
    removed = (m - masks.sum(1)).astype(int)
    values = ask(f_x, masks)
    sizes = np.array([math.comb(m, s) for s in range(m + 1)])
    mass = (tilted.share / sizes)[removed] * values
    g, v = tilted.spreads
    by_size = np.bincount(removed, values, m + 1) / sizes  # mean of f over masks of each size
    rise = tilted.mean(tilted.from_mean * (by_size - by_size[int(tilted.share.argmax())]))  # Cov(S, f)
    within = (masks - masks.mean(1, keepdims=True)).T @ mass  # among masks of one size
    slopes = within / g - rise / (m * v)  # (1), without differences of near numbers
    return LimeSlopes(slopes, float(mass.sum() - tilted.kept * slopes.sum()), None, len(masks))


@checked(ExplainError, n=Whole(2, hint="use 1000: fewer masks have no standard error."))
def lime_limit(
    f_x: MaskFunction, m: int, n: int = 1000, width: float = WIDTH, law: Law = "image", seed: int = 0
) -> LimeSlopes:
    r"""An estimate of (1) from n masks and the exact constants, unbiased for every n from 2 up.

        theta_j = E[h_j(B) f(B)],    h_j = pi (c1 + c2 B_j + c3 sum_{k != j} B_k),    E[h_j] = 0
        estimate_j = sum_i (h_j(B_i) - mean h_j) (f(B_i) - mean f) / (n - 1)                                       (3)

    No matrix is inverted, so that n may be below the number of concepts. A fit (`lime_reference`) has smaller errors
    where f is nearly linear in the masks; this one has no bias. Standard errors are those of the mean of the terms.
    """
    tilted = Tilted.of(m, width, law)
    masks = draw_masks(m, n, law, np.random.default_rng(check_seed(seed)))
    density = np.exp(log_kernel(1 - masks.mean(1), width) - tilted.log_mass)
    values = ask(f_x, masks)
    c1, c2, c3 = tilted.unscaled
    weights = density[:, None] * (c1 + (c2 - c3) * masks + c3 * masks.sum(1, keepdims=True))  # h (n, m)
    from_mean = values - values.mean()
    slopes = (weights - weights.mean(0)).T @ from_mean / (n - 1)  # (3)
    errors = (weights * from_mean[:, None]).std(0, ddof=1) / math.sqrt(n)
    intercept = float(density @ values / n - tilted.kept * slopes.sum())
    return LimeSlopes(slopes, intercept, errors, n)


@checked(ExplainError, n=Whole(2), ridge=Finite(least=0))
def lime_reference(
    f_x: MaskFunction,
    m: int,
    n: int = 1000,
    width: float = WIDTH,
    law: Law = "image",
    ridge: float = 1.0,
    seed: int = 0,
) -> LimeSlopes:
    """The usual fit: weighted ridge regression of n values on masks, of which the first keeps everything.

    Standard errors are those of the sandwich, about the expectation of the fit: the bias of the ridge is not in them.
    It falls like ridge / n once masks other than the first keep each concept; those of a text of one word never do.
    """
    _check(m, width, law)
    masks = np.concatenate([np.ones((1, m)), draw_masks(m, n - 1, law, np.random.default_rng(check_seed(seed)))])
    omega = torch.from_numpy(np.exp(log_kernel(1 - masks.mean(1), width)))
    values = torch.from_numpy(ask(f_x, masks)).unsqueeze(0)
    fit = Affine().fit(Design(torch.from_numpy(masks), torch.ones_like(omega)), omega, values, ridge)
    assert fit.intercept is not None and fit.error is not None
    return LimeSlopes(fit.slope[0].numpy(), float(fit.intercept[0]), known_errors(fit.error[0]), n)


def ask(f_x: MaskFunction, masks: np.ndarray) -> np.ndarray:
    """Values of masks (n,), asked in slices; refuses what is no number for each."""
    parts = []
    for start in range(0, len(masks), SLICE):
        rows = masks[start : start + SLICE]
        part = np.asarray(f_x(rows), dtype=np.float64)
        if part.shape != (len(rows),) or not np.isfinite(part).all():
            raise ExplainError(
                f"the function gave shape {part.shape}, or values that are no numbers, for {len(rows)} masks.",
                hint="it must map masks (n, m) to finite numbers (n,).",
            )
        parts.append(part)
    return np.concatenate(parts)


@checked(ExplainError, d=Whole(1), law=Choice("image", "text"))
def _check(d: int, width: float, law: Law) -> None:
    if not (width == math.inf or (is_number(width) and width > 0)):
        raise ExplainError(f"width={width!r} is not a number above 0.", hint="the reference uses 0.25.")
