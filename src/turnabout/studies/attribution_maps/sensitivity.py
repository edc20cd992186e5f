"""How often an explanation points to recourse, and how often its main reasons offer none."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.parameters import Positive, Share, Whole, checked
from turnabout.studies.attribution_maps.attainable import attainable, axis_hits
from turnabout.studies.attribution_maps.map_moves import Anywhere, AuditMoves, OneFeature
from turnabout.studies.attribution_maps.map_questions import (
    AttributionMap,
    Decider,
    Directions,
    ask_map,
    asking,
    read_points,
)
from turnabout.studies.attribution_maps.out_of_reach import NONE, UNKNOWN, YES
from turnabout.studies.attribution_maps.ray import first_yes, is_traced
from turnabout.typing import Tensor

CHUNK = 1024  # points at a time


@dataclass(frozen=True)
class Sensitivity(Document):
    """How often a map is recourse sensitive.

    The intervals are those of a share among people drawn at random; for a grid of points they mean nothing.

    Attributes
    ----------
    rate : share of points that follow the map to a yes within reach, among those known to have one within reach.
    lowest : the same with every unknown point counted as one that fails: the rate is not below this.
    projected : share of refused points at which the map had to be projected onto what is allowed.
    reasons_without_recourse : share of refused points at which none of the few columns with the largest |phi| can, on
        its own, turn the decision within reach.
    accepted, none, unknown : points left out: accepted already; proved to have nothing within reach; not decided.
    exact : whether all moves along a ray were tried. Otherwise a grid may have missed some, and the rates with them.
    engine : how it was decided whether anything is within reach.
    verdicts : for each point "accepted", "sensitive", "fails", "none" or "unknown".
    """

    delta: float
    rate: Rate
    lowest: Rate
    projected: Rate
    reasons_without_recourse: Rate
    accepted: int
    none: int
    unknown: int
    exact: bool
    engine: str
    top: int
    verdicts: tuple[str, ...]

    keys = "rate lowest projected reasons_without_recourse delta accepted none unknown exact engine top verdicts"

    def __str__(self) -> str:
        how = "all breakpoints along rays" if self.exact else "a grid along rays"
        lines = [
            f"recourse sensitive: {self.rate}; at least {self.lowest}",
            f"  left out: {self.accepted} accepted, {self.none} without recourse within {self.delta:g}, "
            f"{self.unknown} unknown ({self.engine}; {how})",
            f"  projected onto what is allowed: {self.projected}",
            f"  top {self.top} reasons without recourse: {self.reasons_without_recourse}",
        ]
        return "\n".join(lines)


@checked(AuditError, delta=Positive(), top=Whole(1), confidence=Share(above=0, below=1), seed=Whole(0))
def recourse_sensitivity(
    model: Decider,
    phi: AttributionMap,
    points: Tensor,
    delta: float,
    moves: AuditMoves | None = None,
    top: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
) -> Sensitivity:
    r"""The share of refused points at which a map points to recourse.

        U(x) = {y allowed from x, |y - x| <= delta, margin(y) >= 0}
        phi is recourse sensitive at x  iff  U(x) is empty, or phi(x) = a (y - x) for some a > 0 and y in U(x)    (1)

    Length does not matter, 0 is not allowed, and of several options one is enough. A map that leaves what is allowed
    is projected onto it first. The set of failing points often has measure zero: a rate near 1 does not say that the
    map is safe, see `find_witness`.

    Parameters
    ----------
    model : a `turnabout` model, or margins of points (n, d) -> (n,).
    phi : points (n, d) -> directions to move in, (n, d) or (n, k, d).
    points : (n, d), encoded. Accepted ones are left out.
    delta : how far a person can go.
    moves : what is allowed; by default any change of Euclidean length delta.
    top : how many columns count as the main reasons.
    seed : of the search for recourse where nothing better is known.

    References
    ----------
    Fokkema, de Heide, van Erven (2023), Attribution-based explanations that provide recourse cannot be robust.
    """
    allowed = read_moves(moves)
    x = read_points(points)
    margin = asking(model)(x)
    refused = (margin < 0).nonzero().squeeze(1)
    names = ["accepted"] * len(x)
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    engine = "nobody to ask about"
    for part in refused.split(CHUNK):
        said = ask_map(phi, x[part])
        hit, changed = follow(model, x[part], said, allowed, delta)
        status = torch.full((len(part),), YES, dtype=torch.int8)
        missed = (~hit).nonzero().squeeze(1)
        within = attainable(model, x[part][missed], allowed, delta, seed)
        status[missed], engine = within.status, within.engine
        parts.append((hit, changed, status, _without_recourse(model, x[part], said, allowed, delta, top)))
    empty = torch.zeros(0, dtype=torch.bool)
    hit, changed, status, idle = (torch.cat(list(some)) for some in zip(*parts)) if parts else (empty,) * 4
    for i, place in enumerate(refused.tolist()):
        names[place] = "sensitive" if hit[i] else {YES: "fails", NONE: "none", UNKNOWN: "unknown"}[int(status[i])]
    counts = {name: names.count(name) for name in ("accepted", "sensitive", "fails", "none", "unknown")}
    able = counts["sensitive"] + counts["fails"]
    return Sensitivity(
        float(delta),
        Rate.of(counts["sensitive"], able, confidence),
        Rate.of(counts["sensitive"], able + counts["unknown"], confidence),
        Rate.among(changed.numpy(), confidence),
        Rate.among(idle.numpy(), confidence),
        counts["accepted"],
        counts["none"],
        counts["unknown"],
        is_traced(model),
        engine,
        int(top),
        tuple(names),
    )


def follow(model: Decider, x: Tensor, said: Directions, moves: AuditMoves, delta: float) -> tuple[Tensor, Tensor]:
    """(n,) whether some member leads to a yes within reach, and whether some member had to be projected first."""
    n, k, d = said.values.shape
    starts = x.unsqueeze(1).expand(n, k, d).reshape(-1, d)
    told = said.values.reshape(-1, d)
    told = told / told.abs().amax(1, keepdim=True).clamp(min=torch.finfo(told.dtype).tiny)  # length does not matter
    direction = moves.project(starts, told)
    hits = first_yes(model, starts, direction, moves.longest(starts, direction, delta))
    changed = (direction != told).any(1)
    return hits.found.reshape(n, k).any(1), changed.reshape(n, k).any(1)  # (1)


def _without_recourse(model: Decider, x: Tensor, said: Directions, moves: AuditMoves, delta: float, top: int) -> Tensor:
    """(n,) True where no column with one of the largest |phi|, other than 0, can turn the decision alone."""
    weight = said.values.abs().amax(1)  # (n, d)
    best = weight.topk(min(top, x.shape[1]), dim=1)
    flips = axis_hits(model, x, moves, delta, best.indices).found.reshape(*best.indices.shape, 2).any(2)
    if isinstance(moves, OneFeature):
        flips &= torch.isin(best.indices, torch.tensor(moves.columns(x.shape[1])))
    return ~(flips & (best.values > 0)).any(1)


def read_moves(moves: AuditMoves | None) -> AuditMoves:
    """What is allowed, by default everything."""
    if moves is None:
        return Anywhere()
    if not isinstance(moves, AuditMoves):
        raise AuditError(f"moves={moves!r} is no set of moves.", hint="pass Anywhere() or OneFeature(column=0).")
    return moves
