"""One linear program, or its closed form, for each person (Ross, Lakkaraju and Bastani, 2021)."""

from __future__ import annotations

from typing import ClassVar

import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.models import Additive, Differentiable, Model, ReluNet
from turnabout.rules.regions import BoundRegion, Box, regions_of
from turnabout.typing import Tensor

BLOCK = 2048  # people in one gradient: what a net holds for them stays in a processor's cache


class OneStep(Method):
    r"""The change that the gradient at a person's own row likes best, everyone at once.

    For each refused person x, with f the model's margin and Delta(x) the changes they may make, proposes

        x' = x + argmax over delta in Delta(x)   grad f(x) @ delta                                          (1)

    Delta is the problem's first Region among its rules: a box, a budget, a ball, a polytope. Without one it is all
    that the schema lets them change. (1) has a closed form for all but large polytopes, so that one gradient for
    everybody is nearly all the work. What of the change is not needed `find` takes back, as for every method.

    Exact for a linear model, values that can be had in fine steps and no rule besides Delta: there it finds a plan for
    whoever has one. Further rules it does not look at; `find` holds its proposal to them, which may cost the plan. For
    other models it may overshoot or start in the wrong direction; where the gradient is zero it proposes nothing. It
    comes into its own with models trained for it (`turnabout.train.Pare`). NOT_FOUND is never a proof.

    The paper minimises grad loss(g(x), 1) @ delta with g the probability. That gradient is -(1 - g(x)) grad f(x) for f
    the log-odds, so (1) is the same problem. The released code has the other sign, and so takes most people away from
    acceptance. Beside Delta hold each person's own limits: the schema's bounds, directions and levels, and cells that
    are missing stay so.

    References
    ----------
    Ross, Lakkaraju, Bastani (2021), Learning models for actionable recourse, sections 3.1 and 3.2 ("adversarial
    training").
    """

    requires = Differentiable
    chunk: ClassVar[int] = 65536

    def _fit(self, problem: Problem) -> None:
        self.region_ = region_of(problem)

    def _search(self, x: Tensor) -> Proposal:
        slope = torch.cat([_slope(self.problem_.model, part) for part in x.split(BLOCK)])
        return Proposal((x + self.region_.around(x).steepest(slope)).unsqueeze(1))  # (1), (n, k=1, d)


def _slope(model: Model, x: Tensor) -> Tensor:
    """The margin's gradient (n, d) -> (n, d); of a ReLU net in float32, which is twice as fast and good for a sign."""
    if not isinstance(model, ReluNet) or isinstance(model, Additive):
        assert isinstance(model, Differentiable)
        return torch.nan_to_num(model.gradient(x), nan=0.0)
    layers = [(weight.float(), bias.float()) for weight, bias in model.layers]
    inputs = [x.float()]
    for weight, bias in layers[:-1]:
        inputs.append(torch.nn.functional.linear(inputs[-1], weight, bias).relu_())
    slope = layers[-1][0]
    for (weight, _), h in zip(reversed(layers[:-1]), reversed(inputs)):
        slope = h.gt_(0).mul_(slope) @ weight  # only units that are on pass it back
    return torch.nan_to_num(slope.to(x.dtype), nan=0.0)


def region_of(problem: Problem) -> BoundRegion:
    """Delta: the problem's first region, or else all that the schema lets people change."""
    return next(iter(regions_of(problem.rules)), None) or Box().bind(problem.schema)
