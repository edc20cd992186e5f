"""One audit of an explanation: how often it points to recourse, how it changes, and a witness of what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Whole, checked
from turnabout.studies.attribution_maps.conflict import (
    ConflictPair,
    Conflicts,
    find_conflicts,
    in_conflict,
    opposite_points,
)
from turnabout.studies.attribution_maps.continuity import RHOS, Continuity, continuity
from turnabout.studies.attribution_maps.map_moves import AuditMoves, OneFeature
from turnabout.studies.attribution_maps.map_questions import AttributionMap, Decider, asking, read_points
from turnabout.studies.attribution_maps.sensitivity import Sensitivity, read_moves, recourse_sensitivity
from turnabout.studies.attribution_maps.witness import BrokenPremise, Witness, find_witness
from turnabout.typing import Tensor


@dataclass(frozen=True)
class AttributionAudit(Document):
    """What an explanation does for refused people.

    Attributes
    ----------
    sensitivity : how often it points to recourse.
    continuity : how much it changes between people who are alike.
    conflicts : for each single feature that was looked at, who stands where no continuous explanation can be right;
        empty for moves that change several features at once.
    witness : a point at which the map is wrong, jumps or vanishes; None where no pair of points that asks for
        opposite directions was found, or where the map came through.
    pairs : how many such pairs the map was put to.
    broken : further pairs, between which it turned out that somebody is accepted, has no recourse, or has it in a way
        that the pair had not shown; they say nothing about the map.
    notes : what was left out, in sentences.
    """

    delta: float
    sensitivity: Sensitivity
    continuity: Continuity
    conflicts: tuple[Conflicts, ...]
    witness: Witness | None
    pairs: int
    broken: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [str(self.sensitivity), str(self.continuity), *(str(c) for c in self.conflicts)]
        if self.witness is not None:
            lines.append(f"witness: {self.witness}")
        elif self.pairs:
            lines.append(
                f"no witness between {self.pairs} pairs of opposite points: the map came through, or sampling noise or "
                "an undecided search hides where it did not"
            )
        elif self.broken:
            lines.append(f"no witness: between each of {self.broken} pairs of points the directions were not opposite")
        else:
            lines.append("no witness: no two points were found that ask for opposite directions")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@checked(AuditError, most=Whole(1))
def audit_attribution(
    model: Decider,
    phi: AttributionMap,
    points: Tensor,
    delta: float,
    moves: AuditMoves | None = None,
    *,
    rhos: Sequence[float] = RHOS,
    top: int = 4,
    most: int = 2048,
    seed: int = 0,
) -> AttributionAudit:
    """Audit an attribution, or a counterfactual map, in three layers.

    `recourse_sensitivity` says how often it points to recourse, `continuity` how much it changes between neighbours,
    and `find_witness` catches it between points that ask for opposite directions. By the impossibility theorem some
    witness exists for every map on a model with a conflict; the points at which it fails may have measure zero, so
    that no rate shows them.

    Use it on maps whose direction people are told to follow. An attribution that only ranks reasons is not made for
    that, and a low rate then says so.

    Parameters
    ----------
    model : a `turnabout` model, or margins of points (n, d) -> (n,).
    phi : points (n, d) -> directions (n, d), or options (n, k, d), or a pair with standard errors.
    points : (n, d), encoded; accepted ones are left out.
    delta : how far a person can go.
    moves : what is allowed; by default any change of Euclidean length delta. For single features conflicts are
        counted for every column that may change, each as if it alone did; a witness is one for all that is allowed.
    rhos : distances at which continuity is measured.
    top : how many columns count as main reasons.
    most : refused points for continuity and conflicts, the first ones; at each of them the map is asked 17 times for
        every distance, so take few where it is slow.
    """
    x = read_points(points)
    allowed = read_moves(moves)
    sensitivity = recourse_sensitivity(model, phi, x, delta, allowed, top, seed=seed)
    refused = x[asking(model)(x) < 0]
    notes = [] if len(refused) else ["no point is refused: there is nothing to audit."]
    if len(refused) > most:
        notes.append(f"continuity and conflicts rest on the first {most} refused points.")
        refused = refused[:most]
    steady = continuity(phi, refused, rhos, top=top, seed=seed)
    columns = allowed.columns(x.shape[1]) if isinstance(allowed, OneFeature) else (0,) if x.shape[1] == 1 else ()
    conflicts = tuple(in_conflict(model, refused, delta, c, allowed.bounds) for c in columns)
    starts: list[ConflictPair] = []
    for report in conflicts:
        found = opposite_points(model, report, refused, allowed)
        starts += found
        if report.rate.hits and not found and len(columns) > 1:
            notes.append(
                f"along column {report.column} people stand in conflict, but where two points were compared another "
                "column offers recourse."
            )
    if not columns and len(refused):
        starts = list(find_conflicts(model, refused, delta, allowed, seed=seed))
    witness, tried, broken = _first_witness(model, phi, starts, delta, allowed, x)
    return AttributionAudit(float(delta), sensitivity, steady, conflicts, witness, tried, broken, tuple(notes))


def _first_witness(
    model: Decider, phi: AttributionMap, starts: Sequence[ConflictPair], delta: float, allowed: AuditMoves, x: Tensor
) -> tuple[Witness | None, int, int]:
    """The first witness between pairs of points; how many pairs were tried, and for how many the premise broke."""
    tried = broken = 0
    for pair in starts:
        a, b, w = (x.new_tensor(part) for part in (pair.x_a, pair.x_b, pair.direction))
        try:
            witness = find_witness(model, phi, a, b, w, delta, allowed)
        except BrokenPremise:  # the moves that were tried had looked separate
            broken += 1
            continue
        tried += 1
        if witness is not None:
            return witness, tried, broken
    return None, tried, broken
