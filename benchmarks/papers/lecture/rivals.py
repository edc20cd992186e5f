"""KernelSHAP and LIME beside shap and lime: the cells of `benchmarks/attributions.py`, where both are installed."""

from __future__ import annotations

import sys
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ledger import Cell, Outcome

SECONDS = {"kernelshap": 240, "lime": 120}


def cells(full: bool) -> list[Cell]:
    """All models in full, the logistic regression for a taste; none without shap and lime."""
    if find_spec("shap") is None or find_spec("lime") is None:
        return []
    models = ("logistic", "boosting", "net") if full else ("logistic",)
    return [
        Cell(f"{part}.{model}", "rivals", seconds, partial(_run, part, model, full))
        for part, seconds in SECONDS.items()
        for model in models
    ]


def headline(figures: dict[str, dict[str, Any]]) -> None:
    """The worst of the models, as the script of its own tells it."""
    if any(name.startswith("kernelshap.logistic") for name in figures):
        _script().headline(figures)


def _run(part: str, model: str, full: bool) -> Outcome:
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return getattr(_script(), part)(_study(full), model)
    finally:
        torch.set_num_threads(threads)


@cache
def _study(full: bool) -> Any:
    script = _script()
    return script.Study(script.FULL if full else script.SMALL)


def _script() -> Any:
    folder = str(Path(__file__).parents[2])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import attributions

    return attributions
