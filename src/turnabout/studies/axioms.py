"""Which axioms an attribution keeps, tried on games; with a counter-example for each one it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.explain.score import check_seed
from turnabout.explain.shapley.games import coalitions, players
from turnabout.parameters import Finite, Whole, checked
from turnabout.typing import Tensor

Axiom = Literal["local accuracy", "missingness", "symmetry", "strong monotonicity", "linearity"]
AXIOMS: tuple[Axiom, ...] = get_args(Axiom)
Rule = Callable[[Tensor], Tensor]
LARGEST = 12  # features of the games that are tried


@dataclass(frozen=True)
class CounterExample(Document):
    """A game on which an axiom is broken.

    Attributes
    ----------
    game : the values of its coalitions, in the order of `coalitions(m)`.  other : a second game, where two are needed.
    features : those concerned.  said : what the attribution gave.  due : what the axiom asks for, or the least of it.
    """

    axiom: Axiom
    sentence: str
    game: tuple[float, ...]
    other: tuple[float, ...] | None
    features: tuple[int, ...]
    said: tuple[float, ...]
    due: tuple[float, ...]

    def __str__(self) -> str:
        pair = "" if self.other is None else f" beside v2 = {_few(self.other)}"
        return f"{self.sentence} v = {_few(self.game)}{pair}: said {_few(self.said)}, due {_few(self.due)}."


@dataclass(frozen=True)
class AxiomReport(Document):
    """What was tried, and the first counter-example for each axiom that is broken.

    An axiom without a counter-example was kept on every game tried, which is no proof.
    """

    m: int
    trials: int
    seed: int
    broken: dict[Axiom, CounterExample] = field(default_factory=dict)

    keys = "m trials seed passed broken"

    @property
    def passed(self) -> bool:
        """Whether no axiom was broken."""
        return not self.broken

    def holds(self, axiom: Axiom) -> bool:
        """Whether an axiom was kept on every game tried."""
        return axiom not in self.broken

    def __str__(self) -> str:
        lines = [f"{self.trials} games of {self.m} features (seed {self.seed}):"]
        for axiom in AXIOMS:
            lines.append(f"  {axiom}: " + (f"broken. {self.broken[axiom]}" if axiom in self.broken else "kept."))
        return "\n".join(lines)


@checked(ExplainError, m=Whole(2, most=LARGEST), trials=Whole(1), tolerance=Finite(least=0))
def check_axioms(rule: Rule, m: int = 4, trials: int = 50, seed: int = 0, tolerance: float = 1e-8) -> AxiomReport:
    r"""Try an attribution, given as a function of the game, on random games of m features.

    local accuracy        the shares add up to v(all) - v(empty) (also called efficiency);
    missingness           a feature that never changes the value gets 0;
    symmetry              renaming the features renames the shares;
    strong monotonicity   a feature that adds at least as much to every coalition in one game as in another gets at
                          least as much there (Young, 1985);
    linearity             the shares of a v + b w are a times those of v plus b times those of w.

    Only the Shapley value keeps all of them; local accuracy, symmetry and strong monotonicity suffice for that.

    Parameters
    ----------
    rule : values of the coalitions (2^m,), in the order of `coalitions(m)` -> shares (m,).
    m : features of the games, 2 to 12.  trials : games; small whole numbers and real ones take turns.
    tolerance : of the comparison, relative to the largest value.

    References
    ----------
    Young (1985), Monotonic solutions of cooperative games.
    Lundberg, Lee (2017), A unified approach to interpreting model predictions.
    """
    seed = check_seed(seed)
    rng = np.random.default_rng(seed)
    broken: dict[Axiom, CounterExample] = {}
    for trial in range(trials):
        for found in _try(_Asked(rule, m), m, rng, whole=trial % 2 == 0, tolerance=tolerance):
            broken.setdefault(found.axiom, found)
    return AxiomReport(m, trials, seed, {axiom: broken[axiom] for axiom in AXIOMS if axiom in broken})


class _Asked:
    """The rule, with its answers checked."""

    def __init__(self, rule: Rule, m: int):
        self.rule, self.m = rule, m

    def __call__(self, game: Tensor) -> Tensor:
        shares = torch.as_tensor(self.rule(game.clone()), dtype=torch.float64).reshape(-1)
        if len(shares) != self.m or not torch.isfinite(shares).all():
            raise ExplainError(
                f"the rule gave {len(shares)} shares, or some that are no numbers, for a game of {self.m} features.",
                hint="it must map the 2^m values of a game to m finite numbers.",
            )
        return shares


def _try(rule: _Asked, m: int, rng: np.random.Generator, whole: bool, tolerance: float) -> Iterator[CounterExample]:
    """Counter-examples on one round of random games."""
    v, w = (_random_game(m, rng, whole) for _ in range(2))
    i = int(rng.integers(m))
    close = tolerance * float(torch.cat([v, w]).abs().max().clamp(min=1.0))
    phi = rule(v)
    if abs(float(phi.sum() - (v[-1] - v[0]))) > close:
        sentence = "the shares do not add up."
        yield _example("local accuracy", sentence, v, None, range(m), phi.sum(), v[-1] - v[0])
    null = _without(v, i)
    if abs(float(rule(null)[i])) > close:
        sentence = f"feature {i} changes nothing and gets a share."
        yield _example("missingness", sentence, null, None, [i], rule(null)[i], torch.tensor(0.0))
    order = torch.as_tensor(rng.permutation(m))
    renamed = _renamed(v, order)
    if (rule(renamed) - phi[order]).abs().max() > close:
        sentence = f"features renamed to {order.tolist()} get other shares."
        yield _example("symmetry", sentence, v, renamed, range(m), rule(renamed), phi[order])
    for extra in (0.0, 1.0):
        higher = _dominating(v, w, i, extra * torch.as_tensor(rng.integers(0, 3, 2**m), dtype=torch.float64))
        if float(phi[i] - rule(higher)[i]) > close:
            sentence = f"feature {i} adds at least as much to every coalition in the first game, and gets less."
            yield _example("strong monotonicity", sentence, higher, v, [i], rule(higher)[i], phi[i])
    a, b = (float(number) for number in rng.integers(1, 4, 2))
    both = a * rule(v) + b * rule(w)
    if (rule(a * v + b * w) - both).abs().max() > close * (a + b):
        sentence = f"the shares of {a:g} v + {b:g} v2 are not {a:g} times those of v plus {b:g} times those of v2."
        yield _example("linearity", sentence, v, w, range(m), rule(a * v + b * w), both)


def _random_game(m: int, rng: np.random.Generator, whole: bool) -> Tensor:
    values = rng.integers(0, 4, 2**m).astype(float) if whole else rng.standard_normal(2**m)
    return torch.as_tensor(values)


def _places(m: int, i: int) -> tuple[Tensor, Tensor]:
    """Places of the coalitions without feature i, and of the same with it."""
    without = (coalitions(m)[:, i] == 0).nonzero()[:, 0]
    return without, without + 2 ** (m - 1 - i)


def _without(v: Tensor, i: int) -> Tensor:
    """The game in which feature i changes nothing."""
    without, with_i = _places(players(v), i)
    out = v.clone()
    out[with_i] = v[without]
    return out


def _renamed(v: Tensor, order: Tensor) -> Tensor:
    """The game in which feature j plays the part of feature order[j]."""
    m = players(v)
    masks = coalitions(m)
    old = torch.zeros_like(masks)
    old[:, order] = masks
    return v[(old @ 2.0 ** torch.arange(m - 1, -1, -1, dtype=torch.float64)).long()]


def _dominating(v: Tensor, w: Tensor, i: int, extra: Tensor) -> Tensor:
    """A game like w without feature i, in which i adds what it adds in v, and `extra` on top."""
    without, with_i = _places(players(v), i)
    out = w.clone()
    out[with_i] = w[without] + v[with_i] - v[without] + extra[without]
    return out


def _example(
    axiom: Axiom,
    sentence: str,
    game: Tensor,
    other: Tensor | None,
    features: range | list[int],
    said: Tensor,
    due: Tensor,
) -> CounterExample:
    return CounterExample(
        axiom,
        sentence,
        tuple(game.tolist()),
        None if other is None else tuple(other.tolist()),
        tuple(features),
        tuple(said.reshape(-1).tolist()),
        tuple(due.reshape(-1).tolist()),
    )


def _few(numbers: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{number:.4g}" for number in numbers[:16]) + (", ...)" if len(numbers) > 16 else ")")
