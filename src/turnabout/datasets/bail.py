"""Bail: who returned to prison after release in North Carolina, 1978 and 1980."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Binary, Number, Schema

BY_HAND = (
    "Get study 8987 (Schmidt and Witte) from ICPSR, https://www.icpsr.umich.edu/web/NACJD/studies/8987, and write the "
    "cohort as CSV with its 19 columns."
)
COHORT_1978 = SourceFile(
    "bail", "bail_1978.csv", "bcfbedb80c61ec615369447e30c78975ab6aa6117698ef451d3ae7a71d5ac87a", by_hand=BY_HAND
)
COHORT_1980 = SourceFile(
    "bail", "bail_1980.csv", "a742ae43b4364fca7951f4d6b0567d01fcb8b796556b116bea359c0dced407d0", by_hand=BY_HAND
)
PARE = SourceFile(
    "bail",
    "bail_train.csv",
    "b92a061c3af2059a73fe968bcfc7fc1702bd18f824fc76b0f398a89267b10c26",
    by_hand="It is data/bail_train.csv of the code published with Ross, Lakkaraju and Bastani (2021).",
)
NAMES = {
    "WHITE": "white", "ALCHY": "alcohol_problem", "JUNKY": "drug_use", "SUPER": "supervised_release",
    "MARRIED": "married", "FELON": "felony", "WORKREL": "work_release", "PROPTY": "property_crime",
    "PERSON": "person_crime", "MALE": "male", "PRIORS": "priors", "SCHOOL": "school", "RULE": "rule_violations",
    "AGE": "age", "TSERVD": "time_served",
}  # fmt: skip
COUNTS = ("priors", "school", "rule_violations", "age", "time_served")


def _people(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    people = table[list(NAMES)].rename(columns=NAMES).reset_index(drop=True)
    flags = [name for name in NAMES.values() if name not in COUNTS]
    people[flags] = people[flags].replace({0: "no", 1: "yes"})
    return people, (table["RECID"] == 0).reset_index(drop=True).rename("accepted")


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    return _people(table[table["FILE"] != 3])


def _read_pare(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    return _people(pd.read_csv(io.BytesIO(content)))


def schema(priors: tuple[int, int] = (0, 40), school: int = 1, rules: int = 39, served: int = 287) -> Schema:
    """Fifteen columns; bounds cover both cohorts. What a prisoner and the prison can still do may change."""
    flag = ("no", "yes")
    return Schema(
        (
            Binary("white", flag, "fixed", "White"),
            Binary("alcohol_problem", flag, "down", "Alcohol problem"),  # by treatment
            Binary("drug_use", flag, "down", "Use of hard drugs"),  # by treatment
            Binary("supervised_release", flag, "up", "Release under supervision"),
            Binary("married", flag, "fixed", "Married"),
            Binary("felony", flag, "fixed", "Sentence was for a felony"),
            Binary("work_release", flag, "up", "Took part in work release"),
            Binary("property_crime", flag, "fixed", "Crime against property"),
            Binary("person_crime", flag, "fixed", "Crime against a person"),
            Binary("male", flag, "fixed", "Male"),
            Number("priors", *priors, 1, moves="fixed", label="Earlier prison terms"),
            Number("school", school, 19, 1, "years", "up", "Schooling"),
            # Down: violations in prison; those a prisoner does not commit, or that are struck from the record.
            Number("rule_violations", 0, rules, 1, moves="down", label="Rule violations in prison"),
            Number("age", 189, 933, 1, "months", "fixed", "Age at release"),
            Number("time_served", 0, served, 1, "months", "fixed", "Time served"),
        )
    )


ADVICE: Advice = {
    "school": {"reach": {"absolute": 4, "usual": 0.5}},  # years of schooling that a sentence leaves time for
}


ORIGIN = (
    "Peter Schmidt and Ann D. Witte, Predicting Recidivism in North Carolina, 1978 and 1980, ICPSR study 8987; ICPSR's "
    "terms of use. "
)
CLEANING = (
    "Rows with incomplete records (FILE = 3: alcohol and drug use unknown) are dropped. Left out because they tell the "
    "outcome or come after it: TIME (months to the return) and FOLLOW (months watched); FILE says nothing of a person. "
    "Favourable: did not return to prison. "
)
RECIPES = (
    DatasetRecipe(
        name="bail",
        licence="ICPSR terms of use",
        about=ORIGIN + CLEANING + "This is the cohort released in 1978: 4,618 people, 2,897 favourable; bail-1980 is "
        "the next one, for tests across time.",
        rows=4618,
        accepted=2897,
        sources=(COHORT_1978,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("white", "male", "age"),
    ),
    DatasetRecipe(
        name="bail-1980",
        licence="ICPSR terms of use",
        about=ORIGIN + CLEANING + "This is the cohort released in 1980: 5,739 people, 3,594 favourable; watched for a "
        "shorter time than that of 1978.",
        rows=5739,
        accepted=3594,
        sources=(COHORT_1980,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("white", "male", "age"),
    ),
    DatasetRecipe(
        name="bail-pare",
        licence="ICPSR terms of use",
        about=ORIGIN + "The training file of Ross, Lakkaraju and Bastani (2021): 16,000 rows drawn with replacement "
        "from 7,624 people of 1978, incomplete records included (priors -9 and school 0 mean missing, alcohol and "
        "drug use 0 may). A random split puts copies of one person on both sides. Kept to replay published numbers.",
        rows=16000,
        accepted=9812,
        sources=(PARE,),
        read=_read_pare,
        schema=lambda: schema((-9, 40), 0, 47, 344),
        protected=("white", "male", "age"),
        defect="rows are drawn with replacement and codes stand for missing values; prefer 'bail'.",
    ),
)
