"""Models built so that recourse exists, and thresholds that come with a guarantee."""

from turnabout.nn.inner import Corners, FineGrid, Inner, LinearStep, ProjectedSteps
from turnabout.train.best_rows import attain, best_rows, probability_of
from turnabout.train.calibrate import calibrate, calibrate_search, certify, pac_threshold
from turnabout.train.certificate import Certificate, Shortfall
from turnabout.train.granting_trees import GrantingTrees
from turnabout.train.pare import Pare, fit_together
from turnabout.train.seen import Seen
from turnabout.train.shift import ShiftReport, compare
from turnabout.train.thresholds import best_threshold, pac_rank, rows_needed
from turnabout.train.train_report import ModelLine, TrainReport, report

__all__ = [
    "Certificate",
    "Corners",
    "FineGrid",
    "GrantingTrees",
    "Inner",
    "LinearStep",
    "ModelLine",
    "Pare",
    "ProjectedSteps",
    "Seen",
    "ShiftReport",
    "Shortfall",
    "TrainReport",
    "attain",
    "best_rows",
    "best_threshold",
    "calibrate",
    "calibrate_search",
    "certify",
    "compare",
    "fit_together",
    "pac_rank",
    "pac_threshold",
    "probability_of",
    "report",
    "rows_needed",
]


def __dir__() -> list[str]:
    return __all__
