"""How good answers are: Recourse -> tidy frame."""

from turnabout.metrics.broken_limits import broken_limits
from turnabout.metrics.plausibility import Plausibility, plausibility, plausibility_per_option
from turnabout.metrics.quality import measure, per_option

__all__ = ["Plausibility", "broken_limits", "measure", "per_option", "plausibility", "plausibility_per_option"]


def __dir__() -> list[str]:
    return __all__
