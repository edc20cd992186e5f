"""The published studies: every plan holds as printed, and plans of one step are those of a scan in plain numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.sequences.toys import check_plans, costs, sequences_of

from published import load
from turnabout.actions import ActionSet
from turnabout.core import Problem, Status, replay
from turnabout.methods import ActionSequences
from turnabout.studies.domains import german_domain


def answered(domain, people, options=1, **parameters):
    return ActionSequences(**parameters).fit(domain.problem).find(people, options=options)


@pytest.mark.parametrize("name", ["german", "adult", "fanniemae"])
def test_every_plan_holds(data_home, name):
    domain = load(name)
    answer = answered(domain, domain.people.iloc[5:9], options=2, max_steps=2, passes=1)
    assert answer.status.tolist() == [Status.FOUND] * 4  # as for everyone, with two steps
    assert len(answer.options) > 4
    check_plans(domain.problem, answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mean"), [("german", 1.025), ("adult", 7.135), ("fanniemae", 0.0512)], ids=lambda value: str(value)
)
def test_everyone_has_a_plan_of_two_steps(data_home, name, mean):
    domain = load(name)
    answer = answered(domain, domain.people, max_steps=2)
    assert (answer.status == Status.FOUND).all()
    assert costs(answer).mean() <= mean
    check_plans(domain.problem, answer)


# -- German, one step ---------------------------------------------------------------------------------------------

DURATION, AMOUNT, GUARANTOR, AGE, JOB, FOREIGN = 4, 21, slice(38, 41), 46, slice(54, 58), slice(61, 63)


def network(home):
    """Margin of standardised rows, straight from the published arrays: the good logit less the bad one."""
    arrays = np.load(home / "german" / "published_network.npz")

    def margin(z):
        for i in range(3):
            z = z @ arrays[f"kernel_{i}"].astype(float) + arrays[f"bias_{i}"].astype(float)
            z = np.maximum(z, 0) if i < 2 else z
        return z[..., 0] - z[..., 1]

    return margin


def least_one_step(margin, z, points=20_000):
    """The least cost of a single action for one standardised row, by looking everywhere."""
    scales = german_domain.SCALES
    raw = {
        at: scales[name].mean + scales[name].std * z[at]
        for at, name in ((DURATION, "loan_duration"), (AMOUNT, "credit_amount"), (AGE, "age"))
    }
    raw = {at: float(np.round(value)) for at, value in raw.items()}
    name_of = {DURATION: "loan_duration", AMOUNT: "credit_amount", AGE: "age"}

    def rows(changes):
        """Standardised rows with some raw columns set to values (k,)."""
        out = np.repeat(z[None], len(next(iter(changes.values()))), axis=0)
        for at, values in changes.items():
            out[:, at] = (values - scales[name_of[at]].mean) / scales[name_of[at]].std
        return out

    def sought(cost, change, low, high, start):
        """Least cost over values from low to high: a comb on both sides of the start, then halving."""
        best = np.inf
        for end in (low, high):
            share = np.r_[np.geomspace(1e-6, 1, points // 2), np.linspace(0, 1, points // 2)]
            values = start + np.sort(share) * (end - start)
            good = np.flatnonzero(margin(rows(change(values))) >= 0)
            if not len(good):
                continue
            bad, fine = values[max(good[0] - 1, 0)], values[good[0]]
            for _ in range(60):
                middle = (bad + fine) / 2
                yes = margin(rows(change(np.array([middle]))))[0] >= 0
                bad, fine = (bad, middle) if yes else (middle, fine)
            best = min(best, cost(fine))
        return best

    duration, amount, age = raw[DURATION], raw[AMOUNT], raw[AGE]
    found = [
        sought(lambda v: v - age, lambda v: {AGE: v}, age, 120.0, age),
        sought(lambda v: (v / duration - 1) ** 2, lambda v: {DURATION: v}, 0.5, 119.5, duration),
    ]
    if age > 15:
        found.append(sought(lambda v: (v / amount - 1) ** 2, lambda v: {AMOUNT: v}, 1.0, 99999.0, amount))
    if amount > 1000:
        low, high = max(1.0, 0.5 * amount / duration), min(99999.0, 119.5 * amount / duration)
        both = lambda v: {AMOUNT: v, DURATION: duration * v / amount}  # noqa: E731
        found.append(sought(lambda v: (v / amount - 1) ** 2, both, low, high, amount))
    for where, level, open_to in ((FOREIGN, 1, (0,)), (GUARANTOR, 2, (0, 1)), (JOB, 1, (0,))):
        if z[where].argmax() in open_to:
            other = z.copy()
            other[where] = 0
            other[where.start + level] = 1
            found.append(5.0 if margin(other[None])[0] >= 0 else np.inf)
    return min(found)


def stored(home):
    return pd.read_csv(home / "german" / "synth_action_seq_german_100_negatives.csv.gz").to_numpy(dtype=float)[:, :-2]


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_one_step_as_by_a_scan(data_home, count):
    domain, margin = load("german"), network(data_home)
    wanted = np.array([least_one_step(margin, z) for z in stored(data_home)[:count]])
    answer = answered(domain, domain.people.iloc[:count], max_steps=1)
    found = costs(answer)
    assert (np.isfinite(found) == np.isfinite(wanted)).all()
    solved = np.isfinite(wanted)
    np.testing.assert_allclose(found[solved], wanted[solved], rtol=1e-3)
    check_plans(domain.problem, answer)
    if count == 100:
        assert solved.sum() == 93
        assert found[solved].mean() == pytest.approx(1.727, abs=2e-3)
        assert np.median(found[solved]) == pytest.approx(0.3155, abs=1e-3)


# -- German, more -------------------------------------------------------------------------------------------------


def test_all_scores_end_at_the_same_plans(data_home):
    domain = load("german")
    people = domain.people.iloc[[0, 17]]
    found = [
        costs(answered(domain, people, max_steps=3, passes=1, score=s)) for s in ("breadth", "objective", "gradient")
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-3)
    every_order = costs(answered(domain, people, max_steps=3, passes=1, merge=False))
    np.testing.assert_allclose(every_order, found[0], rtol=1e-3)


def test_whole_months_and_marks(data_home):
    domain, fine = load("german", True), load("german")
    people = domain.people.iloc[:5]
    answer = answered(domain, people, max_steps=2)
    check_plans(domain.problem, answer)
    for person in people.index:
        for _, state in answer.states_of(person).iterrows():
            assert all(float(state[name]).is_integer() for name in ("loan_duration", "credit_amount", "age"))
    continuous = costs(answered(fine, fine.people.iloc[:5], max_steps=2))
    found = costs(answer)
    # a duration that follows the amount is rounded too, which may help a little
    assert (found >= 0.99 * continuous).all() and (found[:4] <= 1.15 * continuous[:4]).all()
    # the fifth person waits a year and pays back in half a month; in whole numbers it takes two years, and a month
    sequence = sequences_of(answer)[4, 0]
    assert sequence == ("WaitYears", "AdjustLoanPeriod")
    assert found[4] <= 1.02 * by_trying(domain, domain.people.iloc[[4]], sequence, range(1, 4), range(-3233, 0))


def by_trying(domain, person, sequence, *amounts):
    """The least cost of a plan of two actions over whole numbers."""
    problem = domain.problem
    x = problem.schema.encode(person)
    drawn = torch.cartesian_prod(*(torch.tensor(list(some), dtype=torch.float64) for some in amounts))
    sequences = torch.tensor([[problem.actions.names.index(name) for name in sequence]]).expand(len(drawn), -1)
    run = replay(problem, x.expand(len(drawn), -1), sequences, drawn.unsqueeze(-1))
    good = run.allowed & (problem.margin(run.end) >= 1e-9)
    return float(run.total[good].min())


def test_the_first_person_as_in_the_stored_run(data_home):
    """With ChangeLoanPeriod alone the released code stopped at 0.491513, for 36 -> 10.76 months: a little too far."""
    domain = load("german")
    alone = ActionSet([domain.actions["ChangeLoanPeriod"]])
    problem = Problem(domain.schema, domain.model, actions=alone)
    answer = ActionSequences(max_steps=1).fit(problem).find(domain.people.iloc[:1])
    told = domain.published["one_step_first_person_cost"]
    assert 0.995 * told <= costs(answer)[0] <= told
    assert 10.76 <= answer.options["loan_duration"].iloc[0] <= 10.85


def test_what_one_step_does_not_reach_two_steps_do(data_home):
    domain, margin = load("german"), network(data_home)
    z = stored(data_home)
    stuck = [42, 97]  # two of seven
    assert all(np.isinf(least_one_step(margin, z[i], 4000)) for i in stuck)
    people = domain.people.iloc[stuck]
    assert answered(domain, people, max_steps=1).status.tolist() == [Status.NOT_FOUND] * len(stuck)
    assert answered(domain, people, max_steps=2, passes=1).status.tolist() == [Status.FOUND] * len(stuck)
