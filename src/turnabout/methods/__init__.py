"""One paper, one file. ALL is the list that tests, command line, service, benchmark and docs read."""

from turnabout.core import Method as _Method
from turnabout.methods.action_sequences import ActionSequences
from turnabout.methods.causal import CausalRecourse, success_probability
from turnabout.methods.cchvae import Cchvae
from turnabout.methods.choice import choose, find
from turnabout.methods.cruds import Cruds
from turnabout.methods.dice import Dice
from turnabout.methods.exact_linear import ExactLinear
from turnabout.methods.face import Face
from turnabout.methods.growing_spheres import GrowingSpheres
from turnabout.methods.linear_approximation import LinearApproximation
from turnabout.methods.local_search import LocalSearch
from turnabout.methods.nearest_row import NearestRow
from turnabout.methods.networks import load
from turnabout.methods.noise_probe import Probe
from turnabout.methods.one_step import OneStep
from turnabout.methods.revise import Revise
from turnabout.methods.roar import Roar
from turnabout.methods.tabsyn_q import TabsynQ
from turnabout.methods.tabsyn_svdd import TabsynSvdd
from turnabout.methods.tap import Tap
from turnabout.methods.wachter import Wachter

ALL: tuple[type[_Method], ...] = (
    ExactLinear,
    LocalSearch,
    Wachter,
    GrowingSpheres,
    NearestRow,
    Dice,
    OneStep,
    LinearApproximation,
    CausalRecourse,
    ActionSequences,
    Revise,
    Cchvae,
    Cruds,
    TabsynQ,
    TabsynSvdd,
    Roar,
    Probe,
    Tap,
    Face,
)

__all__ = [
    "ALL",
    "ActionSequences",
    "CausalRecourse",
    "Cchvae",
    "Cruds",
    "Dice",
    "ExactLinear",
    "Face",
    "GrowingSpheres",
    "LinearApproximation",
    "LocalSearch",
    "NearestRow",
    "OneStep",
    "Probe",
    "Revise",
    "Roar",
    "TabsynQ",
    "TabsynSvdd",
    "Tap",
    "Wachter",
    "choose",
    "find",
    "load",
    "success_probability",
]


def __dir__() -> list[str]:
    return __all__
