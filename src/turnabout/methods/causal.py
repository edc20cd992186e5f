"""Recourse by acts whose consequences follow from structural equations (Karimi, Schölkopf, Valera, 2021)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import Any, Self

import torch

from turnabout.core import Problem, Proposal
from turnabout.core.refine import Standard, refine
from turnabout.core.verify import clearance
from turnabout.costs import BoundCost, CostTerm
from turnabout.errors import MethodError
from turnabout.methods.causal_chance import Chance, Judged, success_probability
from turnabout.methods.gradient import GradientMethod, Space
from turnabout.parameters import Finite, Positive, Share, Whole, checked
from turnabout.rules import StructuralEquations, equations_of
from turnabout.rules.equations_bound import BoundEquations
from turnabout.typing import Tensor

__all__ = ["CausalRecourse", "success_probability"]

DESCENT = 0.75  # share of the time left for a round; the rest is for walking back
FEW = 32  # sets of equations drawn that the gradient sees
MOST_CHOICES = 4  # features to hold or let follow, of which all combinations are tried


class Acts(Space):
    """Acts of people x (n, d), of which some features are held (n, q); a row decodes to what follows from it."""

    def __init__(self, problem: Problem, x: Tensor, equations: BoundEquations, held: Tensor):
        super().__init__(problem, x)
        self.equations = equations
        self.held = held

    def take(self, who: Tensor) -> Self:
        return type(self)(self.problem, self.x[who], self.equations, self.held[who])

    def reachable(self, z: Tensor) -> Tensor:
        return self.problem.schema.relax(self.x, z)

    def decode(self, z: Tensor, draws: Mapping[str, Tensor] | None = None) -> Tensor:
        return self.equations.predict(self.x, z, self.held, draws)  # (2)

    def project(self, z: Tensor) -> Tensor:
        if len(self.problem.rules) > bool(self.equations.lines):  # other rules hold of the row to which acts lead
            return self.problem.relax(self.x, self.decode(z))
        return self.problem.schema.relax(self.x, z)

    def printed(self, z: Tensor) -> Tensor:
        row = self.equations.predict(self.x, self.problem.schema.snap(self.x, z), self.held, printed=True)
        return self.problem.snap(self.x, row) if self.problem.rules else row


@checked(
    MethodError,
    lam=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
    draws=Whole(0, hint="use 200, or 0 for known equations."),
    chance=Share(above=0),
    seed=Whole(0),
)
class CausalRecourse(GradientMethod[Acts]):
    r"""The cheapest acts that lead to a yes once all their consequences have come about.

    For each refused person x, with structural equations M (the problem's `StructuralEquations` rule), solves

        min over acts A, set I held     max(0, kappa - f(x')) + lam * c(x, x')                       (1)
        with x' = M(x; do(A), I): own noise abducted, A set, the rest predicted in order             (2)

    by Adam on the acts, with gradients through the equations and a projection onto what the person may do after every
    step. Which of the features that may be set *or* follow (`acts` of the rule) are held is tried in all combinations
    up to four such features, else none, one at a time and all. The weight lam is searched for each person as by
    `Wachter`, and whoever has no plan starts the next round elsewhere. Rows are then walked back act by act,
    consequences following: undoing whole acts, then bisection. (`find` does so feature by feature, where consequences
    would break the rule.)

    With `draws` > 0 equations that were estimated are not taken as known: (1) asks for the margin's quantile
    over sets of coefficients drawn from their Gaussian, and a row is only shown when it is accepted in a share

        P(f(M_k(x; do(A), I)) >= 0)  >=  chance + one binomial standard error                        (3)

    of them, noise abducted anew under each. This is a rule like any other: `find` verifies it for the printed row, and
    whoever has no such row is NOT_FOUND, naming it. The extra standard error makes up for choosing the cheapest row by
    the same draws. The graph, and that equations are linear with additive noise, stay taken as true.

    Costs count consequences too; `Problem(cost=equations.price(L1()))` prices acts alone. Without equations every
    feature stands for itself (the empty graph). Use it where what follows from an act matters to the decision; it may
    stop in a local minimum.

    Parameters
    ----------
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over lam.
    patience : steps between two looks at the rounded point.
    draws : sets of equations drawn for (3); 0 takes the equations as known. chance : the share of (3).
    seed : of the draws, which are the same for everyone.

    References
    ----------
    Karimi, Schölkopf, Valera (2021), Algorithmic recourse: from counterfactual explanations to interventions. Their
    search goes over all sets of acts; ours by gradient, then undoes acts.
    Karimi, von Kügelgen, Schölkopf, Valera (2020), Algorithmic recourse under imperfect causal knowledge. Their
    draws are of Gaussian processes; ours of linear coefficients.
    """

    share = DESCENT

    def __init__(
        self,
        lam: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 10,
        draws: int = 0,
        chance: float = 0.95,
        seed: int = 0,
    ):
        self.lam = lam
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience
        self.draws = draws
        self.chance = chance
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=3)

    # -- fit --------------------------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> None:
        found = equations_of(problem.rules)
        if len(found) > 1:
            raise MethodError("the problem has two sets of structural equations.", hint="join them into one rule.")
        self.equations_ = found[0] if found else StructuralEquations(()).bind(problem.schema)
        self.modes_ = _modes(len(self.equations_.choices))
        self.known_ = problem  # without (3), which is dear to ask
        self.chance_: Chance | None = None
        if self.draws and found:
            self.chance_ = Chance(problem, self.equations_, self.draws, self.chance, self.seed)
            self.problem_ = copy.copy(problem)
            self.problem_.rules = (*problem.rules, self.chance_)

    # -- search -----------------------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        best = self.descend(self.space(x))
        for mode, row in zip(self.modes_.to(x.device), best.row.chunk(len(self.modes_)), strict=True):
            row.copy_(self._walk_back(x, row, mode))
        # a row that is refused, or accepted by too few draws, is worth showing only where draws do not count
        rows = (best.row,) if self.chance_ is not None else (best.row, best.nearest)
        return Proposal(torch.cat([t.reshape(len(self.modes_), *x.shape).movedim(0, 1) for t in rows], 1))

    def space(self, x: Tensor) -> Acts:
        modes = self.modes_.to(x.device)
        every, held = x.repeat(len(modes), 1), modes.repeat_interleave(len(x), 0)  # (m n, d), (m n, q)
        return Acts(self.known_, every, self.equations_, held)

    def loss(self, space: Acts, z: Tensor, weight: Tensor) -> Tensor:
        f, c, row = self.known_.model.margin, self.known_.cost, space.decode(z)
        margin = f(row)
        if self.chance_ is not None:  # the low quantile over a few of the drawn sets of equations
            few = {name: draws[:FEW] for name, draws in self.chance_.draws.items()}
            rows = space.decode(z, few)  # (s, n, d)
            margins = f(rows.flatten(0, 1)).reshape(rows.shape[:2])
            rank = 1 + int((1 - self.chance_.aim) * len(margins))
            margin = torch.minimum(margin, margins.kthvalue(rank, 0).values)
        return (self.kappa - margin).clamp(min=0) + weight * c(space.x, row)  # (1)

    def confirm(self, space: Acts, row: Tensor) -> Tensor:
        if self.chance_ is None:
            return super().confirm(space, row)
        return self.chance_.share(space.x, row, space.held) >= self.chance_.aim  # (3)

    def _walk_back(self, x: Tensor, row: Tensor, held: Tensor) -> Tensor:
        """Rows (n, d), NaN for none, with fewer and smaller acts where these still lead to a yes; held (q,)."""
        row = row.clone()
        some = torch.isfinite(row).all(1).nonzero().squeeze(1)
        if not len(some) or not self.equations_.lines:  # without equations, find does this
            return row
        x, there = x[some], row[some]
        through = Through(self.problem_, self.equations_, held)
        acts = through.acts(x, there)
        same = (through.row(x, acts) == there).all(1)  # not where another rule moved a consequence
        anything = Standard(
            through.problem(), lambda z: torch.full_like(z[:, 0], torch.inf), 0.0, lambda: self.run.expired
        )
        acts[same] = refine(anything, x[same], acts[same])
        row[some[same]] = through.row(x[same], acts[same])
        return row


class Through:
    """A problem seen through the equations: a row of acts stands for the row to which it leads."""

    def __init__(self, problem: Problem, equations: BoundEquations, held: Tensor):
        self.base, self.equations, self.held = problem, equations, held
        chosen = [f for f, hold in zip(equations.choices, held.tolist(), strict=True) if hold]
        self.follow = [line.column for line in equations.lines if line.feature not in chosen]

    def acts(self, x: Tensor, row: Tensor) -> Tensor:
        """The row with its consequences put back."""
        acts = row.clone()
        acts[..., self.follow] = x[..., self.follow]
        return acts

    def row(self, x: Tensor, acts: Tensor) -> Tensor:
        """The printed row to which acts lead."""
        return self.equations.predict(x, acts, self.held.expand(*acts.shape[:-1], -1), printed=True) + 0.0

    def problem(self) -> Problem:
        """A problem over acts for `refine`: its cost is that of the row, its one rule that the row is good."""
        out = copy.copy(self.base)
        out.cost = BoundCost(self.base.cost.made_by, self.base.cost.names, (_CostThrough(self),))
        out.rules = (_GoodThrough(self),)
        return out


class _CostThrough(CostTerm):
    separable = False

    def __init__(self, through: Through):
        self.through = through

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.through.base.cost.per_feature(x, self.through.row(x, x_new))

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.through.base.cost(x, self.through.row(x, x_new))


class _GoodThrough(Judged):
    """0 where the row to which acts lead is accepted, legal and keeps every rule."""

    def __init__(self, through: Through):
        super().__init__("leads to a good row", through.base.schema, ())
        self.through = through

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        base, row = self.through.base, self.through.row(x, x_new)
        bad = (base.margin(row) < clearance(base)) | (base.schema.snap(x, row) != row).any(-1)
        gap = bad.to(x.dtype)
        fine = ~bad
        if fine.any():
            gap[fine] = base.violation(x[fine], row[fine])
        return gap


def _modes(choices: int) -> Tensor:
    """(m, choices) which of them to hold; all combinations of a few, else none, each alone and all."""
    if choices <= MOST_CHOICES:
        held: list[Any] = list(itertools.product((False, True), repeat=choices))
        return torch.tensor(held, dtype=torch.bool).reshape(len(held), choices)
    eye = torch.eye(choices, dtype=torch.bool)
    return torch.cat([torch.zeros_like(eye[:1]), eye, torch.ones_like(eye[:1])])
