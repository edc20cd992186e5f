"""Domains and the plans found for them, each searched once and kept in the folder of results."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from ledger import fingerprint

import turnabout as ta
from turnabout.core.plan import replay
from turnabout.core.plan_noise import read_plans
from turnabout.methods.action_sequences import ActionSequences
from turnabout.methods.sequences.sequence_search import SequenceSearch
from turnabout.studies.domains import Domain
from turnabout.typing import Tensor


class Watched(ActionSequences):
    """ActionSequences that remembers its searches, to count the sequences they solved."""

    def explore(self, x: Tensor) -> SequenceSearch:
        search = super().explore(x)
        self.searches_.append(search)
        return search

    def _fit(self, problem: ta.Problem) -> None:
        super()._fit(problem)
        self.searches_: list[SequenceSearch] = []


@cache
def domain(name: str) -> Domain:
    return ta.studies.domains.load(name)


@dataclass(frozen=True)
class Found:
    """Plans for the people of a domain: the answer, how long the search took, how many sequences it solved."""

    answer: ta.Recourse
    seconds: float
    sequences: int

    @property
    def costs(self) -> np.ndarray:
        """Of the people who have a plan."""
        return self.answer.plans["cost"].to_numpy()


@dataclass
class Answers:
    """Plans by domain, length and seed; `people` says how many of each domain are asked."""

    folder: Path
    people: dict[str, int]
    device: str = "cpu"
    known: dict[str, Found] = field(default_factory=dict)

    def problem(self, name: str) -> ta.Problem:
        return domain(name).problem

    def asked(self, name: str):
        """The first people of a domain, as a table."""
        return domain(name).people.iloc[: self.people[name]]

    def get(self, name: str, length: int, seed: int, robust: float | None = None) -> Found:
        """The plans of at most `length` steps, searched now or read from an earlier run of the same code."""
        key = f"{name}-len{length}-seed{seed}" + ("" if robust is None else f"-robust{robust:g}")
        if key not in self.known:
            file = self.folder / f"plans-{key}-{self.people[name]}-{self.device}-{fingerprint(False)}.json"
            if not file.is_file():
                found = self.search(name, length, seed, robust)
                self.folder.mkdir(parents=True, exist_ok=True)
                stored = {"seconds": found.seconds, "sequences": found.sequences, "answer": found.answer.to_dict()}
                file.write_text(json.dumps(stored), encoding="utf-8")
                self.known[key] = found
            else:
                stored = json.loads(file.read_text(encoding="utf-8"))
                answer = ta.Recourse.from_dict(stored["answer"])
                self.known[key] = Found(answer, stored["seconds"], stored["sequences"])
        return self.known[key]

    def search(self, name: str, length: int, seed: int, robust: float | None = None) -> Found:
        method = Watched(max_steps=length, robust=robust).fit(self.problem(name), self.device)
        start = time.perf_counter()
        answer = method.find(self.asked(name), seed=seed)
        seconds = time.perf_counter() - start
        solved = sum(len(sequences) for search in method.searches_ for sequences in search.ledger.place)
        return Found(answer, seconds, solved)


def hard_check(problem: ta.Problem, answer: ta.Recourse) -> np.ndarray:
    """(plans,) whether a plan read back from what was printed may be carried out, ends where and costs what was said,
    and is accepted there by the original model."""
    if not len(answer.plans):
        return np.zeros(0, dtype=bool)
    told = read_plans(problem, answer)
    done = replay(problem, told.x, told.sequences, told.r)
    rows = answer.options.loc[told.index, answer.features].reset_index(drop=True)
    cost = torch.tensor(answer.plans["cost"].tolist(), dtype=torch.float64)
    same = (done.total - cost).abs() <= 1e-9 * (1 + cost)
    there = ((done.end - problem.schema.encode(rows)).abs() <= 1e-9).all(1)
    return (done.allowed & same & there).numpy() & (problem.judge(rows) >= 0)
