"""What recourse does to a lender's risk: the report, what it assumes of people, and the price of landing higher."""

from turnabout.audit.risk.accepting import Decay, LogisticInCost, WithinCost
from turnabout.audit.risk.compliance import Causes
from turnabout.audit.risk.excess import break_even, excess_risk
from turnabout.audit.risk.landing_plane import landing_plane
from turnabout.audit.risk.price import LandingPrice, price_of_landing
from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.audit.risk.risk_report import RiskReport, Verdict

__all__ = [
    "Causes",
    "Decay",
    "LandingPrice",
    "LogisticInCost",
    "RiskReport",
    "Verdict",
    "WithinCost",
    "break_even",
    "excess_risk",
    "landing_plane",
    "price_of_landing",
    "risk_of_recourse",
]


def __dir__() -> list[str]:
    return __all__
