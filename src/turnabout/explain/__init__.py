"""Why a model answers as it does, person by person, and how far to trust the answer.

report : attributions of everyone and checked reasons of the refused, in one document.
ExactShapley, KernelShap, LimeTable, SmoothGrad : attributions for every column of a table.
reasons, responsiveness : the principal reasons, checked against the plan, and which features can turn the decision.
disagreement, manipulability, randomisation, stability : how far to trust attributions.
recommend : what to use for which goal.

More explainers are in the sub-packages: `explain.shapley` (features kept or removed), `explain.slopes` (gradients,
paths, added noise), `explain.lime` (tables, texts, images), `explain.trust` (what to believe and to show) and
`explain.reason_codes`. One engine, `explain.engine.LocalApproximation`, finds the best simple function near a person;
most named methods are presets of it, and the others solve the same problem by code of their own.

An attribution is no distance to the boundary, and no advice. For advice ask `turnabout.methods`.
"""

from turnabout.explain.explain_report import ExplainReport, report
from turnabout.explain.lime import LimeTable, stability
from turnabout.explain.reason_codes import reasons, responsiveness
from turnabout.explain.recommend import recommend
from turnabout.explain.shapley import ExactShapley, KernelShap
from turnabout.explain.slopes import SmoothGrad
from turnabout.explain.trust import disagreement, manipulability, randomisation

__all__ = [
    "ExactShapley",
    "ExplainReport",
    "KernelShap",
    "LimeTable",
    "SmoothGrad",
    "disagreement",
    "manipulability",
    "randomisation",
    "reasons",
    "recommend",
    "report",
    "responsiveness",
    "stability",
]


def __dir__() -> list[str]:
    return __all__
