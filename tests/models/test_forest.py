"""The compiled forest equals its library, and its leaves are the boxes they claim to be."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.models.encoded_cuts import encoded_cuts
from turnabout.models.forest import Forest
from turnabout.models.forest_compile import Input, compile_forest
from turnabout.models.libraries import read_forest
from turnabout.models.libraries.raw_forest import NotCompilable, RawForest, SetSplit
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

ensemble = pytest.importorskip("sklearn.ensemble")

HOMES = ("own", "rent", "free", "boat", "tent")
GRADES = ("low", "mid", "high", "top")

SCHEMA = Schema(
    (
        Number("income", 0, 9000, step=1, missing=True),
        Number("rate", -2, 3, decimals=3),
        Binary("member", levels=("no", "yes")),
        Ordinal("grade", levels=GRADES, missing=True),
        Category("home", levels=HOMES, missing=True),
    )
)


def people(n=400, seed=0, missing=0.08):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 9001, n).astype(float),
            "rate": np.round(rng.uniform(-2, 3, n), 3),
            "member": rng.choice(["no", "yes"], n),
            "grade": rng.choice(GRADES, n),
            "home": rng.choice(HOMES, n),
        }
    )
    table = table.astype(dict.fromkeys(("member", "grade", "home"), object))
    for name in ("income", "grade", "home"):
        table.loc[rng.random(n) < missing, name] = np.nan
    return table


def score(table, seed=1):
    noise = np.random.default_rng(seed).normal(size=len(table)) * 0.4
    return (
        table["income"].fillna(9500) / 3000
        + table["rate"]
        - table["home"].isin(["boat", "free"])
        + table["grade"].map({g: (k - 1.5) ** 2 for k, g in enumerate(GRADES)}).fillna(1.0)
        + 0.8 * (table["member"] == "yes")
        + noise
    ).to_numpy(dtype=float)


INPUTS = [
    Input(0, to_input=lambda v: (v - 4321.1) / 1234.5),  # a standard scaler
    Input(1, to_input=lambda v: -np.log(v + 5)),  # falling
    Input(2, levels=np.array([1.0, 0.0])),  # against the order of the levels
    Input(3, levels=np.array([2.0, 0.0, 3.0, 1.0])),  # an encoder that sorted by name
    *(Input(4, levels=np.eye(5)[k], at_missing=0.0) for k in range(5)),
    Input(4, levels=np.arange(5.0)),
    Input(-1, at_missing=7.0),  # a constant
    Input(0, to_input=lambda v: 0 * v, at_missing=1.0),  # an indicator of missing values
]


def design(table):
    """What the descriptors in INPUTS say, computed from the table."""
    columns = []
    for i in INPUTS:
        if i.feature < 0:
            columns.append(np.full(len(table), i.at_missing))
            continue
        feature = SCHEMA.features[i.feature]
        column = table[feature.name]
        if i.levels is None:
            out = i.to_input(column.to_numpy(dtype=float))
        else:
            out = column.map(dict(zip(feature.levels, i.levels, strict=True))).to_numpy(dtype=float)
        columns.append(np.where(column.isna(), i.at_missing, out))
    return np.column_stack(columns)


def models():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    return {
        "hist": ensemble.HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8),
        "hist default": ensemble.HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=3),
        "hist categories": ensemble.HistGradientBoostingClassifier(max_iter=20, categorical_features=[3, 9]),
        "forest": ensemble.RandomForestClassifier(20, max_depth=4, random_state=0),
        "deep forest": ensemble.RandomForestClassifier(10, min_samples_leaf=1, max_features=2, random_state=0),
        "xgboost": xgboost.XGBClassifier(n_estimators=20, max_depth=6, n_jobs=1),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=150, num_leaves=12, verbose=-1, n_jobs=1),
        "lightgbm categories": lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1, min_data_per_group=5),
    }


NAMES = ["hist", "hist default", "hist categories", "forest", "deep forest", "xgboost"]
NAMES += ["lightgbm", "lightgbm categories"]


def library_score(model, inputs):
    if hasattr(model, "decision_function"):
        return model.decision_function(inputs)
    name = type(model).__name__
    if name == "XGBClassifier":
        return model.predict(inputs, output_margin=True)
    return model.predict(inputs, raw_score=True) if name == "LGBMClassifier" else model.predict_proba(inputs)[:, 1]


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    table = people(600)
    options = {"categorical_feature": [9]} if request.param == "lightgbm categories" else {}
    model = models()[request.param].fit(design(table), (score(table) > 3.2).astype(int), **options)
    raw = read_forest(model)
    return model, raw, compile_forest(raw, INPUTS, SCHEMA)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_margins_equal_the_library(case):
    model, raw, forest = case
    table = people(3000, seed=5)
    x = SCHEMA.encode(table)
    expected = library_score(model, design(table))
    np.testing.assert_allclose(forest.margin(x).numpy(), expected, rtol=0, atol=raw.tolerance)
    assert forest.margin(x[:0]).shape == (0,)


def test_walking_and_looking_up_agree(case, monkeypatch):
    _, raw, forest = case
    assert forest._masks is not None
    x = SCHEMA.encode(people(700, seed=6))
    between = x[:100].clone()
    between[:, forest.is_level] = torch.from_numpy(np.random.default_rng(0).random((100, int(forest.is_level.sum()))))
    x = torch.cat([x, between])
    for at_once in (1 << 17, 1):  # all trees together, and batch by batch
        monkeypatch.setattr("turnabout.models.forest._AT_ONCE", at_once)
        walked = forest.bias + forest._walk.sum(forest.extend(x)) / forest.divisor
        np.testing.assert_allclose(forest.scores(x), walked, rtol=0, atol=raw.tolerance)


def test_every_person_falls_in_one_box_per_tree(case):
    _, raw, forest = case
    x = SCHEMA.encode(people(60, seed=7))
    leaves = forest.leaves
    level = forest.is_level
    scalars = (~level).nonzero()[:, 0].tolist()
    inside = torch.ones(len(x), len(leaves.tree), dtype=torch.bool)
    for j in scalars:
        indicator = SCHEMA.missing_column[j]
        absent = x[:, indicator] > 0.5 if indicator >= 0 else torch.zeros(len(x), dtype=torch.bool)
        within = (leaves.lower[:, j] < x[:, j, None]) & (x[:, j, None] <= leaves.upper[:, j])
        inside &= within | absent[:, None]
    for j in level.nonzero()[:, 0].tolist():
        inside &= leaves.allows[:, j] | (x[:, j, None] < 0.5)
    assert all(((inside & (leaves.tree == t)).sum(1) == 1).all() for t in range(len(forest.roots)))
    total = forest.bias + inside.to(torch.float64) @ leaves.value / forest.divisor
    np.testing.assert_allclose(total, forest.scores(x), rtol=0, atol=raw.tolerance)


def test_the_answer_changes_only_at_the_cuts(case):
    _, _, forest = case
    x = SCHEMA.encode(people(30, seed=8, missing=0.0))
    assert len(forest.cuts) == SCHEMA.d
    for j in (0, 2):
        cuts = forest.cuts[j]
        assert (cuts.diff() > 0).all()
        between = torch.cat([cuts[:1] - 1, (cuts[1:] + cuts[:-1]) / 2, cuts[-1:] + 1])
        for k in (0, len(cuts) // 2, len(cuts) - 1):
            at, below = x.clone(), x.clone()
            at[:, j], below[:, j] = cuts[k], between[k]
            assert torch.equal(forest.margin(at), forest.margin(below))


def test_pickle_leaves_the_tables_behind_and_keeps_the_answers(case):
    _, _, forest = case
    x = SCHEMA.encode(people(20))
    before = forest.margin(x)
    again = pickle.loads(pickle.dumps(forest))
    assert "_masks" not in again.__dict__
    assert torch.equal(again.margin(x), before)
    assert torch.equal(forest.to("cpu").margin(x), before)


def test_very_large_forests_are_walked(case, monkeypatch):
    _, raw, forest = case
    x = SCHEMA.encode(people(50, seed=9))
    monkeypatch.setattr("turnabout.models.leaf_masks._MASK_WORDS", 0)
    again = pickle.loads(pickle.dumps(forest))
    np.testing.assert_allclose(again.margin(x), forest.margin(x), rtol=0, atol=raw.tolerance)
    assert again._masks is None


@pytest.mark.parametrize("name", ["hist", "forest"])
def test_three_classes(name):
    table = people(500)
    model = models()[name].fit(design(table), np.digitize(score(table), [2.5, 3.8]))
    raw = read_forest(model)
    forest = compile_forest(raw, INPUTS, SCHEMA).aimed(2)
    x = SCHEMA.encode(table)
    expected = model.decision_function(design(table)) if name == "hist" else model.predict_proba(design(table))
    np.testing.assert_allclose(forest.scores(x), expected, rtol=0, atol=raw.tolerance)
    assert ((forest.margin(x) >= 0).numpy() == (model.predict(design(table)) == 2)).mean() > 0.99  # but for ties


# numbers ------------------------------------------------------------------------------------------------------------


def test_a_plain_number_is_cut_on_its_exact_threshold():
    table = people(500, missing=0.0)[["income", "rate"]]
    schema = Schema((Number("income", 0, 9000, step=1), Number("rate", -2, 3, decimals=3)))
    y = (table["income"] / 3000 + table["rate"] > 2).to_numpy()
    model = ensemble.HistGradientBoostingClassifier(max_iter=20).fit(table.to_numpy(), y)
    raw = read_forest(model)
    forest = compile_forest(raw, [Input(0), Input(1)], schema)
    splits = raw.input >= 0
    for column in (0, 1):
        t = raw.cut[splits & (raw.input == column)]
        rows = np.tile(table.to_numpy()[:1], (len(t), 1))
        rows[:, column] = t
        encoded = schema.encode(pd.DataFrame(rows, columns=schema.names))
        np.testing.assert_allclose(forest.margin(encoded).numpy(), model.decision_function(rows), atol=1e-12)


@pytest.mark.parametrize(
    "to_input",
    [
        lambda v: (v - 3.3) / 7.7,
        lambda v: -v,
        lambda v: np.floor(v / 3),
        lambda v: -np.floor(v / 3),
        lambda v: np.log1p(v),
        lambda v: v.astype(np.float32).astype(np.float64),
        lambda v: np.clip(v, 2, 9),
    ],
)
def test_cuts_are_carried_back_exactly_through_a_transform(to_input):
    feature = Number("v", 0, 16)  # a power of two, so that encoding itself is exact
    v = np.concatenate([np.linspace(0, 16, 97), [1 / 3, 5.1]])
    cuts = np.unique(np.concatenate([to_input(v[5:-5]), to_input(v[7:8]) + 1e-9]))
    encoded, falling = encoded_cuts(feature, to_input, cuts)
    around = np.concatenate([v, np.nextafter(v, -np.inf)[1:], np.nextafter(v, np.inf)])
    edge = encoded[np.isfinite(encoded)] * 16
    around = np.concatenate([around, edge, np.nextafter(edge, np.inf)])
    expected = to_input(around)[:, None] <= cuts
    assert ((around[:, None] / 16 <= encoded) != falling).tolist() == expected.tolist()


def test_an_input_must_rise_or_fall():
    table = people(200, missing=0.0)
    x = np.c_[(table["rate"] ** 2).to_numpy(), table["income"]]
    raw = read_forest(ensemble.HistGradientBoostingClassifier(max_iter=5).fit(x, x[:, 0] > 2))
    schema = Schema((Number("rate", -2, 3), Number("income", 0, 9000)))
    with pytest.raises(NotCompilable, match="neither rises nor falls with 'rate'"):
        compile_forest(raw, [Input(0, to_input=np.square), Input(1)], schema)
    with pytest.raises(NotCompilable, match="not a finite number at the bounds of 'rate'"), np.errstate(all="ignore"):
        compile_forest(raw, [Input(0, to_input=np.log), Input(1)], schema)


# small trees by hand ------------------------------------------------------------------------------------------------


def stump(*, cut=0.0, split=None, missing_left=False, value=((1.0,), (2.0,))):
    """One split: leaf value 1 on the left and 2 on the right."""
    value = np.array(value)
    return RawForest(
        input=np.array([0, -1, -1]),
        cut=np.array([cut, 0, 0]),
        left=np.array([1, -1, -1]),
        right=np.array([2, -1, -1]),
        missing_left=np.array([missing_left, False, False]),
        set_index=np.array([-1 if split is None else 0, -1, -1]),
        sets=() if split is None else (split,),
        value=np.vstack([np.zeros((1, value.shape[1])), value]),
        roots=np.array([0]),
        bias=np.zeros(value.shape[1]),
        divisor=1.0,
        link="identity",
        n_inputs=1,
        accepts_missing=True,
        tolerance=0.0,
        source="stump",
    )


def answers(forest: Forest, feature, values):
    table = pd.DataFrame({feature.name: pd.Series(values, dtype=object)})
    return forest.margin(Schema((feature,)).encode(table)).tolist()


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("members", [{"own"}, {"own", "boat"}, {"own", "rent", "free", "boat"}, set(), set(HOMES)])
def test_sets_of_levels(members, missing_left):
    feature = Category("home", levels=HOMES, missing=True)
    raw = stump(split=SetSplit(frozenset(members), frozenset(), others_left=False), missing_left=missing_left)
    forest = compile_forest(raw, [Input(0, levels=np.array(HOMES, dtype=object))], Schema((feature,)))
    sides = [1.0 if h in members else 2.0 for h in HOMES] + [1.0 if missing_left else 2.0]
    assert answers(forest, feature, [*HOMES, None]) == sides
    assert len(forest.roots) == 1
    assert (len(forest.column) == 1) == (len(set(sides)) == 1)  # a split that splits nothing is dropped
    for leaf, row in zip(forest.leaves.value[:, 0].tolist(), forest.leaves.allows.tolist(), strict=True):
        assert row == [side == leaf for side in sides]


def test_rows_between_the_levels_of_a_category_go_where_more_than_half_of_them_goes():
    feature = Category("home", levels=HOMES)
    raw = stump(split=SetSplit(frozenset({"own", "boat"}), frozenset(), others_left=False))
    forest = compile_forest(raw, [Input(0, levels=np.array(HOMES, dtype=object))], Schema((feature,)))
    rows = [[0.3, 0, 0.4, 0.3, 0], [0.3, 0.7, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [1, 1, 0, 0, 0]]
    assert forest.margin(torch.tensor(rows, dtype=torch.float64)).tolist() == [1.0, 2.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("levels", [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1], [0, 0, 0, 0]])
def test_ordered_levels_in_any_order(levels, missing_left):
    feature = Ordinal("grade", levels=GRADES, missing=True)
    raw = stump(cut=1.5, missing_left=missing_left)
    forest = compile_forest(raw, [Input(0, levels=np.array(levels, dtype=float))], Schema((feature,)))
    sides = [1.0 if v <= 1.5 else 2.0 for v in levels] + [1.0 if missing_left else 2.0]
    assert answers(forest, feature, [*GRADES, None]) == sides


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("cut", [-5.0, 5.0, np.inf])
@pytest.mark.parametrize("sign", [1, -1])
def test_missing_numbers_go_where_the_model_sends_them(cut, missing_left, sign):
    feature = Number("debt", 0, 10, missing=True)
    raw = stump(cut=cut, missing_left=missing_left)
    forest = compile_forest(raw, [Input(0, to_input=lambda v: sign * v)], Schema((feature,)))
    values = [0.0, 5.0, 6.0, 10.0]
    sides = [1.0 if sign * v <= cut else 2.0 for v in values] + [1.0 if missing_left else 2.0]
    assert answers(forest, feature, [*values, None]) == sides


def test_an_imputed_number_goes_where_its_replacement_goes():
    feature = Number("debt", 0, 10, missing=True)
    forest = compile_forest(stump(cut=5.0), [Input(0, at_missing=3.0)], Schema((feature,)))
    assert answers(forest, feature, [2.0, 7.0, None]) == [1.0, 2.0, 1.0]


def test_the_margin_of_many_classes_is_the_lead_of_the_target():
    feature = Number("debt", 0, 10)
    raw = stump(cut=5.0, value=((0.2, 0.5, 0.3), (0.6, 0.1, 0.3)))
    forest = compile_forest(raw, [Input(0)], Schema((feature,)))
    assert forest.scores(torch.tensor([[0.1]], dtype=torch.float64)).tolist() == [[0.2, 0.5, 0.3]]
    np.testing.assert_allclose(answers(forest.aimed(1), feature, [1.0, 9.0]), [0.2, -0.5])
    np.testing.assert_allclose(answers(forest.aimed(0), feature, [1.0, 9.0]), [-0.3, 0.3])


def test_a_scaled_forest_moves_its_boundary():
    feature = Number("debt", 0, 10)
    forest = compile_forest(stump(cut=5.0), [Input(0)], Schema((feature,)))
    assert answers(forest.scaled(-2.0, 3.0), feature, [1.0, 9.0]) == [1.0, -1.0]


def test_refusals_say_why():
    number, home = Schema((Number("debt", 0, 10),)), Schema((Category("home", levels=HOMES),))
    with pytest.raises(NotCompilable, match="1 inputs, but 2"):
        compile_forest(stump(), [Input(0), Input(0)], number)
    with pytest.raises(NotCompilable, match="'debt' as a category"):
        compile_forest(stump(split=SetSplit(frozenset(), frozenset(), True)), [Input(0)], number)
    with pytest.raises(NotCompilable, match="without its levels") as caught:
        compile_forest(stump(), [Input(0)], home)
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason
