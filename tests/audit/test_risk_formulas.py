"""Excess risk by hand and by theorem; who accepts, and what becomes of them."""

import numpy as np
import pandas as pd
import pytest

from hand import SCHEMA, table
from turnabout.audit.risk.accepting import Decay, LogisticInCost, WithinCost, accepting
from turnabout.audit.risk.compliance import Causes, complying
from turnabout.audit.risk.excess import break_even, excess_risk

INDEX = pd.RangeIndex(4)
COST = np.array([0.5, 1.0, 2.0, np.nan])


def test_excess_by_hand():
    before, after, moves = np.array([0.2, 0.4, 0.9]), np.array([0.5, 0.8, np.nan]), np.array([1.0, 0.5, 0.0])
    assert excess_risk(before, after, moves, 1.0) == pytest.approx([0.3, -0.1, 0.0])
    assert excess_risk(before, after, moves, 0.0) == pytest.approx([0.6, 0.1, 0.0])
    assert excess_risk(before, after, moves, np.array([0.5, 0.0, 0.0])) == pytest.approx([0.45, 0.1, 0.0])
    # (0.6 + 0.1) / (0.3 + 0.2)
    assert break_even(before, after, moves) == pytest.approx(1.4)
    assert break_even(np.array([0.5]), np.array([0.4]), np.array([1.0])) is None


def random_space(rng):
    """A discrete space: masses, eta, and the Bayes classifier's decision; the last atom has eta = 1/2 exactly."""
    k = int(rng.integers(3, 9))
    mass = rng.dirichlet(np.ones(k))
    eta = np.append(rng.random(k - 1), 0.5)
    return mass, eta, eta >= 0.5


def brute_risk(mass, eta, yes, landing, accept, compliant):
    """R_Q by adding up every atom, decision and label."""
    total = 0.0
    for a in range(len(mass)):
        moved = landing[a] if not yes[a] else a
        for share, at in ((accept[a], moved), (1 - accept[a], a)):
            chance = eta[at] if compliant else eta[a]
            total += mass[a] * share * ((1 - chance) if yes[at] else chance)
    return total


def test_theorem_on_random_discrete_spaces():  # check 27
    rng = np.random.default_rng(0)
    violated = 0
    for _ in range(1000):
        mass, eta, yes = random_space(rng)
        accept = rng.random(len(mass))
        boundary = np.full(len(mass), len(mass) - 1)
        moves = np.where(yes, 0.0, accept)
        before = (mass * np.where(yes, 1 - eta, eta)).sum()
        for compliant in (True, False):
            delta = (mass * excess_risk(eta, eta[boundary], moves, float(compliant))).sum()
            assert delta >= -1e-15
            assert delta == pytest.approx(brute_risk(mass, eta, yes, boundary, accept, compliant) - before, abs=1e-12)
            if moves.any():
                assert delta > 0  # strict where somebody moves
        deep = np.full(len(mass), int(eta.argmax()))
        violated += (mass * excess_risk(eta, eta[deep], moves, 1.0)).sum() < -1e-9
    assert violated > 100  # positive control: deeper landing may lower the risk


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (0.3, [0.3, 0.3, 0.3, 0]),
        (WithinCost(1.0), [1, 1, 0, 0]),
        (Decay(2.0), [np.exp(-0.0625), np.exp(-0.25), np.exp(-1.0), 0]),
        (LogisticInCost(1.0, 0.5), [1 / (1 + np.exp(-1)), 0.5, 1 / (1 + np.exp(2)), 0]),
        ([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0]),
        (pd.Series([0.4, 0.3, 0.2, 0.1], index=[3, 2, 1, 0]), [0.1, 0.2, 0.3, 0]),
        ({"a": 0.5, "b": WithinCost(1.5)}, [0.5, 0.5, 0.0, 0]),
    ],
)
def test_who_accepts(accept, expected):
    assert accepting(accept, COST, ["a", "a", "b", "b"], INDEX) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: accepting(1.5, COST, None, INDEX), "1.5, which is no probability"),
        (lambda: accepting([0.5, np.nan, 0.1, 0.1], COST, None, INDEX), "no probability"),
        (lambda: accepting([0.5], COST, None, INDEX), "1 values for 4 people"),
        (lambda: accepting("often", COST, None, INDEX), "accept= is 'often', not one value per person"),
        (lambda: accepting(["often"] * 4, COST, None, INDEX), "accept= gives what are no numbers"),
        (lambda: accepting(lambda cost: ["often"] * len(cost), COST, None, INDEX), "no numbers"),
        (lambda: accepting({"a": 1.0}, COST, None, INDEX), "there are none"),
        (lambda: accepting({"a": 1.0}, COST, ["a", "a", "b", "b"], INDEX), "nothing of group 'b'"),
        (lambda: accepting({"a": "x"}, COST, ["a"] * 4, INDEX), "no probability and no rule"),
        (lambda: accepting(lambda cost: cost[:1] * 0, COST, None, INDEX), "gives 1 probabilities for 3 costs"),
        (lambda: accepting(pd.Series([0.5], index=[9]), COST, None, INDEX), "index is not that of the people"),
        (lambda: WithinCost(-1.0), "budget=-1.0, which is not a number from 0 up"),
        (lambda: Decay(0.0), "s=0.0, which is not a number above 0"),
        (lambda: LogisticInCost(1.0, float("nan")), "width=nan"),
        (lambda: excess_risk(np.zeros(2), np.zeros(3), np.zeros(2), 1.0), "have shapes"),
        (lambda: excess_risk(np.zeros(2), np.full(2, np.nan), np.ones(2), 1.0), "after holds"),
        (lambda: excess_risk(np.zeros(2), np.zeros(2), np.ones(2), -0.1), "compliance holds"),
        (lambda: Causes({"income": "yes"}), "the flag of 'income' is 'yes'"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, text):
    with pytest.raises(ValueError, match=text):
        ask()


def test_causes_by_size_of_change():
    before, after = table([10, 10, 10], [40, 40, 40]), table([30, 10, 20], [40, 20, 35])
    flags = Causes({"income": True, "debt": False})
    # shares of the range: income 20/100; debt 20/50; income 10/100 and debt 5/50
    assert flags.shares(SCHEMA, before, after) == pytest.approx([1.0, 0.0, 0.5])
    rho, outcome = complying(flags, SCHEMA, before, after, np.array([True, True, False]))
    assert outcome is None and rho == pytest.approx([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="change 'debt', and Causes does not say"):
        Causes({"income": True}).shares(SCHEMA, before, after)
    with pytest.raises(ValueError, match="'cv_words', which is no feature"):
        Causes({"cv_words": False}).shares(SCHEMA, before, after)


def test_an_outcome_replaces_compliance():
    before, after = table([10, 10], [40, 40]), table([30, 10], [40, 40])
    moved = np.array([True, False])
    rho, outcome = complying(lambda a, b: (b["income"] - a["income"]) / 100, SCHEMA, before, after, moved)
    assert rho is None and outcome == pytest.approx([0.2, 0.0])
    with pytest.raises(ValueError, match="which is no probability"):
        complying(lambda a, b: -np.ones(len(a)), SCHEMA, before, after, moved)
    with pytest.raises(ValueError, match="no numbers"):
        complying(lambda a, b: ["well"] * len(a), SCHEMA, before, after, moved)
    with pytest.raises(ValueError, match="2 probabilities for 1 people"):
        complying(lambda a, b: np.ones(2), SCHEMA, before, after, moved)
    with pytest.raises(ValueError, match="which is no probability"):
        complying(1.5, SCHEMA, before, after, moved)
