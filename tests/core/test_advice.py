"""Options that differ, limits of single people, the price of effort, and the review."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import turnabout as ta
from turnabout import Binary, Category, Number, Ordinal, Schema
from turnabout.core.different import differ, new_ways
from turnabout.core.limits import Limit
from turnabout.core.second_look import review
from turnabout.errors import MethodError, ProblemError

SCHEMA = Schema(
    (
        Number("income", low=0, high=10_000, step=1, useful_step=100, least_change=200),
        Number("debt", low=0, high=5000, step=1, useful_step=50, least_change=100),
        Ordinal("education", levels=("none", "school", "degree")),
        Binary("guarantor", levels=("no", "yes")),
        Category("housing", levels=("own", "rent", "free")),
    )
)


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.integers(500, 6000, n),
            "debt": rng.integers(0, 4000, n),
            "education": rng.choice(["none", "school", "degree"], n),
            "guarantor": rng.choice(["no", "yes"], n, p=[0.8, 0.2]),
            "housing": rng.choice(["own", "rent", "free"], n),
        }
    )


def numbers():
    """What turns the table into numbers."""
    levels = [["none", "school", "degree"], ["no", "yes"]]
    return make_column_transformer(
        (StandardScaler(), ["income", "debt"]),
        (OrdinalEncoder(categories=levels), ["education", "guarantor"]),
        (OneHotEncoder(), ["housing"]),
    )


@pytest.fixture(scope="module")
def bank():
    table = people()
    score = table.income / 1500 - table.debt / 1500 + (table.guarantor == "yes") + 0.7 * (table.housing == "own")
    good = score + (table.education == "degree") > 1.9
    models = [
        make_pipeline(numbers(), LogisticRegression()),
        make_pipeline(numbers(), GradientBoostingClassifier(n_estimators=20, random_state=0)),
    ]
    problems = []
    for model in models:
        wrapped = ta.models.wrap(model.fit(table, good), SCHEMA, background=table)
        problems.append(ta.Problem(SCHEMA, wrapped, background=table, labels=good))
    return table, good, models, problems


# -- options that differ ---------------------------------------------------------------------------------------------


def test_what_differs_by_hand():
    own = pd.DataFrame([{"income": 1000, "debt": 900, "education": "none", "guarantor": "no", "housing": "rent"}])
    x = SCHEMA.encode(own)

    def row(**new):
        return SCHEMA.encode(own.assign(**new))

    def are_two_ways(a, b):
        return bool(differ(SCHEMA, x, row(**a), row(**b)))

    assert not are_two_ways({"income": 2000}, {"income": 2900})  # less than five least changes apart
    assert are_two_ways({"income": 2000}, {"income": 3000})
    assert are_two_ways({"income": 2000}, {"debt": 0})
    assert are_two_ways({"income": 2000}, {"income": 2000, "debt": 0})
    assert are_two_ways({"education": "school"}, {"education": "degree"})
    assert are_two_ways({"housing": "own"}, {"housing": "free"})
    assert not are_two_ways({"income": 2000, "housing": "own"}, {"income": 2100, "housing": "own"})


def test_new_ways_count_from_the_first_of_each_person():
    own = people(2)
    x = SCHEMA.encode(own)
    rows = pd.concat([own.iloc[[0]].assign(income=v) for v in (7000, 7100, 9000)] + [own.iloc[[1]].assign(income=7100)])
    owner = torch.tensor([0, 0, 0, 1])
    none = torch.zeros(0, dtype=torch.long)
    assert new_ways(SCHEMA, x, owner, SCHEMA.encode(rows), x[:0], none).tolist() == [True, False, True, True]
    shown = SCHEMA.encode(own.iloc[[0]].assign(income=8900))
    assert new_ways(SCHEMA, x, owner, SCHEMA.encode(rows), shown, none.new_tensor([0])).tolist() == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("method", ta.methods.ALL, ids=lambda m: m.__name__)
@pytest.mark.parametrize("which", [0, 1])
def test_options_are_different_ways_and_stand_by_cost(bank, method, which):
    table, _, models, problems = bank
    problem = problems[which]
    if method.needs_actions or (method.requires is not None and not isinstance(problem.model, method.requires)):
        pytest.skip("the method needs another model or actions")
    refused = table[~models[which].predict(table)].head(12)
    answer = method.small().fit(problem).find(refused, options=3)
    assert answer.options.groupby(level=0).size().max() > 1
    for person, own in answer.options.groupby(level=0):
        x = SCHEMA.encode(refused.loc[[person]])
        rows = SCHEMA.encode(own)
        i, j = torch.triu_indices(len(own), len(own), 1)
        assert differ(SCHEMA, x.expand(len(i), -1), rows[i], rows[j]).all()
        if method.ranked:
            assert own.cost.is_monotonic_increasing
        assert models[which].predict(own[list(table.columns)]).all()
    assert method.small().fit(problem).find(refused, options=3) == answer


# -- limits ----------------------------------------------------------------------------------------------------------


def test_limits_hold_for_those_who_have_them_and_for_nobody_else(bank):
    table, _, models, problems = bank
    refused = table[~models[0].predict(table)].head(8)
    a, b, c, d = refused.index[:4]
    limits = {
        a: {"income": "fixed", "guarantor": "fixed"},
        b: {"income": (None, 3000), "debt": Limit(low=500)},
        c: dict.fromkeys(SCHEMA.names, "fixed"),
        d: {"housing": ["free"], "education": {"difficulty": 9.0}, "guarantor": {"fixed": True}},
    }
    for method in (
        ta.methods.ExactLinear(),
        ta.methods.LocalSearch(),
        ta.methods.Wachter(),
        ta.methods.GrowingSpheres(),
    ):
        fitted = method.fit(problems[0])
        free, held = fitted.find(refused, options=2), fitted.find(refused, options=2, limits=limits)
        changes = held.changes()
        assert not changes[(changes.person == a) & changes.feature.isin(["income", "guarantor"])].size
        mine = held.options[held.options.index.get_level_values("person") == b]
        assert (mine.income <= max(3000, refused.income[b])).all()
        assert (mine.debt >= min(500, refused.debt[b])).all()
        assert held.status[c] == "IMPOSSIBLE"
        mine = held.options[held.options.index.get_level_values("person") == d]
        assert set(mine.housing) <= {"free", refused.housing[d]}
        others = refused.index[4:]
        pd.testing.assert_frame_equal(
            free.options.loc[free.options.index.isin(others, level=0)],
            held.options.loc[held.options.index.isin(others, level=0)],
        )


def test_levels_of_a_person_hold_in_every_search():
    """Also near by first, and in those for further options."""
    schema = Schema(
        (
            Category("housing", levels=("own", "rent", "free")),
            Number("income", low=0, high=10, step=1, reach={"absolute": 8, "usual": 0.5}),
            Number("hours", low=0, high=10, step=1, reach={"absolute": 8, "usual": 0.5}),
        )
    )

    def accepts(table):
        return ((table["housing"] == "own") | (table["income"] >= 3) | (table["hours"] >= 3)).astype(float)

    problem = ta.Problem(schema, ta.models.wrap(accepts, schema), ta.costs.L1(difficulty={"income": 9, "hours": 9}))
    people = pd.DataFrame({"housing": ["rent"], "income": [0], "hours": [0]})
    for method in (ta.methods.LocalSearch(), ta.methods.LocalSearch(exhaustive=0), ta.methods.GrowingSpheres()):
        answer = method.fit(problem).find(people, options=3, limits={0: {"housing": ["free"]}})
        assert len(answer.options)
        assert "own" not in set(answer.options.housing)


def test_an_impossible_limit_is_named(bank):
    table, _, models, problems = bank
    refused = table[~models[0].predict(table)].head(1)
    person = refused.index[0]
    answer = (
        ta.methods.ExactLinear().fit(problems[0]).find(refused, limits={person: dict.fromkeys(SCHEMA.names, "fixed")})
    )
    assert answer.status[person] == "IMPOSSIBLE"
    assert "income fixed" in " ".join(map(str, answer.why.loc[person]))


def test_limits_as_a_table_and_with_a_landing(bank):
    table, _, models, problems = bank
    refused = table[~models[0].predict(table)].head(3)
    a = refused.index[0]
    given = pd.DataFrame(
        [{"person": a, "feature": "income", "fixed": True}, {"person": a, "feature": "debt", "low": 800}]
    )
    by_hand = {a: {"income": "fixed", "debt": (800, None)}}
    method = ta.methods.ExactLinear().fit(problems[0])
    assert method.find(refused, limits=given) == method.find(refused, limits=by_hand)
    assert method.find(refused, limits=given.set_index("person")) == method.find(refused, limits=by_hand)
    landed = method.find(refused, limits=by_hand, landing=0.6).changes()
    assert not ((landed.person == a) & (landed.feature == "income")).any()


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (3, "say nothing of people"),
        ({"nobody": {}}, "not among the people"),
        ({0: 3}, "the limits of person 0 are 3"),
        ({0: {"boat": "fixed"}}, "no feature of the schema"),
        ({0: {"income": "much"}}, "'much' as the limit"),
        ({0: {"income": (5, 1)}}, "from 5 to 1"),
        ({0: {"income": ("a", 1)}}, "the limit 'a'"),
        ({0: {"housing": ["boat"]}}, "not one of its levels"),
        ({0: {"housing": {"low": 1}}}, "which is a category"),
        ({0: {"income": {"lower": 1}}}, "has no 'lower'"),
        ({0: {"income": {"difficulty": -1}}}, "difficulty"),
        ({0: {"income": {"fixed": "maybe"}}}, "'maybe' as whether 'income' is fixed"),
        ({0: {"housing": {"levels": "own"}}}, "'own' as the levels"),
        ({0: {"income": {"levels": [1]}}}, "lists levels of 'income', which is a number"),
        ({0: {"income": (float("nan"), 1)}}, "the limit nan"),
        ({True: {"income": "fixed"}}, "True, who is not among the people"),
        ({0: {"opened": ["q"]}}, "no feature of the schema"),
        (pd.DataFrame({"person": [7], "feature": ["income"], "high": [1]}), "name 7, who is not among the people"),
        (pd.DataFrame({"person": [0], "feature": ["boat"], "high": [1]}), "name 'boat', which is no feature"),
        (pd.DataFrame({"person": [0], "feature": ["income"], "fixed": ["no"]}), "'no' as whether 'income' is fixed"),
        (pd.DataFrame({"person": [0, 0], "feature": ["income"] * 2, "high": [9, 8]}), "'income' of person 0 twice"),
        (pd.DataFrame({"person": [0], "low": [1]}), "no column 'feature'"),
        (pd.DataFrame({"person": [0], "feature": ["income"], "least": [1]}), "the column 'least'"),
    ],
)
def test_limits_that_make_no_sense(bank, limits, text):
    with pytest.raises(MethodError, match=text):
        ta.methods.LocalSearch().fit(bank[3][0]).find(people(3), limits=limits)


# -- effort ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [ta.methods.ExactLinear(), ta.methods.LocalSearch()], ids=repr)
def test_what_is_near_is_looked_for_first_turn_by_turn(method):
    """The margin is a + 3 b - 300 / 2: within 10 of each a person gains 40, within 20 80, and within 40 160."""
    reach = {"absolute": 40, "usual": [0.25, 0.5]}
    schema = Schema(tuple(Number(name, low=0, high=200, step=1, moves="up", reach=reach) for name in "ab"))
    classifier = LogisticRegression().fit(pd.DataFrame({"a": [0, 200], "b": [0, 200]}), [0, 1])
    classifier.coef_, classifier.intercept_ = np.array([[1.0, 3.0]]), np.array([-299.5])
    model = ta.models.wrap(classifier, schema)
    table = pd.DataFrame({"a": 0, "b": [88, 76, 60, 40]}, index=["near", "further", "far", "out"])  # short by 35.5, ...
    answer = method.fit(ta.Problem(schema, model, ta.costs.L1())).find(table)
    moved = (answer.options[["a", "b"]].droplevel("option") - table).loc[["near", "further", "far"]]
    assert moved.to_numpy().tolist() == [[6, 10], [12, 20], [0, 40]]
    assert answer.status["out"] == ta.Status.IMPOSSIBLE  # proved within all of the reach
    at_once = schema.plain().features[0]
    assert at_once.turns == 0 and len(schema.nearer()) == 2 and not schema.plain().nearer()


def test_effort_by_hand():
    schema = Schema((Number("a", high=1000, step=1), Category("c", levels=("x", "y", "z"))))
    background = pd.DataFrame({"a": [*range(0, 100), 1000], "c": ["x", "y", "z"] * 33 + ["x", "x"]})
    cost = ta.costs.Effort().bind(schema, schema.encode(background))
    own = schema.encode(pd.DataFrame({"a": [10], "c": ["x"]}))

    def of(**new):
        return float(cost(own, schema.encode(pd.DataFrame({"a": [10], "c": ["x"]}).assign(**new))))

    assert of() == 0
    assert of(a=100) == pytest.approx(90 / 90 + 0.1)  # from 5 to 95, whatever the 1000 does
    assert of(c="y") == pytest.approx(1.1)
    assert of(a=55, c="y") == pytest.approx(0.5 + 1 + 0.2)
    alone = ta.costs.Effort(per_change=0.0).bind(schema)
    assert float(alone(own, schema.encode(pd.DataFrame({"a": [110], "c": ["x"]})))) == pytest.approx(0.1)
    hard = ta.costs.Effort({"a": 2.0}).bind(schema, schema.encode(background))
    assert float(hard(own, schema.encode(pd.DataFrame({"a": [100], "c": ["x"]})))) == pytest.approx(2.2)
    assert ta.costs.from_dict(ta.costs.Effort({"a": 2.0}, per_change=0.2).to_dict()) == ta.costs.Effort({"a": 2.0}, 0.2)
    with pytest.raises(ProblemError, match="per_change"):
        ta.costs.Effort(per_change=-1)


def test_exact_plans_under_effort_are_the_cheapest_of_all(bank):
    """Against every legal row of a small grid, with useful steps, least changes and a reach."""
    schema = Schema(
        (
            Number("a", low=0, high=20, step=1, useful_step=2, least_change=4, reach={"absolute": 9}),
            Number("b", low=0, high=12, step=1, useful_step=3, reach={"relative": 0.9, "high": 9}),
            Ordinal("c", levels=(0, 1, 2, 3), reach={"steps": 1}),
        )
    )
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.integers(0, 21, 150), "b": rng.integers(0, 13, 150), "c": rng.integers(0, 4, 150)})
    good = table.a * 0.4 - table.b * 0.5 + table.c > 2
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, good)
    problem = ta.Problem(schema, ta.models.wrap(model, schema, background=table), ta.costs.Effort(), background=table)
    refused = table[~model.predict(table)].head(40)
    answer = ta.methods.ExactLinear().fit(problem).find(refused)
    for person, own in refused.iterrows():
        best = np.inf
        for a in {own.a, *range(0, 21, 2)}:
            for b in {own.b, *range(0, 10, 3)}:
                for c in range(4):
                    change = abs(a - own.a)
                    if (change and not 4 <= change <= 9) or abs(b - own.b) > 0.9 * own.b + 1e-9 or abs(c - own.c) > 1:
                        continue
                    new = pd.DataFrame({"a": [a], "b": [b], "c": [c]})
                    if model.decision_function(new)[0] >= 1e-9:
                        both = schema.encode(refused.loc[[person]]), schema.encode(new)
                        best = min(best, float(problem.cost(*both)))
        if np.isinf(best):
            assert answer.status[person] == "IMPOSSIBLE"
        else:
            assert answer.options.loc[(person, 0), "cost"] == pytest.approx(best)


# -- the review ------------------------------------------------------------------------------------------------------


def odd_answer():
    """An answer of a problem that asks for nothing sensible."""
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame({"income": rng.integers(20, 60, n) * 1000, "arrears": rng.integers(0, 50, n) * 10.0})
    table["age"] = rng.integers(18, 80, n)
    table["monthly"] = (table.income / 12).round(2)
    good = pd.Series(table.income > 41_000)
    schema = Schema(
        (
            Number("income", high=90_000, step=1),
            Number("arrears", high=1000, decimals=1),
            Number("age", low=18, high=99, step=1),
            Number("monthly", high=9000, decimals=2),
        )
    )
    return table, good, schema


def test_the_review_sees_each_concern():
    table, good, schema = odd_answer()
    people = table.head(40)
    odd = people.assign(income=people.income + 1, arrears=people.arrears + 30, age=people.age - 5)
    options = odd.assign(cost=1.0, margin=1.0)
    options.index = pd.MultiIndex.from_product([people.index, [0]], names=["person", "option"])
    second = options.rename(index={0: 1}, level="option").assign(income=options.income.to_numpy() + 300_000)
    options = pd.concat([options, second]).sort_index()
    status = pd.Series([ta.Status.FOUND] * 40, index=people.index, dtype=object)
    why = pd.DataFrame(columns=["reason", "best_margin", "asked", "binds", "proof"])
    answer = ta.Recourse(people, options, status, why, "by hand", 0.0)
    model = ta.models.wrap(lambda t: (t["income"] > 41_000).astype(float), schema)
    seen = review(answer, ta.Problem(schema, model, background=table, labels=good))
    kinds = {(c.kind, c.feature) for c in seen.concerns}
    assert ("tiny", "income") in kinds
    assert ("odd amounts", "income") in kinds
    assert ("unseen values", "income") in kinds
    assert ("against the direction", "arrears") in kinds
    assert ("not theirs to change", "age") in kinds
    assert ("loophole", "age") in kinds
    assert ("moves alone", "income") in kinds
    assert ("inconsistent", "monthly") in kinds
    assert "concerns" in str(seen) and len(seen.table()) == len(seen)
    assert "least_change" in next(c.mend for c in seen.concerns if c.kind == "tiny")
    assert answer.review().people == 40
    assert f"{len(seen)} things about these 80 options" in seen.brief and seen.concerns[0].says in seen.brief
    assert f"{len(seen) - 3} more" in seen.brief


def test_the_review_compares_with_similar_people():
    """Accepted people over 60 earn up to 90,000, younger ones up to 50,000."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, 800)
    table = pd.DataFrame({"age": age, "income": rng.integers(30, np.where(age > 60, 90, 50)) * 1000})
    schema = Schema((Number("age", low=18, high=99, step=1, moves="fixed"), Number("income", high=99_000, step=1)))
    people = pd.DataFrame({"age": [30, 70], "income": [20_000, 20_000]}, index=["young", "old"])
    options = people.assign(income=80_000, cost=1.0, margin=1.0)
    options.index = pd.MultiIndex.from_product([people.index, [0]], names=["person", "option"])
    status = pd.Series([ta.Status.FOUND] * 2, index=people.index, dtype=object)
    why = pd.DataFrame(columns=["reason", "best_margin", "asked", "binds", "proof"])
    answer = ta.Recourse(people, options, status, why, "by hand", 0.0)
    good = pd.Series(table.income > 29_500)
    model = ta.models.wrap(lambda t: (t["income"] > 29_500).astype(float), schema)
    (seen,) = [
        c
        for c in answer.review(ta.Problem(schema, model, background=table, labels=good)).concerns
        if c.kind == "unlike similar people"
    ]
    assert (seen.feature, seen.count, seen.of) == ("income", 1, 2) and "person young" in seen.says
    assert seen.mend == "income: reach: {absolute: 29000}"


