"""The attack on all cores: python -m fuzz.run --seconds 600 --seed 1, or --one SEED for one problem.

Problems of a run with seed S are S * STRIDE + k, and ADVISED + S * STRIDE + k; the number alone reproduces one.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import queue
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from fuzz.advised import ADVISED  # noqa: E402
from fuzz.attack import LIMIT, Report, attack  # noqa: E402
from fuzz.oracle import Fault  # noqa: E402
from fuzz.questions import PER_WORLD  # noqa: E402

STRIDE = 10_000_000  # problems between two seeds
STUCK = 3 * LIMIT  # seconds after which a worker that does not even hear its alarm is ended
SHOWN = 3  # examples of each kind of fault


@dataclass
class Summary:
    """What a run has seen."""

    seed: int
    seconds: float = 0.0
    problems: int = 0
    people: int = 0
    options: int = 0
    proofs: int = 0
    optima: int = 0
    missed: int = 0
    models: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    status: Counter[str] = field(default_factory=Counter)
    advice: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        self.problems += 1
        self.people += report.people
        self.options += report.options
        self.proofs, self.optima = self.proofs + report.proofs, self.optima + report.optima
        self.missed += report.missed
        self.models[report.model] += 1
        self.methods[report.method or "none"] += 1
        self.status.update(report.status)
        self.advice.update(report.advice)
        if report.refusal is not None:
            self.refusals[report.refusal[:70]] += 1
            self._example(f"refused: {report.refusal[:70]}", report, report.refusal)
        for fault in report.faults:
            self.faults[fault.kind] += 1
            self._example(fault.kind, report, f"person {fault.person!r}: {fault.text}")

    def _example(self, kind: str, report: Report, text: str) -> None:
        kept = self.examples.setdefault(kind, [])
        if len(kept) < SHOWN and report.seed not in [example["one"] for example in kept]:
            kept.append({"one": report.seed, "model": report.model, "method": report.method, "text": text[:600]})

    def save(self, path: str | None) -> None:
        """The summary as JSON."""
        if path is not None:
            with open(path, "w", encoding="utf-8") as out:
                json.dump(vars(self), out, indent=1, ensure_ascii=False)

    def lines(self) -> list[str]:
        """The summary, for people."""
        rate, by_force = self.problems / max(self.seconds, 1e-9), "checked by brute force"
        out = [
            f"{self.problems} problems, {self.people} people, {self.options} options",
            f"{self.seconds:.0f} seconds, {rate:.1f} problems a second",
            f"{self.proofs} proofs and {self.optima} optima {by_force}; {self.missed} plans missed, nothing claimed",
            "status   " + _counts(self.status),
            "models   " + _counts(self.models),
            "methods  " + _counts(self.methods),
            "advice   " + _counts(self.advice),
            f"refused with a reason: {sum(self.refusals.values())}",
        ]
        for text, count in self.refusals.most_common(12):
            out.append(f"  {count:5d}  {text}  (make fuzz ONE={self.examples['refused: ' + text][0]['one']})")
        out.append(f"faults: {sum(self.faults.values())}")
        for kind, count in self.faults.most_common():
            out.append(f"  {count:5d}  {kind}")
            for example in self.examples[kind]:
                out.append(f"         make fuzz ONE={example['one']}   {example['model']}, {example['method']}")
                out.append(f"           {example['text']}")
        return out


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


# -- workers -----------------------------------------------------------------------------------------------------------


def work(first: int, place: int, takes: Any, gives: Any, until: float) -> None:
    """Take blocks of problems until the time is over; say which one is at hand, and what came of it."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # C libraries talk
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warm_up()
    gc.freeze()  # libraries fill the heap, and need not be looked through again
    gc.set_threshold(50_000)
    parent = multiprocessing.parent_process()
    while time.time() < until and (parent is None or parent.is_alive()):
        with takes.get_lock():
            block, takes.value = takes.value, takes.value + 1
        start = first + block // 2 * PER_WORLD + (ADVISED if block % 2 else 0)  # worlds of both kinds in turn
        for seed in range(start, start + PER_WORLD):
            gives.put((place, seed, None))
            gives.put((place, seed, safely(seed)))
    gives.put((place, None, None))


def warm_up() -> None:
    """Load what the first optimiser loads: it takes seconds, and an alarm in the middle would leave half of it."""
    import torch

    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()


def safely(seed: int) -> Report:
    """The report of a problem; what breaks in the attack itself is a fault too."""
    try:
        return attack(seed)
    except Exception as error:
        return Report(seed, faults=[Fault(f"the attack broke: {type(error).__name__}", None, str(error)[:300])])


class Crew:
    """Workers, one for each core, each watched."""

    def __init__(self, seed: int, seconds: float, cores: int):
        self.context = multiprocessing.get_context("spawn")
        self.first, self.until = seed * STRIDE, time.time() + seconds
        self.takes, self.gives = self.context.Value("q", 0), self.context.Queue()
        self.at: dict[int, tuple[int, float]] = {}
        self.crew: dict[int, BaseProcess] = {}
        for place in range(cores):
            self.hire(place)

    def hire(self, place: int) -> None:
        arguments = (self.first, place, self.takes, self.gives, self.until)
        self.crew[place] = self.context.Process(target=work, args=arguments, daemon=True)
        self.crew[place].start()
        self.at.pop(place, None)

    def reports(self) -> Any:
        """Reports as they come; a worker that is stuck or dead costs one problem."""
        while self.crew:
            try:
                place, seed, report = self.gives.get(timeout=1.0)
            except queue.Empty:
                yield from self.look()
                continue
            if seed is None:
                self.crew.pop(place).join()
            elif report is None:
                self.at[place] = (seed, time.time())
            else:
                self.at.pop(place, None)
                yield report

    def look(self) -> Any:
        """Replace workers that are stuck or dead."""
        for place, process in list(self.crew.items()):
            seed, since = self.at.get(place, (-1, time.time()))
            dead = not process.is_alive()
            if not dead and time.time() - since < STUCK:
                continue
            if not dead:
                process.kill()
            process.join()
            kind = "the worker died" if dead else "hangs, and hears no alarm"
            yield Report(seed, faults=[Fault(kind, None, f"exit code {process.exitcode}")])
            self.crew.pop(place)
            if time.time() < self.until:
                self.hire(place)


def run(seed: int, seconds: float, cores: int, path: str | None = None) -> Summary:
    """The attack with a line of progress; what was seen so far is kept in a file."""
    summary, start, said = Summary(seed), time.time(), 0.0
    for report in Crew(seed, seconds, cores).reports():
        summary.add(report)
        summary.seconds = time.time() - start
        for fault in report.faults:
            print(f"make fuzz ONE={report.seed}: {fault.kind}", file=sys.stderr, flush=True)
        if summary.seconds - said > 10:
            said = summary.seconds
            faults = sum(summary.faults.values())
            print(f"{said:6.0f} s  {summary.problems} problems, {faults} faults", file=sys.stderr, flush=True)
            summary.save(path)
    return summary


def one(seed: int) -> Summary:
    """One problem, in this process."""
    warm_up()
    summary, start = Summary(seed), time.time()
    summary.add(safely(seed))
    summary.seconds = time.time() - start
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=int, help="the number of one problem")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", help="file for the summary as JSON")
    given = parser.parse_args()
    summary = one(given.one) if given.one is not None else run(given.seed, given.seconds, given.cores, given.json)
    print("\n".join(summary.lines()))
    summary.save(given.json)
    return 1 if summary.faults else 0


if __name__ == "__main__":
    sys.exit(main())
