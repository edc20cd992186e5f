"""Gradient search in the part of a code that tells accepted from refused people (Downs et al., 2020)."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import torch
from torch import nn

from turnabout.core import Problem, Proposal
from turnabout.errors import MethodError
from turnabout.methods.confidence import confident_margin
from turnabout.methods.latent import LatentDescent, LatentSpace, given_of, immutable
from turnabout.nn.csvae import ConditionalSubspaceVae, train_csvae
from turnabout.nn.network_training import Schedule
from turnabout.parameters import Each, Finite, Positive, Share, Whole, checked
from turnabout.typing import Tensor

LEAST = 0.1  # margin that the search goes for where confidence asks for less, in the model's own scale
BEYOND = 0.5  # how much further from the refused each further start lies, in distances of the two priors


@checked(
    MethodError,
    lam=Positive(),
    confidence=Finite(least=0.5, below=1),
    plausible=Share(below=1),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
    latent=Whole(1),
    label_width=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    seed=Whole(0),
)
class Cruds(LatentDescent):
    r"""The nearest accepted row among those that differ from the person in what the label depends on.

    A conditional subspace VAE codes each row as (w, z): w for what depends on being accepted, z for the rest. For each
    refused person x with z the mean of q(z | x), solves

        min over w   max(0, kappa - f(g(w, z))) + lam * c(x, g(w, z))                                   (1)

    by gradient descent from the mean of the accepted people's w, where g decodes to the row that would be printed,
    given what the person cannot change, and kappa is the margin of a yes with `confidence`. lam is raised as long as
    the person is accepted, and lowered otherwise; people who are not accepted start again with w further from that of
    the refused. For people whom no w makes accepted, the whole code (w, z) is searched, from those of accepted rows. Of
    the accepted rows met, the cheapest is proposed that the model accepts with confidence and that is as likely, as
    an accepted person's row, as most accepted people's. For people who meet none such, confidence is let go: the
    cheapest likely row is proposed. `find` keeps to what was met.

    Labels are those of the problem, and without labels the model's own decisions. The published code leaves the output
    unbounded, decodes what the person cannot change and does not round; it takes the square of the Euclidean distance
    for the cost, with so small a weight that it goes as far from the boundary as it gets.

    Use it where plans must resemble accepted people, and typical ones are better than near ones.

    Parameters
    ----------
    lam : first weight of the cost; larger keeps closer to x.
    confidence : of the model, that makes a row typical of accepted people: P(yes) where the model gives it; see
        `methods.confidence.confident_margin`.
    plausible : share of the accepted background rows that are less likely than every row proposed.
    lr, steps : Adam's step size in w, and its count in each round.
    rounds : rounds of the search over weights and starts.
    patience : steps between two looks at the row.
    latent, label_width, hidden : width of z, of w, and of the hidden layers.
    training_steps : of the network, 256 rows each.
    seed : of the network.

    References
    ----------
    Downs, Chu, Yacoby, Doshi-Velez, Pan (2020), CRUDS: Counterfactual recourse using disentangled subspaces.
    """

    training: ClassVar[tuple[str, ...]] = ("latent", "label_width", "hidden", "training_steps", "seed")

    def __init__(
        self,
        lam: float = 0.1,
        confidence: float = 0.75,
        plausible: float = 0.1,
        lr: float = 0.1,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 5,
        latent: int = 8,
        label_width: int = 2,
        hidden: tuple[int, ...] = (128, 64),
        training_steps: int = 3000,
        seed: int = 0,
    ):
        self.lam = lam
        self.confidence = confidence
        self.plausible = plausible
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience
        self.latent = latent
        self.label_width = label_width
        self.hidden = hidden
        self.training_steps = training_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(steps=20, rounds=3, latent=4, hidden=(32,), training_steps=150)

    def _fit(self, problem: Problem) -> None:
        super()._fit(problem)
        self.sure_ = confident_margin(problem, self.confidence)
        self.unsure_ = _key(np.zeros((0, problem.schema.d)))
        self.aim_ = max(LEAST, self.sure_)

    @property
    def aim(self) -> float:
        return self.aim_

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether rows are as likely as most accepted people, and accepted with confidence if x met such rows."""
        likely = super().criterion(x, x_new)
        if not len(self.unsure_):
            return likely & (self.problem_.margin(x_new) >= self.sure_)
        unsure = torch.from_numpy(np.isin(_key(x.cpu().numpy()), self.unsure_)).to(x.device)
        return likely & (unsure | (self.problem_.margin(x_new) >= self.sure_))

    def _network(self, problem: Problem) -> nn.Module:
        assert problem.background_x is not None
        rows, hidden = problem.background_x.cpu().float(), tuple(self.hidden)
        return ConditionalSubspaceVae(
            problem.schema, rows, immutable(problem), self.latent, self.label_width, hidden, self.seed
        )

    def _train(self, network: nn.Module, problem: Problem) -> None:
        rows, margin = problem.background_x, problem.background_margin
        assert isinstance(network, ConditionalSubspaceVae) and rows is not None and margin is not None
        labels = margin >= 0 if problem.labels is None else problem.labels
        if bool((labels == labels[0]).all()):
            what = "accepted" if bool(labels[0]) else "refused"
            raise MethodError(
                f"Cruds learns what tells accepted from refused, and all {len(labels)} background rows are {what}.",
                hint="give a background with both; Revise and Cchvae need no labels.",
            )
        schedule = Schedule(self.training_steps)
        train_csvae(network, rows.float(), labels, schedule, self.seed, self._training)

    def codes(self, rows: Tensor, given: Tensor) -> Tensor:
        w, _ = self.coder.encode_label(rows, torch.ones_like(rows[..., 0]), given)
        return torch.cat([w, self.coder.encode(rows, given)[0]], -1)

    def _search(self, x: Tensor) -> Proposal:
        best = self.descend(self.space(x))
        for confident in (True, False):
            lost = (~best.met).nonzero().squeeze(1)
            if not len(lost) or self.run.expired:
                break
            if not confident:  # `find` searches with a copy of the method, which alone remembers these people
                self.unsure_, self.aim_ = np.unique(_key(x[lost].cpu().numpy())), LEAST
            second, first = self.descend(self.whole(x[lost])), best.take(lost)
            better = second.met | (second.cost < first.cost) | (~first.found & (second.margin > first.margin))
            best.put(lost[better], second.take(better))
        return Proposal(torch.stack([best.row, best.nearest], 1))

    def whole(self, x: Tensor) -> LatentSpace:
        """The space of (w, z), searched from the codes of accepted rows."""
        first = self.codes(x, given_of(self.problem_, x))

        def starts(turn: int, mine: Tensor) -> Tensor:
            return self.start_codes(x[mine], first[mine], near=turn % 2 == 0)

        return LatentSpace(self.problem_, x, self.coder, starts(0, torch.arange(len(x), device=x.device)), starts)

    def space(self, x: Tensor) -> LatentSpace:
        refused, accepted = self.coder.prior
        with torch.no_grad():
            z, _ = self.coder.encode(x, given_of(self.problem_, x))

        def starts(turn: int, mine: Tensor) -> Tensor:
            return (accepted + turn * BEYOND * (accepted - refused)).expand(len(mine), -1)

        return LatentSpace(self.problem_, x, self.coder, accepted.expand(len(x), -1), starts, z)


def _key(rows: np.ndarray) -> np.ndarray:
    """(n, d) -> (n,) rows as single values that can be compared."""
    rows = np.ascontiguousarray(rows + 0.0)  # no negative zeros
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel()
