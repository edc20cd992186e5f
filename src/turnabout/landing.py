"""Where new rows must land, beyond bare acceptance: what `find(landing=...)` takes."""

from turnabout.core.landing_targets import Calibration, Landing, Mirror, Probability, Profit

__all__ = ["Calibration", "Landing", "Mirror", "Probability", "Profit"]


def __dir__() -> list[str]:
    return __all__
