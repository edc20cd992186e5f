"""What recourse a model really gives, whether it is safe and fair, and how far to trust it: numbers with intervals.

Who has recourse
    recourse_rates : among the refused and among everyone, by group.
    existence : for whom recourse exists at all, where few features may move.
Is it safe to offer
    risk_of_recourse : wrong decisions before and after, for compliant and defiant people; a verdict.
    rounds_of_recourse : what becomes of promises as people move and the model is trained again.
    strategic_response, effective_classifier, partner : what a lender that looks at its own risk would do.
    price_of_landing : what safer recourse costs people.
Is it fair
    fairness_of_recourse, worst_subgroup : availability, cost, effort and robustness by group.
    disparity, threshold_at_precision : do groups have recourse alike, at equal precision?
Does it last
    after_retraining, lasting : retrained models, shifted and newer data.
    recourse_under_noise, model_under_noise, deepfool, natural : do decisions survive small changes?
    overdone : is recourse lost by doing more than was asked?
    classifier_two_sample : can recourse be told from ordinary rows?
What attributions are worth as advice
    audit_attribution, recourse_sensitivity, continuity : of any map of attributions or counterfactuals.
    find_witness, one_dimension, line_along, in_conflict : where no map can be both sensitive and robust.
"""

from turnabout.audit.disparity import Difference, Disparity, disparity, threshold_at_precision
from turnabout.audit.estimate import Estimate
from turnabout.audit.existence import Existence, existence
from turnabout.audit.fairness.burden import Burden
from turnabout.audit.fairness.contrasts import Contrast, MeanDifference
from turnabout.audit.fairness.of_recourse import Fairness, fairness_of_recourse
from turnabout.audit.fairness.outcomes import Noise
from turnabout.audit.fairness.subgroups import Subgroup, worst_subgroup
from turnabout.audit.maps.asking import Sticky, counterfactual_map
from turnabout.audit.maps.conflict import Conflicts, find_conflicts, in_conflict
from turnabout.audit.maps.continuity import Continuity, continuity
from turnabout.audit.maps.line import LineReport, conflict_free_deltas, one_dimension
from turnabout.audit.maps.moves import Anywhere, OneFeature
from turnabout.audit.maps.ray import line_along
from turnabout.audit.maps.report import AttributionAudit, audit_attribution
from turnabout.audit.maps.sensitivity import Sensitivity, recourse_sensitivity
from turnabout.audit.maps.witness import Witness, WitnessKind, find_witness
from turnabout.audit.noise import Natural, Turns, deepfool, model_under_noise, natural, recourse_under_noise
from turnabout.audit.ordinary import TwoSample, classifier_two_sample
from turnabout.audit.promises.lasting import Lasting, lasting
from turnabout.audit.promises.retrain import Retrained, after_retraining
from turnabout.audit.promises.training_sets import Bootstrap, Dropped, Jittered, LeaveOut, Newer, Shift
from turnabout.audit.rates import Rate, RecourseRates, recourse_rates
from turnabout.audit.risk.accepting import Decay, LogisticInCost, WithinCost
from turnabout.audit.risk.compliance import Causes
from turnabout.audit.risk.coverage import Coverage, risk_coverage
from turnabout.audit.risk.excess import break_even, excess_risk
from turnabout.audit.risk.of_recourse import risk_of_recourse
from turnabout.audit.risk.price import LandingPrice, price_of_landing
from turnabout.audit.risk.report import RiskReport, Verdict
from turnabout.audit.rounds.of_recourse import rounds_of_recourse
from turnabout.audit.rounds.report import Rounds
from turnabout.audit.sense import overdone
from turnabout.audit.strategic.effective import (
    Effective,
    Halfspaces,
    Invariance,
    effective_classifier,
    invariance_check,
    partner,
)
from turnabout.audit.strategic.lines import GaussianLine, PeopleLine
from turnabout.audit.strategic.response import StrategicResponse, strategic_response

__all__ = [
    "Anywhere",
    "AttributionAudit",
    "Bootstrap",
    "Burden",
    "Causes",
    "Conflicts",
    "Continuity",
    "Contrast",
    "Coverage",
    "Decay",
    "Difference",
    "Disparity",
    "Dropped",
    "Effective",
    "Estimate",
    "Existence",
    "Fairness",
    "GaussianLine",
    "Halfspaces",
    "Invariance",
    "Jittered",
    "LandingPrice",
    "Lasting",
    "LeaveOut",
    "LineReport",
    "LogisticInCost",
    "MeanDifference",
    "Natural",
    "Newer",
    "Noise",
    "OneFeature",
    "PeopleLine",
    "Rate",
    "RecourseRates",
    "Retrained",
    "RiskReport",
    "Rounds",
    "Sensitivity",
    "Shift",
    "Sticky",
    "StrategicResponse",
    "Subgroup",
    "Turns",
    "TwoSample",
    "Verdict",
    "WithinCost",
    "Witness",
    "WitnessKind",
    "after_retraining",
    "audit_attribution",
    "break_even",
    "classifier_two_sample",
    "conflict_free_deltas",
    "continuity",
    "counterfactual_map",
    "deepfool",
    "disparity",
    "effective_classifier",
    "excess_risk",
    "existence",
    "fairness_of_recourse",
    "find_conflicts",
    "find_witness",
    "in_conflict",
    "invariance_check",
    "lasting",
    "line_along",
    "model_under_noise",
    "natural",
    "one_dimension",
    "overdone",
    "partner",
    "price_of_landing",
    "recourse_rates",
    "recourse_sensitivity",
    "recourse_under_noise",
    "risk_coverage",
    "risk_of_recourse",
    "rounds_of_recourse",
    "strategic_response",
    "threshold_at_precision",
    "worst_subgroup",
]
