"""German credit, with the corrected meaning of its codes; embedded in the package.

The code table published with the UCI file is wrong for several attributes; Groemping (2019) traced the
original German code book. The words below follow the corrected meanings. Matching the 990 rows that agree in
duration, amount, age and outcome with the corrected file confirms that every code maps to one meaning, except for
34 cells of other_installment_plans, 10 of foreign_worker and 1 of housing, which differ between the two files.
"""

from __future__ import annotations

import io
from importlib import resources

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

STATLOG = SourceFile(
    "german",
    "german.data",
    "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    url="https://archive.ics.uci.edu/static/public/144/statlog+german+credit+data.zip",
    member="german.data",
)
SOUTH_GERMAN = SourceFile(
    "german",
    "SouthGermanCredit.asc",
    "f0caee5ff54c4a4e9689bc10d5b23ccf5088862a846ab603f9536f135aae30d3",
    url="https://archive.ics.uci.edu/static/public/522/south+german+credit.zip",
    member="SouthGermanCredit.asc",
)

Words = dict[str, tuple[str, ...]]  # per column, the meaning of its codes in the order of the codes

# Codes of german.data in ascending order (A11, A12, ...), those of purpose as A40 ... A46, A48, A49, A410.
CODES: dict[str, tuple[str, ...]] = {
    "status": ("A11", "A12", "A13", "A14"),
    "credit_history": ("A30", "A31", "A32", "A33", "A34"),
    "purpose": ("A40", "A41", "A42", "A43", "A44", "A45", "A46", "A47", "A48", "A49", "A410"),
    "savings": ("A61", "A62", "A63", "A64", "A65"),
    "employment_duration": ("A71", "A72", "A73", "A74", "A75"),
    "installment_rate": ("1", "2", "3", "4"),
    "personal_status_sex": ("A91", "A92", "A93", "A94"),
    "other_debtors": ("A101", "A102", "A103"),
    "present_residence": ("1", "2", "3", "4"),
    "property": ("A121", "A122", "A123", "A124"),
    "other_installment_plans": ("A141", "A142", "A143"),
    "housing": ("A151", "A152", "A153"),
    "number_credits": ("1", "2", "3", "4"),
    "job": ("A171", "A172", "A173", "A174"),
    "people_liable": ("1", "2"),
    "telephone": ("A191", "A192"),
    "foreign_worker": ("A201", "A202"),
}
CORRECTED: Words = {
    "status": ("no account", "below 0 DM", "0 to 199 DM", "200 DM or more"),
    "credit_history": (
        "late in the past",
        "critical, or credits elsewhere",
        "no credits, or all repaid",
        "current credits on time",
        "all credits here repaid",
    ),
    "purpose": (
        "other",
        "new car",
        "used car",
        "furniture",
        "radio or television",
        "appliances",
        "repairs",
        "education",
        "vacation",
        "retraining",
        "business",
    ),
    "savings": ("unknown or none", "below 100 DM", "100 to 499 DM", "500 to 999 DM", "1000 DM or more"),
    "employment_duration": ("unemployed", "below 1 year", "1 to 4 years", "4 to 7 years", "7 years or more"),
    "installment_rate": ("35% or more", "25 to 35%", "20 to 25%", "below 20%"),
    "personal_status_sex": (
        "male divorced or separated",
        "female not single, or male single",
        "male married or widowed",
        "female single",
    ),
    "other_debtors": ("none", "co-applicant", "guarantor"),
    "present_residence": ("below 1 year", "1 to 4 years", "4 to 7 years", "7 years or more"),
    "property": ("unknown or none", "car or other", "savings contract or life insurance", "real estate"),
    "other_installment_plans": ("bank", "stores", "none"),
    "housing": ("free", "rent", "own"),
    "number_credits": ("1", "2 or 3", "4 or 5", "6 or more"),
    "job": ("unemployed or unskilled non-resident", "unskilled resident", "skilled", "manager or highly qualified"),
    "people_liable": ("0 to 2", "3 or more"),  # german.data reverses the order of the corrected file
    "telephone": ("no", "yes"),
    "foreign_worker": ("no", "yes"),  # published the other way round
}
# The table as published, wrong where it differs from the one above; only for german-statlog-uncorrected.
PUBLISHED: Words = CORRECTED | {
    "status": ("below 0 DM", "0 to 199 DM", "200 DM or more", "no account"),
    "credit_history": (
        "no credits, or all repaid",
        "all credits here repaid",
        "current credits on time",
        "late in the past",
        "critical, or credits elsewhere",
    ),
    "purpose": (
        "new car",
        "used car",
        "furniture",
        "radio or television",
        "appliances",
        "repairs",
        "education",
        "vacation",
        "retraining",
        "business",
        "other",
    ),
    "savings": ("below 100 DM", "100 to 499 DM", "500 to 999 DM", "1000 DM or more", "unknown or none"),
    "personal_status_sex": (
        "male divorced or separated",
        "female divorced, separated or married",
        "male single",
        "male married or widowed",
    ),
    "property": ("real estate", "savings contract or life insurance", "car or other", "unknown or none"),
    "housing": ("rent", "own", "free"),
    "installment_rate": ("1", "2", "3", "4"),
    "present_residence": ("1", "2", "3", "4"),
    "number_credits": ("1", "2", "3", "4"),
    "people_liable": ("1", "2"),
    "foreign_worker": ("yes", "no"),
}
COLUMNS = (
    "status", "duration", "credit_history", "purpose", "amount", "savings", "employment_duration",
    "installment_rate", "personal_status_sex", "other_debtors", "present_residence", "property", "age",
    "other_installment_plans", "housing", "number_credits", "job", "people_liable", "telephone", "foreign_worker",
)  # fmt: skip


