"""GrantingTrees and CellSearch: the formula by hand, the exact search, manners, and what it is for."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import TrainingError
from turnabout.models import Trees
from turnabout.rules import Ball, Box, Budget
from turnabout.solvers.cell_search import CellSearch
from turnabout.train import GrantingTrees, calibrate

SCHEMA = ta.Schema(
    (
        ta.Number("hours", 0, 60, step=1, moves="up"),
        ta.Number("debt", 0, 20, step=0.5),
        ta.Number("age", 18, 90, step=1, moves="fixed"),
        ta.Category("job", ("none", "part", "full")),
        ta.Ordinal("degree", ("school", "college", "doctor"), "up"),
        ta.Binary("owner", ("no", "yes"), "fixed"),
    )
)
REGION = Box({"hours": 12, "debt": 3, "job": 1})


def applicants(n=400, seed=0):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "hours": rng.integers(0, 61, n),
            "debt": rng.integers(0, 41, n) / 2,
            "age": rng.integers(18, 91, n),
            "job": rng.choice(["none", "part", "full"], n),
            "degree": rng.choice(["school", "college", "doctor"], n),
            "owner": rng.choice(["no", "yes"], n),
        }
    )
    score = people["hours"] / 15 - people["debt"] / 6 + (people["job"] == "full") + rng.normal(0, 0.7, n) - 1.5
    return people, score > 0


def shallow(**given):
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    codes = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["job", "degree", "owner"]), remainder="passthrough"
    )
    return make_pipeline(codes, HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=5, **given))


@pytest.fixture(scope="module")
def fitted():
    people, accepted = applicants()
    return GrantingTrees(SCHEMA, REGION, rounds=1).fit(people, accepted)


@pytest.fixture(scope="module")
def plain():
    people, accepted = applicants()
    return ta.models.wrap(shallow(learning_rate=0.3).fit(people, accepted), SCHEMA)


def test_one_round_by_hand():
    """Six values of one number, a stump: the rows reached, the refit and the objective are done on paper."""
    from sklearn.tree import DecisionTreeClassifier

    schema = ta.Schema((ta.Number("v", 0, 9, step=1),))
    people = pd.DataFrame({"v": [0, 1, 2, 3, 6, 7, 8, 9] * 5})
    accepted = np.array([0, 0, 0, 0, 1, 1, 0, 1] * 5, dtype=bool)
    trees = GrantingTrees(schema, Box({"v": 2}), DecisionTreeClassifier(max_depth=1), lam=0.5, rounds=1)
    plain = DecisionTreeClassifier(max_depth=1).fit(people, accepted)  # cut at 4.5: 0 on the left, 3/4 on the right
    value, reached = trees._objective(plain, trees._wrapped(plain), people, accepted)
    assert reached["v"].tolist() == [0, 1, 2, 5, 6, 7, 8, 9] * 5  # 3 reaches 5, the others nothing better
    sure = -np.log(1e-6)
    by_hand = (3 * -np.log(0.75) - np.log(0.25)) / 8 + 0.5 * (3 * sure + 5 * -np.log(0.75)) / 8
    assert value == pytest.approx(by_hand, rel=1e-9)
    refit = trees._refit(DecisionTreeClassifier(max_depth=1), "sample_weight", people, accepted, reached)
    # on the left 0, 1, 2, 3 refused at weight 1 and 0, 1, 2 reached at weight .5; on the right 3 + 2.5 of 4 + 2.5
    assert refit.predict_proba(pd.DataFrame({"v": [1, 8]}))[:, 1] == pytest.approx([1.5 / 5.5, 5.5 / 6.5])


@pytest.mark.parametrize(
    "region",
    [
        REGION,
        Box({"debt": 2.2, "degree": 1}),
        Budget(4, reach={"hours": 12, "debt": 3}, weights={"hours": 0.5, "debt": 1}),
        Ball(1.0, scales={"hours": 8, "debt": 2}),
    ],
    ids=lambda region: region.kind,
)
def test_no_printable_row_beats_the_one_found(plain, region):
    """Brute force over every legal row within Delta."""
    some, model = applicants()[0].iloc[:6], plain
    x = SCHEMA.encode(some)
    bound = region.bind(SCHEMA)
    delta = CellSearch()(model, bound.around(x))
    found = model.margin(x + delta)
    assert (bound.violation(x, x + delta) <= 0).all()
    job, degree = ("none", "part", "full"), ("school", "college", "doctor")
    for i in range(len(some)):
        row = some.iloc[i]
        hours = range(int(row["hours"]), min(60, int(row["hours"]) + 12) + 1)
        debt = np.arange(max(0, row["debt"] - 3), min(20, row["debt"] + 3) + 0.1, 0.5)
        rows = pd.DataFrame(itertools.product(hours, debt, job, degree), columns=["hours", "debt", "job", "degree"])
        rows = rows.assign(age=row["age"], owner=row["owner"])[list(SCHEMA.names)]
        other = SCHEMA.encode(rows)
        mine = x[i].expand(len(other), -1)
        legal = (bound.violation(mine, other) <= 0) & torch.as_tensor(
            ~SCHEMA.breaches(pd.DataFrame([row] * len(rows)).reset_index(drop=True), rows).any(1)
        )
        assert float(found[i]) == pytest.approx(float(model.margin(other[legal]).max()), abs=1e-12)


def test_the_first_value_on_the_right_of_a_cut_of_xgboost_is_tried():
    """XGBoost goes left below its cuts, so that a legal value on a cut is the first on its right."""
    xgboost = pytest.importorskip("xgboost")
    schema = ta.Schema([ta.Number("hours", 0, 60, step=1)])
    people = pd.DataFrame({"hours": np.arange(61)})
    hump = (people.hours >= 30) & (people.hours < 31)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, min_child_weight=0).fit(people, hump)
    wrapped = ta.models.wrap(model, schema, background=people)
    around = Box({"hours": 12}).bind(schema).around(schema.encode(pd.DataFrame({"hours": [20.0, 25.0, 40.0]})))
    reached = around.x + CellSearch()(wrapped, around)
    assert schema.decode(reached)["hours"].tolist() == [30, 30, 30]


def test_other_models_are_searched_on_a_grid(plain):
    x = SCHEMA.encode(applicants(100)[0])
    around = REGION.bind(SCHEMA).around(x)
    blind = ta.models.wrap(lambda table: 1 / (1 + np.exp(-plain.judge(table))), SCHEMA)
    assert isinstance(plain, Trees) and not isinstance(blind, Trees)
    exact, coarse = plain.margin(x + CellSearch()(plain, around)), plain.margin(x + CellSearch(5)(blind, around))
    assert (coarse >= plain.margin(x)).all() and (exact >= coarse - 1e-12).all()
    assert (coarse == exact).float().mean() > 0.5


def test_more_cells_than_can_be_tried_are_thinned(plain, monkeypatch):
    x = SCHEMA.encode(applicants(100)[0])
    around = REGION.bind(SCHEMA).around(x)
    exact = plain.margin(x + CellSearch()(plain, around))
    monkeypatch.setattr("turnabout.solvers.cell_search.MOST_ROWS", 8)
    thinned = plain.margin(x + CellSearch(2)(plain, around))
    assert (exact >= thinned).all() and (thinned >= plain.margin(x)).all() and (exact > thinned).any()


def test_attained_rows_are_legal_within_delta_and_no_worse(fitted):
    people, _ = applicants(200, seed=5)
    reached = fitted.attain(people)
    assert list(reached.index) == list(people.index)
    assert not SCHEMA.breaches(people, reached).any()
    assert (reached["hours"] - people["hours"]).between(0, 12).all()
    assert (reached["debt"] - people["debt"]).abs().max() <= 3
    fixed = ["age", "degree", "owner"]
    assert (reached[fixed] == people[fixed]).all().all()
    assert (fitted.score_of(reached) >= fitted.score_of(people)).all()
    assert len(fitted.attain(people.iloc[:0])) == 0


def test_training_for_recourse_grants_more_of_it():
    people, accepted = applicants(600)
    fresh, _ = applicants(600, seed=1)
    shares = []
    for lam in (0.0, 2.0):
        trees = GrantingTrees(SCHEMA, Box({"hours": 12}), shallow(), lam=lam, rounds=2, threshold=0.6)
        trees.fit(people, accepted)
        refused = fresh[~trees.predict(fresh)]
        shares.append(trees.predict(trees.attain(refused)).mean())
    assert shares[1] > shares[0] + 0.1


def test_the_default_base_never_punishes_doing_more(fitted):
    """Monotone towards the accepted: more hours and less debt never lower a score."""
    people, _ = applicants(100, seed=3)
    better = people.assign(hours=people["hours"] + 4, debt=people["debt"] - 1)
    assert (fitted.score_of(better) >= fitted.score_of(people)).all()
    slopes = fitted.estimator_[-1].monotonic_cst
    assert len(slopes) == 3 + 1 + 1 + 3 and slopes[-3:] == [1, -1, 0]


def test_without_recourse_it_is_the_base():
    people, accepted = applicants()
    trees = GrantingTrees(SCHEMA, REGION, shallow(), lam=0).fit(people, accepted)
    plain = shallow().fit(people, accepted)
    assert (trees.predict_proba(people)[:, 1] == plain.predict_proba(people)[:, 1]).all()
    assert len(trees.held_out_) == 0


def test_the_best_round_on_held_out_people_is_kept(fitted):
    people, accepted = applicants()
    history = fitted.history_
    assert len(history.validation) == 2 and history.validation[history.kept] == history.validation.min()
    held = fitted.held_out_
    again, _ = fitted._objective(fitted.estimator_, fitted.model(), people.loc[held], accepted.loc[held].to_numpy())
    assert again == pytest.approx(history.validation.min())
    assert history.validation.min() < history.validation[0]


def test_recourse_only_for_the_refused():
    people, accepted = applicants()
    trees = GrantingTrees(SCHEMA, REGION, shallow(), rounds=1, refused_only=True)
    plain = shallow().fit(people, accepted)
    _, reached = trees._objective(plain, trees._wrapped(plain), people, accepted.to_numpy())
    assert set(reached.index) == set(people.index[plain.predict_proba(people)[:, 1] < 0.5])
    assert trees.fit(people, accepted).score(people, accepted) > 0.7


def test_it_is_wrapped_as_trees_and_calibrates(fitted):
    assert isinstance(fitted.model(), Trees)
    assert isinstance(ta.models.wrap(fitted.estimator_, SCHEMA), Trees)
    people, _ = applicants()
    with pytest.raises(TrainingError, match="trained on"):
        calibrate(fitted, people)
    fresh, _ = applicants(300, seed=9)
    certificate = calibrate(fitted, fresh)
    assert certificate.n == 300 and certificate.made_by == "GrantingTrees.attain"
    scores = np.maximum(fitted.score_of(fresh), fitted.score_of(fitted.attain(fresh)))
    assert (scores < certificate.threshold).sum() <= certificate.k


def test_forests_and_missing_cells_work_too():
    from sklearn.ensemble import RandomForestClassifier

    schema = ta.Schema((ta.Number("hours", 0, 60, step=1, moves="up", missing=True), *SCHEMA.features[1:]))
    people, accepted = applicants(200)
    gaps = people.assign(hours=people["hours"].where(people.index % 5 > 0))
    trees = GrantingTrees(schema, REGION, rounds=1).fit(gaps, accepted)
    reached = trees.attain(gaps)
    assert reached["hours"].isna().equals(gaps["hours"].isna())
    numbers = ta.Schema(SCHEMA.features[:3])
    forest = GrantingTrees(numbers, Box({"hours": 9}), RandomForestClassifier(5, max_depth=3, random_state=0), rounds=1)
    forest.fit(people, accepted)
    assert isinstance(forest.model(), Trees)
    assert (forest.score_of(forest.attain(people)) >= forest.score_of(people)).all()


def test_scikit_learn_knows_it(fitted):
    from sklearn.base import clone, is_classifier

    assert is_classifier(fitted) and repr(clone(fitted)) == repr(fitted)
    assert repr(fitted).startswith("GrantingTrees(<6 features>, region=")
    people, accepted = applicants()
    small = GrantingTrees(SCHEMA, REGION, shallow(), rounds=1)
    first, second = (clone(small).fit(people, accepted).predict_proba(people) for _ in range(2))
    assert (first == second).all()
    with pytest.raises(TrainingError, match="GrantingTrees has no parameter 'depth'"):
        small.set_params(depth=2)


def test_bad_input_is_explained():
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier

    people, accepted = applicants(100)
    with pytest.raises(TrainingError, match="all 100 people are labelled accepted"):
        GrantingTrees(SCHEMA, REGION).fit(people, np.ones(100))
    with pytest.raises(TrainingError, match="4 features may change"):
        GrantingTrees(SCHEMA).fit(people, accepted)
    with pytest.raises(TrainingError, match="KNeighborsClassifier takes no sample_weight"):
        GrantingTrees(SCHEMA, REGION, KNeighborsClassifier()).fit(people, accepted)
    with pytest.raises(TrainingError, match="RidgeClassifier gives no probabilities"):
        GrantingTrees(SCHEMA, REGION, RidgeClassifier()).fit(people, accepted)
    with pytest.raises(TrainingError, match="rounds=0, which is not a whole number from 1 up"):
        GrantingTrees(SCHEMA, REGION, rounds=0).fit(people, accepted)
    with pytest.raises(TrainingError, match="lam=-1, which is not a number from 0 up"):
        GrantingTrees(SCHEMA, REGION, lam=-1).fit(people, accepted)
    with pytest.raises(TrainingError, match="is not a Region"):
        GrantingTrees(SCHEMA, {"hours": 3}).fit(people, accepted)
    with pytest.raises(TrainingError, match="which is not a Schema"):
        GrantingTrees({}, REGION).fit(people, accepted)
    with pytest.raises(TrainingError, match="different indexes"):
        GrantingTrees(SCHEMA, REGION).fit(people, accepted.sample(frac=1, random_state=0))
    with pytest.raises(TrainingError, match="this GrantingTrees is not trained yet"):
        GrantingTrees(SCHEMA, REGION).predict(people)


def test_ordinals_out_of_numeric_order_stay_monotone():
    rng = np.random.default_rng(0)
    schema = ta.Schema((ta.Ordinal("n", (3, 1, 2)), ta.Number("h", 0, 50, step=1)))
    people = pd.DataFrame({"n": rng.choice([3, 1, 2], 400), "h": rng.integers(0, 51, 400)})
    place = people["n"].map({3: 0, 1: 1, 2: 2})
    trees = GrantingTrees(schema, rounds=1).fit(people, place + rng.normal(0, 1, 400) > 1)
    for h in (5, 25, 45):
        scores = trees.score_of(pd.DataFrame({"n": [3, 1, 2], "h": h}))
        assert (np.diff(scores) >= -1e-12).all()
    assert trees.score_of(people[:0]).shape == (0,)


def test_a_class_is_no_base():
    from sklearn.ensemble import RandomForestClassifier

    schema = ta.Schema((ta.Number("h", 0, 50, step=1),))
    people = pd.DataFrame({"h": range(50)})
    with pytest.raises(TrainingError, match="RandomForestClassifier is a class"):
        GrantingTrees(schema, base=RandomForestClassifier).fit(people, people["h"] > 20)
