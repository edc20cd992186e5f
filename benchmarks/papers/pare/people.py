"""The four data sets of Ross, Lakkaraju and Bastani (2021), as tables with schemas: their columns, our corrections.

The columns and what may change are the paper's. Corrected are: the German label (1 = good payer), and bail, which is
read from the cohort of 1978 instead of the file drawn from it with replacement, so that a split puts no person on both
sides. Numbers are continuous, as in the paper; where `real` is asked for, what may change does so in whole numbers,
values nobody can have are ruled out (more than 16 steps of education, more than 99 hours, fewer than 0 priors), and so
is advice that nobody would give (more priors, more violations of prison rules), which the paper's Delta allows.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

import turnabout as ta
from turnabout.datasets import adult, bail, compas
from turnabout.datasets.data_files import SourceFile, obtain
from turnabout.rules import Box
from turnabout.schema import Binary, Category, Number

DELTA_MAX = 0.75  # standard deviations
GERMAN = SourceFile(
    "german",
    "german_adversarial_recourse.csv",
    "962951b011b109df5b619b01e6b94f489a7ae95995cb08436b6fbfda13b97e38",
    by_hand="It is data/german.csv of the code published with Ross, Lakkaraju and Bastani (2021).",
)
BAIL_TEST = SourceFile("bail", "bail_test.csv", "7a9adad854bb78d200201e8ce51f6b083d74b6bd3affadfdcc4b3427fd7c1d67")
NAMES = ("adult", "compas", "bail", "german")


@dataclass(frozen=True)
class Study:
    """A data set of the paper.

    people, accepted : the table and its label; schema : what may change, continuous; reach : Delta, in units;
    white : group for the study of disparities, or None.
    """

    name: str
    people: pd.DataFrame
    accepted: np.ndarray
    schema: ta.Schema
    reach: dict[str, float]
    white: np.ndarray | None

    @property
    def region(self) -> Box:
        return Box(self.reach)

    def box(self, delta_max: float) -> Box:
        return Box({name: r * delta_max / DELTA_MAX for name, r in self.reach.items()})


def _study(
    name: str,
    people: pd.DataFrame,
    accepted: pd.Series,
    moves: dict[str, str],
    real: dict[str, tuple[float, float, str]] | None,
    white: str | None,
) -> Study:
    features: list[ta.schema.Feature] = []
    reach = {c: DELTA_MAX * float(people[c].std()) for c in moves}
    for column in people:
        values = people[column]
        if set(values.unique()) <= {0, 1}:
            features.append(Binary(column, (0, 1), "fixed"))
        elif not pd.api.types.is_numeric_dtype(values):
            features.append(Category(column, tuple(sorted(values.unique())), "fixed"))
        else:
            room = reach.get(column, 0.0)
            low, high = float(values.min()) - room, float(values.max()) + room
            step, way = None, moves.get(column, "fixed")
            if real is not None and column in moves:
                (low, high, way), step = real[column], 1.0
            features.append(Number(column, low, high, step, moves=way))
    group = None if white is None else people[white].to_numpy() == 1
    return Study(name, people, accepted.to_numpy(dtype=bool), ta.Schema(tuple(features)), reach, group)


@cache
def load(name: str, real: bool = False) -> Study:
    """One of the four, by name."""
    reader = {"adult": _adult, "compas": _compas, "bail": _bail, "german": _german}[name]
    return reader(real)


def _adult(real: bool) -> Study:
    """The training file: 32,561 people (the published code loses the first, taking it for a header)."""
    columns = ["age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship",
               "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "country", "income"]  # fmt: skip
    table = pd.read_csv(io.BytesIO(obtain(adult.SOURCES[0]).content), names=columns, skipinitialspace=True)
    people = table[["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]].assign(
        white=(table["race"] == "White").astype(int),
        native_us=(table["country"] == "United-States").astype(int),
        married=table["marital"].str.contains("Married").astype(int),  # spouse absent and in the forces included
        male=(table["sex"] == "Male").astype(int),
    )
    bounds = {"education_num": (1.0, 16.0, "up"), "hours_per_week": (1.0, 99.0, "free")} if real else None
    moves = {"education_num": "up", "hours_per_week": "free"}
    return _study("adult", people, table["income"] == ">50K", moves, bounds, "white")


def _compas(real: bool) -> Study:
    table = compas.usual_rows(obtain(compas.SOURCE).content)
    people = pd.DataFrame(
        {
            "age": table["age"],
            "priors_count": table["priors_count"],
            "length_of_stay": table["stay"],
            "days_b_screening_arrest": table["days_b_screening_arrest"],
            "male": (table["sex"] == "Male").astype(int),
            "white": (table["race"] == "Caucasian").astype(int),
            "felony": (table["c_charge_degree"] == "F").astype(int),
        }
    )
    bounds = {"priors_count": (0.0, float(people["priors_count"].max()), "down")} if real else None
    return _study("compas", people, table["two_year_recid"] == 0, {"priors_count": "free"}, bounds, "white")


def _bail_rows(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    whole = table[(table["FILE"] != 3) & (table["PRIORS"] != -9) & (table["SCHOOL"] != 0)].reset_index(drop=True)
    people = whole.drop(columns=["RECID", "TIME", "FILE"])
    return people.rename(columns=str.lower).rename(columns={"person": "person_crime"}), whole["RECID"] == 0


def _bail(real: bool) -> Study:
    people, accepted = _bail_rows(pd.read_csv(io.BytesIO(obtain(bail.COHORT_1978).content)))
    bounds = {"school": (1.0, 19.0, "up"), "rule": (0.0, float(people["rule"].max()), "down")} if real else None
    return _study("bail", people, accepted, {"school": "up", "rule": "free"}, bounds, "white")


def bail_as_published() -> tuple[tuple[pd.DataFrame, pd.Series], tuple[pd.DataFrame, pd.Series]]:
    """The paper's two files: training rows, and test rows of another cohort; both drawn with replacement."""
    train = pd.read_csv(io.BytesIO(obtain(bail.PARE).content))
    return _bail_rows(train), _bail_rows(pd.read_csv(io.BytesIO(obtain(BAIL_TEST).content)))


def _german(real: bool) -> Study:
    table = pd.read_csv(io.BytesIO(obtain(GERMAN).content))
    people = table[["duration", "amount", "age"]].assign(status=table["personal_status_sex"].map(lambda k: f"code {k}"))
    bounds = {"age": (18.0, 100.0, "up"), "amount": (100.0, 20000.0, "free")} if real else None
    return _study("german", people, table["credit_risk"] == 1, {"age": "up", "amount": "free"}, bounds, None)
