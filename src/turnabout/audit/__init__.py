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
    find_witness, one_dimension, in_conflict : where no map can be both sensitive and robust.
"""

from turnabout.audit.accepting import Decay, LogisticInCost, WithinCost
from turnabout.audit.attribution_report import AttributionAudit, audit_attribution
from turnabout.audit.burden import Burden
from turnabout.audit.compliance import Causes
from turnabout.audit.conflict import Conflicts, find_conflicts, in_conflict
from turnabout.audit.continuity import Continuity, continuity
from turnabout.audit.contrasts import Contrast, MeanDifference
from turnabout.audit.disparity import Difference, Disparity, disparity, threshold_at_precision
from turnabout.audit.estimate import Estimate
from turnabout.audit.excess import break_even, excess_risk
from turnabout.audit.existence import Existence, existence
from turnabout.audit.fairness import Fairness, fairness_of_recourse
from turnabout.audit.lasting import Lasting, lasting
from turnabout.audit.line import LineReport, conflict_free_deltas, one_dimension
from turnabout.audit.maps import Sticky, counterfactual_map
from turnabout.audit.moves import Anywhere, OneFeature
from turnabout.audit.noise import Natural, Turns, deepfool, model_under_noise, natural, recourse_under_noise
from turnabout.audit.ordinary import TwoSample, classifier_two_sample
from turnabout.audit.outcomes import Noise
from turnabout.audit.price import LandingPrice, price_of_landing
from turnabout.audit.rates import Rate, RecourseRates, recourse_rates
from turnabout.audit.retrain import Retrained, after_retraining
from turnabout.audit.risk import risk_of_recourse
from turnabout.audit.risk_coverage import Coverage, risk_coverage
from turnabout.audit.risk_report import RiskReport, Verdict
from turnabout.audit.rounds import rounds_of_recourse
from turnabout.audit.rounds_report import Rounds
from turnabout.audit.sense import overdone
from turnabout.audit.sensitivity import Sensitivity, recourse_sensitivity
from turnabout.audit.strategic import Effective, Halfspaces, Invariance, effective_classifier, invariance_check, partner
from turnabout.audit.strategic_lines import GaussianLine, PeopleLine
from turnabout.audit.strategic_response import StrategicResponse, strategic_response
from turnabout.audit.subgroups import Subgroup, worst_subgroup
from turnabout.audit.training_sets import Bootstrap, Dropped, Jittered, LeaveOut, Newer, Shift
from turnabout.audit.witness import Witness, WitnessKind, find_witness

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
