"""Who is accepted in effect, when everyone near enough to the boundary moves: effective and partner classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.models import LinearMargin, Model, Trees
from turnabout.parameters import Whole, checked
from turnabout.solvers.leaf_search import LeafSearch
from turnabout.studies.strategic.ball_search import BallSearch
from turnabout.typing import Tensor, is_number

NORMS = (1.0, 2.0, math.inf)
MOST_CELLS = 100_000  # that one search for the nearest accepted point may look at
SAME = 1e-9  # by how much two boundaries may differ and count as one


@dataclass(frozen=True, eq=False)
class Effective:
    """Who gets a yes when everyone moves who can get one by moving at most `distance`.

    Attributes
    ----------
    original : the model asked at the place where people arrive.
    distance, norm : how far they go, in the encoded space.
    exact : whether both answers are proved. Otherwise only a yes is: the point where it was given was found, while a
        no says that a search found none.
    how : how it is decided.
    model : the same as a model of its own, where it has a closed form; else None.
    """

    original: Model
    distance: float
    norm: float
    exact: bool
    how: str
    model: Model | None
    _ask: Callable[[Tensor], Tensor]

    def margin(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), non-negative for a yes in effect.

        For a linear model it is in units of its margin, for trees the distance that is left after the move (-inf
        beyond reach), otherwise the highest margin found within reach.
        """
        if x.ndim != 2 or x.shape[1] != self.original.schema.d:
            raise AuditError(
                f"rows of shape {tuple(x.shape)} do not fit a schema of {self.original.schema.d} encoded columns.",
                hint="pass schema.encode(people).",
            )
        return self._ask(x.to(torch.float64))

    def accepts(self, people: Any) -> np.ndarray:
        """(n,) who gets a yes in effect, for a table of people or their encoded rows."""
        x = people if isinstance(people, torch.Tensor) else self.original.schema.encode(people)
        return (self.margin(x) >= 0).numpy()

    def __str__(self) -> str:
        kind = "exact" if self.exact else "a yes is proved, a no is not"
        return f"{self.original!r} with moves of at most {self.distance:g} (norm {self.norm:g}): {self.how}; {kind}"


@checked(AuditError, seed=Whole(0))
def effective_classifier(model: Model, distance: float, norm: float = 2, seed: int = 0) -> Effective:
    r"""The decision in effect, when people accept recourse if and only if the boundary is near.

        f_D(x) = yes   iff   dist(x, {f = yes}) <= D                                                     (1)
        linear f:      margin(x) + D |w|*  >= 0,     |.|* the dual norm                                  (2)

    Linear models are answered by (2), for all points of the encoded space. Tree ensembles by an exact search for the
    nearest accepted point (see `strategic_trees`). For others the margin is raised within the ball around x, by
    gradient ascent or, without gradients, at the legal rows nearest to random points, as far as these lie within
    reach; what that finds is a yes, what it does not find may still exist: `exact` is False.

    Distances are those of the encoded space and look at no constraint: not at what may change, nor at rules, nor, for
    linear models, at levels being whole. Who wants plans that people can follow uses a method; this describes the
    theory of strategic classification, and bounds what recourse within a distance can do.

    Parameters
    ----------
    distance : D, from 0 up.
    norm : 1, 2 or math.inf.
    seed : of the random points; same seed, same answer.

    References
    ----------
    Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.
    """
    distance, norm = _check(model, distance, norm)
    if isinstance(model, LinearMargin):
        near = model.shifted(-distance * dual_norm(model, norm))  # (2)
        return Effective(model, distance, norm, True, "closed form", near, near.margin)
    if isinstance(model, Trees):
        cells = NearestCell(model, norm)

        def left_over(x: Tensor) -> Tensor:
            return distance - cells.find(x, distance)[0]  # (1)

        return Effective(model, distance, norm, True, "nearest accepted cell", None, left_over)
    around = BallSearch.draw(model, distance, norm, seed)
    return Effective(model, distance, norm, False, around.how, None, around.highest)


