"""Gradients, smoothed by added noise or along a path."""

from turnabout.explain.slopes.gaussian_noise import Add, Gaussian
from turnabout.explain.slopes.gradients import DegenerateGradient, Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.smooth import CLime, SmoothGrad

__all__ = [
    "Add",
    "CLime",
    "DegenerateGradient",
    "Gaussian",
    "Gradient",
    "GradientTimesInput",
    "IntegratedGradients",
    "SmoothGrad",
]


def __dir__() -> list[str]:
    return __all__
