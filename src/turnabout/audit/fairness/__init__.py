"""Recourse by group, and the group that is worst off."""

from turnabout.audit.fairness.burden import Burden
from turnabout.audit.fairness.contrasts import Contrast, MeanDifference
from turnabout.audit.fairness.fairness_of_recourse import Fairness, fairness_of_recourse
from turnabout.audit.fairness.grouping import group_words
from turnabout.audit.fairness.outcomes import Noise
from turnabout.audit.fairness.subgroups import Subgroup, worst_subgroup

__all__ = [
    "Burden",
    "Contrast",
    "Fairness",
    "MeanDifference",
    "Noise",
    "Subgroup",
    "fairness_of_recourse",
    "group_words",
    "worst_subgroup",
]


def __dir__() -> list[str]:
    return __all__
