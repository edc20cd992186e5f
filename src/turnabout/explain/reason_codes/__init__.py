"""Reasons for a refusal, and what of them a person can change."""

from turnabout.explain.reason_codes.reasons import Reasons, reasons
from turnabout.explain.reason_codes.responsiveness import Responsiveness, responsiveness

__all__ = [
    "Reasons",
    "Responsiveness",
    "reasons",
    "responsiveness",
]


def __dir__() -> list[str]:
    return __all__