def partner(model: Model, distance: float, norm: float = 2) -> Model:
    r"""The classifier whose effective boundary is the given one's boundary: f' with f'_D = f.

        linear f:   (w, b)  ->  (w, b - D |w|*)                                                       (1)

    A lender who uses it approves, after everyone near has moved, exactly the people that f approved before. Only for
    linear models: the regions of others need not be a union of balls of radius D, and then have no partner at all.

    Parameters are those of effective_classifier.
    """
    distance, norm = _check(model, distance, norm)
    if not isinstance(model, LinearMargin):
        raise AuditError(
            f"{model!r} is not linear, and only for linear models is a partner known.",
            hint="invariance_check looks for partners within a list of models.",
        )
    return model.shifted(distance * dual_norm(model, norm))  # (1)


@dataclass(frozen=True)
class Halfspaces:
    """All {x : signed distance of x to the boundary of a linear model >= c}, for c from low to high.

    Without limits this is invariant under recourse; with an upper limit the strictest members have no partner.
    """

    model: Model
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Invariance(Document):
    """Whether each classifier of a family has exactly one partner in it.

    Attributes
    ----------
    invariant : the answer.
    proved : whether it is proved. On points, agreement is no proof, a difference is one.
    members : how many classifiers were looked at; None for infinitely many.
    partners : for a list, the places of all partners of each member.
    counter_example : the first member without exactly one partner, in words; None if there is none.
    """

    invariant: bool
    proved: bool
    members: int | None
    partners: tuple[tuple[int, ...], ...]
    counter_example: str | None

    def __str__(self) -> str:
        if self.invariant:
            return "invariant under recourse" if self.proved else "invariant under recourse as far as the points tell"
        return f"not invariant under recourse: {self.counter_example}"


def invariance_check(
    family: Sequence[Model] | Halfspaces, distance: float, norm: float = 2, points: Any = None
) -> Invariance:
    """Whether a family of classifiers is invariant under recourse within a distance.

        for each f in F there is exactly one f' in F with f'_D = f                                    (1)

    Then a self-interested lender can undo recourse from defiant people: the risk it can reach with recourse is the
    one without (see strategic_response).

    Parameters
    ----------
    family : a list of models of one schema, or Halfspaces. Linear models are compared by their boundaries.
    distance, norm : those of effective_classifier.
    points : a table, for lists with tree ensembles: decisions are compared there. Two classifiers that differ
        at a point are different, two that agree at all of them may still not be the same.
    """
    if isinstance(family, Halfspaces):
        return _check_halfspaces(family, distance, norm)
    models = list(family)
    if not models:
        raise AuditError("the family is empty.", hint="give at least one model, or Halfspaces(model).")
    for model in models:
        distance, norm = _check(model, distance, norm)
        if model.schema != models[0].schema:
            raise AuditError("the models of the family have different schemas.", hint="wrap them with one schema.")
    straight = all(isinstance(model, LinearMargin) for model in models)
    same = _same_boundary(models, distance, norm) if straight else _same_answers(models, distance, norm, points)
    partners = tuple(tuple(np.flatnonzero(row).tolist()) for row in same)
    odd = next((i for i, own in enumerate(partners) if len(own) != 1), None)
    if odd is None:
        return Invariance(True, straight, len(models), partners, None)
    own = partners[odd]
    why = f"the partners {list(own)}" if own else "no partner in the family"
    return Invariance(False, straight or not own, len(models), partners, f"member {odd} has {why}")


def _check_halfspaces(family: Halfspaces, distance: float, norm: float) -> Invariance:
    distance, norm = _check(family.model, distance, norm)
    low, high = family.low, family.high
    numbers = all(isinstance(end, (int, float)) and not math.isnan(end) for end in (low, high))
    if not numbers or not low <= high or low == math.inf or high == -math.inf:
        raise AuditError(f"there is no threshold from {low!r} to {high!r}.", hint="give low <= high.")
    if not isinstance(family.model, LinearMargin) or dual_norm(family.model, norm) == 0:
        raise AuditError(f"{family.model!r} has no direction.", hint="give a linear model with weights other than 0.")
    if high == math.inf or distance == 0:  # the partner of c is c + D
        return Invariance(True, True, None, (), None)
    return Invariance(False, True, None, (), f"the threshold {high:g} needs {high + distance:g}, which is no member")


