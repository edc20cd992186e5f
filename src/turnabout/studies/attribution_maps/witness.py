"""The impossibility theorem as a test: a point at which a given explanation is wrong, jumps or vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Positive, Share, checked
from turnabout.studies.attribution_maps.attainable import attainable
from turnabout.studies.attribution_maps.continuity import hausdorff, show_point, steepest_jump
from turnabout.studies.attribution_maps.map_moves import AuditMoves, OneFeature
from turnabout.studies.attribution_maps.map_questions import (
    AttributionMap,
    Decider,
    Directions,
    ask_map,
    asking,
    read_points,
)
from turnabout.studies.attribution_maps.out_of_reach import NONE, YES
from turnabout.studies.attribution_maps.ray import is_traced
from turnabout.studies.attribution_maps.sensitivity import follow, read_moves
from turnabout.typing import Tensor

SPLITS = (0.4375, 0.5, 0.3125, 0.625)  # where a segment is cut: off the middle, elsewhere if w.phi is 0 there
STEPS = 120
WIDTH = 1e-12  # how short the last segment is, relative to its place
PATH = 257  # points on the way along which a set of options is followed
SIGMAS = 4.0  # standard errors beyond which a change of a noisy map counts


class BrokenPremise(AuditError):
    """Two points do not ask for opposite directions, or recourse ends between them."""


class WitnessKind(StrEnum):
    """What is wrong with an explanation at a point."""

    WRONG_DIRECTION = "WRONG_DIRECTION"  # it points where no yes was met within reach, though there is one elsewhere
    JUMP = "JUMP"  # it changes over a very short length: evidence that it is not continuous, or else very steep
    VANISHING = "VANISHING"  # it says next to nothing, though there is a yes within reach


@dataclass(frozen=True)
class Witness(Document):
    """A point at which a map is not both recourse sensitive and continuous.

    Attributes
    ----------
    kind : what happens there.
    x : the point; of a jump, the middle of the last segment.
    size : by how much the map jumps; otherwise |phi| at x.
    width : length of the last segment; 0 where x itself is the witness. What is called a jump changed by more than
        the tolerance on it, and what is called vanishing did not.
    recourse : a place within reach of x at which the model said yes; None of a jump.
    exact : whether all moves along a ray were tried, so that a wrong direction is one for sure.
    """

    kind: WitnessKind
    x: tuple[float, ...]
    size: float
    width: float
    recourse: tuple[float, ...] | None
    exact: bool

    def __str__(self) -> str:
        where = show_point(self.x)
        if self.kind is WitnessKind.JUMP:
            return f"changes by {self.size:.6g} over a length of {self.width:.1e} at {where}: a jump, or as good as one"
        there = "" if self.recourse is None else f", though {show_point(self.recourse)} is accepted and within reach"
        if self.kind is WitnessKind.VANISHING:
            return f"vanishes at {where} (|phi| = {self.size:.2g}){there}"
        return f"points in a wrong direction at {where}{there}"


@checked(AuditError, delta=Positive(), tolerance=Share(above=0, below=1))
def find_witness(
    model: Decider,
    phi: AttributionMap,
    x_a: Tensor,
    x_b: Tensor,
    direction: Tensor,
    delta: float,
    moves: AuditMoves | None = None,
    tolerance: float = 1e-6,
) -> Witness | None:
    r"""Bisect between two points that ask for opposite directions until a map is caught.

    Let every successful move u from x_a have w.u < 0, every one from x_b have w.u > 0, and let no successful move on
    the way between them be perpendicular to w. Then on the way any map whatsoever

        points in a wrong direction, or jumps, or vanishes, where a yes is within reach                            (1)

    and exactly one of these is returned: the ends are tried first; if both are right, w.phi changes sign between, and
    the segment on which it does is halved. Several options may avoid all three, by naming both directions; then the
    answer is None, and also where the conditions above do not hold on the way, where no yes was found within reach of
    the point, and where a sign of w.phi does not stand out from the sampling noise by 4 standard errors. A set of
    options with standard errors is not judged.

    Parameters
    ----------
    x_a, x_b : (d,) two refused points, from `find_conflicts` or `one_dimension`.
    direction : (d,) w.
    delta, moves : how far, and in which ways, a person may move.
    tolerance : a change on the last segment counts as a jump above this share of |phi| at the ends.

    References
    ----------
    Fokkema, de Heide, van Erven (2023), Attribution-based explanations that provide recourse cannot be robust.
    """
    allowed = read_moves(moves)
    ends = read_points(torch.stack([torch.as_tensor(x_a).reshape(-1), torch.as_tensor(x_b).reshape(-1)]))
    w = read_points(torch.as_tensor(direction).reshape(1, -1))[0]
    if w.shape != ends[0].shape or not bool(w.any()):
        raise AuditError(
            f"the direction has {len(w)} columns, or is 0, for points of {ends.shape[1]}.", hint="give one number each."
        )
    if bool((yes := asking(model)(ends) >= 0).any()):
        name = "x_a" if yes[0] else "x_b"
        raise AuditError(f"{name} is accepted already.", hint="start from two refused points.")
    search = _Search(model, phi, allowed, float(delta), w, float(tolerance))
    return search.among_options(ends) if search.see(ends).is_set else search.between(ends)


@dataclass(frozen=True)
class _Search:
    model: Decider
    phi: AttributionMap
    moves: AuditMoves
    delta: float
    w: Tensor
    tolerance: float

    def see(self, x: Tensor) -> Directions:
        """The map at x (n, d), as far as moves look at it."""
        said = ask_map(self.phi, x)
        if not isinstance(self.moves, OneFeature) or self.moves.column is None:
            return said
        own = torch.zeros(x.shape[1], dtype=torch.bool)
        own[self.moves.column] = True
        return Directions(said.values * own, None if said.error is None else said.error * own, said.is_set)

    def between(self, ends: Tensor) -> Witness | None:
        """The witness of a map that names one direction."""
        said = self.see(ends)
        signs = [self._sign(_row(said, i)) for i in range(2)]
        if None in signs:
            return None
        against = [i for i, wanted in enumerate((-1.0, 1.0)) if signs[i] != wanted]
        for i in against:
            if self._right(ends[i : i + 1], _row(said, i)):
                raise BrokenPremise(
                    f"from {('x_a', 'x_b')[i]} a successful move does not go the way that the direction says.",
                    hint="take the pair and its direction from find_conflicts.",
                )
            if caught := self._wrong(ends[i : i + 1], _row(said, i)):
                return caught
        return None if against else self._halve(ends[:1], ends[1:], float(said.size().max()))

    def _halve(self, a: Tensor, b: Tensor, scale: float) -> Witness | None:
        """Close in on the place between a and b (1, d) at which w.phi changes its sign."""
        for _ in range(STEPS):
            if float((b - a).norm()) <= WIDTH * (1 + float(a.abs().max())):
                break
            middle, sign, said = self._split(a, b)
            if sign is None:
                return None
            if sign == 0:
                return self._caught(middle, said)
            a, b = (middle, b) if sign < 0 else (a, middle)
        last = torch.cat([a, b])
        near = self.see(last)
        size, width = float(hausdorff(near.values[:1], near.values[1:])[0]), float((b - a).norm())
        if near.error is not None and size <= SIGMAS * float(near.error.square().sum().sqrt()):
            return None
        if size > self.tolerance * scale:
            return Witness(WitnessKind.JUMP, _plain((a + b)[0] / 2), size, width, None, is_traced(self.model))
        least = int(near.size().argmin())
        if float(near.size()[least]) <= 2 * self.tolerance * scale:
            return self._wrong(last[least : least + 1], _row(near, least), WitnessKind.VANISHING, width)
        return self._caught(a, _row(near, 0)) or self._caught(b, _row(near, 1))

    def among_options(self, ends: Tensor) -> Witness | None:
        """The witness of a map that names several options, along the whole way; None where one is always right."""
        share = torch.linspace(0, 1, PATH, dtype=ends.dtype).unsqueeze(1)
        way = ends[0] + share * (ends[1] - ends[0])
        said = self.see(way)
        if said.error is not None and bool(said.error.any()):
            return None
        right, _ = follow(self.model, way, said, self.moves, self.delta)
        if caught := self._wrong(way[~right], Directions(said.values[~right], None, True)):
            return caught
        gap = hausdorff(said.values[:-1], said.values[1:])
        jump = steepest_jump(self.phi, [(gap, way[:-1], way[1:])], self.tolerance * float(said.size().max()))
        if jump is None:
            return None
        return Witness(WitnessKind.JUMP, jump.x, jump.size, jump.width, None, is_traced(self.model))

    def _sign(self, said: Directions) -> float | None:
        """The sign of w.phi at one point; None where sampling noise hides it."""
        value = float(said.values[0, 0] @ self.w)
        noise = 0.0 if said.error is None else float((said.error[0, 0] * self.w).norm())
        if noise and abs(value) <= SIGMAS * noise:
            return None
        return float(value > 0) - float(value < 0)

    def _split(self, a: Tensor, b: Tensor) -> tuple[Tensor, float | None, Directions]:
        """A point between, and the sign of w.phi there; 0 or None only if no other place that is tried has a sign."""
        for share in SPLITS:
            middle = a + share * (b - a)
            said = self.see(middle)
            sign = self._sign(said)
            if sign:
                break
        return middle, sign, said

    def _right(self, x: Tensor, said: Directions) -> bool:
        """Whether the map leads to a yes from one point (1, d)."""
        return bool(follow(self.model, x, said, self.moves, self.delta)[0][0])

    def _caught(self, x: Tensor, said: Directions) -> Witness | None:
        """The witness at one point itself; None where the map is right there."""
        return None if self._right(x, said) else self._wrong(x, said)

    def _wrong(
        self, x: Tensor, said: Directions, kind: WitnessKind | None = None, width: float = 0.0
    ) -> Witness | None:
        """The first of some points x (m, d), at which the map is not right, that has recourse; None where none may."""
        if not len(x):
            return None
        accepted = asking(self.model)(x) >= 0
        within = attainable(self.model, x, self.moves, self.delta)
        able = ((within.status == YES) & ~accepted).nonzero().squeeze(1)
        if len(able):
            i = int(able[0])
            size = float(said.size()[i])
            what = kind or (WitnessKind.WRONG_DIRECTION if size else WitnessKind.VANISHING)
            return Witness(what, _plain(x[i]), size, width, _plain(within.place[i]), is_traced(self.model))
        lost = (accepted | (within.status == NONE)).nonzero().squeeze(1)
        if len(lost):
            place = show_point(_plain(x[int(lost[0])]))
            raise BrokenPremise(
                f"at {place}, between x_a and x_b, a person is accepted or has no recourse.",
                hint="join two points by a way on which everybody is refused and can reach a yes: find_conflicts does.",
            )
        return None


def _row(said: Directions, i: int) -> Directions:
    """What a map says at one of the points."""
    rows = slice(i, i + 1)
    return Directions(said.values[rows], None if said.error is None else said.error[rows], said.is_set)


def _plain(x: Tensor) -> tuple[float, ...]:
    return tuple(float(v) for v in x)
