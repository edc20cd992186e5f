"""With advice, the data sets' schemas say what a careful officer would; published figures keep the schemas they had."""

from __future__ import annotations

import pytest

import turnabout as ta
from turnabout import datasets
from turnabout.datasets import adult, bail, compas, german, gmc, heloc, pima, taiwan
from turnabout.datasets.catalog import ALL
from turnabout.datasets.recipe import advised
from turnabout.demo import run
from turnabout.schema import Number, Ordinal

PLAIN = {m.__name__.split(".")[-1]: m.schema() for m in (adult, bail, compas, german, gmc, heloc, pima, taiwan)}
RECIPES = {recipe.name: recipe for recipe in ALL}
ADVISED = {name: advised(schema, RECIPES[name].advice) for name, schema in PLAIN.items()}
MANY = 110  # legal values from which on people count in larger steps; fewer are counts
each = pytest.mark.parametrize("name", PLAIN)


@each
def test_many_values_have_useful_steps_least_changes_and_a_reach(name):
    for f in ADVISED[name]:
        if isinstance(f, Number) and f.moves != "fixed" and f.span / f.unit_step > MANY:
            assert f.least_change and f.reach is not None, f.name
            assert f.useful_step or f.span / f.unit_step < 10 * MANY, f.name


@each
def test_advice_moves_nothing_that_was_fixed_and_turns_nothing_round(name):
    for f, before in zip(ADVISED[name], PLAIN[name], strict=True):
        assert f.name == before.name and f.moves in {"free": ("free", "up", "down", "fixed")}.get(
            before.moves, (before.moves, "fixed")
        )


@each
def test_published_figures_keep_the_schemas_they_had(name):
    assert RECIPES[name].schema() == PLAIN[name] != ADVISED[name]
    assert PLAIN[name].plain() == PLAIN[name]
    if name == "german":  # the only one that is embedded
        data, careful = datasets.load(name), datasets.load(name, advice=True)
        assert data.schema == PLAIN[name] and careful.schema == ADVISED[name] and data.people.equals(careful.people)
        order = data.schema["status"]
        assert isinstance(order, Ordinal) and order.levels[:2] == ("no account", "below 0 DM")


def test_sets_kept_for_replays_have_no_advice():
    for recipe in ALL:
        if recipe.defect:
            assert recipe.schema() == recipe.schema().plain()


def test_nobody_is_advised_to_overdraw_an_account():
    people = datasets.load("german").people

    def sent_there(schema):
        """(n,) who ends with an overdrawn account, of those who have none, when a search aims at one."""
        x = schema.encode(people)
        aim = schema.encode(people.assign(status="below 0 DM"))
        there = schema.decode(schema.snap(x, aim))["status"].to_numpy() == "below 0 DM"
        return there[(people["status"] != "below 0 DM").to_numpy()]

    assert sent_there(PLAIN["german"]).any() and not sent_there(ADVISED["german"]).any()


def test_the_demo_does_not_question_its_own_plans():
    shown = run()
    assert shown.answer.counts()["FOUND"] == 72
    kinds = {concern.kind for concern in shown.review.concerns}
    assert not kinds & {"tiny", "odd amounts", "loophole", "unseen values", "against the direction"}
    assert len(shown.review) <= 1


def test_debts_do_not_rise_as_advice():
    for schema, names in (
        (ADVISED["gmc"], ["revolving_utilization", "debt_ratio", "open_credit_lines", "real_estate_loans"]),
        (ADVISED["heloc"], ["NumRevolvingTradesWBalance", "NumInstallTradesWBalance", "PercentTradesWBalance"]),
        (ADVISED["german"], ["amount", "installment_rate"]),
        (ADVISED["adult"], ["capital_loss"]),
    ):
        assert {schema[name].moves for name in names} == {"down"}


def test_advice_about_a_column_that_is_not_there():
    with pytest.raises(AssertionError):
        advised(ta.Schema((Number("income"),)), {"incone": {"useful_step": 0.1}})
