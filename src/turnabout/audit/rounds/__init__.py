"""Recourse round by round: people move, the model is trained again."""

from turnabout.audit.rounds.rounds_of_recourse import rounds_of_recourse
from turnabout.audit.rounds.rounds_report import Rounds

__all__ = [
    "Rounds",
    "rounds_of_recourse",
]


def __dir__() -> list[str]:
    return __all__
