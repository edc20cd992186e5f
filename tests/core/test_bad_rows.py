"""One bad row costs one person: unreadable cells, cells that are passed through, models that fail on some rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from turnabout.errors import MethodError, ModelError

N = 300
METHODS = [ta.methods.LocalSearch, ta.methods.GrowingSpheres, ta.methods.NearestRow]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "income": rng.integers(10, 100, N),
            "debt": rng.integers(0, 50, N).astype(float),
            "home": rng.choice(["own", "rent", "free"], N),
            "branch": rng.choice(["north", "south", "east"], N),
        },
        index=[f"p{i}" for i in range(N)],
    )


@pytest.fixture(scope="module")
def accepted(table):
    bonus = table.branch.map({"north": 30.0, "south": 0.0, "east": -10.0})
    noise = np.random.default_rng(8).normal(0, 5, N)
    return (table.income - table.debt + 10 * (table.home == "own") + bonus + noise > 60).to_numpy()


def anywhere(table):
    """A schema in which all but the branch may go to any value."""
    return ta.Schema.infer(table, immutable=["branch"], free=["income", "debt", "home"]).plain()


@pytest.fixture(scope="module")
def schema(table):
    return anywhere(table)


def pipeline(table, accepted, final, encoder=None):
    encoder = encoder or OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((StandardScaler(), ["income", "debt"]), (encoder, ["home", "branch"]))
    return make_pipeline(columns, final).fit(table, accepted)


@pytest.fixture(scope="module")
def logistic(table, accepted):
    return pipeline(table, accepted, LogisticRegression())


@pytest.fixture(scope="module")
def forest(table, accepted):
    return pipeline(table, accepted, RandomForestClassifier(15, max_depth=5, random_state=0))


@pytest.fixture(scope="module")
def plain_answers(table, schema, logistic, forest):
    """What people without bad rows are answered."""
    models = {"logistic": logistic, "forest": forest}
    return {which: ta.find(m, table.iloc[:25], schema=schema, background=table) for which, m in models.items()}


def same_for_others(answer, plain, labels):
    """The answers of these people, with and without the bad rows."""
    assert (answer.status[labels] == plain.status[labels]).all()
    mine = answer.options.index.get_level_values("person").isin(labels)
    names = list(plain.options.columns)
    left, right = answer.options[mine][names], plain.options[plain.options.index.get_level_values(0).isin(labels)]
    pd.testing.assert_frame_equal(left.astype(object), right.astype(object), check_dtype=False)


# -- cells that cannot be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        ("home", "boat", "'home' holds 'boat'"),
        ("home", None, "'home' has a missing value"),
        ("income", np.nan, "'income' has a missing value"),
        ("income", np.inf, "'income' holds an infinite value"),
        ("income", "much", "'income' holds 'much', which is not a number"),
        ("debt", "12", "'debt' holds '12', which is not a number"),
        ("debt", pd.NA, "'debt' has a missing value"),
    ],
)
@pytest.mark.parametrize("which", ["logistic", "forest"])
def test_a_cell_that_cannot_be_read_costs_one_person(request, table, schema, plain_answers, which, column, cell, text):
    model = request.getfixturevalue(which)
    people = table.iloc[:25]
    bad = people.astype({column: object})
    bad.loc["p3", column] = cell
    plain = plain_answers[which]
    with pytest.warns(UserWarning, match="1 of 25 people cannot be read and are UNREADABLE; person 'p3'"):
        answer = ta.find(model, bad, schema=schema, background=table)
    assert answer.status["p3"] == ta.Status.UNREADABLE
    assert text in answer.why.reason["p3"]
    assert "p3" not in answer.options.index.get_level_values(0)
    same_for_others(answer, plain, [p for p in people.index if p != "p3"])
    assert ta.Recourse.from_json(answer.to_json()) == answer


def test_nobody_can_be_read(table, schema, logistic):
    with pytest.warns(UserWarning, match="5 of 5 people cannot be read"):
        answer = ta.find(logistic, table.iloc[:5].assign(home="castle"), schema=schema, background=table)
    assert (answer.status == ta.Status.UNREADABLE).all() and answer.options.empty
    assert answer.counts()["UNREADABLE"] == 5


def test_landings_set_unreadable_people_aside_too(table, schema, logistic):
    bad = table.iloc[:25].copy()
    bad.loc["p3", "home"] = "boat"
    with pytest.warns(UserWarning, match="UNREADABLE"):
        answer = ta.find(logistic, bad, schema=schema, background=table, landing=ta.landing.Probability(0.6))
    assert answer.status["p3"] == ta.Status.UNREADABLE
    assert (answer.status == ta.Status.FOUND).any()


def test_a_module_takes_nothing_it_cannot_read(table, schema):
    import torch

    torch.manual_seed(0)
    model = ta.models.wrap(torch.nn.Linear(schema.d, 1), schema, output="logit")
    people = table.iloc[:4].copy()
    people.loc["p1", "branch"] = "west"
    with pytest.warns(UserWarning, match="UNREADABLE"):
        answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(people)
    assert answer.status["p1"] == ta.Status.UNREADABLE and "'west'" in answer.why.reason["p1"]


def test_background_rows_that_cannot_be_read_are_left_out(table, schema, logistic, accepted):
    background = table.astype({"income": object}).copy()
    background.iloc[5, 0] = "much"
    with pytest.warns(UserWarning, match="1 of 300 background rows"):
        problem = ta.Problem(schema, ta.models.wrap(logistic, schema), background=background, labels=accepted)
    assert len(problem.background) == len(problem.background_x) == len(problem.labels) == N - 1
    with pytest.raises(ta.TurnaboutError, match="none of the 3 background rows"):
        ta.Problem(schema, problem.model, background=table.iloc[:3].assign(home="castle"))


# -- fixed cells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["logistic", "forest"])
@pytest.mark.parametrize("method", [None, *METHODS])
def test_a_branch_that_training_never_saw_is_passed_through(request, table, schema, which, method):
    model = request.getfixturevalue(which)
    people = table.iloc[:20].copy()
    people.loc[["p1", "p4", "p7"], "branch"] = "west"
    people.loc["p9", "branch"] = None
    answer = ta.find(model, people, schema=schema, background=table, method=method and method.small())
    direct = model.predict(people)
    assert ((answer.status == ta.Status.ACCEPTED) == direct).all()
    options = answer.options[list(schema.names)]
    assert model.predict(options).all()
    for person, option in options.groupby(level="person"):
        own = people.branch[person]
        assert all(b == own or (pd.isna(b) and pd.isna(own)) for b in option.branch)
    searched = [p for p in ("p1", "p4", "p7", "p9") if answer.status[p] != ta.Status.ACCEPTED]
    assert searched and (answer.status[searched] == ta.Status.FOUND).all()


def test_the_plan_of_a_passed_branch_is_the_cheapest_for_it(table, schema, logistic):
    """The exact method goes on being exact: an unseen branch only shifts the margin of an additive model."""
    people = table.iloc[:12].assign(branch="west")
    model = ta.models.wrap(logistic, schema, background=table)
    problem = ta.Problem(schema, model)
    exact = ta.methods.ExactLinear().fit(problem).find(people)
    search = ta.methods.LocalSearch().fit(problem).find(people)
    assert (exact.status == search.status).all() and (exact.status == ta.Status.FOUND).any()
    assert (exact.options.cost <= search.options.cost + 1e-9).all()
    assert logistic.predict(exact.options[list(schema.names)]).all()


def test_an_encoder_that_refuses_the_branch_costs_those_people_only(table, accepted, schema):
    strict = pipeline(table, accepted, LogisticRegression(), OneHotEncoder())
    people = table.iloc[:20].copy()
    people.loc["p2", "branch"] = "west"
    with pytest.warns(UserWarning, match="1 of 20 people have no answer of the model and are FAILED; person 'p2'"):
        answer = ta.find(strict, people, schema=schema, background=table)
    assert answer.status["p2"] == ta.Status.FAILED and "west" in answer.why.reason["p2"]
    plain = ta.find(strict, table.iloc[:20], schema=schema, background=table)
    same_for_others(answer, plain, [p for p in people.index if p != "p2"])


def test_dates_and_identifiers_go_to_the_model_as_they_are(table, accepted):
    opened = pd.date_range("2019-01-01", periods=N, freq="D")
    people = table.assign(opened=opened, account=[f"{i:05d}" for i in range(N)])
    schema = ta.Schema.infer(people, immutable=["branch"])
    assert schema["opened"] == ta.Passthrough("opened") and schema["account"] == ta.Passthrough("account")

    def bank(rows):
        assert rows.opened.dtype == people.opened.dtype and all(len(a) == 5 for a in rows.account)
        years = (pd.Timestamp("2020-01-01") - rows.opened).dt.days / 365
        return 1 / (1 + np.exp(-(rows.income - rows.debt - 60 + 10 * years) / 10))

    some = people.iloc[::25]
    answer = ta.find(bank, some, schema=schema, background=people, method=ta.methods.LocalSearch.small())
    assert ((answer.status == ta.Status.ACCEPTED) == (bank(some) >= 0.5)).all()
    assert (answer.status == ta.Status.FOUND).any()
    assert (bank(answer.options[list(schema.names)]) >= 0.5).all()
    labels = answer.options.index.get_level_values("person")
    assert (answer.options.opened.to_numpy() == some.opened[labels].to_numpy()).all()
    assert (answer.options.account.to_numpy() == some.account[labels].to_numpy()).all()
    assert not (answer.status == ta.Status.FAILED).any()


def test_a_passed_column_that_the_model_ignores_costs_nothing(table, schema, logistic):
    people = table.iloc[:30].assign(account=[f"{i:05d}" for i in range(30)])
    wider = ta.Schema((*schema.features, ta.Passthrough("account")))
    answer = ta.find(logistic, people, schema=wider)
    plain = ta.find(logistic, people, schema=schema)
    assert (answer.status == plain.status).all()
    assert (answer.options[list(schema.names)] == plain.options[list(schema.names)]).all().all()
    assert answer.made_by == "ExactLinear()"


# -- missing cells, however they are marked ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaps(table):
    home = table.home.astype(object)
    home[table.income % 5 == 0] = None
    return table.assign(home=home)


MARKS = {
    "None": lambda t: t,
    "NaN": lambda t: t.assign(home=t.home.where(t.home.notna(), np.nan)),
    "NA": lambda t: t.assign(home=[pd.NA if v is None else v for v in t.home]).astype({"home": object}),
    "str": lambda t: t.astype({"home": "str"}),
    "records": lambda t: pd.DataFrame(t.to_dict("records"), index=t.index),
}


@pytest.mark.parametrize("final", [LogisticRegression(), RandomForestClassifier(15, max_depth=5, random_state=0)])
@pytest.mark.parametrize("given", MARKS)
@pytest.mark.parametrize("trained", ["None", "NaN"])
def test_the_model_sees_missing_cells_as_they_are_given(gaps, accepted, final, trained, given):
    train, people = MARKS[trained](gaps), MARKS[given](gaps.iloc[:30])
    model = pipeline(train, accepted, final)
    schema = anywhere(train)
    answer = ta.find(model, people, schema=schema, background=train)
    assert ((answer.status == ta.Status.ACCEPTED) == model.predict(people)).all()
    options = answer.options[list(schema.names)]
    assert model.predict(options).all()
    labels = options.index.get_level_values("person")
    own = people.home[labels]
    missing = own.isna().to_numpy()
    assert missing.any()
    assert all(type(a) is type(b) for a, b in zip(options.home[missing], own[missing], strict=True))
    assert (answer.status != ta.Status.NOT_FOUND).all()


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
@pytest.mark.parametrize("trained", ["None", "NaN"])
def test_converted_tables_are_answered_as_the_plain_ones(gaps, accepted, trained, backend):
    train = MARKS[trained](gaps)
    model = pipeline(train, accepted, LogisticRegression())
    schema = ta.Schema.infer(train, immutable=["branch"])
    plain = ta.find(model, train.iloc[:60], schema=schema, background=train)
    converted = train.iloc[:60].convert_dtypes(dtype_backend=backend)
    answer = ta.find(model, converted, schema=schema, background=train)
    assert (answer.status == plain.status).all()
    assert (answer.options.cost == plain.options.cost).all()
    assert answer.options.home.dtype == converted.home.dtype
    again = ta.Recourse.from_json(answer.to_json())
    assert again.to_json() == answer.to_json()
    pd.testing.assert_frame_equal(again.options, answer.options)


def test_codes_trained_as_objects_are_asked_as_objects():
    train = pd.DataFrame({"code": pd.Series([0, 1, 4, 5] * 6, dtype=object), "home": ["own", "rent", "free"] * 8})
    steps = make_column_transformer((OneHotEncoder(), ["code", "home"]))
    model = make_pipeline(steps, LogisticRegression()).fit(train, train["code"].isin([4, 5]))
    schema = ta.Schema([ta.Category("code", levels=(0, 1, 4, 5)), ta.Category("home", levels=("own", "rent", "free"))])
    for people in (train, train.convert_dtypes(), train.astype({"code": "int64"}), train.astype({"code": "float64"})):
        answer = ta.find(model, people.iloc[:8], schema=schema, background=train, target=True)
        assert answer.counts()["FOUND"] == 4 and answer.counts()["ACCEPTED"] == 4
        answer = ta.find(model, people.iloc[:8], schema=schema, target=True)  # searched without knowing the types
        assert answer.counts()["FOUND"] == 4 and answer.counts()["ACCEPTED"] == 4


# -- models that fail on some rows -------------------------------------------------------------------------------------


def bank(rows):
    return 1 / (1 + np.exp(-(rows.income.to_numpy(dtype=float) - rows.debt.to_numpy(dtype=float) - 60) / 10))


@pytest.mark.parametrize("method", METHODS)
def test_every_25th_call_failing_costs_nobody_anything(table, schema, method):
    calls = []

    def flaky(rows):
        calls.append(len(rows))
        if len(calls) % 25 == 0:
            raise ConnectionError("gateway timeout")
        return bank(rows)

    def answer(function):
        problem = ta.Problem(schema, ta.models.wrap(function, schema), background=table)
        return method.small().fit(problem).find(table.iloc[:200])

    got, wanted = answer(flaky), answer(bank)
    assert (got.status == wanted.status).all()
    assert got.options.equals(wanted.options)


def test_a_model_that_cannot_answer_about_some_values_costs_nobody_else(table, schema):
    def fragile(rows):
        if (rows.income > 90).any():
            raise ValueError("income out of range")
        return bank(rows) * np.where(rows.branch == "east", 0.8, 1.0)

    problem = ta.Problem(schema, ta.models.wrap(fragile, schema, threshold=0.4), background=table)
    people = table[table.income < 90].iloc[:60].assign(debt=lambda t: t.debt.clip(upper=20))
    answer = ta.methods.LocalSearch.small().fit(problem).find(people)
    assert answer.status.isin([ta.Status.ACCEPTED, ta.Status.FOUND]).all()
    assert (fragile(answer.options[list(schema.names)]) >= 0.4).all()


def test_what_was_not_answered_proves_nothing(table):
    schema = ta.Schema((ta.Number("a", low=0, high=9, step=1), ta.Binary("b")))

    def half(rows):
        if (rows.b == 1).any():
            raise ValueError("no such branch")
        return np.full(len(rows), 0.1)

    people = pd.DataFrame({"a": [1, 2, 3], "b": [0, 0, 0]})
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, ta.models.wrap(half, schema))).find(people)
    assert (answer.status == ta.Status.FAILED).all()
    assert answer.why.reason.str.contains("no such branch").all()
    always = ta.models.wrap(lambda rows: np.full(len(rows), 0.1), schema)
    assert (ta.methods.LocalSearch().fit(ta.Problem(schema, always)).find(people).status == "IMPOSSIBLE").all()


def test_retries_wait_longer_each_time(monkeypatch, schema, table):
    waits, calls = [], []
    monkeypatch.setattr("time.sleep", waits.append)

    def tired(rows):
        calls.append(len(rows))
        if len(calls) <= 3:
            raise ConnectionError("busy")
        return bank(rows)

    asked = ta.models.Remote(tired, retries=3, wait=1.0, longest=3.0)
    assert (asked(table) == bank(table)).all()
    assert waits == [1.0, 2.0, 3.0]
    calls.clear()
    with pytest.raises(ConnectionError, match="busy"):
        ta.models.Remote(tired, retries=1)(table)
    calls[:] = [0, 0, 0]
    assert (ta.models.Remote(tired, rows=64)(table) == bank(table)).all()
    assert calls[3:] == [64, 64, 64, 64, 44]
    assert "function bank" in repr(ta.models.wrap(ta.models.Remote(bank), schema))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"function": 3}, "cannot be called"),
        ({"function": bank, "retries": -1}, "retries=-1"),
        ({"function": bank, "wait": -1}, "wait=-1"),
        ({"function": bank, "rows": 0}, "rows=0"),
        ({"function": bank, "factor": 0.5}, "factor=0.5"),
    ],
)
def test_remote_refuses_odd_settings(arguments, text):
    with pytest.raises(ModelError, match=text):
        ta.models.Remote(**arguments)


# -- a budget of queries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, ta.methods.ActionSequences])
@pytest.mark.parametrize("limit", [5, 60])
def test_the_query_limit_is_kept(table, schema, method, limit):
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return bank(rows)

    people = table.iloc[:40]
    actions = ta.ActionSet.draft(schema) if method.needs_actions else None
    problem = ta.Problem(schema, ta.models.wrap(counted, schema), background=table, actions=actions)
    fitted = method.small().fit(problem)
    asked.clear()
    answer = fitted.find(people, query_limit=limit)
    refused = int((bank(people) < 0.5).sum())
    assert sum(asked) <= limit * refused + 2 * len(people)
    unfinished = answer.status[answer.status == ta.Status.UNFINISHED].index
    assert answer.why.reason[unfinished].str.contains("query limit").all()
    assert (bank(answer.options[list(schema.names)]) >= 0.5).all()
    assert not (answer.status == ta.Status.IMPOSSIBLE).any()
    if limit == 5:
        assert len(unfinished)


def test_plans_of_actions_are_found_within_a_query_limit_and_prove_nothing(table, schema):
    actions = ta.ActionSet.draft(schema)
    problem = ta.Problem(schema, ta.models.wrap(bank, schema), background=table, actions=actions)
    method = ta.methods.ActionSequences(max_steps=1, certify=True).fit(problem)
    answer = method.find(table.iloc[:40], query_limit=200)
    assert (answer.status == ta.Status.FOUND).sum() > 0.8 * (answer.status != ta.Status.ACCEPTED).sum()
    assert answer.plans.lower_bound.isna().all()


def test_a_query_limit_must_be_a_number(table, schema):
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, ta.models.wrap(bank, schema)))
    with pytest.raises(MethodError, match="query_limit=0"):
        method.find(table, query_limit=0)


def test_truths_with_gaps_are_asked_about_in_a_type_that_the_model_takes():
    """As LightGBM: no objects, and a file makes objects of True, False and gaps."""
    schema = ta.Schema([ta.Binary("owner", (False, True), missing=True), ta.Number("income", 0, 10, step=1)])

    def strict(rows):
        if rows.owner.dtype == object:
            raise ValueError("objects are not taken")
        return (rows.income.to_numpy(dtype=float) + rows.owner.astype("Float64").fillna(0).to_numpy(dtype=float)) / 12

    people = pd.DataFrame({"owner": [True, None, False], "income": [3.0, 4.0, 9.0]}, dtype=object)
    answer = ta.find(strict, people, schema=schema)
    assert list(answer.status) == [ta.Status.FOUND, ta.Status.FOUND, ta.Status.ACCEPTED]


def test_a_model_that_knows_missing_levels_as_none_is_asked_about_none(tmp_path):
    """A parquet file keeps codes and gaps as numbers and NaN, and an encoder that has seen None knows no NaN."""
    codes = pd.Series([2, 3, 5, None] * 10, dtype=object)
    table = pd.DataFrame({"code": codes, "income": np.arange(40.0)})
    columns = make_column_transformer((OneHotEncoder(), ["code"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(table, table.income > 20)
    schema = ta.Schema([ta.Category("code", (2, 3, 5), missing=True), ta.Number("income", 0, 40, step=1)])
    table.to_parquet(tmp_path / "people.parquet")
    people = ta.schema.read_table(tmp_path / "people.parquet", schema)
    answer = ta.find(model, people, schema=schema, background=people)
    assert set(answer.status) == {ta.Status.ACCEPTED, ta.Status.FOUND}
    rows = answer.options[["code", "income"]]
    rows = rows.assign(code=rows.code.astype(object).where(rows.code.notna(), None))
    assert model.predict(rows).all()


def test_gaps_are_those_that_encoders_learned_column_by_column():
    """Without a background only the encoder knows that a gap is None in one column and <NA> in the other."""
    grade = pd.Series([1, 2, None] * 10, dtype=object)
    code = pd.Series(pd.array([0, None, 5] * 9 + [0, 5, None], dtype="Int64"))
    table = pd.DataFrame({"grade": grade, "code": code, "income": np.arange(30.0)})
    columns = make_column_transformer((OneHotEncoder(), ["grade", "code"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(table, table.income > 15)
    schema = ta.Schema(
        [
            ta.Category("grade", (1, 2), missing=True, moves="fixed"),
            ta.Category("code", (0, 5), missing=True, moves="fixed"),
            ta.Number("income", 0, 30, step=1),
        ]
    )
    people = pd.DataFrame({"grade": pd.array([None, None, 1, 2], dtype="Int64")})
    people["code"], people["income"] = pd.array([None, 0, None, 5], dtype="Int64"), [1.0, 2.0, 3.0, 4.0]
    answer = ta.find(model, people, schema=schema)
    assert list(answer.status) == [ta.Status.FOUND] * 4
    rows = people.assign(grade=pd.Series([None, None, 1, 2], dtype=object), income=answer.options["income"].to_numpy())
    assert model.predict(rows).all()


@pytest.mark.parametrize("high", [0.4, 0.3])
def test_people_in_single_precision_are_searched_in_single_precision(high):
    """Without a background only they say so; 0.3 as a float is more than 0.3, and a cut may lie between."""

    def strict(table):
        return np.where(table["hours"].to_numpy(dtype=float) >= float(np.float32(0.3)), 0.9, 0.1)

    schema = ta.Schema([ta.Number("hours", 0, high, step=0.1)])
    people = pd.DataFrame({"hours": np.array([0.0, 0.2], dtype=np.float32)})
    answer = ta.find(strict, people, schema=schema)
    assert list(answer.status) == [ta.Status.FOUND, ta.Status.FOUND]
    assert answer.options["hours"].tolist() == [np.float32(0.3)] * 2 and answer.options["hours"].dtype == np.float32
    doubles = ta.find(strict, pd.DataFrame({"hours": [0.0, 0.2]}), schema=schema)
    assert set(doubles.status) == {ta.Status.FOUND if high > 0.3 else ta.Status.IMPOSSIBLE}


@pytest.mark.parametrize("landing", [None, 0.6])
@pytest.mark.parametrize(
    ("final", "method"),
    [
        (LogisticRegression(), ta.methods.LocalSearch()),
        (LogisticRegression(), ta.methods.ExactLinear()),
        (DecisionTreeClassifier(), ta.methods.LocalSearch()),
        (MLPClassifier((8,), solver="lbfgs", random_state=0), ta.methods.LocalSearch()),
    ],
)
def test_compiled_jumps_lie_where_people_in_single_precision_meet_them(final, method, landing):
    """The edge of the bins is 0.3 as a float, which 0.3 as a double does not reach."""
    hours = np.repeat(np.arange(7) / 10, 20).astype(np.float32)
    model = make_pipeline(KBinsDiscretizer(2, strategy="uniform", encode="onehot-dense"), final)
    model.fit(pd.DataFrame({"hours": hours}), hours >= np.float32(0.3))
    schema = ta.Schema([ta.Number("hours", 0, 0.6, step=0.1)])
    people = pd.DataFrame({"hours": np.array([0.0, 0.2], dtype=np.float32)})
    problem = ta.Problem(schema, ta.models.wrap(model, schema, target=True))
    assert problem.model.compiled
    answer = method.clone().fit(problem).find(people, landing=landing)
    assert answer.options["hours"].tolist() == [np.float32(0.3)] * 2
    doubles = ta.find(model, people.astype(float), schema=schema, target=True, method=method)
    assert doubles.options["hours"].tolist() == [0.4] * 2


def test_trees_prove_in_the_precision_of_the_people():
    """Without its training table, a tree is compiled again for the types of those who ask."""
    table = pd.DataFrame({"hours": np.tile(np.array([0.0, 0.1, 0.2, 0.3], dtype=np.float32), 10)})
    tree = DecisionTreeClassifier().fit(table, np.arange(40) == 0)  # says no to everyone
    schema = ta.Schema([ta.Number("hours", 0, 0.3, step=0.1)])
    people = table.iloc[1:4]
    assert set(ta.find(tree, people, schema=schema, target=True).status) == {ta.Status.IMPOSSIBLE}
    known = ta.find(tree, people, schema=schema, target=True, background=table)
    assert ta.Status.IMPOSSIBLE in set(known.status)


def test_a_mark_that_means_more_in_another_type_is_searched_as_it_is():
    """<NA> stands in training, in pandas' boolean; among objects the encoder takes it for a category of its own."""
    rng = np.random.default_rng(0)
    owner = pd.array(rng.choice([True, False], 200), dtype="boolean")
    owner[rng.random(200) < 0.3] = pd.NA
    table = pd.DataFrame({"owner": owner, "income": rng.integers(0, 41, 200).astype(float)})
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["owner"]), (StandardScaler(), ["income"])
    )
    good = table.income + 10 * table.owner.isna() > 25
    model = make_pipeline(columns, LogisticRegression(C=100)).fit(table, good)
    schema = ta.Schema([ta.Binary("owner", (False, True), missing=True), ta.Number("income", 0, 40, step=1)])
    people = pd.DataFrame({"owner": pd.Series([pd.NA, pd.NA], dtype=object), "income": [3.0, 12.0]})
    answer = ta.find(model, people, schema=schema, background=table, method="ExactLinear")
    assert list(answer.status) == [ta.Status.FOUND] * 2
    for i in range(2):
        rows = people.iloc[[i] * 41].assign(income=np.arange(41.0))
        least = int(np.argmax(model.predict(rows)))
        assert answer.options.income.iloc[i] == least