def _same_boundary(models: Sequence[Model], distance: float, norm: float) -> np.ndarray:
    """(m, m) True where the effective boundary of the second is the boundary of the first."""
    rows = []
    for model in models:
        assert isinstance(model, LinearMargin)
        size = dual_norm(model, norm)
        if size == 0:
            raise AuditError(f"{model!r} has no boundary: its weights are 0.", hint="leave it out of the family.")
        rows.append(np.append(model.weights.numpy(), model.bias) / size)
    lines = np.array(rows)  # per unit of signed distance
    moved = lines + np.append(np.zeros(lines.shape[1] - 1), distance)
    return np.abs(lines[:, None] - moved[None]).max(2) <= SAME * (1.0 + np.abs(lines).max())


def _same_answers(models: Sequence[Model], distance: float, norm: float, points: Any) -> np.ndarray:
    """(m, m) True where the second in effect decides as the first, at all points."""
    if points is None:
        raise AuditError(
            "the family has models that are not linear, which are compared at points.", hint="pass points=a table."
        )
    effective = [effective_classifier(model, distance, norm) for model in models]
    if loose := [e for e in effective if not e.exact]:
        raise AuditError(
            f"who is within reach of {loose[0].original!r} can only be searched for, not proved.",
            hint="use linear models or tree ensembles.",
        )
    schema = models[0].schema
    table = schema.table(points)
    if not len(table):
        raise AuditError("there are no points to compare at.", hint="pass a table with some rows.")
    x = schema.encode(table)
    own = np.stack([(model.margin(x) >= 0).numpy() for model in models])
    moved = np.stack([e.accepts(x) for e in effective])
    return (own[:, None] == moved[None]).all(2)


def dual_norm(model: LinearMargin, norm: float) -> float:
    """The size of the weights in the norm dual to that of the moves: by how much a move of length 1 can raise f."""
    dual = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[norm]
    return float(torch.linalg.vector_norm(model.weights, ord=dual))


def check_distance(distance: float, norm: float) -> tuple[float, float]:
    """Both as floats, or an error."""
    if not (is_number(distance) and distance >= 0):
        raise AuditError(f"distance={distance!r} is no distance.", hint="give a number from 0 up, in encoded units.")
    if isinstance(norm, bool) or norm not in NORMS:
        raise AuditError(f"norm={norm!r} is not one of 1, 2 and math.inf.", hint="2 is the Euclidean one.")
    return float(distance), float(norm)


def _check(model: Model, distance: float, norm: float) -> tuple[float, float]:
    if not isinstance(model, Model):
        raise AuditError(
            f"{type(model).__name__} is not a wrapped model.", hint="use turnabout.models.wrap(model, schema)."
        )
    return check_distance(distance, norm)


class NearestCell:
    """Finds the nearest point of {margin >= 0} for a forest, or says that none is within a distance.

    Numbers, ordinals and binaries move continuously in the encoded space, a level of a category changes as a whole
    (which moves two columns by 1), a missing cell stays missing. Exact (see `LeafSearch`); long searches are refused.

    Parameters
    ----------
    model : offers Trees.
    norm : 1, 2 or infinity.
    """

    def __init__(self, model: Model, norm: float):
        self.cells = LeafSearch(model, lambda move: torch.linalg.vector_norm(move, ord=norm, dim=1))

    def find(self, x: Tensor, within: float) -> tuple[Tensor, Tensor]:
        """x (n, d) -> distance (n,), inf where nothing accepted is within reach, and the point (n, d), or x itself."""
        found = self.cells.find(x, within, total=MOST_CELLS)
        if bool(found.unknown.any()):
            raise AuditError(
                "the forest has too many cells within reach of these people for an exact answer.",
                hint="ask about fewer people or a smaller distance, or use a forest of fewer or smaller trees.",
            )
        return found.distance, found.point
