"""What recourse a model really gives, whether it is safe and fair, and how far to trust it: numbers with intervals.

report : the audit before the first letter is sent, all of the following in one document.

Who has recourse
    recourse_rates : among the refused and among everyone, by group.
    existence : for whom recourse exists at all, where few features may move.
Is it safe to offer
    risk_of_recourse : wrong decisions before and after, for compliant and defiant people; a verdict.
    rounds_of_recourse : what becomes of promises as people move and the model is trained again.
    price_of_landing : what safer recourse costs people.
    incentives : does the model pay people for the wrong way?
Is it fair
    fairness_of_recourse, worst_subgroup : availability, cost, effort and robustness by group.
Does it last
    after_retraining, lasting : retrained models, shifted and newer data.
    recourse_under_noise : do decisions survive small changes?
    overshoot : is recourse lost by doing more than was asked?

Their parts and their reports are in the sub-packages: `audit.risk` (how people accept and comply, the excess risk),
`audit.fairness` (execution noise, contrasts, burdens), `audit.promises` (ways to train again), `audit.robustness`
(noise on models, DeepFool, natural changes, classifiers that tell recourse from ordinary rows), `audit.rounds`, and the
modules `audit.disparity` (do groups have recourse alike, at equal precision?) and `audit.estimate`.

What a lender that looks at its own risk would do, and what attributions are worth as advice, are studies:
`turnabout.studies.strategic` and `turnabout.studies.attribution_maps`.
"""

from turnabout.audit.audit_report import AuditReport, report
from turnabout.audit.existence import existence
from turnabout.audit.fairness import fairness_of_recourse, worst_subgroup
from turnabout.audit.incentives import incentives
from turnabout.audit.promises import after_retraining, lasting
from turnabout.audit.rates import recourse_rates
from turnabout.audit.risk import price_of_landing, risk_of_recourse
from turnabout.audit.robustness import overshoot, recourse_under_noise
from turnabout.audit.rounds import rounds_of_recourse

__all__ = [
    "AuditReport",
    "after_retraining",
    "existence",
    "fairness_of_recourse",
    "incentives",
    "lasting",
    "overshoot",
    "price_of_landing",
    "recourse_rates",
    "recourse_under_noise",
    "report",
    "risk_of_recourse",
    "rounds_of_recourse",
    "worst_subgroup",
]


def __dir__() -> list[str]:
    return __all__
