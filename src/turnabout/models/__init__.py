"""What the decision maker says: one margin with one sign, and what is known of its inner form."""

from turnabout.models.functions import Remote
from turnabout.models.model import Additive, Differentiable, Jumps, LinearMargin, Model, ReluNet, Terms, Trees
from turnabout.models.wrapping import wrap

__all__ = [
    "Additive",
    "Differentiable",
    "Jumps",
    "LinearMargin",
    "Model",
    "ReluNet",
    "Remote",
    "Terms",
    "Trees",
    "wrap",
]


def __dir__() -> list[str]:
    return __all__
