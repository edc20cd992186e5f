"""Fannie Mae: whose mortgage will be repaid. 172 features, five actions."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.schema import Feature, Number, Schema
from turnabout.studies.domains.domain import Domain, DomainRecipe
from turnabout.studies.domains.study import SECONDS_PER_SEQUENCE, Standardization, number, read_domain, source

REPAID = 0  # logit of the repaid loan
DECIMALS = {"OrInterestRate": 3}  # the others are whole

# name: (low, high, unit, label, step when whole)
LEVERS: dict[str, tuple[float, float, str, str, float]] = {
    "OrInterestRate": (0, 30, "%", "Interest rate at origination", 0.125),
    "OrLoanTerm": (0, 800, "months", "Term of the loan at origination", 1.0),
    "DTIRat": (0, 100, "%", "Debt payments of income", 1.0),
    "CreditScore": (300, 850, "points", "Credit score", 1.0),
    "NumUnits": (0, 5, "units", "Units of the property", 1.0),
}


def schema(names: tuple[str, ...], whole: bool = False) -> Schema:
    """The columns of the study's file: five in their own units, all others standardised and fixed."""
    return Schema(tuple(_feature(name, whole) for name in names))


def _feature(name: str, whole: bool) -> Feature:
    if name not in LEVERS:  # encoded as it stands: what is 0 and 1 here is no bound of the values
        return Number(name, 0, 1, None, "", "fixed", f"{name}, standardised")
    low, high, unit, label, step = LEVERS[name]
    return number(name, low, high, unit, label, whole=step if whole else None, decimals=6)


def _scales(statistics: pd.DataFrame) -> dict[str, Standardization]:
    mean, std = (statistics.set_index("name")[column] for column in ("mean", "std"))
    return {name: Standardization(float(mean[name]), float(std[name]), DECIMALS.get(name, 0)) for name in LEVERS}


def _build(contents: tuple[bytes, ...], whole: bool) -> Domain:
    table = pd.read_csv(io.BytesIO(contents[2]))  # of statistics
    columns, scales = schema(tuple(table["name"]), whole), _scales(table)
    return read_domain(
        "fanniemae",
        columns,
        scales,
        REPAID,
        contents,
        about="Data: Fannie Mae, Single-Family Loan Performance Data, under Fannie Mae's own terms; only "
        "the study's hundred people are known, and no training data. Five columns come with a mean and a deviation "
        "and are in their own units, the other 167 stay standardised and fixed. The study's table counts 21 features.",
        published={
            "solved": 62,
            "people": 100,
            "max_steps": 4,
            "features": 21,
            "actions": 5,
            "sequences": 205,
            "seconds_per_sequence": SECONDS_PER_SEQUENCE,
            "relative_margin_mean": 1.92,
            "relative_margin_sd": 5.40,
        },
    )


RECIPE = DomainRecipe(
    name="fanniemae",
    question="will this mortgage be repaid",
    licence="Fannie Mae's own terms (data), MIT (rows, network)",
    people=100,
    features=172,
    actions=5,
    sources=(
        source(
            "fanniemae",
            "synth_action_seq_fanniemae_100_negatives.csv",
            "93c52147c45ff540489200cf1fa245827f6b5e85df6ee908e6858d71d75b75d0",
        ),
        source(
            "fanniemae", "published_network.npz", "b78ac230addfe0e20368d1c9cbf114ae841dcecabd5809914541610f1c3c6b71"
        ),
        source("fanniemae", "feature_stats.csv", "15d8f977704be59570e3bfdcbf90c168cc7ef0df83b773d8cca5793d70218e63"),
    ),
    build=_build,
)
