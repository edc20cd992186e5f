"""Where the truth is known: two Gaussians, and whether the intervals of a risk report hold it as often as they say."""

from turnabout.studies.gaussian.coverage import Coverage, risk_coverage

__all__ = ["Coverage", "risk_coverage"]
