"""What was done to each data set, held against the raw files and against what is known of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from turnabout import datasets
from turnabout.datasets import german


def test_german_has_the_corrected_meanings() -> None:
    people = datasets.load("german").people
    assert people["status"].value_counts()["200 DM or more"] == 394
    assert people["status"].value_counts()["no account"] == 274
    assert people["foreign_worker"].value_counts().to_dict() == {"no": 963, "yes": 37}
    assert people["people_liable"].value_counts().to_dict() == {"0 to 2": 845, "3 or more": 155}
    assert people["housing"].value_counts()["rent"] == 713
    assert people["property"].value_counts()["real estate"] == 154
    assert people["savings"].value_counts()["1000 DM or more"] == 183


def test_german_good_accounts_pay() -> None:
    """With the published code table those without an account would pay best; with the corrected one they pay worst."""
    data = datasets.load("german")
    share = data.accepted.groupby(data.people["status"]).mean()
    assert share[list(german.CORRECTED["status"])].is_monotonic_increasing
    share = data.accepted.groupby(data.people["savings"]).mean()
    assert share["1000 DM or more"] > share["unknown or none"]


def test_german_agrees_with_the_corrected_file_row_by_row(data_home: Path) -> None:
    key = ["duration", "amount", "age", "accepted"]
    ours, corrected = (
        data.people.assign(accepted=data.accepted) for data in map(datasets.load, ("german", "south-german"))
    )
    both = ours.merge(corrected, on=key, suffixes=("", "_corrected"))
    assert len(both) == 990
    differing = {name: int((both[name] != both[f"{name}_corrected"]).sum()) for name in german.CODES}
    assert {name: n for name, n in differing.items() if n} == {
        "other_installment_plans": 34,
        "housing": 1,
        "foreign_worker": 10,
    }


def test_german_embedded_file_is_written_from_the_published_one(data_home: Path) -> None:
    from turnabout.datasets.data_files import obtain

    people, accepted = german.read_statlog(obtain(german.STATLOG).content, german.CORRECTED)
    data = datasets.load("german")
    pd.testing.assert_frame_equal(people, data.people, check_dtype=False)
    assert (accepted == data.accepted).all()


def test_german_uncorrected_calls_the_best_accounts_no_account(data_home: Path) -> None:
    with pytest.warns(UserWarning, match="code table is wrong"):
        data = datasets.load("german-statlog-uncorrected")
    assert data.people["status"].value_counts()["no account"] == 394


def test_adult_question_marks_are_missing(data_home: Path) -> None:
    people = datasets.load("adult").people
    assert people.isna().sum().sum() == 6465
    assert people.isna().any(axis=1).sum() == 3620
    named = pd.read_csv(data_home / "adult" / "adult_named.csv.gz", na_values="?")
    named.columns = named.columns.str.replace("-", "_")
    pd.testing.assert_frame_equal(people, named[list(people.columns)], check_dtype=False)


def test_compas_equals_the_filtered_people_of_the_benchmark(data_home: Path) -> None:
    data = datasets.load("compas")
    carla = pd.read_csv(data_home / "compas" / "carla_compas.csv.gz")
    for name in ("age", "priors_count"):
        assert sorted(data.people[name]) == sorted(carla[name])
    assert sorted(data.people["length_of_stay"]) == sorted(carla["length_of_stay"].clip(lower=0))
    assert int(data.accepted.sum()) == int((carla["two_year_recid"] == 0).sum())


def test_heloc_codes_are_missing_not_numbers(data_home: Path) -> None:
    people = datasets.load("heloc").people
    assert people["MSinceMostRecentDelq"].isna().sum() == 4664 + 176
    assert people["NetFractionInstallBurden"].isna().sum() == 3419
    assert people["MaxDelq2PublicRecLast12M"].isna().sum() == 6
    assert people.select_dtypes("number").min().min() == 0


def test_bail_outcome_columns_are_left_out(data_home: Path) -> None:
    people = datasets.load("bail").people
    assert not {"time", "follow", "file", "TIME", "FOLLOW", "FILE", "RECID"} & set(people)
    assert people["school"].min() >= 1
    assert people["priors"].min() >= 0


def test_pima_zeros_are_missing(data_home: Path) -> None:
    people = datasets.load("pima").people
    assert people.isna().sum()[lambda n: n > 0].to_dict() == {
        "glucose": 5,
        "blood_pressure": 35,
        "skin_thickness": 227,
        "insulin": 374,
        "bmi": 11,
    }


def test_gmc_codes_and_dollars_among_shares_are_missing(data_home: Path) -> None:
    people = datasets.load("gmc").people
    assert people["times_90_days_late"].isna().sum() == 269
    assert people["monthly_income"].isna().sum() == 29731 + 70
    assert people["debt_ratio"].max() <= 10
    unknown_income = people["monthly_income"].isna() | (people["monthly_income"] <= 1)
    assert people.loc[unknown_income & people["debt_ratio"].notna(), "debt_ratio"].count() <= 70  # the large incomes


def test_taiwan_undocumented_codes_are_other(data_home: Path) -> None:
    people = datasets.load("taiwan").people
    assert people["education"].value_counts()["other"] == 123 + 14 + 280 + 51
    assert people["marriage"].value_counts()["other"] == 323 + 54
    assert people["pay_0"].value_counts()["part paid"] == 14737
    assert np.isfinite(people.select_dtypes("number").to_numpy()).all()
