"""A model trained so that recourse exists, its promise, and how it does beside an ordinary one, as one document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core.arguments import as_progress
from turnabout.documents import Document
from turnabout.errors import TrainingError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Instance, Maybe, Positive, Share, Whole, checked
from turnabout.rules.regions import Box, Region
from turnabout.schema import Schema, as_frame
from turnabout.train.calibrate import calibrate
from turnabout.train.certificate import Certificate, downward
from turnabout.train.estimator import Estimator, read_examples
from turnabout.train.granting_trees import GrantingTrees
from turnabout.train.pare import Pare, fit_together
from turnabout.train.thresholds import best_threshold, rows_needed
from turnabout.typing import Progress

HIGHEST = 0.999  # of the thresholds that are chosen
SHARE = 15  # percent of the people that calibrate, and as many that test


@dataclass(frozen=True)
class ModelLine(Document):
    """What one model does at one threshold for the test people.

    Attributes
    ----------
    model : which one.
    lam : its weight of recourse beside accuracy.
    certified : whether the threshold comes with a promise.
    threshold : from which P(yes) on it says yes: of the best F1 on the calibration people, up to the promise.
    accuracy, f1 : against the outcomes.
    refused : share of people it refuses.
    recourse_refused : share of the refused who can reach a yes.
    recourse_all : share of people who are accepted or can reach a yes.
    """

    model: str
    lam: float
    certified: bool
    threshold: float
    accuracy: Rate
    f1: float
    refused: Rate
    recourse_refused: Rate
    recourse_all: Rate


@dataclass(frozen=True, eq=False)
class TrainReport(Document):
    """A trained model, its promise and its test; from `report`.

    Attributes
    ----------
    model, ordinary : the model trained for recourse, with the threshold it was given, and its ordinary twin; neither is
        written to JSON.
    people : how many train, calibrate and test.
    region : what people may change.
    threshold : from which P(yes) on the model says yes.
    certificate : what is promised at it.
    test : one line for the model, and two for the ordinary one: with the same promise, and with none.
    """

    model: Pare | GrantingTrees
    ordinary: Pare | GrantingTrees
    people: dict[str, int]
    region: Region
    threshold: float
    certificate: Certificate
    test: tuple[ModelLine, ...]

    keys = "people region threshold certificate test"

    _repr_html_ = report_html

    def table(self) -> pd.DataFrame:
        """Models beside each other, one measure below the other, in words."""
        measures: dict[str, Callable[[ModelLine], str]] = {
            "weight of recourse": lambda line: f"{line.lam:g}",
            "threshold": lambda line: f"{line.threshold:g}",
            "accuracy": lambda line: _in_words(line.accuracy),
            "F1": lambda line: f"{line.f1:.3f}",
            "refused": lambda line: _in_words(line.refused),
            "recourse among the refused": lambda line: _in_words(line.recourse_refused),
            "accepted or with recourse": lambda line: _in_words(line.recourse_all),
        }
        columns = {line.model: [write(line) for write in measures.values()] for line in self.test}
        return pd.DataFrame({"measure": list(measures), **columns})

    def __str__(self) -> str:
        head = f"{self.people['test']} test people, 95 % intervals"
        said = f"The model says yes from {self.threshold:g} on."
        return "\n".join([head, self.table().to_string(index=False), str(self.certificate), said])


@checked(
    TrainingError,
    model=Instance(Estimator, "a Pare or GrantingTrees", hint="write Pare(schema, Box({'hours': 9}), lam=0.8)."),
    deviations=Maybe(Positive()),
    epsilon=Share(above=0, below=1),
    alpha=Share(above=0, below=1),
    seed=Whole(0),
)
def report(
    model: Pare | GrantingTrees,
    people: Any,
    accepted: Any,
    *,
    deviations: float | None = None,
    epsilon: float = 0.05,
    alpha: float = 0.05,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> TrainReport:
    """Train a model that grants recourse, promise recourse at its threshold, and test it beside an ordinary model.

    Of the people, 70 % train, 15 % calibrate the threshold and 15 % test it. `turnabout train` prints this report.

        report = ta.train.report(ta.train.Pare(schema, Box({"hours": 9})), people, accepted)
        joblib.dump(report.model, "model.joblib")

    Use it for a first model with a promise. Where a model is there already, `calibrate` is enough.

    Parameters
    ----------
    model : how to train, not fitted; it stays as it is.
    people, accepted : a table, and who was accepted.
    deviations : what the schema lets move does so by this many standard deviations of the people who train, or by the
        reach that the model's Box names; None: the model's region as it is.
    epsilon : share of people who may be left without recourse.
    alpha : probability with which the promise may fail.
    seed : of the three parts; that of the training is the model's.
    progress : called with (batches done, batches in all) by networks; True for a bar.
    """
    table = as_frame(people)
    parts = split_people(table, read_examples(table, accepted), seed, epsilon, alpha)
    region = model.region if deviations is None else _measured(model.region, deviations, model.schema, parts.train)
    trained, ordinary = _pair(model, region, parts, as_progress(progress))
    own, plain = (calibrate(m, parts.calibration, epsilon=epsilon, alpha=alpha) for m in (trained, ordinary))
    lines = _judged(trained, parts, {"trained for recourse": own.threshold})
    lines += _judged(ordinary, parts, {"ordinary, same promise": plain.threshold, "ordinary, no promise": None})
    trained.threshold = lines[0].threshold
    return TrainReport(trained, ordinary, parts.sizes, trained.region_of(), trained.threshold, own, tuple(lines))


def _measured(region: Region | None, deviations: float, schema: Schema, people: pd.DataFrame) -> Box:
    """The box that reaches so many deviations; the reach that was named comes first."""
    if region is not None and not isinstance(region, Box):
        raise TrainingError(
            f"deviations= measures a Box, and the model has the region {region!r}.", hint="leave one of the two out."
        )
    named = {} if region is None else region.reach or {}
    return Box({**(Box.measured(people, schema, deviations).reach or {}), **named})


def _pair(
    model: Pare | GrantingTrees, region: Region | None, parts: PeopleParts, progress: Progress | None
) -> tuple[Any, Any]:
    """The model trained for recourse, and its ordinary twin."""
    given = model.get_params() | {"region": region}
    both = [type(model)(**given), type(model)(**(given | {"lam": 0.0}))]
    if all(isinstance(one, Pare) for one in both):
        first, second = fit_together(both, parts.train, parts.accepted[0], progress=progress or False)  # type: ignore[arg-type]
        return first, second
    return both[0].fit(parts.train, parts.accepted[0]), both[1].fit(parts.train, parts.accepted[0])


def _judged(model: Any, parts: PeopleParts, limits: dict[str, float | None]) -> list[ModelLine]:
    """A model at its thresholds of best F1 on the calibration people, up to each of some limits."""
    _, before, outcome = parts.accepted
    scores, reached = model.score_of(parts.test), model.score_of(model.attain(parts.test))
    lines = []
    for name, limit in limits.items():
        highest = best_threshold(model.score_of(parts.calibration), before, 1.0 if limit is None else limit)
        # as certificates print theirs: a promise holds at lower ones
        threshold = min(float(downward(highest)), HIGHEST)
        accepted = scores >= threshold
        reaches = accepted | (reached >= threshold)
        line = ModelLine(
            name,
            float(model.lam),
            limit is not None,
            threshold,
            Rate.among(accepted == outcome),
            float(2 * np.sum(accepted & outcome) / max(1, accepted.sum() + outcome.sum())),
            Rate.among(~accepted),
            Rate.among(reaches[~accepted]),
            Rate.among(reaches),
        )
        lines.append(line)
    return lines


def _in_words(rate: Rate) -> str:
    return "nobody" if rate.value is None else f"{rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})"


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
