"""Features kept or removed: games, Shapley values exact and sampled, occlusion."""

from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.occlusion import Occlusion

__all__ = [
    "ExactShapley",
    "KernelShap",
    "Occlusion",
]


def __dir__() -> list[str]:
    return __all__
