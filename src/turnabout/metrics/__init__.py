"""How good answers are: Recourse -> tidy frame."""

from turnabout.metrics.quality import measure, per_option

__all__ = ["measure", "per_option"]


def __dir__() -> list[str]:
    return __all__
