"""The function that is explained: values of points, and what else is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.models import Additive, Differentiable, LinearMargin, Model, ReluNet, Trees
from turnabout.models.forest import Forest
from turnabout.models.model import Terms
from turnabout.parameters import Declared, Whole
from turnabout.typing import Tensor

SLICE = 1 << 18  # points asked in one call
SEED = Declared(ExplainError, seed=Whole(0, hint="use 0."))  # not by @checked: warnings count frames

Output = Literal["margin", "probability"]
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Ridge:
    """A score g(x @ weights + bias) that bends along one direction only."""

    weights: Tensor  # (d,)
    bias: float
    link: Literal["identity", "probit", "logit"]


@dataclass(frozen=True)
class Net:
    """A score that is the single output of linear layers with a ReLU between each two, then the link."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    link: Literal["identity", "logit"]


class Score:
    """A number for each point, counted as it is asked.

    Parameters
    ----------
    function : points (n, d) -> (n,), torch or numpy.
    gradient : points (n, d) -> (n, d), where there is one.
    title : what the number is: "margin (log-odds)".
    ridge, terms, forest, net : its structure, where it is known; closed forms need one of them.
    log_odds : a forest whose margin, as log-odds, gives the score as a probability.
    constant_pieces : whether the function is flat almost everywhere, as trees are: its gradient then says nothing.
    """

    def __init__(
        self,
        function: Function,
        gradient: Function | None = None,
        title: str = "score",
        ridge: Ridge | None = None,
        terms: Terms | None = None,
        forest: Forest | None = None,
        constant_pieces: bool = False,
        net: Net | None = None,
        log_odds: Forest | None = None,
    ):
        self.function = function
        self.derivative = gradient
        self.title = title
        self.ridge = ridge
        self.terms = terms
        self.forest = forest
        self.net = net
        self.log_odds = log_odds
        self.constant_pieces = constant_pieces or forest is not None
        self.asked = 0

    @classmethod
    def of(cls, model: Model | Score | Function, output: Output = "margin") -> Score:
        """The score of a wrapped model, or of a plain function of points."""
        if isinstance(model, Score):
            kept = ("function", "title", "ridge", "terms", "forest", "constant_pieces", "net", "log_odds")
            return cls(gradient=model.derivative, **{name: getattr(model, name) for name in kept})
        if isinstance(model, Model):
            return _with_layers(_of_model(model, output), model, output)
        if callable(model):
            return cls(model)
        raise ExplainError(
            f"{type(model).__name__} cannot be explained: it is no wrapped model and no function.",
            hint="use turnabout.models.wrap(model, schema), or a function of points (n, d) -> (n,).",
        )

    @classmethod
    def by_autograd(
        cls, function: Function, title: str = "score", ridge: Ridge | None = None, constant_pieces: bool = False
    ) -> Score:
        """The score of a torch program (n, d) -> (n,), with the gradient that autograd finds."""

        def gradient(x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                out = function(x)
                if out.requires_grad:
                    (slope,) = torch.autograd.grad(out.sum(), x, materialize_grads=True)
                    return slope
            return torch.zeros_like(x)  # a program that does not depend on x, or cuts it off: a step

        return cls(function, gradient, title, ridge, constant_pieces=constant_pieces)

    def values(self, x: Tensor) -> Tensor:
        """(..., d) -> (...), asked in slices; refuses NaN."""
        rows = x.detach().reshape(-1, x.shape[-1])
        with torch.no_grad():
            parts = [torch.as_tensor(self.function(part), dtype=torch.float64) for part in torch.split(rows, SLICE)]
        out = torch.cat([part.reshape(-1) for part in parts]) if parts else rows.new_zeros(0)
        self.asked += len(rows)
        if len(out) != len(rows):
            raise ExplainError(
                f"the function gave {len(out)} numbers for {len(rows)} points.", hint="it must map (n, d) to (n,)."
            )
        if not torch.isfinite(out).all():
            bad = int((~torch.isfinite(out)).sum())
            raise ExplainError(
                f"the score is NaN or infinite at {bad} of {len(out)} points that were asked.",
                hint="a score that is explained must be a number everywhere; impute missing values in the model.",
            )
        return out.reshape(x.shape[:-1])

    def gradients(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d); refuses scores without one."""
        if self.derivative is None:
            raise ExplainError(
                "this score has no gradient.",
                hint="use a wrapped model that is Differentiable, Gradient(differences=True), or SmoothGrad by Stein.",
            )
        rows = x.detach().reshape(-1, x.shape[-1])
        parts = [torch.as_tensor(self.derivative(part), dtype=torch.float64) for part in torch.split(rows, SLICE)]
        self.asked += len(rows)
        out = torch.cat(parts).detach() if parts else rows.clone()
        if out.shape != rows.shape:
            raise ExplainError(
                f"the gradient has shape {tuple(out.shape)} for points of shape {tuple(rows.shape)}.",
                hint="it must map (n, d) to (n, d).",
            )
        if not torch.isfinite(out).all():
            raise ExplainError("the gradient is NaN or infinite.", hint="look at the model at these points.")
        return out.reshape(x.shape)


def _of_model(model: Model, output: Output) -> Score:
    if output not in ("margin", "probability"):
        raise ExplainError(f"output={output!r} is no score.", hint="use 'margin' or 'probability'.")
    title = f"margin ({model.scale})"
    gradient = model.gradient if isinstance(model, Differentiable) else None
    ridge = Ridge(model.weights, model.bias, "identity") if isinstance(model, LinearMargin) else None
    terms = model.terms if isinstance(model, Additive) else None
    forest = model.forest if isinstance(model, Trees) and len(model.forest.bias) == 1 else None
    if isinstance(model, Trees):
        gradient = _no_slope
    flat = isinstance(model, Trees) or not model.compiled  # what is not compiled is asked at the nearest legal row
    if output == "margin":
        return Score(model.margin, gradient, title, ridge, terms, forest, constant_pieces=flat)
    return _probability(model, gradient, ridge, forest, flat)


def _with_layers(score: Score, model: Model, output: Output) -> Score:
    """The score, told what it is made of: layers, or trees behind a probability."""
    by_odds = output == "probability" and model.scale == "log-odds"
    if output == "probability" and not by_odds:
        return score
    shift = model.margin_at(0.5) if by_odds else 0.0
    if isinstance(model, ReluNet):
        *inner, (weight, bias) = model.layers
        score.net = Net((*inner, (weight, bias - shift)), "logit" if by_odds else "identity")
    if by_odds and isinstance(model, Trees) and len(model.forest.bias) == 1:
        score.log_odds = model.forest.scaled(1.0, -shift)
    return score


def _no_slope(x: Tensor) -> Tensor:
    """The gradient of a step function, wherever it has one."""
    return torch.zeros_like(x)


def _probability(
    model: Model, gradient: Function | None, ridge: Ridge | None, forest: Forest | None, flat: bool
) -> Score:
    """P(yes), from margins in log-odds or in units of probability."""
    if model.scale == "probability":
        shift = model.margin_at(0.0)  # margin = P - cut-off
        moved = None if forest is None else forest.scaled(1.0, -shift)
        return Score(lambda x: model.margin(x) - shift, gradient, "P(yes)", forest=moved, constant_pieces=flat)
    shift = model.margin_at(0.5)  # margin = logit P - logit cut-off

    def slope(x: Tensor) -> Tensor:
        assert gradient is not None
        p = torch.sigmoid(model.margin(x) - shift)
        return (p * (1 - p)).unsqueeze(-1) * gradient(x)

    bent = None if ridge is None else Ridge(ridge.weights, ridge.bias - shift, "logit")
    return Score(
        lambda x: torch.sigmoid(model.margin(x) - shift),
        None if gradient is None else slope,
        "P(yes)",
        bent,
        constant_pieces=flat,
    )


def as_points(x: Tensor | np.ndarray) -> Tensor:
    """Points (n, d) in double precision; one point (d,) becomes a row."""
    try:
        points = x.detach().to(torch.float64) if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x, float))
    except (TypeError, ValueError):
        raise ExplainError("points must be numbers.", hint="pass x of shape (n, d), or wrap the model.") from None
    points = points.unsqueeze(0) if points.dim() == 1 else points
    if points.dim() != 2 or not points.shape[1] or not torch.isfinite(points).all():
        raise ExplainError(
            f"points of shape {tuple(points.shape)} are no table of finite numbers.", hint="pass x of shape (n, d)."
        )
    return points


def check_seed(seed: object) -> int:
    """The seed, if it is one."""
    SEED.check(seed=seed)
    return int(seed)  # type: ignore[call-overload]
