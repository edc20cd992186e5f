"""People in three parts: those who train a model, those who calibrate its threshold, and those who test it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from turnabout.errors import TrainingError
from turnabout.train.thresholds import rows_needed

SHARE = 15  # percent of the people that calibrate, and as many that test


@dataclass(frozen=True, eq=False)
class PeopleParts:
    """People who train, calibrate and test, and whether each was accepted, in the same order."""

    train: pd.DataFrame
    calibration: pd.DataFrame
    test: pd.DataFrame
    accepted: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def sizes(self) -> dict[str, int]:
        """How many people each part has."""
        return {"train": len(self.train), "calibration": len(self.calibration), "test": len(self.test)}


def split_people(table: pd.DataFrame, accepted: np.ndarray, seed: int, epsilon: float, alpha: float) -> PeopleParts:
    """70 / 15 / 15 percent, drawn by the seed; refuses a table too small to promise anything."""
    n, needed = len(table), rows_needed(epsilon, alpha)
    side = n * SHARE // 100
    if side < needed:
        raise TrainingError(
            f"{n} people are too few for epsilon={epsilon:g} and alpha={alpha:g}: {SHARE} % of them calibrate, which "
            f"makes {side}, and {needed} are needed.",
            hint=f"bring at least {-(-needed * 100 // SHARE)} people, or allow a larger epsilon or alpha.",
        )
    order = np.random.default_rng(seed).permutation(n)
    places = [np.sort(part) for part in np.split(order, [n - 2 * side, n - side])]
    train, calibration, test = (table.iloc[place] for place in places)
    return PeopleParts(train, calibration, test, (accepted[places[0]], accepted[places[1]], accepted[places[2]]))
