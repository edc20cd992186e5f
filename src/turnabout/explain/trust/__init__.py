"""How far to trust attributions, and which of them to show."""

from turnabout.explain.trust.disagreement import Disagreement, disagreement
from turnabout.explain.trust.manipulation import Manipulability, manipulability
from turnabout.explain.trust.pick import Pick, pick
from turnabout.explain.trust.sanity import Randomisation, randomisation

__all__ = [
    "Disagreement",
    "Manipulability",
    "Pick",
    "Randomisation",
    "disagreement",
    "manipulability",
    "pick",
    "randomisation",
]


def __dir__() -> list[str]:
    return __all__