def test_the_review_of_sensible_advice_is_short(bank):
    table, _, models, problems = bank
    refused = table[~models[0].predict(table)].head(20)
    answer = ta.methods.ExactLinear().fit(problems[0]).find(refused, options=3)
    concerns = answer.review(problems[0]).concerns
    assert {c.kind for c in concerns}.isdisjoint({"tiny", "odd amounts", "nearly the same", "inconsistent"})
    assert {c.feature for c in concerns if c.kind == "not theirs to change"} <= {"housing"}  # nobody moves for a loan
    nobody = ta.methods.ExactLinear().fit(problems[0]).find(table[models[0].predict(table)].head(3))
    assert nobody.review().brief == "A careful reader would question nothing about these 0 options."
    assert str(nobody.review()) == "0 options of 0 people: nothing to question."


@pytest.mark.parametrize("limit", ["fixed", (None, 5), {"low": 1}])
def test_limits_of_a_consequence_are_refused(limit):
    schema = Schema((Number("hours", high=9, step=1), Number("income", high=90, step=1)))
    rule = ta.rules.StructuralEquations([ta.rules.Equation("income", coefficients={"hours": 10})])
    model = ta.models.wrap(lambda t: (t["income"] >= 50).astype(float), schema)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model, rules=[rule]))
    people = pd.DataFrame({"hours": [1], "income": [10]})
    with pytest.raises(MethodError, match="person 0 has a limit of 'income', which follows from other features"):
        method.find(people, limits={0: {"income": limit}})
    assert method.find(people, limits={0: {"income": {"difficulty": 2}}}).options["income"].tolist() == [50]


