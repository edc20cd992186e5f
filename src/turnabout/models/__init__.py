"""What the decision maker says: one margin with one sign, and what is known of its inner form."""

from turnabout.models.base import Differentiable, Linear, Model, ReluNet, Trees
from turnabout.models.wrapping import wrap

__all__ = ["Differentiable", "Linear", "Model", "ReluNet", "Trees", "wrap"]
