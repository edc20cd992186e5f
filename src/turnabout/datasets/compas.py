"""COMPAS: who was charged again within two years, Broward County."""

from __future__ import annotations

import csv
import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Binary, Category, Number, Schema

# Columns of the publisher's file that name real people; they are dropped before anything is stored.
PERSONAL = ("name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number")
RACES = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")
READ = (
    "age", "sex", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
    "days_b_screening_arrest", "c_jail_in", "c_jail_out", "is_recid", "score_text", "two_year_recid",
)  # fmt: skip


def strip_personal(content: bytes) -> bytes:
    """The same CSV without the columns that name people."""
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    kept = [i for i, name in enumerate(rows[0]) if name not in PERSONAL] if rows else []
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([row[i] for i in kept if i < len(row)] for row in rows)
    return out.getvalue().encode("utf-8")


SOURCE = SourceFile(
    "compas",
    "compas-scores-two-years.csv",
    "a5e5c34bfd2d1f065bb12a44c0323421baf74b98b97d585915a0c2e1513ecaba",
    url="https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",
    strip=strip_personal,
    other_bytes=True,
)
CARLA = SourceFile(
    "compas",
    "carla_compas.csv",
    "e99430e4bdeebc858ba22726be3c3924c8435e6c890e2ae7f52d0411a3cc0516",
    url="https://raw.githubusercontent.com/carla-recourse/cf-data/master/compas.csv",
)


def usual_rows(content: bytes) -> pd.DataFrame:
    """The usual 6,172 rows, with `stay`, the whole days between the two jail dates; -1 where these are turned round."""
    table = pd.read_csv(io.BytesIO(content), usecols=list(READ))  # never reads a personal column
    usual = (
        (table["days_b_screening_arrest"].abs() <= 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] != "O")
        & table["score_text"].notna()
    )
    table = table[usual].reset_index(drop=True)
    return table.assign(stay=(pd.to_datetime(table["c_jail_out"]) - pd.to_datetime(table["c_jail_in"])).dt.days)


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = usual_rows(content)
    people = table.assign(
        c_charge_degree=table["c_charge_degree"].map({"M": "misdemeanor", "F": "felony"}),
        length_of_stay=table["stay"].clip(lower=0),
    )
    return people[list(schema().names)], (people["two_year_recid"] == 0).rename("accepted")


def _read_carla(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    table["c_charge_degree"] = table["c_charge_degree"].map({"M": "misdemeanor", "F": "felony"})
    table["two_year_recid"] = table["two_year_recid"].map({0: "no", 1: "yes"})
    return table, (table["score"] == 1).rename("accepted")


def _shared() -> dict[str, Number | Binary]:
    """Columns of both versions.

    What may change here is what a court or a lawyer can change: a record can be sealed, a charge reduced by
    agreement, a stay shortened. The rest is the past.
    """
    features: tuple[Number | Binary, ...] = (
        Number("age", 18, 96, step=1, unit="years", moves="fixed", label="Age"),
        Binary("sex", ("Female", "Male"), moves="fixed", label="Sex"),
        Number("priors_count", 0, 38, step=1, moves="down", label="Prior offenses on record"),
        Binary("c_charge_degree", ("misdemeanor", "felony"), moves="down", label="Degree of the charge"),
    )
    return {feature.name: feature for feature in features}


def schema() -> Schema:
    """Nine columns; see _shared for what may change and why."""
    shared = _shared()
    return Schema(
        (
            shared["age"],
            shared["sex"],
            Category("race", RACES, moves="fixed", label="Race"),
            Number("juv_fel_count", 0, 20, step=1, moves="fixed", label="Juvenile felonies"),
            Number("juv_misd_count", 0, 13, step=1, moves="fixed", label="Juvenile misdemeanors"),
            Number("juv_other_count", 0, 9, step=1, moves="fixed", label="Other juvenile offenses"),
            shared["priors_count"],
            shared["c_charge_degree"],
            Number("length_of_stay", 0, 799, step=1, unit="days", moves="down", label="Days in jail"),
        )
    )


ADVICE: Advice = {
    "length_of_stay": {"least_change": 2, "reach": {"relative": 0.5}},
}


def carla_schema() -> Schema:
    """The columns of the CARLA file; there the later offense is an input and the score the outcome."""
    shared = _shared()
    return Schema(
        (
            shared["age"],
            Binary("two_year_recid", ("no", "yes"), moves="fixed", label="Charged again within two years"),
            shared["c_charge_degree"],
            Binary("race", ("Other", "African-American"), moves="fixed", label="Race"),
            shared["sex"],
            shared["priors_count"],
            Number("length_of_stay", -1, 799, step=1, unit="days", moves="down", label="Days in jail"),
        )
    )


RECIPES = (
    DatasetRecipe(
        name="compas",
        licence="none stated (public records)",
        about="COMPAS two-year recidivism, ProPublica, Machine Bias (2016), public records of Broward County; the "
        "repository states no licence. The usual 6,172 of 7,214 rows: screened within 30 days of the arrest, "
        "outcome known, no ordinary traffic offense, score given. Names, birth dates and case numbers are never "
        "read or stored. length_of_stay is the whole days between the two jail dates; 183 stays that end some "
        "hours before they begin count as 0. Favourable: not charged again within two years (3,363 people). "
        "Being charged is not the same as offending, and policing differs between groups.",
        rows=6172,
        accepted=3363,
        sources=(SOURCE,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("sex", "race", "age"),
        fingerprint="a4ae18554354e38ada6b630a63de9b5fbd5d145149924759d0158ce23a58c2da",
    ),
    DatasetRecipe(
        name="carla-compas",
        licence="MIT (CARLA), none stated (records)",
        about="COMPAS as prepared for the CARLA benchmark (carla-recourse/cf-data, MIT): the same 6,172 people, 7 "
        "features. The outcome is COMPAS's own score (favourable unless High), and the later offense, which nobody "
        "knows when the score is made, is an input. 183 stays are -1 day. Kept to replay published numbers.",
        rows=6172,
        accepted=5028,
        sources=(CARLA,),
        read=_read_carla,
        schema=carla_schema,
        protected=("sex", "race", "age"),
        defect="the outcome is COMPAS's own score and a later event is an input; prefer 'compas'.",
    ),
)