def read_statlog(content: bytes, words: Words) -> tuple[pd.DataFrame, pd.Series]:
    """german.data -> people in words, and who was a good risk."""
    kinds = dict.fromkeys(CODES, str)
    table = pd.read_csv(io.BytesIO(content), sep=" ", header=None, names=[*COLUMNS, "class"], dtype=kinds)
    for name, codes in CODES.items():
        table[name] = table[name].map(dict(zip(codes, words[name], strict=True)))
    return table[list(COLUMNS)], (table["class"] == 1).rename("accepted")


def read_south_german(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    """SouthGermanCredit.asc -> people in the words of the embedded set, and who was a good risk."""
    table = pd.read_csv(io.BytesIO(content), sep=" ")
    table.columns = pd.Index([*COLUMNS, "credit_risk"])  # the file has German names in the same order
    for name, words in CORRECTED.items():
        first = 0 if name in ("credit_history", "purpose") else 1
        meanings = words[::-1] if name in ("people_liable", "foreign_worker") else words
        table[name] = (table[name] - first).map(dict(enumerate(meanings)))
    return table[list(COLUMNS)], (table["credit_risk"] == 1).rename("accepted")


def _read_embedded() -> tuple[pd.DataFrame, pd.Series]:
    with resources.files(__package__).joinpath("german.csv").open("rb") as stream:
        table = pd.read_csv(stream, dtype=dict.fromkeys(CODES, str), keep_default_na=False)
    return table[list(COLUMNS)], (table["credit_risk"] == "good").rename("accepted")


def schema(words: Words = CORRECTED) -> Schema:
    """Twenty columns. Wealth, work and residence may only grow: a plan that asks for less of them is no advice."""
    corrected = words is CORRECTED
    # No loan has the purpose A47; installment_rate is coded from high to low.
    purposes = tuple(word for code, word in zip(CODES["purpose"], words["purpose"], strict=True) if code != "A47")
    rates = words["installment_rate"][::-1] if corrected else words["installment_rate"]
    return Schema(
        (
            Ordinal("status", CORRECTED["status"], moves="up", label="Checking account"),
            Number("duration", 4, 72, step=1, unit="months", label="Duration of the loan"),
            Category("credit_history", CORRECTED["credit_history"], moves="fixed", label="Credit history"),  # past
            # Fixed: the applicant knows what they need the money for; another purpose would be a lie, not a plan.
            Category("purpose", purposes, moves="fixed", label="Purpose of the loan"),
            Number("amount", 250, 18424, step=1, unit="DM", label="Amount of the loan"),
            Ordinal("savings", CORRECTED["savings"], moves="up", label="Savings"),
            Ordinal("employment_duration", words["employment_duration"], moves="up", label="Time with the employer"),
            Ordinal("installment_rate", rates, label="Installment as share of income"),
            Category("personal_status_sex", words["personal_status_sex"], moves="fixed", label="Marital status, sex"),
            Category("other_debtors", words["other_debtors"], label="Other debtors"),
            Ordinal("present_residence", words["present_residence"], moves="up", label="Time at present address"),
            Ordinal("property", CORRECTED["property"], moves="up", label="Most valuable property"),
            Number("age", 19, 75, step=1, unit="years", moves="fixed", label="Age"),  # nobody can act on it
            Category("other_installment_plans", words["other_installment_plans"], label="Other installment plans"),
            Category("housing", CORRECTED["housing"], label="Housing"),
            # Counts this loan and those before it at this bank: history.
            Ordinal("number_credits", words["number_credits"], moves="fixed", label="Credits at this bank"),
            Ordinal("job", words["job"], moves="up", label="Job"),
            Binary("people_liable", words["people_liable"], moves="fixed", label="Dependents"),
            Binary("telephone", ("no", "yes"), label="Telephone in own name"),
            Binary("foreign_worker", ("no", "yes"), moves="fixed", label="Foreign worker"),
        )
    )


ADVICE: Advice = {
    # In this order nobody is sent to an overdrawn account: who has none opens one with money in it.
    "status": {"levels": ("below 0 DM", "no account", "0 to 199 DM", "200 DM or more")},
    "duration": {"useful_step": 6, "least_change": 6, "reach": {"absolute": 24}},
    # Asking for less is advice, asking for more is none.
    "amount": {"moves": "down", "useful_step": 100, "least_change": 200, "reach": {"relative": 0.5, "usual": 0.5}},
    "savings": {"reach": {"steps": 2}},
    # Years with an employer or at an address come by waiting; a home is not bought for a loan of this size.
    "employment_duration": {"moves": "fixed"},
    "present_residence": {"moves": "fixed"},
    "housing": {"moves": "fixed"},
    "installment_rate": {"moves": "down"},  # nobody is better off with a larger part of their income spent on it
    "property": {"reach": {"steps": 1}},
    "job": {"reach": {"steps": 1}},
    "telephone": {"moves": "up"},
}


ORIGIN = (
    "Statlog (German Credit Data), Hans Hofmann, UCI Machine Learning Repository, 1994, CC BY 4.0. "
    "1,000 loans of a South German bank, 1973 to 1975, with far more bad payers than the bank had. "
)
PROTECTED = ("personal_status_sex", "age", "foreign_worker")
RECIPES = (
    DatasetRecipe(
        name="german",
        licence="CC BY 4.0",
        about=ORIGIN + "Embedded in the package. Column and value names are ours and follow the corrected meanings of "
        "U. Groemping (2019), South German Credit Data: Correcting a Widely Used Data Set; the code table "
        "published with the file is wrong for several columns. Cells are those of german.data: 10 rows differ from the "
        "corrected file (south-german) in one digit of duration, amount or age, 45 more cells in "
        "other_installment_plans, foreign_worker and housing. Favourable: a good risk (700 of 1,000). Sex cannot "
        "be told from personal_status_sex for single men and non-single women, who share a code.",
        rows=1000,
        accepted=700,
        sources=(),
        read=_read_embedded,
        schema=schema,
        advice=ADVICE,
        protected=PROTECTED,
    ),
    DatasetRecipe(
        name="south-german",
        licence="CC BY 4.0",
        about="South German Credit, Ulrike Groemping, UCI Machine Learning Repository, 2019, CC BY 4.0: the corrected "
        "version of german, in the same words. Favourable: a good risk (700 of 1,000).",
        rows=1000,
        accepted=700,
        sources=(SOUTH_GERMAN,),
        read=read_south_german,
        schema=schema,
        advice=ADVICE,
        protected=PROTECTED,
    ),
    DatasetRecipe(
        name="german-statlog-uncorrected",
        licence="CC BY 4.0",
        about=ORIGIN + "Read with the code table published with the file, which is wrong: kept to replay old results.",
        rows=1000,
        accepted=700,
        sources=(STATLOG,),
        read=lambda content: read_statlog(content, PUBLISHED),
        schema=lambda: schema(PUBLISHED),
        protected=PROTECTED,
        defect="the published code table is wrong (the best accounts are called 'no account'); prefer 'german'.",
    ),
)
