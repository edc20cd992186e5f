"""Several different accepted points at once, by gradient (DiCE, Mothilal et al., 2020)."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from turnabout.core import Problem, Proposal, Run
from turnabout.core.refine import Standard, refine
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.gradient import Assessed, Fading, GradientMethod, Space
from turnabout.parameters import Finite, Positive, Whole, checked
from turnabout.typing import Tensor

DESCENT = 0.75  # share of the time left for a round; the rest is for walking back
CELLS = 1 << 22  # numbers in the differences between all pairs of points of the people searched together
RIDGE = 1e-4  # on the diagonal of the kernel, so that equal points do not make it singular
REFUSED = 1e6  # a refused point weighs more than anything else in (1)
FEWER = 0.1  # both weights are multiplied by this for people whose points were not all accepted


class Sets(Space):
    """Sets of k points, z = x'_1 .. x'_k (n, k, d), beside k copies of each person's row."""

    def __init__(self, problem: Problem, x: Tensor, spread: float):
        super().__init__(problem, x)
        self.spread = spread

    def take(self, who: Tensor) -> Self:
        return type(self)(self.problem, self.x[who], self.spread)

    def start(self, turn: int, found: Tensor, run: Run) -> Tensor:
        """The same steps away from each x, in every round, made possible for the person."""
        noise = run.rng("start").standard_normal(self.x.shape[1:])
        return self.project(self.x + self.spread * torch.from_numpy(noise).to(self.x))

    def project(self, z: Tensor) -> Tensor:
        return self.problem.relax(self.x.flatten(0, 1), z.flatten(0, 1)).reshape(z.shape)


