"""HELOC: who repaid a home equity line of credit, from the credit bureau's record."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Feature, Number, Ordinal, Schema

BY_HAND = "Register at https://community.fico.com/s/explainable-machine-learning-challenge to get it from FICO."
SOURCE = SourceFile(
    "heloc",
    "heloc_dataset_v1.csv",
    "abdb86f415228b6754dcdee791feaf25bb73a9147f1742cf09c9a2dd54308a93",
    by_hand=BY_HAND,
)
CARLA = SourceFile(
    "heloc",
    "carla_heloc.csv",
    "6a668dddbd2b59aed119c0169c562d54ad6a462580ca783628e88cbc59315d41",
    url="https://raw.githubusercontent.com/carla-recourse/cf-data/master/heloc.csv",
)

# Codes 0 to 7 of MaxDelq2PublicRecLast12M; 9, "all other", becomes missing.
DELINQUENCY = (
    "derogatory comment", "120+ days late", "90 days late", "60 days late", "30 days late", "unknown, code 5",
    "unknown, code 6", "never late",
)  # fmt: skip
DELINQUENCY_EVER = (*DELINQUENCY[:5], "unknown", "never late")  # codes 2 to 8 of MaxDelqEver


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    people = table.drop(columns="RiskPerformance")
    known = ~(people == -9).all(axis=1)
    people, outcome = people[known].reset_index(drop=True), table["RiskPerformance"][known].reset_index(drop=True)
    people = people.mask(people < 0)
    people["MaxDelq2PublicRecLast12M"] = people["MaxDelq2PublicRecLast12M"].map(dict(enumerate(DELINQUENCY)))
    people["MaxDelqEver"] = people["MaxDelqEver"].map(dict(enumerate(DELINQUENCY_EVER, start=2)))
    return people, (outcome == "Good").rename("accepted")


def _read_carla(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    return table.drop(columns="RiskPerformance"), (table["RiskPerformance"] == 1).rename("accepted")


def schema() -> Schema:
    """All 23 columns; which way each may move is argued line by line."""
    months, percent = "months", "%"
    features: tuple[Feature, ...] = (
        # Made by the bureau from the others: a result, not an act.
        Number("ExternalRiskEstimate", 33, 94, 1, moves="fixed", label="External risk estimate", missing=True),
        # Ages of accounts and time since events grow by waiting; a plan cannot turn the clock back.
        Number("MSinceOldestTradeOpen", 2, 803, 1, months, "up", "Age of oldest account", missing=True),
        Number("MSinceMostRecentTradeOpen", 0, 383, 1, months, label="Age of newest account"),  # 0 by opening one
        Number("AverageMInFile", 4, 383, 1, months, "up", "Average age of accounts"),
        Number("NumSatisfactoryTrades", 0, 79, 1, moves="up", label="Accounts in good standing"),
        # "Ever" counts are history.
        Number("NumTrades60Ever2DerogPubRec", 0, 19, 1, moves="fixed", label="Accounts ever 60 days late"),
        Number("NumTrades90Ever2DerogPubRec", 0, 19, 1, moves="fixed", label="Accounts ever 90 days late"),
        Number("PercentTradesNeverDelq", 0, 100, 1, percent, "up", "Accounts never late"),  # new good ones raise it
        Number("MSinceMostRecentDelq", 0, 83, 1, months, "up", "Time since last late payment", missing=True),
        Ordinal("MaxDelq2PublicRecLast12M", DELINQUENCY, "up", "Worst delay in last 12 months", missing=True),
        Ordinal("MaxDelqEver", DELINQUENCY_EVER, "fixed", "Worst delay ever"),
        Number("NumTotalTrades", 0, 104, 1, moves="up", label="Accounts in all"),
        Number("NumTradesOpeninLast12M", 0, 19, 1, label="Accounts opened in last 12 months"),
        Number("PercentInstallTrades", 0, 100, 1, percent, label="Installment accounts"),
        Number("MSinceMostRecentInqexcl7days", 0, 24, 1, months, "up", "Time since last inquiry", missing=True),
        # A bad month leaves the window by waiting; nobody needs more inquiries, debt or full cards.
        Number("NumInqLast6M", 0, 66, 1, moves="down", label="Inquiries in last 6 months"),
        Number("NumInqLast6Mexcl7days", 0, 66, 1, moves="down", label="Inquiries in last 6 months, without last week"),
        Number("NetFractionRevolvingBurden", 0, 232, 1, percent, "down", "Revolving balance of limit", missing=True),
        Number("NetFractionInstallBurden", 0, 471, 1, percent, "down", "Installment balance of loan", missing=True),
        Number("NumRevolvingTradesWBalance", 0, 32, 1, label="Revolving accounts with balance", missing=True),
        Number("NumInstallTradesWBalance", 1, 23, 1, label="Installment accounts with balance", missing=True),
        Number("NumBank2NatlTradesWHighUtilization", 0, 18, 1, moves="down", label="Cards near limit", missing=True),
        Number("PercentTradesWBalance", 0, 100, 1, percent, label="Accounts with balance", missing=True),
    )
    return Schema(features)


PAY_OFF = {"moves": "down", "useful_step": 5, "least_change": 5}
ONLY_TIME = (
    "MSinceOldestTradeOpen", "MSinceMostRecentTradeOpen", "AverageMInFile", "MSinceMostRecentDelq",
    "MaxDelq2PublicRecLast12M", "NumTradesOpeninLast12M",
)  # fmt: skip
ADVICE: Advice = {
    # Waiting moves all of these, and all at once: one of them alone is a plan that nobody can carry out.
    **{name: {"moves": "fixed"} for name in ONLY_TIME},
    # By applying for no other credit for half a year.
    "MSinceMostRecentInqexcl7days": {"least_change": 3, "reach": {"absolute": 6}},
    "NumInqLast6M": {"reach": {"absolute": 3}},
    "NumInqLast6Mexcl7days": {"reach": {"absolute": 3}},
    "NumSatisfactoryTrades": {"reach": {"absolute": 3}},
    "NumTotalTrades": {"reach": {"absolute": 3}},
    "PercentTradesNeverDelq": {"least_change": 2, "reach": {"absolute": 10}},
    "PercentInstallTrades": {"useful_step": 5, "least_change": 5, "reach": {"absolute": 20}},
    "NetFractionRevolvingBurden": PAY_OFF | {"reach": {"absolute": 60, "usual": 0.5}},
    "NetFractionInstallBurden": PAY_OFF | {"reach": {"absolute": 30, "usual": 0.5}},
    "PercentTradesWBalance": PAY_OFF | {"reach": {"absolute": 40, "usual": 0.5}},
    # Balances are paid off, not run up.
    "NumRevolvingTradesWBalance": {"moves": "down", "reach": {"absolute": 3}},
    "NumInstallTradesWBalance": {"moves": "down", "reach": {"absolute": 2}},
    "NumBank2NatlTradesWHighUtilization": {"reach": {"absolute": 3}},
}


def carla_schema() -> Schema:
    """The 21 numeric columns, filled with means and so no longer whole numbers, without missing values."""
    numbers = (feature for feature in schema() if isinstance(feature, Number))
    return Schema(tuple(Number(f.name, f.low, f.high, None, f.unit, f.moves, f.label) for f in numbers))


RECIPES = (
    DatasetRecipe(
        name="heloc",
        licence="FICO data set usage licence (registration)",
        about="FICO Explainable Machine Learning Challenge, 2018; FICO's own licence, get it from FICO. 588 of 10,459 "
        "rows hold no bureau record at all (-9 everywhere) and are dropped: 9,871 people. The codes -7 (condition "
        "not met), -8 (no usable account) and -9 (no record) become missing, so the difference between them is lost; "
        "so does 'all other' in MaxDelq2PublicRecLast12M (6 people). For MSinceMostRecentDelq and "
        "MSinceMostRecentInqexcl7days missing mostly means that there was none, which is good news. "
        "Favourable: Good (4,735 people).",
        rows=9871,
        accepted=4735,
        sources=(SOURCE,),
        read=_read,
        schema=schema,
        advice=ADVICE,
    ),
    DatasetRecipe(
        name="carla-heloc",
        licence="MIT (CARLA), FICO (data)",
        about="HELOC as prepared for the CARLA benchmark (carla-recourse/cf-data): 9,871 people, 21 columns. Missing "
        "codes were filled with the mean of the row's own class, so the label leaks: boosted trees reach 82.6 % here "
        "and 72 to 73 % on clean data. Kept to replay published numbers.",
        rows=9871,
        accepted=4735,
        sources=(CARLA,),
        read=_read_carla,
        schema=carla_schema,
        defect="the label leaks into the filled cells (class means); prefer 'heloc'.",
    ),
)
