"""What recourse a model really gives, and how far to trust it: shares with intervals, on any model, method and data.

recourse_rates : who has recourse, among the refused and among everyone, by group.
existence : for whom recourse exists at all, where few features may move.
recourse_under_noise, model_under_noise, deepfool, natural : do decisions survive small changes?
classifier_two_sample : can recourse be told from ordinary rows?
disparity, threshold_at_precision : do groups have recourse alike, at equal precision?
overdone : is recourse lost by doing more than was asked?
"""

from turnabout.audit.disparity import Difference, Disparity, disparity, threshold_at_precision
from turnabout.audit.existence import Existence, existence
from turnabout.audit.noise import Natural, Turns, deepfool, model_under_noise, natural, recourse_under_noise
from turnabout.audit.ordinary import TwoSample, classifier_two_sample
from turnabout.audit.rates import Rate, RecourseRates, recourse_rates
from turnabout.audit.sense import overdone

__all__ = [
    "Difference",
    "Disparity",
    "Existence",
    "Natural",
    "Rate",
    "RecourseRates",
    "Turns",
    "TwoSample",
    "classifier_two_sample",
    "deepfool",
    "disparity",
    "existence",
    "model_under_noise",
    "natural",
    "overdone",
    "recourse_rates",
    "recourse_under_noise",
    "threshold_at_precision",
]
