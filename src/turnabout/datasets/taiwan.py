"""Taiwan: which credit card clients paid the month after."""

from __future__ import annotations

import io

import pandas as pd

from turnabout.datasets.data_files import SourceFile
from turnabout.datasets.recipe import Advice, DatasetRecipe
from turnabout.schema import Binary, Category, Feature, Number, Ordinal, Schema

SOURCE = SourceFile(
    "taiwan",
    "default_of_credit_card_clients.csv",
    "de8697332fe130109f8bddc5d2dc8a6a681a6ef866168f6f24f7261fac5d88d3",
    url="https://archive.ics.uci.edu/static/public/350/data.csv",
    other_bytes=True,  # UCI's CSV names the same columns X1 ... X23 and Y
)
MONTHS = ("September", "August", "July", "June", "May", "April")  # of 2005, latest first, as in the file
PAY = ("pay_0", "pay_2", "pay_3", "pay_4", "pay_5", "pay_6")
BILLS = tuple(f"bill_amt{i}" for i in range(1, 7))
PAID = tuple(f"pay_amt{i}" for i in range(1, 7))
COLUMNS = ("id", "limit_bal", "sex", "education", "marriage", "age", *PAY, *BILLS, *PAID, "default")
# -2 to 8 in the file; the code book gives -1 and 1 to 9, the author later explained -2 and 0.
REPAYMENT = (
    "not used", "paid in full", "part paid", "1 month late", "2 months late", "3 months late", "4 months late",
    "5 months late", "6 months late", "7 months late", "8 months late",
)  # fmt: skip
EDUCATION = {1: "graduate school", 2: "university", 3: "high school"}
MARRIAGE = {1: "married", 2: "single"}
HIGHEST_BILL = (964511, 983931, 1664089, 891586, 927171, 961664)
LOWEST_BILL = (-165580, -69777, -157264, -170000, -81334, -339603)
HIGHEST_PAID = (873552, 1684259, 896040, 621000, 426529, 528666)


def _read(content: bytes) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(io.BytesIO(content))
    table.columns = pd.Index(COLUMNS)
    people = table[list(COLUMNS[1:-1])].copy()
    people["sex"] = people["sex"].map({1: "male", 2: "female"})
    people["education"] = people["education"].map(EDUCATION).fillna("other")
    people["marriage"] = people["marriage"].map(MARRIAGE).fillna("other")
    for name in PAY:
        people[name] = people[name].map(dict(enumerate(REPAYMENT, start=-2)))
    return people, (table["default"] == 0).rename("accepted")


def schema() -> Schema:
    """All 23 columns. The six months roll on: who pays more, earlier and on smaller bills changes them, one way."""
    features: list[Feature] = [
        Number("limit_bal", 10_000, 1_000_000, 1, "NT dollar", "fixed", "Credit limit"),  # the bank's decision
        Binary("sex", ("female", "male"), "fixed", "Sex"),
        # Fixed, because "other" holds undocumented codes and has no place in an order of schooling.
        Category("education", (*EDUCATION.values(), "other"), "fixed", "Education"),
        Category("marriage", (*MARRIAGE.values(), "other"), "fixed", "Marital status"),
        Number("age", 21, 79, 1, "years", "fixed", "Age"),
    ]
    for name, month in zip(PAY, MONTHS, strict=True):
        features.append(Ordinal(name, REPAYMENT, "down", f"Repayment in {month}"))
    for name, month, low, high in zip(BILLS, MONTHS, LOWEST_BILL, HIGHEST_BILL, strict=True):
        features.append(Number(name, low, high, 1, "NT dollar", "down", f"Bill of {month}"))
    for name, month, high in zip(PAID, MONTHS, HIGHEST_PAID, strict=True):
        features.append(Number(name, 0, high, 1, "NT dollar", "up", f"Paid in {month}"))
    return Schema(tuple(features))


ADVICE: Advice = {
    **{name: {"reach": {"steps": 2}} for name in PAY},
    **{
        name: {"useful_step": 1000, "least_change": 2000, "reach": {"relative": 0.6, "usual": 0.5}}
        for name in BILLS
    },
    **{
        name: {"useful_step": 500, "least_change": 1000, "reach": {"absolute": 20_000, "usual": 0.5}}
        for name in PAID
    },
}  # fmt: skip


RECIPES = (
    DatasetRecipe(
        name="taiwan",
        licence="CC BY 4.0",
        about="Default of credit card clients, I-Cheng Yeh, UCI Machine Learning Repository, 2016 (Yeh and Lien 2009), "
        "CC BY 4.0. 30,000 clients of a Taiwanese bank, April to September 2005. The undocumented codes 0, 5, 6 of "
        "education and 0 of marriage are grouped with 'other'. pay_0 (September) is followed by pay_2 (August), as in "
        "the file; the codes -2 and 0 of these columns ('not used', 'part paid') are not in the code book and follow "
        "the author's later word. Negative bills are credit balances. Favourable: no default in October (23,364).",
        rows=30000,
        accepted=23364,
        sources=(SOURCE,),
        read=_read,
        schema=schema,
        advice=ADVICE,
        protected=("sex", "age", "education", "marriage"),
        fingerprint="d1d6abc40d00578d45295f19178b8c611ce0fd0e7b95f07de4e2e0656d8aa699",
    ),
)
