"""Compare methods: data sets x models x methods x seeds, resumable, with a leader board.

Grid, run, Board : what is compared, the comparison, and what came out.
BenchCase, Judge : one question, and further measures of its answers.
pictures, PlanePicture : what methods do in the plane, on moons and circles (TOYS).
"""

from turnabout.bench.bench_grid import Grid
from turnabout.bench.case import BenchCase, Judge
from turnabout.bench.grid_run import run
from turnabout.bench.leader_board import Board
from turnabout.bench.plane_pictures import PlanePicture, pictures
from turnabout.bench.toy_tables import TOYS

__all__ = ["TOYS", "BenchCase", "Board", "Grid", "Judge", "PlanePicture", "pictures", "run"]


def __dir__() -> list[str]:
    return __all__
