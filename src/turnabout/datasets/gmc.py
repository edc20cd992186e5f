"""Give Me Some Credit: who fell 90 days behind with a payment within two years."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Feature, Number, Schema

SOURCE = SourceFile(
    "gmc",
    "cs-training.csv",
    "1bd46da486a5708c58c7b01a034fae2a13b327f6f7b62ea7ba4fe3b5824b24ac",
    by_hand="Register at https://www.kaggle.com/c/GiveMeSomeCredit and download cs-training.csv.",
)
CARLA = SourceFile(
    "gmc",
    "carla_give_me_some_credit.csv",
    "fee57a61d39f555c51908e5ecce6796fa9b9a8d85eee649ab045712834c53f74",
    by_hand="It is made from Kaggle's cs-training.csv: rows without missing values and with every |z| below 3, "
    "label turned round (carla-recourse/cf-data on GitHub gives the row numbers).",
)
NAMES = {
    "RevolvingUtilizationOfUnsecuredLines": "revolving_utilization",
    "age": "age",
    "NumberOfTime30-59DaysPastDueNotWorse": "times_30_59_days_late",
    "DebtRatio": "debt_ratio",
    "MonthlyIncome": "monthly_income",
    "NumberOfOpenCreditLinesAndLoans": "open_credit_lines",
    "NumberOfTimes90DaysLate": "times_90_days_late",
    "NumberRealEstateLoansOrLines": "real_estate_loans",
    "NumberOfTime60-89DaysPastDueNotWorse": "times_60_89_days_late",
    "NumberOfDependents": "dependents",
}
LATE = ["times_30_59_days_late", "times_60_89_days_late", "times_90_days_late"]
MOST_RATIO = 10.0  # a share above this is an amount of money in the wrong column
MOST_INCOME = 100_000.0  # USD a month


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content), usecols=["SeriousDlqin2yrs", *NAMES])
    table = table[table["age"] >= 18].reset_index(drop=True)
    people = table[list(NAMES)].rename(columns=NAMES)
    people[LATE] = people[LATE].mask(people[LATE] >= 96)
    income = people["monthly_income"]
    debt, used = people["debt_ratio"], people["revolving_utilization"]
    people["debt_ratio"] = debt.where((income > 1) & (debt <= MOST_RATIO))
    people["revolving_utilization"] = used.where(used <= MOST_RATIO)
    people["monthly_income"] = income.where(income <= MOST_INCOME)
    return people, (table["SeriousDlqin2yrs"] == 0).rename("accepted")


def _read_carla(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    return table[list(NAMES)].rename(columns=NAMES), (table["SeriousDlqin2yrs"] == 1).rename("accepted")


def schema() -> Schema:
    """Ten columns. Late payments leave the two-year window by paying on time from now on: down."""
    return Schema(
        (
            Number("revolving_utilization", 0, MOST_RATIO, moves="down", label="Card limits in use", missing=True),
            Number("age", 21, 109, 1, "years", "fixed", "Age"),
            Number("times_30_59_days_late", 0, 13, 1, moves="down", label="Times 30-59 days late", missing=True),
            Number("debt_ratio", 0, MOST_RATIO, moves="down", label="Debt payments as share of income", missing=True),
            Number("monthly_income", 0, MOST_INCOME, 1, "USD", "up", "Monthly income", missing=True),
            Number("open_credit_lines", 0, 58, 1, label="Open loans and credit lines"),
            Number("times_90_days_late", 0, 17, 1, moves="down", label="Times 90 days late", missing=True),
            Number("real_estate_loans", 0, 54, 1, label="Mortgages and home equity lines"),
            Number("times_60_89_days_late", 0, 11, 1, moves="down", label="Times 60-89 days late", missing=True),
            Number("dependents", 0, 20, 1, moves="fixed", label="Dependents", missing=True),
        )
    )


ADVICE: Advice = {
    "revolving_utilization": {"useful_step": 0.05, "least_change": 0.05, "reach": {"absolute": 0.8, "usual": 0.5}},
    "debt_ratio": {"useful_step": 0.05, "least_change": 0.05, "reach": {"absolute": 0.3, "usual": 0.5}},
    "monthly_income": {
        "useful_step": 100, "least_change": 200, "reach": {"relative": 0.25, "usual": 0.5},
        "provide": True,  # by a payslip
    },
    # One or two leave the window of two years while a plan is carried out.
    "times_30_59_days_late": {"reach": {"absolute": 2}},
    "times_60_89_days_late": {"reach": {"absolute": 1}},
    "times_90_days_late": {"reach": {"absolute": 1}},
    # More loans are no advice to a person who was refused one.
    "open_credit_lines": {"moves": "down", "reach": {"absolute": 3}},
    "real_estate_loans": {"moves": "down", "reach": {"absolute": 1}},
}  # fmt: skip


def carla_schema() -> Schema:
    """The same columns without missing values, as wide as the file is."""
    wide = {"revolving_utilization": 771.0, "debt_ratio": 1299.0}
    features: list[Feature] = []
    for f in schema():
        assert isinstance(f, Number)
        features.append(Number(f.name, f.low, wide.get(f.name, f.high), f.step, f.unit, f.moves, f.label))
    return Schema(tuple(features))


RECIPES = (
    DatasetRecipe(
        name="gmc",
        licence="Kaggle competition rules",
        about="Give Me Some Credit, Kaggle competition, 2011; competition rules, get it from Kaggle. 150,000 rows less "
        "one borrower of age 0. Missing: monthly_income (29,731) and dependents (3,924) as given; the codes 96 and 98 "
        "in the late-payment counts (269); debt_ratio where the income is unknown, 0 or 1, since the column then "
        "holds dollars and not a share; shares above 10, for the same reason; incomes above 100,000 a month (70, up "
        "to 3 million). Favourable: not seriously late within two years (139,973 people).",
        rows=149999,
        accepted=139973,
        sources=(SOURCE,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("age",),
    ),
    DatasetRecipe(
        name="carla-gmc",
        licence="MIT (CARLA), Kaggle rules (data)",
        about="Give Me Some Credit as prepared for the CARLA benchmark: 115,527 rows without missing values and with "
        "every |z| below 3. Debt ratios of people with next to no income are still amounts of money. The file turns "
        "the label round (1 = good); read so here. Kept to replay published numbers.",
        rows=115527,
        accepted=107686,
        sources=(CARLA,),
        read=_read_carla,
        schema=carla_schema,
        protected=("age",),
        defect="people with missing values or unusual ones are left out, amounts stand among shares; prefer 'gmc'.",
    ),
)
