"""What recourse a model really gives, whether it is safe and fair, and how far to trust it: numbers with intervals.

Who has recourse
    recourse_rates : among the refused and among everyone, by group.
    existence : for whom recourse exists at all, where few features may move.
Is it safe to offer
    risk_of_recourse : wrong decisions before and after, for compliant and defiant people; a verdict.
    rounds_of_recourse : what becomes of promises as people move and the model is trained again.
    price_of_landing : what safer recourse costs people.
Is it fair
    fairness_of_recourse, worst_subgroup : availability, cost, effort and robustness by group.
    disparity, threshold_at_precision : do groups have recourse alike, at equal precision?
Does it last
    after_retraining, lasting : retrained models, shifted and newer data.
    recourse_under_noise, model_under_noise, deepfool, natural : do decisions survive small changes?
    overdone : is recourse lost by doing more than was asked?
    classifier_two_sample : can recourse be told from ordinary rows?

What a lender that looks at its own risk would do, and what attributions are worth as advice, are studies:
`turnabout.studies.strategic` and `turnabout.studies.attribution_maps`.
"""

from turnabout.audit.decision_noise import Natural, Turns, deepfool, model_under_noise, natural, recourse_under_noise
from turnabout.audit.disparity import Difference, Disparity, disparity, threshold_at_precision
from turnabout.audit.estimate import Estimate
from turnabout.audit.existence import Existence, existence
from turnabout.audit.fairness.burden import Burden
from turnabout.audit.fairness.contrasts import Contrast, MeanDifference
from turnabout.audit.fairness.fairness_of_recourse import Fairness, fairness_of_recourse
from turnabout.audit.fairness.outcomes import Noise
from turnabout.audit.fairness.subgroups import Subgroup, worst_subgroup
from turnabout.audit.ordinary import TwoSample, classifier_two_sample
from turnabout.audit.promises.lasting import Lasting, lasting
from turnabout.audit.promises.retrain import Retrained, after_retraining
from turnabout.audit.promises.training_sets import Bootstrap, DatasetShift, Dropped, Jittered, LeaveOut, Newer
from turnabout.audit.rates import RecourseRates, recourse_rates
from turnabout.audit.risk.accepting import Decay, LogisticInCost, WithinCost
from turnabout.audit.risk.compliance import Causes
from turnabout.audit.risk.excess import break_even, excess_risk
from turnabout.audit.risk.price import LandingPrice, price_of_landing
from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.audit.risk.risk_report import RiskReport, Verdict
from turnabout.audit.rounds.rounds_of_recourse import rounds_of_recourse
from turnabout.audit.rounds.rounds_report import Rounds
from turnabout.audit.sense import overdone
from turnabout.intervals import Rate

__all__ = [
    "Bootstrap",
    "Burden",
    "Causes",
    "Contrast",
    "Decay",
    "Difference",
    "Disparity",
    "Dropped",
    "Estimate",
    "Existence",
    "Fairness",
    "Jittered",
    "LandingPrice",
    "Lasting",
    "LeaveOut",
    "LogisticInCost",
    "MeanDifference",
    "Natural",
    "Newer",
    "Noise",
    "Rate",
    "RecourseRates",
    "Retrained",
    "RiskReport",
    "Rounds",
    "DatasetShift",
    "Subgroup",
    "Turns",
    "TwoSample",
    "Verdict",
    "WithinCost",
    "after_retraining",
    "break_even",
    "classifier_two_sample",
    "deepfool",
    "disparity",
    "excess_risk",
    "existence",
    "fairness_of_recourse",
    "lasting",
    "model_under_noise",
    "natural",
    "overdone",
    "price_of_landing",
    "recourse_rates",
    "recourse_under_noise",
    "risk_of_recourse",
    "rounds_of_recourse",
    "threshold_at_precision",
    "worst_subgroup",
]


def __dir__() -> list[str]:
    return __all__