# -- <NA> as it is given ----------------------------------------------------------------------------------------------

NULLABLE = ("string", "string[pyarrow]", "Int64", "Float64", "boolean")


def _nullable_people(dtype):
    levels = {"Int64": [1, 2], "Float64": [1.5, 2.5], "boolean": [False, True]}.get(dtype, ["a", "b"])
    cells = [levels[0], levels[1], None, levels[0], None]
    people = pd.DataFrame({"c": pd.array(cells, dtype=dtype), "x": [1, 2, 3, 4, 8]})
    return people, ta.Schema([ta.Category("c", levels, missing=True), ta.Number("x", 0, 9, step=1)])


@pytest.mark.parametrize("dtype", NULLABLE)
@pytest.mark.parametrize("known", [False, True], ids=["no background", "background"])
def test_functions_see_the_gaps_that_they_are_given(dtype, known):
    people, schema = _nullable_people(dtype)

    def knows_gaps(table):
        return np.array([0.9 if c is pd.NA and x > 5 else 0.1 for c, x in zip(table.c, table.x)])

    answer = ta.find(knows_gaps, people, schema=schema, target=1, background=people if known else None)
    assert [str(s.value) for s in answer.status] == ["IMPOSSIBLE", "IMPOSSIBLE", "FOUND", "IMPOSSIBLE", "ACCEPTED"]
    assert (knows_gaps(answer.options) >= 0.5).all() and len(answer.options) == 1


