"""Why a model answers as it does, person by person, and how far to trust the answer.

One engine, `LocalApproximation`, finds the best simple function near a person; most named methods are presets of it,
and the others solve the same problem by code of their own:

Gradient, SmoothGrad, CLime, IntegratedGradients, GradientTimesInput : for columns, by gradients or added noise.
ExactShapley, KernelShap, Occlusion : for features kept or removed.
LimeTable, LimeText, LimeImage : LIME.
disagreement, randomisation, manipulability, stability, pick : how far to trust attributions, and which to show.
responsiveness, reasons : which features can turn the decision, and the principal reasons, checked against the plan.
recommend : what to use for which goal.

An attribution is no distance to the boundary, and no advice. For advice ask `turnabout.methods`.
"""

from turnabout.core import Attribution
from turnabout.explain.engine import Affine, Alike, GradientMatching, LocalApproximation, SquaredError
from turnabout.explain.explainer import Explainer
from turnabout.explain.lime.common import Stability, stability
from turnabout.explain.lime.lime_image import LimeImage, top_segments
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.lime.lime_text import LimeText
from turnabout.explain.lime.superpixels import Felzenszwalb, Rectangles, Slic
from turnabout.explain.reason_codes.reasons import Reasons, reasons
from turnabout.explain.reason_codes.responsiveness import Responsiveness, responsiveness
from turnabout.explain.recommend import Recommendation, recommend
from turnabout.explain.score import Ridge, Score
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.slopes.gaussian_noise import Add, Gaussian
from turnabout.explain.slopes.gradients import DegenerateGradient, Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.smooth import CLime, SmoothGrad
from turnabout.explain.trust.disagreement import Disagreement, disagreement
from turnabout.explain.trust.manipulation import Manipulability, manipulability
from turnabout.explain.trust.pick import Pick, pick
from turnabout.explain.trust.sanity import Randomisation, randomisation

__all__ = [
    "Add",
    "Affine",
    "Alike",
    "Attribution",
    "CLime",
    "DegenerateGradient",
    "Disagreement",
    "ExactShapley",
    "Explainer",
    "Felzenszwalb",
    "Gaussian",
    "Gradient",
    "GradientMatching",
    "GradientTimesInput",
    "Rectangles",
    "IntegratedGradients",
    "KernelShap",
    "LimeImage",
    "LimeTable",
    "LimeText",
    "LocalApproximation",
    "Manipulability",
    "Occlusion",
    "Pick",
    "Randomisation",
    "Reasons",
    "Recommendation",
    "Responsiveness",
    "Ridge",
    "Score",
    "Slic",
    "SmoothGrad",
    "SquaredError",
    "Stability",
    "disagreement",
    "manipulability",
    "pick",
    "randomisation",
    "reasons",
    "recommend",
    "responsiveness",
    "stability",
    "top_segments",
]


def __dir__() -> list[str]:
    return __all__