# -- limits of people who act in steps -------------------------------------------------------------------------------

WORK = Schema(
    (
        Number("income", low=0, high=9, step=1),
        Number("debt", low=0, high=9, step=1),
        Category("home", levels=("own", "rent", "free")),
    )
)


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ({"home": ["rent", "free"]}, {"income"}),
        ({"home": "fixed"}, {"income"}),
        ({"home": "fixed", "income": (None, 4)}, {"debt"}),
        ({"home": "fixed", "income": "fixed"}, {"debt"}),
        ({"home": "fixed", "income": "fixed", "debt": (2, None)}, set()),
        (dict.fromkeys(WORK.names, "fixed"), set()),
    ],
)
def test_plans_of_steps_keep_to_the_limits_of_a_person(limits, names):
    def accepts(table):
        return ((table["home"] == "own") | (table["income"] >= 5) | (table["debt"] <= 1)).astype(float)

    problem = ta.Problem(WORK, ta.models.wrap(accepts, WORK), ta.costs.L1(), actions=ta.ActionSet.draft(WORK))
    people = pd.DataFrame({"income": [3], "debt": [6], "home": ["rent"]})
    answer = ta.methods.ActionSequences().fit(problem).find(people, limits={0: limits})
    assert set(answer.changes().feature) == names
    assert answer.status[0] == "FOUND" if names else answer.status[0] in ("NOT_FOUND", "IMPOSSIBLE")
    if len(limits) == 3 and set(limits.values()) == {"fixed"}:
        assert answer.status[0] == "IMPOSSIBLE"
