"""Who has a plan, what it costs and how long it takes: 4.1 of the paper, instances solved."""

from __future__ import annotations

import time

import numpy as np
from ledger import Outcome

from action_sequences.answers import Answers, domain, hard_check
from turnabout.methods.action_sequences import ActionSequences

LONGEST = 4


def solved(answers: Answers, name: str, length: int, seed: int) -> Outcome:
    """Plans of at most `length` actions for everyone."""
    problem, people = answers.problem(name), answers.asked(name)
    found = answers.get(name, length, seed)
    costs, n = found.costs, len(people)
    good = hard_check(problem, found.answer)
    figures = {
        "solved": float(len(costs)),
        "mean_cost": float(costs.mean()) if len(costs) else np.nan,
        "median_cost": float(np.median(costs)) if len(costs) else np.nan,  # over those who have a plan
        "lower_median_cost": float(np.sort(costs)[(len(costs) - 1) // 2]) if len(costs) else np.nan,  # torch.median
        "hard_check_share": 100 * float(good.mean()) if len(good) else np.nan,
        "seconds": found.seconds,
        "sequences_per_person": found.sequences / n,
        "ms_per_sequence": 1000 * found.seconds / max(1, found.sequences),
    }
    if length == LONGEST:
        figures["do_nothing_solved"] = float((problem.judge(people) >= 0).sum())
        nominal = domain(name).published["sequences"]  # all orders of different actions, as the authors count
        figures["ms_per_nominal_sequence"] = 1000 * found.seconds / (n * nominal)
        published = domain(name).published["seconds_per_sequence"]
        figures["times_faster_per_sequence"] = 1000 * published / figures["ms_per_sequence"]
        figures["times_faster_per_person"] = published * nominal * n / found.seconds
    named = {f"{name}.len{length}.{what}": (value, n) for what, value in figures.items()}
    if length == LONGEST:
        named |= {f"{name}.{what}": (value, n) for what, value in figures.items()}
    steps = found.answer.plans["steps"]
    data = {"steps": [int((steps == k).sum()) for k in range(1, length + 1)], "costs": costs.tolist()}
    missed = [str(person) for person in found.answer.people.index[found.answer.status != "FOUND"]]
    return Outcome(named, data, [f"no plan for: {', '.join(missed)}"] if missed else [])


def one_person(answers: Answers, name: str, count: int) -> Outcome:
    """Seconds until one new person has a plan of at most four actions; the method is fitted before."""
    method = ActionSequences(max_steps=LONGEST).fit(answers.problem(name), answers.device)
    people = answers.asked(name)
    seconds = []
    for k in range(1, count + 1):
        start = time.perf_counter()
        method.find(people.iloc[[k % len(people)]])
        seconds.append(time.perf_counter() - start)
    return Outcome({f"{name}.one_person_seconds": (float(np.median(seconds)), count)}, {"seconds": seconds})
