"""Explainers of tables by the names that people type, and the one that is picked where none is named."""

from __future__ import annotations

from typing import Any

from turnabout.core import Attribution, Problem
from turnabout.core.arguments import instance_of
from turnabout.errors import ExplainError
from turnabout.explain.explainer import Explainer
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.score import Output
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.slopes.gradients import Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.smooth import CLime, SmoothGrad

NAMED: dict[str, type[Explainer]] = {
    "exact-shapley": ExactShapley,
    "kernel-shap": KernelShap,
    "lime": LimeTable,
    "c-lime": CLime,
    "occlusion": Occlusion,
    "gradient": Gradient,
    "smooth-grad": SmoothGrad,
    "integrated-gradients": IntegratedGradients,
    "gradient-times-input": GradientTimesInput,
}
ALL_COALITIONS = 11  # features up to which asking about all coalitions takes no longer than sampling them


def as_explainer(explainer: Any) -> Explainer:
    """An explainer from an explainer, its class or its name, such as "kernel-shap"."""
    if isinstance(explainer, str):
        if explainer not in NAMED:
            raise ExplainError(f"there is no explainer {explainer!r}.", hint=f"there are {', '.join(NAMED)}.")
        explainer = NAMED[explainer]
    made: Explainer = instance_of(explainer, Explainer, "explainer", ExplainError, "explainer=ExactShapley()")
    return made


def attribute(problem: Problem, people: Any, explainer: Any, output: Output, seed: int) -> Attribution:
    """Attributions of everyone against the problem's background: Shapley values where no explainer is given.

    They are exact where the model has a form that allows it or few features, and sampled elsewhere.
    """

    def run(chosen: Explainer) -> Attribution:
        rows = people if problem.background is None else problem.background
        return chosen.explain(problem.model, people, background=rows, output=output, seed=seed)

    if explainer is not None:
        return run(as_explainer(explainer))
    try:
        return run(ExactShapley(limit=ALL_COALITIONS))
    except ExplainError:
        if len(problem.schema) <= ALL_COALITIONS:
            raise
        return run(KernelShap())
