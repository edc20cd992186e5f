"""Sequences: one normal form for each class of orders that say the same, grown an action at a time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.sequences.toys import plain

from published import load
from turnabout.actions import Action, ActionSet, Set, Shift, new, old
from turnabout.methods.sequences.sequence_set import SequenceSet, as_tensor
from turnabout.schema import Category, Number, Schema


@dataclass
class PlainActions:
    """Stands for bound actions: so many actions, some pairs of which conflict, some of which may come twice."""

    count: int
    conflicts: frozenset
    twice: frozenset = frozenset()
    names: tuple = field(init=False)
    actions: tuple = field(init=False)

    def __post_init__(self):
        self.names = tuple(range(self.count))
        self.actions = tuple(Action(str(a), Shift("x"), 1, repeatable=a in self.twice) for a in self.names)

    def commute(self, a, b):
        return frozenset((a, b)) not in self.conflicts


@st.composite
def action_sets(draw, most=4):
    count = draw(st.integers(1, most))
    pairs = [frozenset(pair) for pair in itertools.combinations(range(count), 2)]
    some = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    return PlainActions(count, frozenset(some), frozenset(draw(st.sets(st.integers(0, count - 1)))))


def legal(actions, length):
    """Every sequence, in every order."""
    for size in range(1, length + 1):
        for sequence in itertools.product(range(actions.count), repeat=size):
            if all(sequence.count(a) == 1 or a in actions.twice for a in sequence):
                yield sequence


def alike(actions, sequence):
    """All sequences that swaps of commuting neighbours lead to."""
    seen, left = {sequence}, [sequence]
    while left:
        now = left.pop()
        for k in range(len(now) - 1):
            a, b = now[k], now[k + 1]
            swapped = (*now[:k], b, a, *now[k + 2 :])
            if a != b and actions.commute(a, b) and swapped not in seen:
                seen.add(swapped)
                left.append(swapped)
    return seen


@given(action_sets())
def test_every_class_of_sequences_has_exactly_one_normal_form(actions):
    kept, sequences = SequenceSet(actions).up_to(4), SequenceSet(actions)
    assert len(set(kept)) == len(kept)
    everything = set(legal(actions, 4))
    for sequence in everything:
        same = alike(actions, sequence)
        (normal,) = same & set(kept)
        assert normal == min(same)
        assert sequences.normal(sequence)[0] == normal
    assert set(kept) <= everything


@given(action_sets())
def test_prefixes_of_normal_forms_are_normal(actions):
    kept = set(SequenceSet(actions).up_to(4))
    assert all(sequence[:-1] in kept for sequence in kept if len(sequence) > 1)


@given(action_sets(), st.lists(st.integers(0, 3), max_size=5))
def test_the_order_of_a_normal_form_says_where_its_actions_stood(actions, drawn):
    sequence = tuple(a for a in drawn if a < actions.count)
    normal, order = SequenceSet(actions).normal(sequence)
    assert sorted(order) == list(range(len(sequence)))
    assert tuple(sequence[k] for k in order) == normal
    assert SequenceSet(actions).normal(normal) == (normal, list(range(len(sequence))))
    same = [[k for k in order if sequence[k] == a] for a in set(sequence)]
    assert all(places == sorted(places) for places in same)  # actions that are alike keep their order


@given(action_sets())
def test_without_merging_every_order_is_a_sequence(actions):
    assert set(SequenceSet(actions, merge=False).up_to(3)) == set(legal(actions, 3))


def test_counts_by_hand():
    free = PlainActions(5, frozenset())
    assert len(SequenceSet(free).up_to(4)) == 30  # 5 + 10 + 10 + 5 subsets
    assert len(SequenceSet(free).up_to(9)) == 31
    assert len(SequenceSet(free, merge=False).up_to(4)) == 5 + 20 + 60 + 120
    clashing = PlainActions(3, frozenset(frozenset(pair) for pair in itertools.combinations(range(3), 2)))
    assert len(SequenceSet(clashing).up_to(3)) == 3 + 6 + 6  # nothing commutes
    assert SequenceSet(PlainActions(2, frozenset(), frozenset({0}))).up_to(3) == [
        *((0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 1))
    ]
    assert SequenceSet(free).up_to(0) == []


@pytest.mark.parametrize(("name", "orders"), [("german", 1099), ("adult", 516), ("fanniemae", 205)])
def test_counts_of_the_published_studies(data_home, name, orders):
    domain = load(name)
    bound = domain.actions.bind(domain.schema)
    assert len(SequenceSet(bound, merge=False).up_to(4)) == orders == domain.published["sequences"]
    # subsets, each as often as its conflicts can be ordered. German: a path Wait - Amount - Adjust - Period, so
    # 7 + 24 + 52 + 75; Adult: two pairs, 6 + 17 + 28 + 28; Fannie Mae: none at all
    assert len(SequenceSet(bound).up_to(4)) == {"german": 158, "adult": 79, "fanniemae": 30}[name]


def test_what_commutes():
    schema = Schema((*plain(3), Category("job", ("none", "some"))))
    actions = ActionSet(
        (
            Action("A", Shift("a"), 1),
            Action("B", Shift("b"), 1),
            Action("needs_a", Shift("c"), 1, [old("a") > 0]),
            Action("own_guard", Set("job", "some"), 1, [old("job") != "some"]),
            Action("also_a", Shift("a"), 2),
        )
    )
    sequences = SequenceSet(actions.bind(schema))
    assert sequences._commute[0] == [False, True, False, True, False]
    assert sequences._commute[3] == [True, True, True, False, True]
    assert (2, 0) in sequences.up_to(2) and (0, 2) in sequences.up_to(2) and (1, 0) not in sequences.up_to(2)


def test_sequences_as_tensors():
    assert as_tensor([(1, 0), (2,)], 3).tolist() == [[1, 0, -1], [2, -1, -1]]
    assert as_tensor([], 3).shape == (0, 3) and as_tensor([], 3).dtype == torch.long


def test_a_price_alone_does_not_conflict():
    """Relative prices read only what the action changes itself; durations may read more."""
    schema = Schema((Number("a", 1, 9), Number("b", 1, 9)))
    slow = Action("slow", Shift("b"), 1, duration=1 + 0.1 * (new("a") - 1))
    bound = ActionSet((Action("A", Shift("a"), "(a / old a)^2"), slow)).bind(schema)
    assert not bound.commute(0, 1) and SequenceSet(bound).up_to(2) == [(0,), (1,), (0, 1), (1, 0)]
