"""Whether decisions survive small changes, and whether recourse looks like ordinary people."""

from turnabout.audit.robustness.decision_noise import (
    Natural,
    Turns,
    deepfool,
    model_under_noise,
    natural,
    recourse_under_noise,
)
from turnabout.audit.robustness.monotonicity import overshoot
from turnabout.audit.robustness.ordinary import TwoSample, classifier_two_sample

__all__ = [
    "Natural",
    "Turns",
    "TwoSample",
    "classifier_two_sample",
    "deepfool",
    "model_under_noise",
    "natural",
    "overshoot",
    "recourse_under_noise",
]


def __dir__() -> list[str]:
    return __all__