def _mixed(rows=300):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"c": rng.choice(["a", "b", "c", None], rows), "x": rng.integers(0, 50, rows)})
    yes = table.x + 20 * (table.c == "a") + 10 * table.c.isna() > 35
    table["c"] = table.c.astype(object).where(table.c.notna(), np.nan)
    return table, yes, ta.Schema([ta.Category("c", ("a", "b", "c"), missing=True), ta.Number("x", 0, 60, step=1)])


ENCODERS = {
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("known", [False, True], ids=["no background", "background"])
@pytest.mark.parametrize("asked_by", ["estimator", "function"])
def test_options_are_accepted_with_the_gaps_that_encoders_do_not_know(encoder, known, asked_by):
    table, yes, schema = _mixed()
    columns = make_column_transformer((ENCODERS[encoder], ["c"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(max_iter=500)).fit(table, yes)
    people = table.iloc[:60].astype({"c": "string"})
    asked = model if asked_by == "estimator" else lambda rows: model.predict_proba(rows)[:, 1]
    answer = ta.find(asked, people, schema=schema, target=1, background=table if known else None)
    own, options = model.predict(people), answer.options[["c", "x"]]
    assert options.c.isna().any() and answer.counts()["FOUND"] > 20
    if asked_by == "estimator" or not known:  # a function with a background is asked in the types of training
        assert model.predict(options).all()
        assert all(model.predict(options.iloc[[i]])[0] for i in range(len(options)))
        accepted = (answer.status == ta.Status.ACCEPTED).to_numpy()
        assert not (accepted & ~own).any()
    as_trained = options.astype({"c": object}).fillna(np.nan)
    assert (asked_by == "function" and not known) or model.predict(as_trained).all()


def test_codes_trained_as_objects_beside_whole_numbers_of_arrow(tmp_path):
    """Parquet brings codes back as numbers: they alone become objects again, not the numbers of Arrow beside them."""
    table = pd.DataFrame(
        {
            "rooms": pd.array([1, 5, pd.NA, 1, 5, 1] * 5, dtype="int64[pyarrow]"),
            "code": pd.array([0, 3, 4, 5, 3, 0] * 5, dtype=object),
        }
    )
    yes = (table.code.astype(int) < 4).to_numpy()
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["rooms", "code"]))
    model = make_pipeline(encoder, LogisticRegression()).fit(table, yes)
    table.to_parquet(tmp_path / "background.parquet")
    background = pd.read_parquet(tmp_path / "background.parquet")
    schema = ta.Schema([ta.Ordinal("rooms", (1, 5), missing=True), ta.Ordinal("code", (0, 3, 4, 5))])
    answer = ta.find(model, background.iloc[:6], schema=schema, background=background, target=True)
    assert (
        answer.counts()["FOUND"] == 2
        and model.predict(answer.options[["rooms", "code"]].astype({"code": object})).all()
    )


def test_a_probability_that_rounds_to_nothing_shifts_no_proof():
    """P(yes) is 0 to the last bit for the person with a gap; how far below zero their margin is, it does not tell."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"c": rng.choice(["a", "b"], 200), "x": rng.integers(0, 41, 200).astype(float)})
    table["y"] = np.where(rng.random(200) < 0.2, np.nan, rng.integers(0, 3, 200))
    yes = (table.x > 30).to_numpy()
    bins = make_pipeline(SimpleImputer(), KBinsDiscretizer(n_bins=3, encode="onehot-dense"))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((StandardScaler(), ["x"]), (bins, ["y"]), (encoder, ["c"]))
    model = make_pipeline(columns, LinearDiscriminantAnalysis()).fit(table, np.where(yes, "approve", "later"))
    model[-1].coef_, model[-1].intercept_ = 30 * model[-1].coef_, 30 * model[-1].intercept_
    schema = ta.Schema(
        [ta.Category("c", ("a", "b")), ta.Number("x", 0, 40, step=1), ta.Number("y", 0, 2, 1, missing=True)]
    )
    people = pd.DataFrame({"c": ["a", "b"], "x": [2.0, 5.0], "y": [np.nan, np.nan]}, dtype=object)
    assert (model.predict_proba(people)[:, 0] == 0.0).all()
    for who in people.index:
        answer = ta.find(model, people.loc[[who]], schema=schema, background=table, target="approve", threshold=0.5)
        assert answer.status[who] == ta.Status.FOUND
        assert model.predict(answer.options[["c", "x", "y"]]).tolist() == ["approve"]


def test_a_gap_among_objects_is_read_as_in_training_too():
    """Training had <NA> in a column of Int64, which encoders know; among objects they take it for a strange level."""
    rng = np.random.default_rng(0)
    codes = pd.array(rng.choice([0, 2, 3, None], 300), dtype="Int64")
    table = pd.DataFrame({"c": codes, "x": rng.integers(0, 50, 300)})
    yes = (table.x + 12 * table.c.isna() > 30).to_numpy()
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["c"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression(max_iter=500)).fit(table, ~yes)
    schema = ta.Schema([ta.Category("c", (0, 2, 3), missing=True), ta.Number("x", 0, 60, step=1)])
    people = table.iloc[:60].astype({"c": object})
    answer = ta.find(model, people, schema=schema, background=table, target=True)
    options = answer.options[["c", "x"]]
    assert options.c.isna().any() and not options.x[options.c.isna()].eq(people.x[:1].iloc[0]).all()
    assert model.predict(options).all() and model.predict(options.astype({"c": "Int64"})).all()


def test_columns_reach_encoders_as_objects_or_numbers_as_they_learned_them():
    """People are objects throughout; one encoder learned numbers, the other objects, and both know a gap."""
    code = pd.Series(pd.array([1, None, 5] * 10, dtype="Int64"))
    grade = pd.Series([0, 5, np.nan] * 9 + [5, 0, np.nan], dtype=object)
    table = pd.DataFrame({"code": code, "grade": grade, "income": np.arange(30.0)})
    columns = make_column_transformer((OneHotEncoder(), ["code", "grade"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(table, table.income > 15)
    schema = ta.Schema(
        [
            ta.Category("code", (1, 5), missing=True),
            ta.Category("grade", (0, 5), missing=True, moves="fixed"),
            ta.Number("income", 0, 30, step=1),
        ]
    )
    people = pd.DataFrame({"code": [pd.NA, 5, pd.NA], "grade": [5, np.nan, np.nan], "income": [1.0, 2.0, 3.0]})
    answer = ta.find(model, people.astype({"code": object, "grade": object}), schema=schema)
    assert list(answer.status) == [ta.Status.FOUND] * 3
