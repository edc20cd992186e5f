"""LIME on tables: bins, deviations, where the draws lie, and everyone at once."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.lime.draws import BinnedFeature, Bins, NormalFeature, parts_of
from turnabout.explain.lime.lime_table import LimeTable

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(400, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
SLOPE = np.array([1.0, -0.5, 2.0])


def straight(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.from_numpy(SLOPE) + 3


def bent(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[:, 0]) * x[:, 1] + torch.relu(x[:, 2])


def quartile(x: torch.Tensor) -> torch.Tensor:
    edges = torch.from_numpy(np.quantile(BACKGROUND, [0.25, 0.5, 0.75], axis=0).T.copy())
    return torch.stack([torch.searchsorted(edges[j], x[:, j].contiguous()) for j in range(3)], 1)


def small_world() -> tuple[ta.Schema, pd.DataFrame]:
    rng = np.random.default_rng(1)
    schema = ta.Schema(
        (
            ta.Number("income", low=0, high=100),
            ta.Number("age", low=18, high=90, missing=True),
            ta.Category("job", levels=("none", "clerk", "nurse")),
            ta.Binary("owner"),
        )
    )
    people = pd.DataFrame(
        {
            "income": rng.uniform(0, 100, 300).round(2),
            "age": np.where(rng.random(300) < 0.2, np.nan, rng.integers(18, 91, 300)),
            "job": rng.choice(["none", "clerk", "nurse"], 300, p=[0.5, 0.3, 0.2]),
            "owner": rng.choice([True, False], 300),
        }
    )
    return schema, people


# -- known answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", ["person", "mean"])
def test_continuous_linear_functions_keep_their_coefficients(around):  # check 1
    lime = LimeTable(discretize=False, around=around, samples=200, ridge=0.0)
    found = lime.explain(straight, BACKGROUND[:7], background=BACKGROUND)
    assert found.values.to_numpy() == pytest.approx(np.tile(SLOPE * BACKGROUND.std(0), (7, 1)), abs=1e-10)
    assert found.base is None and "do not add up" in found.notes[0]


@pytest.mark.parametrize("around", ["person", "mean"])
def test_discretized_functions_of_same_bins_keep_their_coefficients(around):  # check 1
    person = BACKGROUND[3]
    own = quartile(torch.from_numpy(person[None]))

    def score(x: torch.Tensor) -> torch.Tensor:
        return (quartile(x) == own).to(torch.float64) @ torch.from_numpy(SLOPE) - 1

    found = LimeTable(around=around, samples=300, ridge=0.0).explain(score, person[None], background=BACKGROUND)
    assert found.values.iloc[0].to_numpy() == pytest.approx(SLOPE, abs=1e-10)
    assert found.base is not None and found.base[0] == pytest.approx(-1, abs=1e-10)


def test_discretized_limit_in_closed_form():
    """Features are drawn apart and the kernel is a product: slopes of a sum are differences of means in bins."""
    person = BACKGROUND[5]
    own = quartile(torch.from_numpy(person[None]))[0]
    edges = np.quantile(BACKGROUND, [0.25, 0.5, 0.75], axis=0)
    found = LimeTable.reference(samples=60_000, ridge=0.0, select=None).explain(
        straight, person[None], background=BACKGROUND
    )
    expected = []
    for j in range(3):
        bins = np.searchsorted(edges[:, j], BACKGROUND[:, j])
        low = np.concatenate([[BACKGROUND[:, j].min()], edges[:, j]])
        high = np.concatenate([edges[:, j], [BACKGROUND[:, j].max()]])
        means, shares = [], []
        for b in range(4):
            values = BACKGROUND[bins == b, j]
            m, s = values.mean(), values.std()
            a, z = (low[b] - m) / s, (high[b] - m) / s
            pdf = [math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) for t in (a, z)]
            cdf = [0.5 * (1 + math.erf(t / math.sqrt(2))) for t in (a, z)]
            means.append(m + s * (pdf[0] - pdf[1]) / (cdf[1] - cdf[0]))
            shares.append(len(values))
        mine = int(own[j])
        rest = [b for b in range(4) if b != mine]
        away = np.average([means[b] for b in rest], weights=[shares[b] for b in rest])
        expected.append(SLOPE[j] * (means[mine] - away))
    assert found.errors is not None
    assert (np.abs(found.values.iloc[0].to_numpy() - expected) < 4 * found.errors.iloc[0].to_numpy()).all()


def test_a_person_is_at_the_center_of_her_own_draws():
    asked: list[torch.Tensor] = []

    def watched(x: torch.Tensor) -> torch.Tensor:
        asked.append(x.clone())
        return bent(x)

    person = BACKGROUND[2:3]
    LimeTable(samples=2000).explain(watched, person, background=BACKGROUND)
    drawn = asked[0].numpy()
    same = (quartile(asked[0]) == quartile(torch.from_numpy(person))).numpy()
    assert (drawn[same] == np.broadcast_to(person, drawn.shape)[same]).all() and 0.2 < same.mean() < 0.3
    asked.clear()
    LimeTable(samples=2000, discretize=False).explain(watched, person, background=BACKGROUND)
    assert asked[0].mean(0).tolist() == pytest.approx(person[0].tolist(), abs=0.15)
    asked.clear()
    LimeTable(samples=2000, discretize=False, around="mean").explain(watched, person, background=BACKGROUND)
    assert asked[0].mean(0).tolist() == pytest.approx(BACKGROUND.mean(0).tolist(), abs=0.15)


def test_draws_follow_the_background():
    (part,) = parts_of(None, torch.from_numpy(BACKGROUND[:, :1]), True)
    assert isinstance(part, Bins)
    places, values = part.draw(20_000, np.random.default_rng(0))
    assert np.bincount(places.long()) / 20_000 == pytest.approx([0.25] * 4, abs=0.02)
    assert (part.place(values) == places).float().mean() > 0.999
    assert values.mean() == pytest.approx(BACKGROUND[:, 0].mean(), abs=0.05)
    assert values.min() >= BACKGROUND[:, 0].min() and values.max() <= BACKGROUND[:, 0].max()


def test_kinds_of_features():
    schema, people = small_world()
    x = schema.encode(people)
    kinds = [type(part) for part in parts_of(schema, x, True)]
    assert kinds == [Bins, Bins, BinnedFeature, BinnedFeature]
    assert [type(part) for part in parts_of(schema, x, False)] == [NormalFeature, Bins, BinnedFeature, BinnedFeature]
    age = parts_of(schema, x, True)[1]
    places, values = age.draw(5000, np.random.default_rng(0))
    gone = people["age"].isna().mean()
    assert (values[:, 1] == 1).double().mean() == pytest.approx(gone, abs=0.02)
    assert ((values[:, 1] == 1) == (places == places.max())).all()
    assert (age.place(x[people["age"].isna().tolist()]) == places.max()).all()


# -- people, errors, cost -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lime", [LimeTable(samples=60), LimeTable(samples=60, discretize=False)], ids=["bins", "line"])
@pytest.mark.parametrize("around", ["person", "mean"])
def test_company_and_order_change_nothing(lime, around):
    lime = LimeTable(discretize=lime.discretize, around=around, samples=60)
    everyone = lime.explain(bent, BACKGROUND[:9], background=BACKGROUND, seed=5)
    turned = lime.explain(bent, BACKGROUND[:9][::-1], background=BACKGROUND, seed=5)
    alone = lime.explain(bent, BACKGROUND[4:5], background=BACKGROUND, seed=5)
    assert everyone.values.to_numpy() == pytest.approx(turned.values.to_numpy()[::-1], abs=1e-12)
    assert everyone.values.iloc[4].to_numpy() == pytest.approx(alone.values.iloc[0].to_numpy(), abs=1e-12)
    other = lime.explain(bent, BACKGROUND[:9], background=BACKGROUND, seed=6)
    assert np.abs(everyone.values.to_numpy() - other.values.to_numpy()).min() > 0


def test_the_reference_asks_few_rows_for_many_people(monkeypatch):
    lime = LimeTable.reference(samples=100, select=None)
    whole = lime.explain(bent, BACKGROUND[:50], background=BACKGROUND)
    assert whole.asked == 99 + 50
    monkeypatch.setattr("turnabout.explain.lime.lime_table.HELD", 1000)
    parts = lime.explain(bent, BACKGROUND[:50], background=BACKGROUND)
    assert parts.values.to_numpy() == pytest.approx(whole.values.to_numpy(), abs=1e-12)
    assert LimeTable(samples=100).explain(bent, BACKGROUND[:5], background=BACKGROUND).asked == 5 * 99 + 5


@pytest.mark.parametrize("around", ["person", "mean"])
@pytest.mark.parametrize("discretize", [True, False])
def test_errors_cover_the_limit(around, discretize):
    people = BACKGROUND[:8]
    lime = LimeTable(discretize, around, samples=300, ridge=0.0)
    truth = LimeTable(discretize, around, samples=60_000, ridge=0.0).explain(
        bent, people, background=BACKGROUND, seed=9
    )
    z = []
    for seed in range(250):
        found = lime.explain(bent, people, background=BACKGROUND, seed=seed)
        assert found.errors is not None
        z.append((found.values - truth.values).to_numpy() / found.errors.to_numpy())
    covered = (np.abs(np.array(z)) < 1.96).mean()
    assert 0.93 <= covered <= 0.97, covered


def test_a_wrapped_model_and_a_table():
    schema, people = small_world()
    model = ta.models.wrap(lambda table: 1 / (1 + np.exp(-(table["income"] / 20 - 2 + table["owner"]))), schema)
    found = LimeTable(samples=400).explain(model, people.iloc[:6], background=people, output="probability")
    assert found.names == ["income", "age", "job", "owner"] and found.space == "concept"
    assert found.values.index.equals(people.index[:6])
    assert found.base is not None and found.seed == 0 and not found.exact
    assert (found.values["owner"].to_numpy() > 0).tolist() == people["owner"].iloc[:6].tolist()
    size = found.values.abs().mean()
    assert size["income"] > size["age"] and size["owner"] > size["job"]
    slopes = LimeTable(discretize=False, samples=400).explain(model, people.iloc[:6], background=people)
    assert (slopes.values["income"] > 0).all()


def test_a_feature_that_never_varies_says_nothing():
    background = BACKGROUND.copy()
    background[:, 1] = 4.0
    people = background[:3]
    for lime in (LimeTable(samples=100), LimeTable(discretize=False, samples=100, ridge=0.0)):
        found = lime.explain(bent, people, background=background)
        assert (found.values["x1"] == 0).all() and found.errors is not None and found.errors["x1"].isna().all()


def test_a_level_that_the_background_has_not():
    schema, people = small_world()
    model = ta.models.wrap(lambda table: 0.2 + 0.6 * (table["job"] == "nurse"), schema)
    others = people[people["job"] != "nurse"]
    nurse = people[people["job"] == "nurse"].iloc[:1]
    found = LimeTable(samples=400).explain(model, nurse, background=others, output="probability")
    assert np.isfinite(found.values.to_numpy()).all() and found.values["job"].iloc[0] > 0.1


@pytest.mark.parametrize(("select", "kept"), [(1, [0]), (2, [0, 2])])
def test_selection_keeps_the_largest(select, kept):
    lime = LimeTable(discretize=False, samples=500, select=select)
    with pytest.warns(UserWarning, match="selected"):
        found = lime.explain(lambda x: 3 * x[:, 0] + 0.1 * x[:, 1] + 2 * x[:, 2], BACKGROUND[:4], background=BACKGROUND)
    assert [np.flatnonzero(row).tolist() for row in found.values.to_numpy()] == [kept] * 4


def test_the_reference_has_its_defaults():
    assert LimeTable.reference() == LimeTable(around="mean", samples=5000, width=None, ridge=1.0, select=10)
    with pytest.warns(UserWarning, match="selected"):
        LimeTable.reference(samples=100, select=2).explain(straight, BACKGROUND[:2], background=BACKGROUND)


@pytest.mark.parametrize(
    ("lime", "words"),
    [
        (lambda: LimeTable(around="me"), "around='me'"),
        (lambda: LimeTable(discretize=1), "discretize=1"),
        (lambda: LimeTable(samples=1), "samples=1"),
        (lambda: LimeTable(ridge=float("nan")), "ridge=nan"),
        (lambda: LimeTable(ridge=None), "ridge=None"),
        (lambda: LimeTable(width=-1.0), "width=-1.0"),
        (lambda: LimeTable(width=0.001, discretize=False), "width=0.001 gives weight 0"),
        (lambda: LimeTable(select=0), "select=0"),
        (lambda: LimeTable(samples=3, ridge=0.0), "do not determine 3 slopes"),
    ],
)
def test_parameters_that_mean_nothing(lime, words):
    with pytest.raises(ExplainError) as error:
        lime().explain(straight, BACKGROUND[:2], background=BACKGROUND)
    assert words in str(error.value)


def test_a_background_is_needed():
    with pytest.raises(ExplainError, match="draws from a background"):
        LimeTable().explain(straight, BACKGROUND[:2])


# -- what the background does not have ----------------------------------------------------------------------------


def unseen_world() -> tuple[ta.models.Model, pd.DataFrame, pd.DataFrame]:
    """A level and a missing cell that no row of the background has; both count by 2."""
    schema = ta.Schema(
        (
            ta.Number("age", low=0, high=10, missing=True),
            ta.Category("job", levels=("none", "clerk", "nurse")),
            ta.Number("debt", low=0, high=10),
        )
    )

    def odds(table: pd.DataFrame) -> np.ndarray:
        return (2.0 * table["age"].isna() + 2.0 * (table["job"] == "nurse") + 0.1 * table["debt"]).to_numpy(float)

    model = ta.models.wrap(lambda table: 1 / (1 + np.exp(-odds(table))), schema)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"age": rng.uniform(0, 10, 200), "job": rng.choice(["none", "clerk"], 200), "debt": rng.uniform(0, 10, 200)}
    )
    people = pd.DataFrame(
        {"age": [np.nan, 5.0], "job": ["none", "nurse"], "debt": [5.0, 5.0]}, index=["no age", "nurse"]
    )
    return model, people, rows


@pytest.mark.parametrize("around", ["person", "mean"])
def test_what_no_draw_shares_is_said_and_has_no_error(around):
    model, people, rows = unseen_world()
    few, many = (LimeTable(samples=s, around=around).explain(model, people, background=rows) for s in (500, 5000))
    free = LimeTable(samples=500, around=around, ridge=0.0).explain(model, people, background=rows)
    assert "ridge" not in free.notes[0]
    for told in (few, many):
        (note,) = told.notes
        assert (
            note.startswith("no draw shares: age (1 row), job (1 row).")
            and "a ridge of 1 leaves at most 0.5 of it" in note
        )
        unknown = pd.DataFrame([[True, False, False], [False, True, False]], people.index, list(told.names))
        pd.testing.assert_frame_equal(told.errors.isna(), unknown)
        for person, name in (("no age", "age"), ("nurse", "job")):  # half of it, however many samples
            assert told.values.loc[person, name] == pytest.approx(free.values.loc[person, name] / 2, rel=0.1)
    ordinary = LimeTable(samples=500, around=around).explain(model, rows[:5], background=rows)
    assert ordinary.notes == () and ordinary.errors.notna().to_numpy().all()


def test_a_missing_cell_is_no_number_where_the_background_has_none():
    _, people, rows = unseen_world()
    schema = unseen_world()[0].schema
    part = parts_of(schema, schema.encode(rows), True)[0]
    assert isinstance(part, Bins) and part.absent is None
    assert part.place(schema.encode(people)).tolist()[0] == -1.0
    lacking = rows.assign(age=rows["age"].where(rows.index > 20))
    with_bin = parts_of(schema, schema.encode(lacking), True)[0]
    assert with_bin.place(schema.encode(people)).tolist()[0] == len(with_bin.middle)


def test_a_background_of_one_row():
    model, people, rows = unseen_world()
    told = LimeTable(samples=100).explain(model, people, background=rows[:1])
    assert told.errors.isna().to_numpy().all()  # every draw is alike
