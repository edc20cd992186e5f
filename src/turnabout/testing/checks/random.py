"""Chance and company: an answer depends on the seed and on the person, on nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from turnabout.core import Recourse
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.trial import Trial, difference, find, kept_random_states, random_states


@check("the same seed gives the same answer.")
def repeats_itself(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        answer = trial.answer(case)
        for what, again in (("a second find", method), ("a second fit and find", trial.fit(case.problem))):
            other = find(again, case.people)
            if other.fingerprint != answer.fingerprint:
                apart = difference(case, answer, other) or "the fingerprints differ"
                yield f"{case}: {what} with the same seed answers otherwise: {apart}."


@check("the global random states of Python, numpy and torch are neither used nor advanced.")
def leaves_global_chance_alone(trial: Trial) -> Complaints:
    for case, _ in trial.usable(trial.conduct):
        with kept_random_states():
            answers = []
            for seed in (1, 2):
                random.seed(seed)
                np.random.seed(seed)  # noqa: NPY002
                torch.manual_seed(seed)
                before = random_states()
                method = trial.fit(case.problem)
                answers.append(find(method, case.people))
                for name, old, new in zip(("Python", "numpy", "torch"), before, random_states(), strict=True):
                    if old != new:
                        yield f"{case}: fit or find advances the global random state of {name}."
        if answers[0].fingerprint != answers[1].fingerprint:
            apart = difference(case, answers[0], answers[1]) or "the fingerprints differ"
            yield f"{case}: another global random state gives another answer: {apart}."


@check("reordering people reorders their answers.")
def ignores_order(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        n = len(case.people)
        for what, order in (("reversed", np.arange(n)[::-1]), ("shuffled", np.random.default_rng(0).permutation(n))):
            other = find(method, case.people.iloc[order])
            if list(other.status.index) != list(case.people.index[order]):
                yield f"{case}: with people {what}, the answer does not stand in their order."
            elif apart := difference(case, trial.answer(case), other):
                yield f"{case}: with people {what}, {apart}."


@check("two people with the same row get the same answer.")
def treats_twins_alike(trial: Trial) -> Complaints:
    for case, method in trial.usable(trial.conduct):
        twins = case.people.set_axis([f"twin of {label}" for label in case.people.index])
        both = find(method, pd.concat([case.people.set_axis(list(map(str, case.people.index))), twins]))
        names = {label: f"twin of {label}" for label in map(str, case.people.index)}
        first = both.status.index[: len(case.people)]
        apart = difference(case, _part(both, list(first)), both, names)
        if apart:
            yield f"{case}: with everyone in the table twice, {apart}."


def _part(answer: Recourse, people: list[str]) -> Recourse:
    """The answer for some of its people."""
    mine = [key in people for key in answer.options.index.get_level_values(0)]
    return replace(
        answer, people=answer.people.loc[people], status=answer.status.loc[people], options=answer.options[mine]
    )
