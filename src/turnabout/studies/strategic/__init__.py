"""What a lender that looks at its own risk would do when everyone near the boundary moves."""

from turnabout.studies.strategic.effective import (
    Effective,
    Halfspaces,
    Invariance,
    effective_classifier,
    invariance_check,
    partner,
)
from turnabout.studies.strategic.response import StrategicResponse, strategic_response
from turnabout.studies.strategic.threshold_lines import GaussianLine, PeopleLine

__all__ = [
    "Effective",
    "GaussianLine",
    "Halfspaces",
    "Invariance",
    "PeopleLine",
    "StrategicResponse",
    "effective_classifier",
    "invariance_check",
    "partner",
    "strategic_response",
]
