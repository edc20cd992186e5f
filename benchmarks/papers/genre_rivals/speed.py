"""How many people in a second, how long networks train: on Adult, one thread, one seed."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache

import torch
from ledger import Outcome

import turnabout as ta
from turnabout.bench import BenchCase
from turnabout.bench.grid_run import with_own_background
from turnabout.bench.protocols import PROTOCOLS
from turnabout.core import Method


class Watch:
    """Seconds of the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self.clock, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.clock, time.process_time() - self.cpu


@cache
def adult(people: int | None) -> BenchCase:
    """The strict protocol's people of Adult; None for all who are refused."""
    return PROTOCOLS["strict"].pose("adult", "net", 0, people, 0)


def method(name: str, made: str, people: int) -> Outcome:
    """One method: fitting, and people in a second in one batch, without and with the walk back."""
    torch.set_num_threads(1)
    case, out = adult(people), Outcome()
    watch = Watch()
    fitted: Method = getattr(ta.methods, made)().fit(with_own_background(case.problem))
    clock, cpu = watch.read()
    out.figures[f"adult.{name}.fit_seconds"], out.figures[f"adult.{name}.fit_cpu_seconds"] = (clock, 1), (cpu, 1)
    if name == "CCHVAE":  # all of its fit is the auto-encoder's training
        out.figures["adult.VAE.seconds"], out.figures["adult.VAE.cpu_seconds"] = (clock, 1), (cpu, 1)
    for refine in (False, True):
        watch = Watch()
        fitted.find(case.people, refine=refine)
        clock, cpu = watch.read()
        stem, n = f"adult.{name}{'.refined' if refine else ''}", len(case.people)
        out.figures[f"{stem}.people_per_second"] = (n / clock, n)
        out.figures[f"{stem}.people_per_cpu_second"] = (n / cpu, n)
    return out


def everybody(most: int | None) -> Outcome:
    """FACE, fit and find, for all refused test people of Adult."""
    torch.set_num_threads(1)
    case = adult(most)
    watch = Watch()
    ta.methods.Face().fit(with_own_background(case.problem)).find(case.people)
    clock, cpu, n = *watch.read(), len(case.people)
    return Outcome({"adult.FACE.all_seconds": (clock, n), "adult.FACE.all_cpu_seconds": (cpu, n)})


def small_board() -> Outcome:
    """`turnabout bench --small`."""
    watch = time.perf_counter()
    subprocess.run([sys.executable, "-m", "turnabout.cli", "bench", "--small"], check=True, capture_output=True)
    return Outcome({"small_board.seconds": (time.perf_counter() - watch, 20)})