@checked(
    MethodError,
    lam1=Finite(least=0),
    lam2=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    spread=Finite(least=0),
    patience=Whole(1),
    least=Whole(1),
)
class Dice(GradientMethod[Sets]):
    r"""A set of k different accepted points, found together.

    For each refused person x, solves over x'_1 .. x'_k together

        min   1/k sum_i max(0, kappa - f(x'_i))  +  lam1/k sum_i c(x, x'_i)  -  lam2 log det K          (1)

        K_ij = 1 / (1 + c(x'_i, x'_j))                                                                  (2)

    with f the model's margin and c the problem's cost; det K, the diversity of a determinantal point process, is 0
    when two points coincide and grows as they part. Adam moves all points of all people at once, from starts around
    x that are the same for everyone, with a projection onto what the person may do after every step. The set with
    most accepted points, then the lowest (1), once rounded to legal values, is kept. Where some were refused, the
    search is repeated with smaller lam1 and lam2.                                                   (3)

    Then each point is walked back towards x as far as it stays accepted, as `find` does for all methods, duplicates
    are left out, and the rest is put in order: the cheapest first, then always the one that lowers

        lam1 c(x, x'_i) - lam2 log det K(chosen and x'_i)                                               (4)

    most. Options are shown in that order, so that the first few are a good set. Twice as many points are
    searched as asked for, because several may end at the same plan.

    The paper subtracts det K; its logarithm also parts points that nearly coincide. A port in common use measures
    cost from a shifted copy of x, adds the diversity instead of subtracting it, and keeps neither levels nor fixed
    features: here cost is measured from x itself, (1) has the paper's sign, and `relax` and `snap` keep the rest.

    Use it when a person should choose between different plans and the model is differentiable. For one plan
    Wachter is quicker.

    Parameters
    ----------
    lam1, lam2 : weights of cost and of diversity.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : searches at most, with smaller weights each time (3).
    spread : how far from x the starts lie, in encoded units.
    patience : steps between two looks at the rounded set.
    least : points searched for each person, or twice the options asked for if that is more.

    References
    ----------
    Mothilal, Sharma, Tan (2020), Explaining machine learning classifiers through diverse counterfactual explanations.
    """

    share = DESCENT
    ranked: ClassVar[bool] = False
    chunk: ClassVar[int] = 512

    def __init__(
        self,
        lam1: float = 0.5,
        lam2: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 80,
        rounds: int = 3,
        spread: float = 0.5,
        patience: int = 10,
        least: int = 4,
    ):
        self.lam1 = lam1
        self.lam2 = lam2
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.spread = spread
        self.patience = patience
        self.least = least

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=2)

    # -- search -----------------------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        out = torch.full_like(self.space(x).x, torch.nan)  # (n, k, d)
        most = max(1, CELLS // (out.shape[1] * out[0].numel()))
        for start in range(0, len(x), most):
            if start and self.run.expired:
                break
            part = slice(start, start + most)
            space = self.space(x[part])
            best = self.descend(space)
            sets = torch.where(best.found.view(-1, 1, 1), best.row, space.x)
            out[part] = self._ordered(x[part], self._polished(x[part], sets))
        return Proposal(out)

    def space(self, x: Tensor) -> Sets:
        k = max(self.least, 2 * self.run.options)
        return Sets(self.problem_, x.unsqueeze(1).expand(-1, k, -1), self.spread)

    def weights(self, x: Tensor) -> Fading:
        return Fading(FEWER, x)  # (3)

    def loss(self, space: Sets, z: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        return self.value(space.x, z, self.problem_.model.margin(z), weight)

    def value(self, x: Tensor, x_new: Tensor, margin: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        """(1) for sets x_new (n, k, d) with margins (n, k), both weights multiplied by `weight` (n,); (n,)."""
        hinge = (self.kappa - margin).clamp(min=0).mean(1)
        cost = self.problem_.cost(x, x_new).mean(1)
        return hinge + weight * (self.lam1 * cost - self.lam2 * self.diversity(x_new))  # (1)

    def assess(self, space: Sets, row: Tensor) -> Assessed:
        """Sets (n, k, d) by how many of their points are refused, then by (1)."""
        margin = self.ask(row)
        refused = (margin < clearance(self.problem_)) | (self.problem_.violation(space.x, row) > 0)
        value = REFUSED * refused.sum(1) + self.value(space.x, row, margin)
        return Assessed(value, value < REFUSED / 2, -value)

    def diversity(self, x_new: Tensor) -> Tensor:
        """log det K of sets (n, k, d) -> (n,)."""
        apart = self.problem_.cost(x_new.unsqueeze(2), x_new.unsqueeze(1))  # (n, k, k)
        kernel = 1 / (1 + apart) + RIDGE * torch.eye(x_new.shape[1], dtype=x_new.dtype, device=x_new.device)  # (2)
        return torch.linalg.slogdet(kernel).logabsdet

    # -- the set ----------------------------------------------------------------------------------------------

    def _polished(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Every accepted point (n, k, d) walked back towards its person; refused ones as they are."""
        own = x.unsqueeze(1).expand_as(x_new)
        aim = clearance(self.problem_)
        good = (self.ask(x_new) >= aim) & (self.problem_.violation(own, x_new) <= 0)
        x_new = x_new.clone()
        x_new[good] = refine(Standard(self.problem_, self.ask, aim, lambda: self.run.expired), own[good], x_new[good])
        return x_new

    def _ordered(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Points (n, k, d) in the order of (4), accepted ones first; NaN for those that repeat another one."""
        n, k, d = x_new.shape
        own, everyone = x.unsqueeze(1).expand_as(x_new), torch.arange(n, device=x.device)
        refused = (self.ask(x_new) < clearance(self.problem_)) | (self.problem_.violation(own, x_new) > 0)
        cost = self.lam1 * self.problem_.cost(own, x_new) + REFUSED * refused
        apart = self.problem_.cost(x_new.unsqueeze(2), x_new.unsqueeze(1))
        kernel = 1 / (1 + apart) + RIDGE * torch.eye(k, dtype=x.dtype, device=x.device)  # (2)
        repeats = (x_new.unsqueeze(2) == x_new.unsqueeze(1)).all(-1).tril(-1).any(2)  # (n, k)
        factor = x_new.new_zeros(n, k, k)  # rows of the Cholesky factor of K(chosen), for all candidates
        left = kernel.diagonal(dim1=1, dim2=2).clone()  # what each candidate would multiply det K(chosen) by
        taken = torch.zeros(n, k, dtype=torch.bool, device=x.device)
        order = torch.zeros(n, k, dtype=torch.long, device=x.device)
        for step in range(k):
            score = (cost - self.lam2 * left.clamp(min=1e-12).log()).masked_fill(taken, torch.inf)  # (4)
            i = score.argmin(1)
            order[:, step], taken[everyone, i] = i, True
            root = left[everyone, i].clamp(min=1e-12).sqrt().unsqueeze(1)
            row = (kernel[everyone, i] - (factor @ factor[everyone, i].unsqueeze(2)).squeeze(2)) / root
            factor[:, :, step] = row
            left = left - row.square()
        out = x_new.masked_fill(repeats.unsqueeze(2), torch.nan)
        return out.gather(1, order.unsqueeze(2).expand(-1, -1, d))
