"""The cheapest plan for a straight line through the model at the person (after Ustun et al., 2019)."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch

from turnabout.core import GUARD, Method, Problem, Proposal
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.exact_linear import shape_of
from turnabout.methods.one_step import region_of
from turnabout.methods.program import PersonProgram, check_rules, load_solver
from turnabout.methods.runs import Shape
from turnabout.models import Differentiable, Terms
from turnabout.parameters import Positive, Whole, checked
from turnabout.typing import Tensor

CELLS = 1 << 21  # numbers in one block of sampled rows
TOLERANCE = 1e-5  # of a plan's cost under the surrogate, for costs that are not linear
DUPLICATE = 1e-10  # share of the largest variance below which columns of the samples count as one


@checked(MethodError, samples=Whole(0), width=Positive(), rounds=Whole(1), seconds=Positive())
class LinearApproximation(Method):
    r"""The cheapest plan by an integer program, with the model replaced by its straight line at the person.

    For each refused person x, with f the model's margin, solves

        min over x'   c(x, x')    s.t.   f(z) + w @ (x' - z) >= 0,   x' legal for them, rules and Delta kept        (1)

    with z = x and w = grad f(x); or with w from a least squares fit of f - f(z) on `samples` legal rows around them,
    weighted by exp(-u^2 / width^2), u^2 the mean square of their changes as shares of what they may change.      (2)

    If the plan is refused, further `rounds` draw the line at the plan: z = x', w = grad f(x').                    (3)

    Where the line promises acceptance to no allowed row, the row it promises most is proposed. The decision is the
    model's own, as for every method. A line proves nothing of a curve, so nobody is told IMPOSSIBLE.

    Use it as a cheap plan for models that are nearly linear near the person. For a linear model it is the optimum, as
    ExactLinear finds faster and with a proof. One integer program for each person and round.

    Where we depart from the paper: the line is drawn to the margin, log-odds for most models, not to the probability
    g. The surface g = theta0 is the same, and the margin curves less. Where we depart from the released code: bounds,
    directions, rules and Delta are kept, which it leaves out; samples are drawn and weighted in the scale in which the
    fit is used, around them and on legal rows, while there coefficients of standardised columns meet raw ones; the
    line passes through their own margin, so that it never calls them accepted already; the level to reach is the
    model's true threshold.

    Parameters
    ----------
    samples : rows for the fit of the line; 0 for the gradient.
    width : of the kernel that weights them; smaller is more local.
    rounds : how often a line is drawn, at most.
    seconds : limit of one integer program.

    References
    ----------
    Ross, Lakkaraju, Bastani (2021), Learning models for actionable recourse, section 3.2 ("linear approximation").
    Ustun, Spangher, Liu (2019), Actionable recourse in linear classification.
    Ribeiro, Singh, Guestrin (2016), "Why should I trust you?", for the fit on samples.
    """

    requires = Differentiable

    def __init__(self, samples: int = 0, width: float = 0.75, rounds: int = 1, seconds: float = 10.0):
        self.samples = samples
        self.width = width
        self.rounds = rounds
        self.seconds = seconds

    @classmethod
    def small(cls) -> Self:
        return cls(seconds=1.0)

    def _fit(self, problem: Problem) -> None:
        hint = "use Box, Budget, Polytope, Linear, Ordered, AtMost or Implies, or a method such as OneStep."
        check_rules(problem, "LinearApproximation", hint)
        load_solver()
        self.region_ = region_of(problem)
        try:
            self.shape_: Shape = shape_of(problem)
        except MethodError:  # no exact form: plans are picked by the sum of the features' shares
            self.shape_ = "sum"

    def _search(self, x: Tensor) -> Proposal:
        x = x.to(torch.float64)
        x_new = x.new_full((len(x), self.rounds, x.shape[1]), torch.nan)
        z, active = x.clone(), torch.arange(len(x), device=x.device)
        for i in range(self.rounds):
            rows = self._plans(x[active], z[active], self._slope(x[active], z[active], i))
            x_new[active, i] = rows
            if i + 1 == self.rounds or self.run.expired:
                break
            margin = self.ask(rows)
            again = (margin < clearance(self.problem_)) & torch.isfinite(margin) & (rows != z[active]).any(1)
            active = active[again]
            if not len(active):
                break
            z[active] = rows[again]  # (3)
        return Proposal(x_new)

    # -- the line ---------------------------------------------------------------------------------------------

    def _slope(self, x: Tensor, z: Tensor, i: int) -> Tensor:
        """People x at points z (n, d) -> slopes (n, d) of the line there."""
        if not self.samples:
            model = self.problem_.model
            assert isinstance(model, Differentiable)
            return torch.nan_to_num(model.gradient(z), nan=0.0)
        draws = torch.as_tensor(self.run.rng("samples", i).uniform(-1, 1, (self.samples, x.shape[1]))).to(x)
        blocks = torch.arange(len(x), device=x.device).split(max(1, CELLS // draws.numel()))
        return torch.cat([self._regress(x[some], z[some], draws) for some in blocks])

    def _regress(self, x: Tensor, z: Tensor, draws: Tensor) -> Tensor:
        """The fit of (2) on rows z + draws (s, d), each a share of how far the person may go."""
        around = self.region_.around(x)
        up, down = around.hi + x - z, around.lo + x - z
        reach = torch.where(draws > 0, up.unsqueeze(1), -down.unsqueeze(1))  # (n, s, d)
        rows = self.problem_.schema.snap(x.unsqueeze(1), z.unsqueeze(1) + draws * reach)
        scale = torch.maximum(up, -down)
        moving = scale > 0
        u = (rows - z.unsqueeze(1)) / torch.where(moving, scale, 1.0).unsqueeze(1)
        rise = self.ask(rows) - self.ask(z).unsqueeze(1)  # (n, s)
        known = torch.isfinite(rise)
        weight = known * torch.exp(-(u**2).sum(2) / moving.sum(1, keepdim=True).clamp(min=1) / self.width**2)
        weighted = (u * weight.unsqueeze(2)).mT
        target = torch.where(known, rise, 0.0).unsqueeze(2)
        slope = torch.linalg.pinv(weighted @ u, hermitian=True, rtol=DUPLICATE) @ (weighted @ target)  # (2)
        return torch.where(moving, slope.squeeze(2) / torch.where(moving, scale, 1.0), 0.0)

    # -- the plan ---------------------------------------------------------------------------------------------

    def _plans(self, x: Tensor, z: Tensor, slope: Tensor) -> Tensor:
        """The cheapest row of each person under their line, or the one it promises most; (n, d)."""
        rows = self.problem_.snap(x, x + self.region_.around(x).steepest(slope))
        bias = self.ask(z) - (slope * z).sum(1)
        nothing = np.zeros(len(self.problem_.schema), dtype=bool)
        for i in range(len(x)):
            left = min(self.seconds, self.run.left / 4)
            if self.run.over:
                break
            terms = Terms.straight(slope[i].cpu(), float(bias[i]))
            scale = abs(terms.bias) + float(terms.weights.abs().sum())
            aim = GUARD + max(self.problem_.model.noise, 1e-12 * scale)  # an allowance for rounding errors
            program = PersonProgram(self.problem_, terms, x[i : i + 1].cpu(), nothing, self.shape_)
            plan = program.cheapest(aim, left, TOLERANCE)  # (1)
            if plan.x_new is not None:
                rows[i] = plan.x_new.to(x.device)
        return rows
