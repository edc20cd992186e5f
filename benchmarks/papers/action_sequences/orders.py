"""Which score reaches the solution first: figures 1 and 2 of the paper.

As the authors did, every sequence is solved once, and the orders in which Algorithm 1 would have gone through them are
replayed over the table. Counted are sequences solved until the first whose cost is that of the best but for a
ten-thousandth, the saving below which the library does not add a step; "strict" figures ask for a millionth, where
which of several near-equal sequences counts as the solution is left to the last digits. Sequences that differ by the
order of commuting actions are one, and those whose guards fail (a level that is already there) are none. Equal scores
go first come, first served.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import torch
from ledger import Outcome

from action_sequences.answers import Answers
from turnabout.core.run import Run
from turnabout.methods.action_sequences import ActionSequences
from turnabout.methods.sequences.scores import SCORES as FAMILY
from turnabout.methods.sequences.sequence_search import SequenceSearch
from turnabout.methods.sequences.sequence_set import ActionSequence

SCORES = tuple(FAMILY.members)
SAME, STRICT = 1e-4, 1e-6  # share of the cost within which a sequence is a solution
AGREE = 1e-3


class Whole(SequenceSearch):
    """A search that passes over nothing but failing guards."""

    def _worth(self, i: int, sequence: ActionSequence) -> bool:
        return True

    def _budget(self, i: int, sequence: ActionSequence, again: bool) -> float:
        budget = super()._budget(i, sequence, again)
        return budget if budget > 1e-6 else budget + sum(self.constant[a] for a in sequence)


def exhaust(answers: Answers, name: str, count: int, length: int, seed: int = 0) -> SequenceSearch:
    """Every sequence of the first people, solved."""
    problem = answers.problem(name)
    method = ActionSequences(max_steps=length).fit(problem, answers.device)
    method.run = Run(seed=seed)
    x = problem.schema.encode(answers.asked(name).iloc[:count]).to(answers.device)
    search = Whole(method._solver(x), method.sequences_, length, 10**9, lambda: False)
    search.breadth()
    search.again()
    return search


def iterations(
    search: SequenceSearch, i: int, values: dict[ActionSequence, list[float]], goal: set[ActionSequence]
) -> int:
    """Sequences of person i that Algorithm 1 solves until it has solved one of the goal."""
    known = search.ledger.place[i]
    heap: list[tuple[float, int, ActionSequence]] = []
    pushed = 0

    def push(sequence: ActionSequence) -> None:
        nonlocal pushed
        if len(sequence) >= search.max_steps:
            return
        for longer in search.sequences.extensions(sequence):
            if longer not in known:
                continue  # its guard fails
            heapq.heappush(heap, (values[sequence][longer[-1]], pushed, longer))
            pushed += 1

    push(())
    done = 0
    while heap:
        sequence = heapq.heappop(heap)[2]
        done += 1
        if sequence in goal:
            return done
        push(sequence)
    raise AssertionError("every sequence is reached")


def replayed(answers: Answers, name: str, count: int, length: int = 4) -> Outcome:
    """Iterations of the three scores for the people who have a plan."""
    search = exhaust(answers, name, count, length)
    ledger = search.ledger
    rows: dict[str, list[Any]] = {key: [] for key in (*SCORES, *(f"strict_{score}" for score in SCORES))}
    rows |= {"length": [], "sequences": []}
    for i, known in enumerate(ledger.place):
        best = min(ledger.cost[row] for row in known.values())
        if not np.isfinite(best):
            continue
        goal, narrow = (
            {sequence for sequence, row in known.items() if ledger.cost[row] <= best * (1 + share)}
            for share in (SAME, STRICT)
        )
        parents = [(), *(sequence for sequence in known if len(sequence) < length)]
        for score in SCORES:
            with torch.no_grad():
                told = FAMILY.get(score).values(search, [(i, sequence) for sequence in parents]).tolist()
            values = dict(zip(parents, told, strict=True))
            rows[score].append(iterations(search, i, values, goal))
            rows[f"strict_{score}"].append(iterations(search, i, values, narrow))
        rows["length"].append(min(len(sequence) for sequence in goal))
        rows["sequences"].append(len(known))
    n = len(rows["length"])
    figures: dict[str, tuple[float, int]] = {f"{name}.sequences_in_all": (float(np.mean(rows["sequences"])), n)}
    for score in SCORES:
        figures[f"{name}.iterations_{score}"] = (float(np.mean(rows[score])), n)
        figures[f"{name}.median_iterations_{score}"] = (float(np.median(rows[score])), n)
        figures[f"{name}.strict_iterations_{score}"] = (float(np.mean(rows[f"strict_{score}"])), n)
    for long in range(1, length + 1):
        at = np.array(rows["length"]) == long
        if at.any():
            figures[f"{name}.solutions_of_length{long}"] = (float(at.sum()), n)
            taken = np.array([rows[score] for score in SCORES])[:, at]
            for score, mine in zip(SCORES, taken):
                figures[f"{name}.length{long}_first_{score}"] = (float((mine == taken.min(0)).sum()), int(at.sum()))
    return Outcome(figures, rows)


def _best(search: SequenceSearch) -> list[float]:
    ledger = search.ledger
    return [min(ledger.cost[row] for row in known.values()) for known in ledger.place]


def really_run(answers: Answers, name: str, count: int, length: int = 4) -> Outcome:
    """Each score run for real: does it end at what brute force found?"""
    search = exhaust(answers, name, count, length)
    people = answers.asked(name).iloc[:count]
    figures, shares = {}, []
    for score in SCORES:
        method = ActionSequences(max_steps=length, score=score).fit(answers.problem(name), answers.device)
        costs = method.find(people).plans["cost"].droplevel("option").reindex(people.index).to_numpy(dtype=float)
        brute = np.array(_best(search))
        with np.errstate(invalid="ignore"):
            equal = (np.isnan(costs) & np.isinf(brute)) | (np.abs(costs / brute - 1) <= AGREE)
        shares.append(equal.mean())
        figures[f"{name}.{score}_ends_at_brute_force"] = (100 * float(equal.mean()), count)
    figures[f"{name}.scores_end_at_brute_force"] = (100 * float(np.mean(shares)), count)
    return Outcome(figures)
