"""The published studies: people in their own units, the network as published, actions that cost what the paper says."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from published import load
from turnabout.errors import DataError
from turnabout.models import ReluNet
from turnabout.schema import Number
from turnabout.studies import domains
from turnabout.studies.domains import adult_domain, german_domain

NAMES = ("german", "adult", "fanniemae")
every = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of data and an empty cache."""
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path))
    monkeypatch.setenv("TURNABOUT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def stored(home: Path, name: str) -> np.ndarray:
    """The study's rows as they lie in the file, without labels."""
    return pd.read_csv(home / name / f"synth_action_seq_{name}_100_negatives.csv.gz").to_numpy(dtype=float)[:, :-2]


def logits(home: Path, name: str, z: np.ndarray) -> np.ndarray:
    """The published network, straight from its arrays."""
    arrays = np.load(home / name / "published_network.npz")
    depth = len(arrays.files) // 2
    for i in range(depth):
        z = z @ arrays[f"kernel_{i}"].astype(float) + arrays[f"bias_{i}"]
        z = np.maximum(z, 0) if i < depth - 1 else z
    return z


def inputs(domain: domains.Domain) -> np.ndarray:
    """The people as the network sees them."""
    return first_layer(domain, domain.people)


def first_layer(domain: domains.Domain, rows: pd.DataFrame) -> np.ndarray:
    """What the first layer of the wrapped network hands on: standardised rows."""
    first = domain.model._judge.module[0]
    return first(domain.schema.encode(rows)).numpy()


# -- people and networks ------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("whole", [False, True])
def test_people_standardised_again_are_the_stored_rows(data_home: Path, name: str, whole: bool) -> None:
    assert np.abs(inputs(load(name, whole)) - stored(data_home, name)).max() < 1e-6


@every
@pytest.mark.parametrize("whole", [False, True])
def test_the_margin_is_the_published_difference_of_logits(data_home: Path, name: str, whole: bool) -> None:
    domain = load(name, whole)
    out = logits(data_home, name, stored(data_home, name))
    hoped_for = 1 if name == "adult" else 0
    expected = out[:, hoped_for] - out[:, 1 - hoped_for]
    margin = domain.model.margin(domain.schema.encode(domain.people)).numpy()
    np.testing.assert_allclose(margin, expected, atol=1e-6)
    np.testing.assert_allclose(domain.model.judge(domain.people), expected, atol=1e-5)  # it answers in float32
    assert (margin < 0).all()  # everybody was refused
    assert isinstance(domain.model, ReluNet)


@every
def test_plans_are_accepted_by_the_network_as_published(data_home: Path, name: str) -> None:
    """In float32, as its arrays are, asked about each row alone and about all of them."""
    domain = load(name)
    people = domain.people.iloc[:25]
    answer = ta.methods.ActionSequences.small().fit(domain.problem).find(people)
    z = first_layer(domain, answer.options[list(domain.schema.names)]).astype(np.float32)
    arrays = np.load(data_home / name / "published_network.npz")
    depth, hoped_for = len(arrays.files) // 2, 1 if name == "adult" else 0
    for batch in (z, *(z[i : i + 1] for i in range(len(z)))):
        out = batch
        for i in range(depth):
            out = out @ arrays[f"kernel_{i}"] + arrays[f"bias_{i}"]
            out = np.maximum(out, 0) if i < depth - 1 else out
        assert out.dtype == np.float32
        assert (out[:, hoped_for] > out[:, 1 - hoped_for]).all()
    assert len(z) > 10
    assert domain.model.noise >= 1e-6


@every
def test_domains_are_as_described(data_home: Path, name: str) -> None:
    domain = load(name)
    row = domains.describe().set_index("name").loc[name]
    assert (row["people"], row["features"], row["actions"]) == (len(domain), len(domain.schema), len(domain.actions))
    assert row["available"]
    assert tuple(domain.people.columns) == domain.schema.names
    assert list(domain.people.index) == list(range(100))
    assert "AAAI 2020" in domain.about
    assert domain.published["people"] == 100
    assert f"{row['actions']} actions" in repr(domain)


@every
def test_people_lie_inside_the_bounds_they_may_move_in(data_home: Path, name: str) -> None:
    domain = load(name)
    for feature in domain.schema:
        if isinstance(feature, Number) and feature.moves != "fixed":
            assert domain.people[feature.name].between(feature.low, feature.high).all(), feature.name


@every
def test_whole_domains_hold_the_same_people_on_a_grid(data_home: Path, name: str) -> None:
    fine, whole = load(name), load(name, True)
    pd.testing.assert_frame_equal(fine.people, whole.people)
    for a, b in zip(fine.schema, whole.schema, strict=True):
        if isinstance(a, Number) and a.moves != "fixed":
            assert isinstance(b, Number)
            assert (a.low, a.high, a.step, a.moves) == (b.low, b.high, None, b.moves)
            assert b.step == (0.125 if a.name == "OrInterestRate" else 1)


def test_german_people_are_bad_risks_of_the_published_file(data_home: Path) -> None:
    raw = pd.read_csv(data_home / "german" / "german_named.csv.gz")
    names = list(german_domain.schema().names)
    raw = raw.set_axis([*names, "class"], axis=1)
    both = load("german").people.merge(raw, on=names)
    assert len(both) == 100
    assert (both["class"] == 2).all()
    assert load("german").people.loc[0, ["loan_duration", "credit_amount", "age"]].tolist() == [36, 5179, 29]


def census(home: Path) -> pd.DataFrame:
    """The census rows without a gap, under our names."""
    raw = pd.read_csv(home / "adult" / "adult_named.csv.gz")
    raw = raw[~(raw == "?").any(axis=1)]
    return raw.rename(columns=lambda column: column.replace("-", "_"))


def test_adult_people_are_found_in_the_census_under_the_names_given(data_home: Path) -> None:
    people = load("adult").people.reset_index()
    names = list(adult_domain.schema().names)
    both = people.merge(census(data_home), on=names)
    assert set(both["index"]) == set(range(100))
    low = both.groupby("index")["income"].agg(lambda income: (income == "<=50K").any())
    assert low.index[~low].tolist() == [3, 39, 53]  # as docs/domains.md says


def test_adult_levels_stand_in_the_order_of_the_census(data_home: Path) -> None:
    raw = census(data_home)
    for feature in adult_domain.schema():
        if levels := getattr(feature, "levels", ()):
            assert levels == tuple(raw[feature.name].unique())
    assert adult_domain.OCCUPATION[12] == "Armed-Forces"  # the level that the study's own action sets


def test_means_come_from_whole_sums(data_home: Path) -> None:
    """The constants are those that a line through the recovered people gives."""
    for name, scales in (("german", german_domain.SCALES), ("adult", adult_domain.SCALES)):
        domain = load(name)
        z = stored(data_home, name)
        for feature, scale in scales.items():
            column = domain.schema.columns.index(feature)
            std, mean = np.polyfit(z[:, column], domain.people[feature], 1)
            assert scale.mean == pytest.approx(mean, rel=1e-7)
            assert scale.std == pytest.approx(std, rel=1e-7)


# -- actions ------------------------------------------------------------------------------------------------------


def step(
    domain: domains.Domain, action: str, r: float, **changes: object
) -> tuple[dict[str, float], float, float, bool]:
    """The first person, with some cells changed, does one action: (new numbers, cost, duration, allowed)."""
    bound = domain.actions.bind(domain.schema)
    tables = bound.tables
    person = domain.people.iloc[[0]].assign(**changes)
    script = tables.script(torch.tensor([[bound.names.index(action)]]))
    start = tables.units(domain.schema.encode(person))
    amounts = torch.zeros(1, 1, tables.gain.shape[1], dtype=torch.float64)
    amounts[..., 0] = r
    path = script.roll(start, amounts)
    slack, strict = path.slack[0, 0], script.strict[0, 0]
    allowed = bool(torch.where(strict, slack > 0, slack >= 0).all())
    names = [domain.schema.columns[int(c)] for c in tables.columns]
    new = dict(zip(names, path.end[0].tolist(), strict=True))
    return new, float(path.cost[0, 0]), float(script.duration(0, start, path.end)[0]), allowed


@pytest.mark.parametrize(
    ("action", "r", "changes", "new", "cost", "duration", "allowed"),
    [
        ("WaitYears", 3, {}, {"age": 32}, 3, 3, True),
        ("WaitYears", 0, {}, {"age": 29}, 0, 0, False),
        ("WaitYears", 91, {}, {"age": 120}, 91, 91, False),
        ("Naturalize", 0, {}, {"foreign_worker=A202": 1, "foreign_worker=A201": 0}, 5, 0, True),
        ("Naturalize", 0, {"foreign_worker": "A202"}, {"foreign_worker=A202": 1}, 5, 0, False),
        ("ChangeCreditAmount", -1000, {}, {"credit_amount": 4179}, (1000 / 5179) ** 2, 0, True),
        ("ChangeCreditAmount", -1000, {"age": 15}, {"credit_amount": 4179}, (1000 / 5179) ** 2, 0, False),
        ("ChangeCreditAmount", -5179, {}, {"credit_amount": 0}, 1, 0, False),
        ("ChangeLoanPeriod", -18, {}, {"loan_duration": 18}, 0.25, 0, True),
        ("ChangeLoanPeriod", 84, {}, {"loan_duration": 120}, (84 / 36) ** 2, 0, False),
        ("AdjustLoanPeriod", 5179, {}, {"credit_amount": 10358, "loan_duration": 72}, 1, 0, True),
        ("AdjustLoanPeriod", 0, {}, {"credit_amount": 5179, "loan_duration": 36}, 0, 0, True),
        ("AdjustLoanPeriod", 100, {"credit_amount": 1000}, {"loan_duration": 39.6}, 0.01, 0, False),
        ("AdjustLoanPeriod", 4 * 5179, {}, {"loan_duration": 180}, 16, 0, False),
        ("GetGuarantor", 0, {}, {"other_debtors_guarantors=A103": 1, "other_debtors_guarantors=A101": 0}, 5, 0, True),
        ("GetGuarantor", 0, {"other_debtors_guarantors": "A103"}, {}, 5, 0, False),
        ("GetUnskilledJob", 0, {"job": "A171"}, {"job=A172": 1, "job=A171": 0}, 5, 0, True),
        ("GetUnskilledJob", 0, {"job": "A172"}, {}, 5, 0, False),
        ("GetUnskilledJob", 0, {"job": "A173"}, {}, 5, 0, False),
        ("GetUnskilledJob", 0, {"job": "A174"}, {}, 5, 0, False),
    ],
)
def test_german_steps(
    data_home: Path,
    action: str,
    r: float,
    changes: dict[str, object],
    new: dict[str, float],
    cost: float,
    duration: float,
    allowed: bool,
) -> None:
    got = step(load("german"), action, r, **changes)
    assert {name: got[0][name] for name in new} == pytest.approx(new)
    assert got[1:] == (pytest.approx(cost), pytest.approx(duration), allowed)


@pytest.mark.parametrize(
    ("action", "r", "changes", "new", "cost", "duration", "allowed"),
    [
        ("AddEducation", 2, {}, {"education_num": 15, "age": 39}, 2, 4, True),
        ("AddEducation", 3.5, {}, {"education_num": 16.5, "age": 42}, 3.5, 7, False),
        ("AddEducation", -1, {}, {"education_num": 12, "age": 33}, 1, -2, False),
        ("AddEducation", 1, {"age": 119}, {"age": 121}, 1, 2, False),
        ("ChangeWorkingHours", -20, {}, {"hours_per_week": 20}, 2, 0, True),
        ("ChangeWorkingHours", 50, {}, {"hours_per_week": 90}, 5, 0, False),
        ("ChangeCapitalLoss", 500, {"capital_gain": 0}, {"capital_loss": 500}, 0.5, 0, True),
        ("ChangeCapitalLoss", 1, {"capital_gain": 0}, {"capital_loss": 1}, 0.001, 0, False),
        ("ChangeCapitalLoss", 500, {"capital_gain": 1}, {"capital_loss": 500}, 0.5, 0, False),
        ("ChangeCapitalLoss", 5000, {"capital_gain": 0}, {"capital_loss": 5000}, 5, 0, False),
        ("Enlist", 0, {}, {"occupation=Armed-Forces": 1, "occupation=Prof-specialty": 0}, 5, 0, True),
        ("Enlist", 0, {"occupation": "Armed-Forces"}, {"occupation=Armed-Forces": 1}, 5, 0, False),
        ("IncreaseCapitalGain", 2500, {"capital_gain": 0}, {"capital_gain": 2500}, 0.25, 0, True),
        ("IncreaseCapitalGain", 2500, {"capital_loss": 1}, {}, 0.25, 0, False),
        ("IncreaseCapitalGain", 1e5, {"capital_gain": 0}, {"capital_gain": 1e5}, 10, 0, False),
        ("WaitYears", 1.5, {}, {"age": 36.5}, 1.5, 1.5, True),
    ],
)
def test_adult_steps(
    data_home: Path,
    action: str,
    r: float,
    changes: dict[str, object],
    new: dict[str, float],
    cost: float,
    duration: float,
    allowed: bool,
) -> None:
    got = step(load("adult"), action, r, **changes)
    assert {name: got[0][name] for name in new} == pytest.approx(new)
    assert got[1:] == (pytest.approx(cost), pytest.approx(duration), allowed)


@pytest.mark.parametrize(
    ("action", "feature", "low", "high"),
    [
        ("ChangeCreditScore", "CreditScore", 300, 850),
        ("ChangeUnits", "NumUnits", 0, 5),
        ("ChangeDebtRatio", "DTIRat", 0, 100),
        ("ChangeInterestRate", "OrInterestRate", 0, 30),
        ("ChangeLoanTerm", "OrLoanTerm", 0, 800),
    ],
)
def test_fanniemae_steps(data_home: Path, action: str, feature: str, low: float, high: float) -> None:
    domain = load("fanniemae")
    own = float(domain.people.loc[0, feature])
    new, cost, duration, allowed = step(domain, action, 0.1 * own)
    assert (new[feature], cost, duration, allowed) == (pytest.approx(1.1 * own), pytest.approx(0.01), 0, True)
    for edge in (low, high):
        new, cost, _, allowed = step(domain, action, edge - own)
        assert (new[feature], cost, allowed) == (pytest.approx(edge), pytest.approx((edge / own - 1) ** 2), False)


@every
def test_what_actions_touch_may_move_and_nothing_else(data_home: Path, name: str) -> None:
    domain = load(name)
    touched = {feature for action in domain.actions for feature in action.writes}
    assert touched == {feature.name for feature in domain.schema if feature.moves != "fixed"}


@every
@pytest.mark.parametrize("whole", [False, True])
def test_actions_fit_their_schema(data_home: Path, name: str, whole: bool) -> None:
    domain = load(name, whole)
    assert domain.actions.problems(domain.schema) == ()
    assert domain.problem.actions is not None
    assert domain.problem.actions.names == tuple(action.name for action in domain.actions)
    assert len(domain.actions.table()) == len(domain.actions)


def test_only_fanniemae_actions_all_commute(data_home: Path) -> None:
    for name in NAMES:
        bound = load(name).problem.actions
        assert bound is not None
        count = len(bound.names)
        pairs = [bound.commute(a, b) for a in range(count) for b in range(a)]
        assert all(pairs) == (name == "fanniemae")


# -- what can go wrong --------------------------------------------------------------------------------------------


def test_unknown_domain() -> None:
    with pytest.raises(DataError, match="there is no domain 'germany'"):
        domains.load("germany")
    with pytest.raises(DataError, match="did you mean 'german'"):
        domains.load("germany")


@every
def test_missing_files_say_where_they_belong(elsewhere: Path, name: str) -> None:
    with pytest.raises(DataError, match="Set TURNABOUT_DATA to the folder"):
        domains.load(name)
    assert not domains.describe().set_index("name").loc[name, "available"]


def test_another_network_is_refused(data_home: Path, elsewhere: Path) -> None:
    shutil.copytree(data_home / "german", elsewhere / "german")
    (elsewhere / "german").chmod(0o755)
    network = elsewhere / "german" / "published_network.npz"
    network.chmod(0o644)
    network.write_bytes(network.read_bytes()[:-1])
    with pytest.raises(DataError, match="wrong checksum"):
        domains.load("german")


def test_names() -> None:
    assert set(NAMES) <= set(domains.names())
    assert domains.describe()["name"].tolist() == list(domains.names())
