"""Every data set: what the README says of it holds, and its people fit its schema."""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd
import pytest

from turnabout import datasets
from turnabout.datasets.catalog import ALL, fingerprint
from turnabout.datasets.recipe import DatasetRecipe
from turnabout.errors import DataError

every = pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)


def load(recipe: DatasetRecipe, request: pytest.FixtureRequest) -> datasets.Dataset:
    """Load without a download; skipped where the files are not there, which never happens to the embedded set."""
    if recipe.sources:
        home: Path = request.getfixturevalue("data_home")
        for source in recipe.sources:
            if not any((home / source.folder / name).is_file() for name in (source.file, source.file + ".gz")):
                pytest.skip(f"{source.folder}/{source.file} is not under TURNABOUT_DATA")
    if recipe.defect:
        with pytest.warns(UserWarning, match="prefer"):
            return datasets.load(recipe.name)
    return datasets.load(recipe.name)


@every
def test_people_are_as_described_and_fit_their_schema(recipe: DatasetRecipe, request: pytest.FixtureRequest) -> None:
    data = load(recipe, request)
    assert (len(data), int(data.accepted.sum())) == (recipe.rows, recipe.accepted)
    assert data.accepted.dtype == bool
    assert tuple(data.people.columns) == data.schema.names
    assert data.accepted.index.equals(data.people.index)
    x = data.schema.encode(data.people)
    assert x.min() >= 0
    assert x.max() <= 1
    assert (x.amax(dim=0) > x.amin(dim=0)).all()  # no column says nothing
    for feature, columns in zip(data.schema, data.schema.slices, strict=True):
        if feature.missing:  # declared only where it happens
            assert x[:, columns][:, -1].sum() == data.people[feature.name].isna().sum() > 0


@every
def test_schemas_are_reviewed(recipe: DatasetRecipe) -> None:
    schema = recipe.schema()
    fixed = {feature.name for feature in schema if feature.moves == "fixed"}
    assert fixed
    assert len(fixed) < len(schema)  # something can be done
    assert all(feature.label for feature in schema)
    assert set(recipe.protected) <= fixed
    assert recipe.about.count(".") >= 2
    assert not any(word in recipe.about for word in ("/work", "/tmp", "/home"))


def test_load_is_fast(data_home: Path) -> None:
    datasets.load("german")
    begin = time.perf_counter()
    datasets.load("adult")
    assert time.perf_counter() - begin < 2  # half a second on an idle machine


def test_clean_names_come_first_and_defective_ones_only_when_asked_for() -> None:
    assert set(datasets.names()) >= {"adult", "german", "compas", "heloc", "bail", "pima", "gmc", "taiwan"}
    assert "carla-heloc" not in datasets.names()
    assert "carla-heloc" in datasets.names(defective=True)
    assert len(set(datasets.names(defective=True))) == len(ALL)


def test_describe_lists_every_data_set() -> None:
    table = datasets.describe().set_index("name")
    assert tuple(table.index) == datasets.names(defective=True)
    assert table.index[table["embedded"]].tolist() == ["german"]
    assert table.loc["german", "available"]
    assert table.loc["german", "accepted"] == 0.7


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(DataError, match="did you mean 'german'"):
        datasets.load("germann")


def test_split_is_disjoint_reproducible_and_keeps_the_accepted_share() -> None:
    data = datasets.load("german")
    train, test = data.split(test=0.2, seed=3)
    assert (len(train), len(test)) == (800, 200)
    assert not set(train.people.index) & set(test.people.index)
    assert set(train.people.index) | set(test.people.index) == set(data.people.index)
    assert train.accepted.mean() == test.accepted.mean() == 0.7
    pd.testing.assert_frame_equal(test.people, data.people.loc[test.people.index])
    pd.testing.assert_frame_equal(data.split(test=0.2, seed=3)[1].people, test.people)
    assert not data.split(test=0.2, seed=4)[1].people.index.equals(test.people.index)
    with pytest.raises(DataError, match="not a number strictly between 0 and 1"):
        data.split(test=1.0)


def test_a_data_set_prints_what_it_is() -> None:
    data = datasets.load("german")
    assert repr(data) == "Dataset('german': 1,000 people, 20 features, 70.0% accepted)"
    assert list(data.groups) == ["personal_status_sex", "age", "foreign_worker"]
    assert "CC BY 4.0" in data.about


def test_two_loads_do_not_share_rows() -> None:
    first = datasets.load("german")
    first.people.loc[:, "age"] = 0
    assert datasets.load("german").people["age"].min() == 19


def test_fingerprint_sees_every_value() -> None:
    data = datasets.load("german")
    changed = data.people.copy()
    changed.loc[7, "amount"] += 1
    assert fingerprint(data.people, data.accepted) == fingerprint(data.people.copy(), data.accepted)
    assert fingerprint(data.people, data.accepted) != fingerprint(changed, data.accepted)
    assert fingerprint(data.people, data.accepted) != fingerprint(data.people, ~data.accepted)
