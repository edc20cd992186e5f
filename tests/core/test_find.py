"""The ceremony of find: what is shown was verified, what is not found is explained."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from tests.core.conftest import Corners, bank

import turnabout as ta
from turnabout.errors import MethodError, ModelError, ProblemError, SchemaError


def test_every_option_is_accepted_as_printed(problem, people):
    answer = Corners().fit(problem).find(people, options=3)
    assert set(answer.status) == {ta.Status.ACCEPTED, ta.Status.FOUND}
    assert (bank(answer.options) >= 0.5).all()
    own = people.loc[answer.options.index.get_level_values("person")]
    assert (answer.options.sex.to_numpy() == own.sex.to_numpy()).all()
    assert (answer.options.debt.to_numpy() <= own.debt.to_numpy()).all()
    assert (answer.options.income % 1 == 0).all()
    assert not answer.options.isna().any(axis=None)


def test_options_are_distinct_and_cheapest_first(problem, people):
    answer = Corners().fit(problem).find(people, options=3)
    for _, mine in answer.options.groupby(level="person"):
        assert mine.cost.is_monotonic_increasing
        assert not mine.drop(columns=["cost", "margin"]).duplicated().any()
        assert list(mine.index.get_level_values("option")) == list(range(len(mine)))


def test_unrefined_options_are_what_the_search_proposed(problem, people):
    method = Corners().fit(problem)
    plain, refined = method.find(people, refine=False), method.find(people)
    assert list(plain.status) == list(refined.status)
    assert (bank(plain.options) >= 0.5).all()
    assert len(plain.changes()) > len(refined.changes())
    assert plain.options.cost.sum() > refined.options.cost.sum()


def test_no_change_could_be_dropped(problem, people):
    answer = Corners().fit(problem).find(people)
    changes = answer.changes()
    for (person, _), row in answer.options.iterrows():
        for _, change in changes[changes.person == person].iterrows():
            without = row[list(problem.schema.names)].copy()
            without[change["feature"]] = people.loc[person, change["feature"]]
            assert bank(pd.DataFrame([without]))[0] < 0.5


def test_numbers_come_as_near_as_the_grid_allows(schema):
    people = pd.DataFrame({"income": [10], "debt": [0.0], "home": ["rent"], "sex": ["f"]})
    model = ta.models.wrap(lambda t: (t.income >= 37).to_numpy(dtype=float), schema)
    answer = Corners().fit(ta.Problem(schema, model, cost=ta.costs.L1())).find(people)
    assert answer.changes()[["feature", "to"]].values.tolist() == [["income", 37]]
    assert answer.options.cost.iloc[0] == pytest.approx(0.27)


class Sure(Corners):
    """Corners that aim for P(yes) >= 0.7: refinement may not walk below it."""

    def criterion(self, x, x_new):
        return self.problem_.margin(x_new) >= 0.2


def test_refinement_keeps_what_a_method_aims_for(problem, people):
    near, sure = (cls().fit(problem).find(people, options=2) for cls in (Corners, Sure))
    refused = people.loc[near.refused]
    assert bank(near.options).min() < 0.55 and bank(sure.options).min() >= 0.7  # and no further than that
    assert bank(sure.options.xs(0, level="option")).mean() < 0.75
    assert set(sure.options.index.get_level_values("person")) == set(refused.index)


def test_further_options_do_not_undercut_what_a_method_aims_for(problem, people):
    """Without some features a search may not come as far as 0.7: such rows are not shown beside those that do."""
    answer = Sure().fit(problem).find(people, options=3)
    met = pd.Series(bank(answer.options) >= 0.7, answer.options.index).groupby(level="person")
    assert (met.all() == met.any()).all() and met.all().any()


class Breaks(Corners):
    """Corners, whose model answers during the first search only."""

    first: ta.Problem | None = None

    def _search(self, x):
        type(self).first = type(self).first or self.problem_
        if self.problem_ is not type(self).first:
            raise ModelError("gateway timeout")
        return super()._search(x)


def test_a_model_that_fails_while_further_ways_are_sought_takes_nothing_away(problem, people):
    asked = Breaks().fit(problem)
    answer, plain = asked.find(people, options=3), Corners().fit(problem).find(people, options=1)
    assert Breaks.first is problem
    assert (answer.status == plain.status).all()
    first = answer.options.xs(0, level="option")
    assert (first.cost <= plain.options.xs(0, level="option").cost + 1e-9).all()


class Hopeful(Corners):
    """Corners that aim for what nobody can reach."""

    def criterion(self, x, x_new):
        return self.problem_.margin(x_new) >= 2.0


def test_rows_that_miss_what_a_method_aims_for_are_shown_as_they_are(problem, people):
    hoped, near = (cls().fit(problem).find(people) for cls in (Hopeful, Corners))
    assert (hoped.status == near.status).all() and (bank(hoped.options) >= 0.5).all()
    assert (hoped.options.cost > near.options.cost).mean() > 0.9


def test_reordering_people_reorders_answers(problem, people):
    method = Corners().fit(problem)
    answer, turned = method.find(people, options=2), method.find(people[::-1], options=2)
    pd.testing.assert_frame_equal(turned.options.loc[answer.options.index.get_level_values(0).unique()], answer.options)
    assert method.find(people, options=2) == answer
    assert method.find(people, options=2, seed=7).made_by == answer.made_by


def test_chunks_do_not_change_answers(problem, people):
    whole, pieces = Corners(), Corners()
    pieces.chunk = 7
    assert whole.fit(problem).find(people) == pieces.fit(problem).find(people)


def test_the_input_is_untouched(problem, people):
    before = people.copy(deep=True)
    Corners().fit(problem).find(people)
    pd.testing.assert_frame_equal(people, before)


def test_progress_reaches_the_end(problem, people):
    seen = []
    method = Corners()
    method.chunk = 10
    method.fit(problem).find(people, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1] == (60, 60) and len(seen) > 2


# -- nothing to find ------------------------------------------------------------------------------------------------


def test_empty_table_and_one_row(problem, people):
    method = Corners().fit(problem)
    assert len(method.find(people.iloc[:0])) == 0
    assert ta.Recourse.from_json(method.find(people.iloc[:0]).to_json()).options.empty
    assert len(method.find(people.iloc[:1]).status) == 1


def test_nobody_is_refused(schema, people):
    problem = ta.Problem(schema, ta.models.wrap(lambda t: np.ones(len(t)), schema))
    answer = Corners().fit(problem).find(people)
    assert (answer.status == ta.Status.ACCEPTED).all() and answer.options.empty and answer.changes().empty


def test_a_cut_off_nobody_can_reach(schema, people):
    problem = ta.Problem(schema, ta.models.wrap(bank, schema, threshold=0.9999))
    answer = Corners().fit(problem).find(people)
    assert (answer.status == ta.Status.NOT_FOUND).all()
    assert answer.why.best_margin.lt(0).all() and answer.why.reason.str.contains("refused by").all()
    assert answer.why.binding.str.contains("may not change: sex").all()
    assert answer.why.asked.gt(0).all()


def test_someone_who_may_not_change_anything(people):
    schema = ta.Schema((ta.Number("income", low=0, high=100, moves="fixed"),))
    problem = ta.Problem(schema, ta.models.wrap(lambda t: np.zeros(len(t)), schema))
    answer = Corners().fit(problem).find(people)
    assert (answer.status == ta.Status.IMPOSSIBLE).all()
    assert answer.why.proof.str.contains("none of this person's features may change").all()


def test_a_rule_nobody_satisfies(schema, people):
    rule = ta.rules.Linear({"income": 1.0, "debt": 1.0}, ">=", 149.9)  # reachable by bounds, not for those in less debt
    answer = Corners().fit(ta.Problem(schema, ta.models.wrap(bank, schema), rules=[rule])).find(people)
    refused = answer.status[answer.status != ta.Status.ACCEPTED]
    assert (refused == ta.Status.NOT_FOUND).all()
    assert answer.why.binding.str.contains("rules:").any() or answer.why.reason.str.contains("rules").any()


def test_time_limit_is_kept(schema, people):
    def slow(table):
        time.sleep(0.05)
        return bank(table)

    problem = ta.Problem(schema, ta.models.wrap(slow, schema))
    method = Corners()
    method.chunk = 1
    method.fit(problem)
    start = time.monotonic()
    answer = method.find(people, time_limit=0.5)
    assert time.monotonic() - start < 5
    late = answer.why[answer.why.reason.str.contains("time limit")]
    assert len(late) and (answer.status[late.index] == ta.Status.UNFINISHED).all()


# -- models that misbehave ------------------------------------------------------------------------------------------


def test_a_model_that_raises_from_the_start(schema, people):
    def broken(table):
        raise RuntimeError("the disk is on fire")

    with pytest.warns(UserWarning, match="60 of 60 people have no answer of the model"):
        answer = Corners().fit(ta.Problem(schema, ta.models.wrap(broken, schema))).find(people)
    assert (answer.status == ta.Status.FAILED).all()
    assert answer.why.reason.str.contains("the disk is on fire").all()


def test_a_model_that_raises_half_way_loses_nobody(schema, people):
    calls = []

    def dying(table):
        calls.append(len(table))
        if len(calls) > 3:
            raise RuntimeError("cannot count to four")
        return bank(table)

    problem = ta.Problem(schema, ta.models.wrap(dying, schema))
    calls.clear()
    with pytest.warns(UserWarning, match="the model failed during a search"):
        answer = Corners().fit(problem).find(people)
    assert len(answer.status) == len(people)
    assert answer.why.reason.str.contains("cannot count to four").all()


def test_a_model_that_returns_nan(schema, people):
    def holes(table):
        p = bank(table)
        p[(table.income.to_numpy() % 7) == 0] = np.nan
        return p

    answer = Corners().fit(ta.Problem(schema, ta.models.wrap(holes, schema))).find(people)
    unknown = people.index[people.income % 7 == 0]
    assert (answer.status[unknown] == ta.Status.FAILED).all()
    assert answer.why.loc[unknown].reason.str.contains("no number").all()
    assert (answer.options.income % 7 != 0).all() and len(answer.options)


def test_a_model_whose_answers_change(schema, people):
    rng = np.random.default_rng(0)
    model = ta.models.wrap(lambda t: rng.random(len(t)), schema)
    with pytest.raises(ModelError, match="answers change between calls"):
        Corners().fit(ta.Problem(schema, model)).find(people)


# -- misuse -----------------------------------------------------------------------------------------------------------


def test_misuse_explains_itself(problem, people, schema):
    with pytest.raises(MethodError, match="has not seen a problem yet"):
        Corners().find(people)
    method = Corners().fit(problem)
    for arguments, text in [
        ({"options": 0}, "options=0"),
        ({"seed": -1}, "seed=-1"),
        ({"time_limit": 0}, "time_limit=0 is not a number above 0"),
        ({"options": 1.5}, "options=1.5"),
    ]:
        with pytest.raises(MethodError, match=text):
            method.find(people, **arguments)
    with pytest.raises(MethodError, match="share the index label 'p0'"):
        method.find(pd.concat([people, people]))
    with pytest.raises(SchemaError, match="no column 'income'"):
        method.find(people.drop(columns="income"))
    with pytest.raises(MethodError, match="fit takes a Problem"):
        Corners().fit(schema)


def test_problems_that_do_not_fit_together(schema, problem, people):
    model = problem.model
    with pytest.raises(ProblemError, match="not a wrapped model"):
        ta.Problem(schema, bank)
    with pytest.raises(ProblemError, match="is not a Schema"):
        ta.Problem("schema", model)
    with pytest.raises(ProblemError, match="another schema"):
        ta.Problem(ta.Schema((ta.Number("n"),)), model)
    with pytest.raises(ProblemError, match="without a background"):
        ta.Problem(schema, model, labels=[1])
    with pytest.raises(ProblemError, match="3 labels for 60"):
        ta.Problem(schema, model, background=people, labels=[1, 0, 1])
    with pytest.raises(ProblemError, match="they say who was accepted"):
        ta.Problem(schema, model, background=people, labels=["good"] * 60)
    odd = ta.Schema((ta.Number("cost"),))
    with pytest.raises(ProblemError, match="a feature is named 'cost'"):
        ta.Problem(odd, ta.models.wrap(lambda t: np.zeros(len(t)), odd))
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        ta.methods.Wachter().fit(problem)


def test_people_outside_the_bounds_are_kept(problem, people):
    with pytest.warns(UserWarning, match="outside"):
        answer = Corners().fit(problem).find(people.assign(debt=people.debt + 40))
    assert len(answer.status) == 60
    assert ((answer.options.debt <= 50) | answer.options.debt.isin(people.debt + 40)).all()


def test_parameters_clone_and_repr(problem):
    method = Corners(points=9)
    assert repr(method) == "Corners(points=9)" and repr(Corners()) == "Corners()"
    assert method.clone().points == 9 and method.get_params() == {"points": 9}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.fit(problem)
    assert torch.get_default_dtype() == torch.float32


# -- promises that were once broken ---------------------------------------------------------------------------------


def test_rules_hold_to_the_cent():
    schema = ta.Schema(
        (
            ta.Number("debt", low=0, high=1e8, decimals=2),
            ta.Number("income", low=0, high=1e8, decimals=2, moves="fixed"),
        )
    )
    model = ta.models.wrap(lambda t: (t.debt >= 100.43).to_numpy(dtype=float), schema)
    problem = ta.Problem(schema, model, rules=[ta.rules.Ordered("debt", "income")])
    people = pd.DataFrame({"debt": 90.0, "income": [100.37, 100.42, 100.43, 100.5]})
    answer = ta.methods.LocalSearch().fit(problem).find(people)
    assert answer.status.tolist() == ["NOT_FOUND", "NOT_FOUND", "FOUND", "FOUND"]
    assert (answer.options.debt <= answer.options.income).all()


def test_a_proof_needs_the_original_to_read_the_same_row():
    schema = ta.Schema((ta.Number("rate", low=0, high=1, step=0.1, moves="fixed"), ta.Binary("k")))
    own = float(np.float32(0.3))  # 0.30000001192, which the encoding takes for 0.3
    model = ta.models.wrap(lambda t: ((t.rate > 0.3) & (t.k == 1)).to_numpy(dtype=float) * 0.9 + 0.01 * t.rate, schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"rate": [own], "k": [0]}))
    assert answer.status[0] != ta.Status.IMPOSSIBLE


class Two(ta.Method):
    """Propose a cheap row that the judge refuses at first, and a dear one that it accepts."""

    def _search(self, x):
        return ta.Proposal(torch.tensor([[[0.2], [1.0]]], dtype=torch.float64).expand(len(x), 2, 1))


def test_a_dear_plan_does_not_hide_a_cheap_one():
    schema = ta.Schema((ta.Number("a", low=0, high=10, decimals=5),))

    class Off(ta.models.Model):
        """A compiled form that is a little more generous than its original."""

        compiled = True

        def margin(self, x):
            return x[..., 0] - 0.2 + 1e-5

    class Judge:
        scale, title, rule, noise = "score", "judge", "a >= 2", 1e-12
        encoded, like, columns = False, None, ("a",)

        def __call__(self, table):
            return table.a.to_numpy(dtype=float) / 10 - 0.2

    problem = ta.Problem(schema, Off(schema, Judge()), cost=ta.costs.L1())
    answer = Two().fit(problem).find(pd.DataFrame({"a": [0.0]}), options=2)
    assert answer.options.cost.is_monotonic_increasing
    assert answer.options.cost.iloc[0] < 0.3
    assert Two().fit(problem).find(pd.DataFrame({"a": [0.0]})).options.cost.iloc[0] < 0.3


def test_one_bad_row_costs_only_itself(schema, people):
    def fragile(table):
        if (table.income == 13).any():
            raise RuntimeError("unlucky")
        return bank(table)

    problem = ta.Problem(schema, ta.models.wrap(fragile, schema))
    answer = Corners().fit(problem).find(people.assign(income=people.income.replace(13, 14)))
    assert set(answer.status) <= {ta.Status.ACCEPTED, ta.Status.FOUND}
    one = people.assign(income=[13, *people.income.replace(13, 14)[1:]])
    with pytest.warns(UserWarning, match="person 'p0'.*unlucky"):
        answer = Corners().fit(problem).find(one)
    assert answer.status["p0"] == ta.Status.FAILED
    assert answer.status[1:].isin([ta.Status.ACCEPTED, ta.Status.FOUND]).all()


class Silent(ta.Method):
    def _search(self, x):
        return ta.Proposal(torch.full((len(x), 1, x.shape[1]), torch.nan))


def test_reasons_do_not_blame_rules_that_are_not_there(problem, people):
    assert Silent().fit(problem).find(people).why.reason.eq("the search proposed no row.").all()


def test_odd_indices_and_cells(problem, people):
    method = Corners().fit(problem)
    with pytest.raises(MethodError, match="index of several levels"):
        method.find(people.set_index([people.index, people.index]))
    with pytest.raises(MethodError, match="with gaps"):
        method.find(people.head(2).set_axis([None, "x"]))
    few = people.head(4).astype({"income": "Int64", "debt": "Float64"})
    few.index = [True, False, 7, "x"]
    answer = method.find(few)
    assert len(answer.changes()) == len(method.find(people.head(4)).changes())
    assert [len(answer.of(person)) for person in few.index]
    doubled = pd.concat([people, people.assign(note=pd.NA)[["note", "note"]]], axis=1)
    assert ta.Recourse.from_json(method.find(doubled).to_json()).people.columns.is_unique


def test_labels_with_gaps_are_refused(schema, problem, people):
    for labels in (pd.Series([True, None] * 30, dtype="boolean"), ["good", None, 1] * 20):
        with pytest.raises(ProblemError, match="they say who was accepted"):
            ta.Problem(schema, problem.model, background=people, labels=labels)


def test_no_answer_is_no_proof():
    schema = ta.Schema((ta.Number("a", low=0, high=10, step=1),))
    for odd, status in (
        (lambda t: np.where(t.a < 5, 0.1, np.nan), ta.Status.NOT_FOUND),
        (lambda t: (t.a >= 5).to_numpy(dtype=float) * 2, ta.Status.FAILED),
    ):
        answer = (
            ta.methods.LocalSearch()
            .fit(ta.Problem(schema, ta.models.wrap(odd, schema)))
            .find(pd.DataFrame({"a": [1, 2]}))
        )
        assert (answer.status == status).all()
    words = ta.Schema((ta.Category("k", levels=(1, 2, 3)),))
    model = ta.models.wrap(lambda t: (t.k.astype(str) == "2.0").to_numpy(dtype=float), words)
    answer = ta.methods.LocalSearch().fit(ta.Problem(words, model)).find(pd.DataFrame({"k": [1.0]}))
    assert answer.status[0] == ta.Status.NOT_FOUND


class Flat(ta.Method):
    def _search(self, x):
        return ta.Proposal(x)


def test_a_proposal_of_the_wrong_shape_is_refused(problem, people):
    with pytest.raises(MethodError, match="proposed a tensor of shape"):
        Flat().fit(problem).find(people)


def test_who_stands_on_the_boundary_is_judged_as_they_are_alone():
    """The last bit of a product of matrices may depend on the other rows of the batch."""

    def bank(rows):
        chance = rows["income"].to_numpy(dtype=float) / 10
        if len(rows) > 1 and chance[0] == 0.5:
            chance[0] = np.nextafter(0.5, 0)
        return chance

    schema = ta.Schema([ta.Number("income", 0, 10, step=1)])
    people = pd.DataFrame({"income": [5.0, 3.0]}, index=["even", "low"])
    for table in (people, people[::-1]):
        answer = ta.find(bank, table, schema=schema)
        assert answer.status.to_dict() == {"even": ta.Status.ACCEPTED, "low": ta.Status.FOUND}
