"""Several different accepted points at once, by gradient (DiCE, Mothilal et al., 2020)."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from turnabout.core import Method, Proposal
from turnabout.core.polish import polish
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.models import Differentiable
from turnabout.nn.adam import Adam
from turnabout.parameters import Finite, Positive, Whole, checked
from turnabout.typing import Tensor

DESCENT = 0.75  # share of the time left for a round; the rest is for walking back
CELLS = 1 << 22  # numbers in the differences between all pairs of points of the people searched together
RIDGE = 1e-4  # on the diagonal of the kernel, so that equal points do not make it singular
REFUSED = 1e6  # a refused point weighs more than anything else in (1)
FEWER = 0.1  # both weights are multiplied by this for people whose points were not all accepted


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
class Dice(Method):
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

    requires = Differentiable
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
        k = max(self.least, 2 * self.run.options)
        out = x.unsqueeze(1).repeat(1, k, 1).fill_(torch.nan)
        most = max(1, CELLS // (k * k * x.shape[1]))
        for start in range(0, len(x), most):
            if start and self.run.expired:
                break
            out[start : start + most] = self._search_part(x[start : start + most], k)
        return Proposal(out)

    def _search_part(self, x: Tensor, k: int) -> Tensor:
        """(n, d) -> sets (n, k, d), in order."""
        best = x.unsqueeze(1).repeat(1, k, 1)
        value = torch.full_like(x[:, 0], torch.inf)
        todo, weight = torch.arange(len(x), device=x.device), 1.0
        for _ in range(self.rounds):
            with self.run.within(DESCENT):
                best[todo], value[todo], done = self._descend(x[todo], best[todo], value[todo], weight)
            todo, weight = todo[~done], weight * FEWER  # (3)
            if not len(todo) or self.run.cut or self.run.expired:
                break
        return self._ordered(x, self._polished(x, best))

    def _starts(self, x: Tensor, k: int) -> Tensor:
        """(n, k, d): the same steps away from each x, made possible for the person."""
        noise = self.run.rng("start").standard_normal((k, x.shape[1]))
        return self._relax(x, x.unsqueeze(1) + self.spread * torch.from_numpy(noise).to(x))

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        own = x.unsqueeze(1).expand_as(x_new).reshape(-1, x.shape[1])
        return self.problem_.relax(own, x_new.reshape(own.shape)).reshape(x_new.shape)

    def loss(self, x: Tensor, x_new: Tensor, margin: Tensor, weight: float = 1.0) -> Tensor:
        """(1) for sets x_new (n, k, d) with margins (n, k), both weights multiplied by `weight`; (n,)."""
        hinge = (self.kappa - margin).clamp(min=0).mean(1)
        cost = self.problem_.cost(x.unsqueeze(1), x_new).mean(1)
        return hinge + weight * (self.lam1 * cost - self.lam2 * self.diversity(x_new))  # (1)

    def diversity(self, x_new: Tensor) -> Tensor:
        """log det K of sets (n, k, d) -> (n,)."""
        apart = self.problem_.cost(x_new.unsqueeze(2), x_new.unsqueeze(1))  # (n, k, k)
        kernel = 1 / (1 + apart) + RIDGE * torch.eye(x_new.shape[1], dtype=x_new.dtype, device=x_new.device)  # (2)
        return torch.linalg.slogdet(kernel).logabsdet

    def _descend(self, x: Tensor, best: Tensor, value: Tensor, weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """One round of (1): the best sets (n, k, d), their values (n,), and (n,) whether all points are accepted."""
        x_new, adam = self._starts(x, best.shape[1]), Adam(self.lr)
        for step in range(1, self.steps + 1):
            x_new = x_new.requires_grad_()
            loss = self.loss(x, x_new, self.problem_.model.margin(x_new), weight)
            (gradient,) = torch.autograd.grad(loss.sum(), x_new)
            x_new = self._relax(x, adam.step(x_new.detach(), gradient))
            last = step == self.steps or self.run.nearly_over
            if step % self.patience == 0 or last:
                best, value = self._look(x, x_new, best, value)
            if last or self.run.expired:
                break
        return best, value, value < REFUSED / 2

    def _look(self, x: Tensor, x_new: Tensor, best: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Round the sets, and keep those that beat the best so far."""
        own = x.unsqueeze(1).expand_as(x_new)
        rows = self.problem_.snap(own, x_new)
        margin = self.ask(rows)
        refused = (margin < clearance(self.problem_)) | (self.problem_.violation(own, rows) > 0)
        new = REFUSED * refused.sum(1) + self.loss(x, rows, margin)
        better = new < value
        return torch.where(better.view(-1, 1, 1), rows, best), torch.where(better, new, value)

    # -- the set ----------------------------------------------------------------------------------------------

    def _polished(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Every accepted point (n, k, d) walked back towards its person; refused ones as they are."""
        own = x.unsqueeze(1).expand_as(x_new)
        aim = clearance(self.problem_)
        good = (self.ask(x_new) >= aim) & (self.problem_.violation(own, x_new) <= 0)
        x_new = x_new.clone()
        x_new[good] = polish(self.problem_, self.ask, own[good], x_new[good], aim, lambda: self.run.expired)
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
