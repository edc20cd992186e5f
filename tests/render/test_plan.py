"""A plan in words and as a picture: what is said, what is drawn, and what is said where there is none."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from imports import loaded
from turnabout.actions import Absolute, Shift
from turnabout.core.result import PLANS, STEPS, Recourse, Status
from turnabout.errors import TurnaboutError
from turnabout.render import draw_plan, save_plan, write_plan
from turnabout.render.palette import TOWARDS
from turnabout.render.plan_words import number

CHANGES = ("study for 2 more years (Age 27 -> 29, Degree no -> yes)", "Rent 1200 -> 850", "ask for less (Loan 9 -> 7)")
NOBODY = pd.DataFrame(columns=["reason", "best_margin", "asked", "binding", "proof"])


def answer_of(changes, costs, durations, margins, person=7, bound=None, gap=None, tolerance=None):
    """An answer with one person and one plan, written by hand."""
    count = len(changes)
    people = pd.DataFrame({"income": [38]}, index=[person])
    key = pd.MultiIndex.from_tuples([(person, 0)], names=["person", "option"])
    options = pd.DataFrame({"income": [52], "cost": [sum(costs)], "margin": [margins[-1]]}, index=key)
    keys = pd.MultiIndex.from_tuples([(person, 0, i + 1) for i in range(count)], names=["person", "option", "step"])
    steps = pd.DataFrame({"action": "Act", "parameters": "{}", "change": list(changes), "becomes": "{}"}, index=keys)
    steps = steps.assign(cost=costs, duration=durations, margin=margins).astype(STEPS)
    total = {"steps": count, "cost": sum(costs), "duration": sum(durations)}
    proved = {"lower_bound": bound, "gap": gap, "tolerance": tolerance}
    plans = pd.DataFrame([total | proved], index=key).astype(PLANS)
    status = pd.Series([Status.FOUND], index=people.index, dtype=object)
    return Recourse(people, options, status, NOBODY, "ByHand()", 0.0, steps, plans)


@pytest.fixture(scope="module")
def problem():
    """A bank that says yes from an income of 50 on; durations are in years."""
    schema = ta.Schema((ta.Number("income", low=0, high=100, step=1),))
    model = ta.models.wrap(lambda people: people.income.to_numpy(float) / 100, schema)
    wait = ta.Action("EarnMore", effect=Shift("income"), cost=Absolute("income", per=10))
    return ta.Problem(schema, model, actions=ta.ActionSet([wait], time_unit="years"))


@pytest.fixture
def three():
    return answer_of(CHANGES, (2, 0.5, 0.25), (2, 0, 1), (-0.05, -0.2, 0.02), bound=2.7, gap=0.0182, tolerance=0.03)


# -- words ------------------------------------------------------------------------------------------------------


def test_steps_are_numbered_priced_and_judged(three, problem):
    assert write_plan(three, 7, problem=problem).splitlines() == [
        "Person 7 is accepted after 3 steps costing 2.75.",
        f"  now: refused, margin {number(problem.judge(three.people)[0])}",
        "  1. study for 2 more years (Age 27 -> 29, Degree no -> yes)",
        "     cost 2, takes 2 years; then refused, margin -0.05",
        "  2. Rent 1200 -> 850",
        "     cost 0.5, no time counted; then refused, margin -0.2",
        "  3. ask for less (Loan 9 -> 7)",
        "     cost 0.25, takes 1 year; then accepted, margin +0.02",
        "  In all: cost 2.75, takes 3 years. Proved: no plan that the search allows costs less than 2.7, at",
        "  most 1.8 % less. Usually holds when every amount is missed by up to 3 %.",
    ]


def test_without_the_problem_units_and_the_start_are_left_out(three):
    text = write_plan(three, 7)
    assert "now:" not in text and "cost 2, duration 2; then" in text and "years;" not in text


def test_what_nobody_proved_is_not_said(problem):
    answer = answer_of(CHANGES[:1], (0.41,), (0,), (0.003,), person="Ada")
    assert write_plan(answer, "Ada").splitlines() == [
        "Ada is accepted after 1 step costing 0.41.",
        "  1. study for 2 more years (Age 27 -> 29, Degree no -> yes)",
        "     cost 0.41; then accepted, margin +0.003",
        "  In all: cost 0.41, no time counted.",
    ]


def test_a_closed_gap_and_no_tolerance_are_said():
    answer = answer_of(CHANGES[:1], (5,), (0,), (0.1,), bound=5.0, gap=0.0, tolerance=0.0)
    assert "less than 5, so none is cheaper. Holds only when every amount is met." in " ".join(
        write_plan(answer, 7).split()
    )


def test_long_sentences_are_wrapped_and_kept_whole():
    long = " ".join(["word"] * 80) + " (income 38 -> 52)"
    text = write_plan(answer_of((long,), (1,), (0,), (0.1,)), 7)
    assert max(map(len, text.splitlines())) <= 100 and text.count("word") == 80


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.41263, "0.4126"), (-12.5, "-12.5"), (14584.8, "14,585"), (2.1e-9, "2.1e-09"), (-3e12, "-3.0e+12")],
)
def test_numbers_show_four_digits_that_matter(value, text):
    assert number(value) == text


def test_people_without_a_plan_are_told_why():
    people = pd.DataFrame({"income": [1, 2, 3]}, index=["a", "b", 3])
    status = pd.Series([Status.ACCEPTED, Status.NOT_FOUND, Status.IMPOSSIBLE], index=people.index, dtype=object)
    lines = [("refused by 0.2; see what binds.", -0.2, 5, "at their limit: income", ""), ("none.", 0, 0, "", "2 < 3.")]
    why = pd.DataFrame(lines, columns=NOBODY.columns, index=pd.Index(["b", 3], name="person"))
    answer = Recourse(people, people.iloc[:0].assign(cost=[], margin=[]), status, why, "ByHand()", 0.0)
    assert write_plan(answer, "a") == "a is accepted already; no step is needed."
    assert write_plan(answer, "b") == (
        "No plan was found for b: refused by 0.2; see what binds. What binds: at their limit: income."
    )
    assert write_plan(answer, 3) == "Person 3 has no plan, and that is proved: 2 < 3."
    with pytest.raises(TurnaboutError, match="has no plan to show: their status is NOT_FOUND"):
        draw_plan(answer, "b")


def test_who_is_not_there_is_told_so(three):
    for tell in (write_plan, draw_plan):
        with pytest.raises(TurnaboutError, match="there is no person 8"):
            tell(three, 8)
        with pytest.raises(TurnaboutError, match="has no plan as option 5"):
            tell(three, 7, 5)


# -- picture ----------------------------------------------------------------------------------------------------


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def spans(ax):
    """From where to where each bar of the staircase goes."""
    bars = [bar for container in ax.containers for bar in container]
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]


def test_bars_lead_from_margin_to_margin(three, problem, pyplot):
    ax = draw_plan(three, 7, problem=problem)
    own = problem.judge(three.people)[0]
    assert np.allclose(spans(ax), [(own, -0.05), (-0.05, -0.2), (-0.2, 0.02)])
    towards, away, last = (container[0] for container in ax.containers)
    assert away.get_hatch() and not towards.get_hatch() and not last.get_hatch()
    assert pyplot.matplotlib.colors.to_hex(last.get_facecolor()) == TOWARDS
    assert ax.get_title(loc="left") == "Person 7 is accepted after 3 steps costing 2.75"
    assert ax.get_xlabel() == f"margin of the model, {problem.model.scale} (0 and above is a yes)"
    assert ax.yaxis_inverted() and ax.get_xlim()[0] < own < 0.02 < ax.get_xlim()[1]


def test_rows_say_what_is_done_and_the_panel_what_it_costs(three, problem, pyplot):
    ax = draw_plan(three, 7, problem=problem)
    rows = [label.get_text().replace("\N{NO-BREAK SPACE}", " ") for label in ax.get_yticklabels()]
    assert rows == [
        "now",
        "1. study for 2 more years\n    Age 27 → 29\n    Degree no → yes",
        "2. Rent 1200 → 850",
        "3. ask for less\n    Loan 9 → 7",
    ]
    (panel,) = ax.child_axes
    assert [bar.get_width() for bar in panel.containers[0]] == [2, 0.5, 0.25]
    assert [t.get_text() for t in panel.texts] == ["2\n2 years", "0.5", "0.25\n1 year", "cost, time"]
    said = {t.get_text() for t in ax.texts}
    assert {"accepted", "refused", "−0.05", "−0.2", "+0.02"} <= said


def test_without_the_problem_the_first_step_comes_in_from_the_edge(three, pyplot):
    ax = draw_plan(three, 7)
    assert np.allclose(spans(ax), [(-0.05, -0.2), (-0.2, 0.02)])
    assert len(ax.get_yticks()) == 3 and ax.lines[1].get_xdata()[0] == ax.get_xlim()[0]


@pytest.mark.parametrize("count", [1, 6])
def test_any_length_and_any_size_of_number_can_be_drawn(count, pyplot, tmp_path):
    changes = [f"{'a very long word ' * 20}(income {10.0**i} -> {i}, other (EUR) 1 -> 2)" for i in range(count)]
    costs = [10.0 ** (4 * i - 12) for i in range(count)]
    answer = answer_of(changes, costs, [1e-9] * count, [-(10.0 ** (9 - 2 * i)) for i in range(count - 1)] + [1e-9])
    ax = draw_plan(answer, 7)
    assert all(label.get_text().count("\n") < 6 for label in ax.get_yticklabels())
    assert ax.get_yticklabels()[0].get_text().endswith("…")
    save_plan(answer, 7, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_dollars_are_dollars(pyplot, tmp_path):
    answer = answer_of(("earn more (Wage $^1 -> $_2)",), (1,), (0,), (0.1,), person="Mr $\\frac$")
    save_plan(answer, "Mr $\\frac$", tmp_path / "plan.png")
    assert (tmp_path / "plan.png").is_file()


def test_it_draws_where_it_is_told_and_leaves_nothing_open(three, pyplot, tmp_path):
    _, given = pyplot.subplots()
    before = dict(pyplot.rcParams)
    assert draw_plan(three, 7, ax=given) is given and len(pyplot.get_fignums()) == 1
    save_plan(three, 7, tmp_path / "plan.svg")
    assert len(pyplot.get_fignums()) == 1 and dict(pyplot.rcParams) == before
    assert "accepted after" in (tmp_path / "plan.svg").read_text() or (tmp_path / "plan.svg").stat().st_size


def test_matplotlib_is_asked_for_only_when_needed(three, monkeypatch):
    assert "matplotlib" not in loaded()["turnabout.render"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TurnaboutError, match=r"(?s)not installed.*turnabout\[plot\]"):
        draw_plan(three, 7)
    assert write_plan(three, 7)
