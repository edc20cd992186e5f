"""What attributions are worth as advice: sensitive to recourse, robust, and where no map can be both."""

from turnabout.studies.attribution_maps.conflict import Conflicts, find_conflicts, in_conflict
from turnabout.studies.attribution_maps.continuity import Continuity, continuity
from turnabout.studies.attribution_maps.line import LineReport, conflict_free_deltas, one_dimension
from turnabout.studies.attribution_maps.map_moves import Anywhere, OneFeature
from turnabout.studies.attribution_maps.map_questions import Sticky, counterfactual_map
from turnabout.studies.attribution_maps.map_report import AttributionAudit, audit_attribution
from turnabout.studies.attribution_maps.ray import line_along
from turnabout.studies.attribution_maps.sensitivity import Sensitivity, recourse_sensitivity
from turnabout.studies.attribution_maps.witness import Witness, WitnessKind, find_witness

__all__ = [
    "Anywhere",
    "AttributionAudit",
    "Conflicts",
    "Continuity",
    "LineReport",
    "OneFeature",
    "Sensitivity",
    "Sticky",
    "Witness",
    "WitnessKind",
    "audit_attribution",
    "conflict_free_deltas",
    "continuity",
    "counterfactual_map",
    "find_conflicts",
    "find_witness",
    "in_conflict",
    "line_along",
    "one_dimension",
    "recourse_sensitivity",
]
