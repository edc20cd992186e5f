"""Sampling from a learned density of recourse (GenRe: Garg, Nagalapatti, Sarawagi, 2025)."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import nn

from turnabout.core import Problem, Proposal
from turnabout.errors import MethodError
from turnabout.methods.confidence import confident_margin
from turnabout.methods.latent_samples import SPARE
from turnabout.methods.networks import NetworkMethod
from turnabout.methods.recourse_pairs import RecoursePairs, accepted_rows
from turnabout.nn.cell_tokens import CellTokens
from turnabout.nn.network_training import Schedule, train
from turnabout.nn.row_transformer import RowTransformer
from turnabout.parameters import Finite, Positive, Whole, checked
from turnabout.typing import Tensor

BATCH = 256
RATE = 1e-3
EPOCHS = 3000  # each goes through other pairs
BLOCK = 1 << 14  # rows that are sampled together


@checked(
    MethodError,
    lam=Positive(),
    confidence=Finite(least=0.5, below=1),
    samples=Whole(1),
    temperature=Positive(),
    neighbours=Whole(1),
    bins=Whole(2),
    width=Whole(1),
    layers=Whole(1),
    training_steps=Whole(1),
    seed=Whole(0),
)
class GenRe(NetworkMethod):
    r"""Rows drawn from a transformer that has learned what near accepted people have.

    With P the accepted background rows, as a person x could become them (what is fixed stays theirs), and c the cost,

        Q(x' | x)  proportional to  exp(-lam * c(x, x')),   x' in P                                          (1)

    is learned by a transformer R over tokens of the features, one after the other,

        min over R   E_{x refused} E_{x' ~ Q(. | x)}   sum_j CE(s(x'_j), R_j(. | x, x'_1, ..., x'_{j-1}))     (2)

    where s is a soft label over the tokens near a value, and a token keeps the person's cell or takes a value that
    accepted people have. For each refused person `samples` rows are drawn, and of those that the model accepts the
    ones of highest margin are proposed.

    The published code learns immutable features like others and does not hold them, lets values fall that may only
    rise, has the same 50 bins for every feature, which miss the value 1 and never return a person's own value, keeps
    the last weights instead of the best, and reads through all that was written at every step. Here what a person may
    not do has probability 0, kept cells are theirs to the bit, bins follow the people, and the checkpoint is the best
    by (2) on held-out people.

    Use it where plans must resemble accepted people and many are asked for: an answer costs a few passes of a small
    network, and hardly a question to the model. It needs accepted people near the refused ones.

    Parameters
    ----------
    lam : weight of the cost in (1); larger keeps closer to x.
    confidence : of the model in rows of P: P(yes) for a cut-off at one half, as in `NearestRow`.
    samples : rows drawn for each person.
    temperature : of the draws; smaller takes likelier tokens.
    neighbours : rows of P that (1) is over, for each person the nearest.
    bins : most tokens of a number.
    width, layers : of the transformer.
    training_steps : of 256 pairs each.
    seed : of the network.

    References
    ----------
    Garg, Nagalapatti, Sarawagi (2025), From search to sampling: generative models for robust algorithmic recourse.
    """

    training: ClassVar[tuple[str, ...]] = (
        *("lam", "confidence", "neighbours", "bins", "width", "layers", "training_steps", "seed"),
    )

    def __init__(
        self,
        lam: float = 5.0,
        confidence: float = 0.7,
        samples: int = 10,
        temperature: float = 0.5,
        neighbours: int = 200,
        bins: int = 50,
        width: int = 64,
        layers: int = 2,
        training_steps: int = 3000,
        seed: int = 0,
    ):
        self.lam = lam
        self.confidence = confidence
        self.samples = samples
        self.temperature = temperature
        self.neighbours = neighbours
        self.bins = bins
        self.width = width
        self.layers = layers
        self.training_steps = training_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(samples=16, neighbours=20, bins=12, width=16, layers=1, training_steps=150)

    def _network(self, problem: Problem) -> nn.Module:
        tokens = CellTokens(problem.schema, accepted_rows(problem, self.confidence).cpu(), self.bins)
        return RowTransformer(tokens, 1, self.width, 4 if self.width % 4 == 0 else 1, self.layers, self.seed)

    def _train(self, network: nn.Module, problem: Problem) -> None:
        assert isinstance(network, RowTransformer)
        pairs = RecoursePairs.of(problem, self.confidence, self.neighbours)
        if not len(pairs):
            return  # nobody is shown what to do: samples keep everything
        lam = torch.full((1,), self.lam, dtype=pairs.cost.dtype, device=pairs.cost.device)

        def loss(source: Tensor, done: float, noise: torch.Generator) -> Tensor:
            x = pairs.sources[source]
            uniform = torch.rand(len(source), generator=noise, device=x.device, dtype=x.dtype)
            x_new = pairs.draw(problem, source, lam.expand(len(source)), uniform)
            legal = network.tokens.legal(x, *problem.bounds(x))
            soft = network.tokens.targets(x, x_new, legal)
            token = soft.argmax(-1).unsqueeze(1)
            logits = network.logits(x.float(), token, network.remember(x.float(), asked_of(legal)))[:, 0]
            said = logits.masked_fill(~legal, -torch.inf).log_softmax(-1)
            return -(soft.to(said.dtype) * said.masked_fill(~legal, 0.0)).sum((1, 2))  # (2)

        train(network, loss, len(pairs), Schedule(self.training_steps, BATCH, RATE, EPOCHS), self.seed, self._training)

    def _fit(self, problem: Problem) -> None:
        super()._fit(problem)
        self.sure_ = confident_margin(problem, self.confidence)

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether the model accepts rows with the confidence of those that were learned from."""
        return self.problem_.margin(x_new) >= self.sure_

    def _search(self, x: Tensor) -> Proposal:
        drawn = self.drawn(x)
        margin = self.ask(drawn)
        best = margin.argsort(dim=1, descending=True, stable=True)[:, : self.run.options + SPARE]
        return Proposal(drawn.gather(1, best.unsqueeze(-1).expand(-1, -1, x.shape[1])))

    def drawn(self, x: Tensor) -> Tensor:
        """(n, samples, d) rows drawn for people x (n, d)."""
        network, problem = self.network_, self.problem_
        assert isinstance(network, RowTransformer)
        shape = self.samples, len(problem.schema)
        uniform = torch.from_numpy(self.run.rng("tokens").random(shape)).to(x)
        out = x.unsqueeze(1).expand(-1, self.samples, -1).clone()
        for part in self.run.parts(len(x), max(1, BLOCK // self.samples), "rows", self.samples):
            if self.run.expired:
                break
            own = x[part]
            legal = network.tokens.legal(own, *problem.bounds(own))
            token, _ = network.sample(own, asked_of(legal), legal, self.samples, uniform, self.temperature)
            mine = own.unsqueeze(1).expand(-1, self.samples, -1)
            out[part] = problem.snap(mine, network.tokens.written(mine, token))
        return out


def asked_of(legal: Tensor) -> Tensor:
    """(n, F, tokens) -> (n, F, 1): whether each feature may change."""
    return legal[..., 1:].any(-1, keepdim=True).double()
