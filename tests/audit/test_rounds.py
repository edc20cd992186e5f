"""Rounds of recourse: the Gaussian study, a line counted by hand, German credit, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from turnabout.audit.risk.accepting import WithinCost
from turnabout.audit.rounds.lender import capacity_cut
from turnabout.audit.rounds.rounds_of_recourse import rounds_of_recourse
from turnabout.audit.rounds.simulated_people import put_rows
from turnabout.models import LinearMargin
from turnabout.studies.gaussian.gaussians import Gaussians

STUDY = Gaussians()
LINE = ta.Schema((ta.Number("t", low=-20, high=20, decimals=6), ta.Number("u", low=0, high=1, decimals=2)))


class Straight(ta.Method):
    """Straight to the boundary of a linear model, and a little beyond."""

    requires = LinearMargin

    def _search(self, x):
        model = self.problem_.model
        need = (1e-4 - model.margin(x)) / (model.weights @ model.weights)
        return ta.Proposal((x + need.unsqueeze(1) * model.weights).unsqueeze(1))


class Nothing(ta.Method):
    """Finds nothing."""

    def _search(self, x):
        return ta.Proposal(x.unsqueeze(1))


def study(n=1000, seed=0, **options):
    draw = STUDY.sample(n, seed)
    eta = {"eta": lambda t: STUDY.eta(t.to_numpy())}
    given = {"schema": STUDY.schema, "rounds": 2, "cost": ta.costs.L1(), **eta} | options
    return rounds_of_recourse(LogisticRegression(C=1e3), STUDY.table(draw.x), draw.y, Straight(), **given)


# -- the Gaussian study -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("compliance", "after"), [(1.0, 0.31205), (0.0, 0.5), (0.5, 0.40603)])
def test_one_round_gives_the_risk_of_recourse(compliance, after):
    """Everyone moves onto the boundary, the model stays: section 8.3 of the study."""
    report = study(6000, held_out=0.5, rounds=1, compliance=compliance, retrain=False)
    first, last = report.states
    assert first.risk.value == pytest.approx(0.1241, abs=4 * 0.0061)
    assert last.risk.value == pytest.approx(after, abs=4 * 0.0092)
    assert last.refused == 0 and last.approved == 6000 and report.judged == report.trained == 3000
    assert first.movers == first.refused and first.compliant == pytest.approx(compliance * first.movers, abs=90)
    assert first.cost.value * STUDY.unit > STUDY.mean_cost() - 0.15  # L1 costs are not below L2


def test_a_kept_model_keeps_its_promises():
    report = study(retrain=False, accept=0.4, rounds=3)
    for state in report.states[1:]:
        assert [rate.value for rate in (state.taken, state.open, state.last, state.last_unretrained)] == [1.0] * 4
        assert state.changed.value == 0 and state.drift.value == 0
        assert state.cost.value is None or state.number < 3
    assert (report.promises["value"] == 1).all() and len(report.promises) == 3 + 2 + 1
    assert report.stopped is None and len(report) == 4


def test_retraining_on_gamers_breaks_promises():
    report = study(2000, compliance=0.0, rounds=2)
    second = report.states[1]
    assert second.last_unretrained.value == 1  # the printed rows are verified ones
    assert second.taken.value == second.last.value < 0.9  # the bad who moved teach the next model to refuse the place
    assert second.drift.value != 0 and second.changed.value > 0
    made = report.promises.set_index(["made", "judged"])["value"]
    assert made[1, 1] == second.last.value


def test_nobody_takes_up_anything():
    report = study(300, accept=0.0, rounds=3)
    assert all(state.movers == 0 for state in report.states) and len(report.moves) == 0
    assert [state.drift.value for state in report.states] == [0, 0, 0, 0]
    assert report.states[1].taken.value is None and report.states[1].open.value == 1
    assert report.stopped is None


def test_costs_decide_who_moves():
    report = study(500, accept=WithinCost(0.03), rounds=1)
    assert 0 < report.states[0].movers < report.states[0].refused
    assert report.moves["cost"].max() <= 0.03


def test_same_seed_same_answer():
    runs = [study(300, accept=0.5, compliance=0.5, seed=4) for _ in range(2)]
    assert runs[0].to_dict() == runs[1].to_dict()
    pd.testing.assert_frame_equal(runs[0].moves, runs[1].moves)


def test_an_estimator_without_random_state_gets_the_seed():
    draw = STUDY.sample(150)
    people = STUDY.table(draw.x)
    loose = make_pipeline(StandardScaler(), BaggingClassifier(DecisionTreeClassifier(max_features=1), n_estimators=5))
    given = {"schema": STUDY.schema, "rounds": 1, "eta": lambda t: STUDY.eta(t.to_numpy())}
    method = ta.methods.NearestRow()
    runs = [rounds_of_recourse(loose, people, draw.y, method, **given).to_dict() for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    others = [rounds_of_recourse(loose, people, draw.y, method, **given, seed=seed).to_dict() for seed in (1, 2)]
    assert others[0] != others[1]
    assert loose.get_params()["baggingclassifier__random_state"] is None  # a clone is changed, not theirs


def test_eta_must_say_which_class_is_good():
    draw = STUDY.sample(300)
    words = LogisticRegression().fit(STUDY.table(draw.x), np.where(draw.y, "good", "poor"))
    with pytest.raises(ta.errors.AuditError, match="which of them means repaid"):
        study(300, eta=words)
    with pytest.raises(ta.errors.AuditError, match="no numbers"):
        study(300, eta=lambda t: ["often"] * len(t))


def test_moves_are_the_verified_rows():
    draw = STUDY.sample(400, 2)
    people = STUDY.table(draw.x).set_axis([f"p{i}" for i in range(400)])
    told = []
    report = rounds_of_recourse(
        LogisticRegression(),
        people,
        pd.Series(draw.y, index=people.index)[::-1],  # labels come by label
        Straight(),
        schema=STUDY.schema,
        rounds=1,
        eta=lambda t: STUDY.eta(t.to_numpy()),
        held_out=0.0,
        progress=lambda done, total: told.append((done, total)),
    )
    model = ta.models.wrap(LogisticRegression().fit(people, draw.y), STUDY.schema)
    moves = report.moves.loc[1]
    assert model.judge(moves[["x1", "x2"]]) == pytest.approx(moves["margin"].to_numpy()) and (moves["margin"] > 0).all()
    refused = people.index[model.judge(people) < 0]
    assert sorted(moves.index) == sorted(refused)
    assert told[-1] == (400, 400) and [t[0] for t in told] == sorted(t[0] for t in told)


# -- a capacity -------------------------------------------------------------------------------------------------


def test_cut_by_hand():
    margin = np.array([3.0, 2.0, 2.0, 1.0, -np.inf])
    assert [capacity_cut(margin, k) for k in (1, 2, 3, 4, 5)] == [3.0, 3.0, 2.0, 1.0, 1.0]
    assert capacity_cut(np.array([2.0, 2.0]), 1) > 2.0  # equal margins are decided alike
    assert capacity_cut(np.array([-np.inf]), 1) == 0.0


def test_people_compete_for_places():
    """20 places: whoever moves takes one from somebody else, though the model stays the same."""
    report = study(200, capacity=20, retrain=False, held_out=0.0, rounds=2)
    first, second, third = report.states
    assert first.approved == 20 and second.approved <= 20
    assert first.movers == 180
    assert second.last.value == second.last_unretrained.value < 0.2
    assert second.cut > first.cut and third.cut > second.cut
    assert report.capacity == 20 and "at most 20 approved" in str(report)


def test_capacity_with_room_for_all():
    report = study(100, capacity=100, rounds=2)
    assert report.states[0].approved == 100 and "nobody is refused" in report.stopped


# -- tables with categories -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def german():
    data = ta.datasets.load("german")
    few = data.people.iloc[:300]
    levels = [n for n in data.schema.names if not pd.api.types.is_numeric_dtype(few[n])]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), levels), remainder=StandardScaler())
    return few, data.accepted.iloc[:300], data.schema, make_pipeline(encode, LogisticRegression(C=0.1))


def test_german_credit(german):
    people, labels, schema, model = german
    report = rounds_of_recourse(
        model, people, labels, ta.methods.ExactLinear(), schema=schema, rounds=2, accept=0.5, compliance=0.5, seed=1
    )
    assert "gradient boosting" in report.eta and "ExactLinear" in str(report)
    assert len(report) == 3 and report.states[0].movers > 0
    moves = report.moves.drop(columns=["cost", "margin", "is_compliant", "is_good"])
    schema.encode(moves)  # legal rows
    for who in moves.loc[1].index:
        own, new = people.loc[[who]], moves.loc[1].loc[[who]]
        assert not schema.breaches(schema.table(own), new).any()
    assert report.states[1].last_unretrained.value == 1
    json.dumps(report.to_dict(), allow_nan=False)


def test_another_estimator_from_the_second_model_on(german):
    people, labels, schema, model = german
    levels = [n for n in schema.names if not pd.api.types.is_numeric_dtype(people[n])]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), levels), remainder="passthrough")
    tree = make_pipeline(encode, DecisionTreeClassifier(max_depth=3, random_state=0))
    report = rounds_of_recourse(
        model, people, labels, ta.methods.LocalSearch.small(), schema=schema, rounds=1, retrain=tree, held_out=0.2
    )
    assert report.states[1].changed.value > 0


def test_rows_keep_their_types():
    table = pd.DataFrame({"i": [1, 2, 3], "f": [0.5, 1.5, np.nan], "c": pd.Categorical(["a", "b", "a"])})
    new = put_rows(table, np.array([1]), pd.DataFrame({"i": [7.0], "f": [np.nan], "c": ["a"]}))
    assert (new.dtypes == table.dtypes).all() and new["i"].tolist() == [1, 7, 3] and new["c"].tolist() == ["a"] * 3
    odd = put_rows(table, np.array([1]), pd.DataFrame({"i": [7.5], "f": [0.0], "c": ["z"]}))
    assert odd["i"].tolist() == [1, 7.5, 3] and odd["c"].tolist() == ["a", "z", "a"]
    assert table["i"].tolist() == [1, 2, 3]


# -- the report -------------------------------------------------------------------------------------------------


def test_report_travels():
    report = study(200, rounds=2, accept=0.5)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert [state["number"] for state in document["states"]] == [0, 1, 2]
    assert document["states"][0]["taken"]["value"] is None and document["eta"] == "as given"
    frame = report.to_frame()
    assert set(frame["round"]) == {0, 1, 2} and len(frame) == 3 * 15
    row = frame[(frame["round"] == 1) & (frame["figure"] == "risk")].iloc[0]
    assert row["low"] <= row["value"] <= row["high"] and row["n"] == 60
    assert "2 rounds of Straight()" in str(report) and "60 people" in str(report)


# -- ends and bad input -----------------------------------------------------------------------------------------


def test_one_class_left_is_an_end_not_an_error():
    people = pd.DataFrame({"t": np.linspace(-2, 2, 60), "u": 0.5})
    report = rounds_of_recourse(
        LogisticRegression(),
        people,
        people["t"] > 0.3,
        Straight(),
        schema=LINE,
        eta=lambda t: np.ones(len(t)),
        rounds=4,
    )
    assert "after round 1 everyone to train on is good" in report.stopped and "stopped:" in str(report)
    assert len(report) == 1 and report.states[0].movers > 0 and len(report.promises) == 0


def test_no_option_for_anyone_is_an_end():
    people = pd.DataFrame({"t": np.linspace(-2, 2, 60), "u": 0.5})
    report = rounds_of_recourse(
        LogisticRegression(), people, people["t"] > 0.3, Nothing(), schema=LINE, eta=lambda t: np.full(len(t), 0.5)
    )
    assert "in round 1 no option was found" in report.stopped
    assert len(report) == 1 and report.states[0].offered.value == 0 and len(report.moves) == 0
    assert list(report.moves.columns) == ["t", "u", "cost", "margin", "is_compliant", "is_good"]


def test_another_estimator_may_offer_what_the_first_did_not():
    people = pd.DataFrame({"t": np.linspace(-2, 2, 60), "u": 0.5})
    report = rounds_of_recourse(
        LogisticRegression(),
        people,
        people["t"] > 0.3,
        Nothing(),
        schema=LINE,
        eta=lambda t: np.full(len(t), 0.5),
        retrain=DecisionTreeClassifier(),
    )
    assert "in round 2 no option was found" in report.stopped and len(report) == 2
    assert report.states[1].last.value is None and report.promises["n"].tolist() == [0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rounds": 0}, "rounds=0 is not a whole number"),
        ({"rounds": True}, "rounds=True"),
        ({"schema": "line"}, "schema='line' is not a Schema"),
        ({"accept": {"f": 1.0}}, "speaks of groups"),
        ({"capacity": 0}, "capacity=0 is not a whole number from 1 up"),
        ({"capacity": 41}, "capacity=41"),
        ({"compliance": 1.5}, "compliance=1.5 is not a number from 0 to 1"),
        ({"accept": -0.1}, "accept= holds -0.1"),
        ({"held_out": 1.0}, "held_out=1.0 is not a number from 0 up, below 1"),
        ({"held_out": 0.01}, "0 of 40 people are set apart"),
        ({"seed": -1}, "seed=-1"),
        ({"eta": 0.5}, "eta=0.5 gives no P"),
        ({"eta": lambda t: np.full(len(t), 2.0)}, "which is no probability"),
        ({"eta": lambda t: 0.5}, r"eta= gives shape \(\)"),
        ({"retrain": "yes"}, "retrain='yes' cannot be fitted"),
        ({"estimator": LogisticRegression}, "cannot be fitted"),
        ({"estimator": LogisticRegression(C=-1)}, "LogisticRegression cannot be trained on these people"),
        ({"method": Straight}, "is not a method"),
        ({"labels": [True] * 40}, "single class"),
        ({"labels": [True] * 39}, "labels= has 39 values for 40 people"),
        ({"labels": [True] * 3 + [False] * 37, "eta": None}, "too few to learn"),
        ({"people": pd.DataFrame({"t": [0.0] * 40, "u": 0.5}, index=[1] * 40)}, "share an index label"),
    ],
)
def test_bad_input(change, text):
    people = pd.DataFrame({"t": np.linspace(-2, 2, 40), "u": 0.5})
    given = {
        "estimator": LogisticRegression(),
        "people": people,
        "labels": people["t"].to_numpy() > 0,
        "method": Straight(),
        "schema": LINE,
        "eta": lambda t: np.full(len(t), 0.5),
    } | change
    with pytest.raises(ta.errors.TurnaboutError, match=text):
        rounds_of_recourse(**given)


def test_all_people_to_train_on_are_of_one_class():
    people = pd.DataFrame({"t": np.linspace(-2, 2, 40), "u": 0.5})
    apart = np.flatnonzero(np.random.default_rng(0).permutation(40) < 12)  # 30 % of them, with seed 0
    with pytest.raises(ta.errors.AuditError, match="28 people to train on are all bad"):
        rounds_of_recourse(
            LogisticRegression(),
            people,
            np.arange(40) == apart[0],
            Nothing(),
            schema=LINE,
            eta=lambda t: np.full(len(t), 0.5),
        )
