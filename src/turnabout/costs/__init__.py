"""What a change costs: declared by name, bound to a schema, added and scaled like numbers.

>>> from turnabout import costs
>>> costs.L1(difficulty={"age": 5.0}) + 0.1 * costs.L0()
L1(difficulty={'age': 5.0}) + 0.1 * L0()
"""

from turnabout.costs.cost import BoundCost, Cost, CostTerm, Scaled, Sum, from_dict
from turnabout.costs.cost_file import load
from turnabout.costs.effort import Effort
from turnabout.costs.norms import L0, L1, L2, MAD, Weighted
from turnabout.costs.percentile import PercentileShift

__all__ = [
    "Effort",
    "L0",
    "L1",
    "L2",
    "MAD",
    "PercentileShift",
    "Weighted",
    "Sum",
    "Scaled",
    "Cost",
    "BoundCost",
    "CostTerm",
    "from_dict",
    "load",
]


def __dir__() -> list[str]:
    return __all__
