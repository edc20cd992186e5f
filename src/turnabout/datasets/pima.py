"""Pima: which women of the Pima had diabetes within five years."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Number, Schema

SOURCE = SourceFile(
    "pima",
    "pima_indians_diabetes.csv",
    "c980e5e01dc1c554a358102b773f34b29599d0051ec5cf5b56ad1c6fcb3a23b0",
    by_hand="UCI has withdrawn it; https://www.kaggle.com/datasets/uciml/pima-indians-diabetes-database holds the "
    "same table after registration.",
    other_bytes=True,
)
NAMES = {
    "Pregnancies": "pregnancies", "Glucose": "glucose", "BloodPressure": "blood_pressure",
    "SkinThickness": "skin_thickness", "Insulin": "insulin", "BMI": "bmi",
    "DiabetesPedigreeFunction": "diabetes_pedigree", "Age": "age",
}  # fmt: skip
ZERO_IS_MISSING = ["glucose", "blood_pressure", "skin_thickness", "insulin", "bmi"]


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    people = table[list(NAMES)].rename(columns=NAMES)
    people[ZERO_IS_MISSING] = people[ZERO_IS_MISSING].mask(people[ZERO_IS_MISSING] == 0)
    return people, (table["Outcome"] == 0).rename("accepted")


def schema() -> Schema:
    """Eight columns: measurements may change, history and ancestry may not."""
    return Schema(
        (
            Number("pregnancies", 0, 17, 1, moves="fixed", label="Pregnancies"),
            Number("glucose", 44, 199, 1, "mg/dL", label="Plasma glucose after two hours", missing=True),
            Number("blood_pressure", 24, 122, 1, "mm Hg", label="Diastolic blood pressure", missing=True),
            Number("skin_thickness", 7, 99, 1, "mm", label="Triceps skin fold", missing=True),
            Number("insulin", 14, 846, 1, "mu U/ml", label="Serum insulin after two hours", missing=True),
            Number("bmi", 18.2, 67.1, 0.1, "kg/m2", label="Body mass index", missing=True),
            Number("diabetes_pedigree", 0.078, 2.42, 0.001, moves="fixed", label="Diabetes in the family"),
            Number("age", 21, 81, 1, "years", "fixed", "Age"),
        )
    )


ADVICE: Advice = {
    "glucose": {"moves": "down", "useful_step": 5, "least_change": 5, "reach": {"relative": 0.25, "low": 70}},
    "blood_pressure": {"useful_step": 5, "least_change": 5, "reach": {"absolute": 20, "low": 60, "high": 90}},
    "skin_thickness": {"least_change": 2, "reach": {"absolute": 10}},
    "insulin": {"useful_step": 10, "least_change": 20, "reach": {"relative": 0.4}},
    "bmi": {"moves": "down", "useful_step": 0.5, "least_change": 0.5, "reach": {"relative": 0.15, "low": 18.5}},
}


RECIPES = (
    DatasetRecipe(
        name="pima",
        licence="usually given as CC0",
        about="Pima Indians diabetes, National Institute of Diabetes and Digestive and Kidney Diseases, Smith et al. "
        "1988; formerly at UCI, withdrawn there; usually redistributed as CC0. 768 women of 21 or older. Zeros in "
        "glucose, blood_pressure, skin_thickness, insulin and bmi are missing values. Favourable: no diabetes (500). "
        "The measurements are causes and signs alike: a plan here is not medical advice.",
        rows=768,
        accepted=500,
        sources=(SOURCE,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("age",),
        fingerprint="2dc0ba3df1fca9e94f58c63b6b8e3bdc59d3ad9911fb153e48cb7473bad6ffc4",
    ),
)
