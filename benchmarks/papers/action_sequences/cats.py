"""Strokes that make a drawing a cat: the paper's last experiment."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from ledger import Outcome

from action_sequences.answers import Watched, domain, hard_check
from turnabout.datasets.data_files import cache_folder, obtain
from turnabout.studies.domains.drawing_domain import used_lines
from turnabout.studies.domains.drawing_lines import CATS, stored_cats
from turnabout.studies.domains.drawing_recogniser import Training

MOST = 6  # strokes
WHOLE = 94  # lines of the cat


def trained() -> bool:
    """Whether the recogniser is in the cache, so that loading the domain trains nothing."""
    return (cache_folder() / "quickdraw" / f"recogniser-{Training().fingerprint}.npz").is_file()


def drawing(count: int, device: str, seed: int = 0) -> Outcome:
    """Plans of at most six strokes for the studied drawings; for a few, those that lack the fewest lines."""
    cat = domain("drawing")
    problem = cat.problem
    used = used_lines(problem.schema.encode(cat.people)).sum(1).numpy()
    people = cat.people.iloc[np.sort(np.argsort(-used, kind="stable")[:count])]
    lines, whole = stored_cats(obtain(CATS).content)
    with torch.no_grad():
        x = torch.as_tensor(lines.reshape(len(lines), -1) / 256.0)
        right = (cat.model.margin(x).numpy() >= 0) == whole
    lacking = WHOLE - np.sort(used)[::-1][:count]
    method = Watched(max_steps=MOST).fit(problem, device)
    start = time.perf_counter()
    answer = method.find(people, seed=seed)
    seconds = time.perf_counter() - start
    costs = answer.plans["cost"]
    good = hard_check(problem, answer)
    figures = {
        "drawing.solved": (float(len(costs)), count),
        "drawing.mean_cost": (float(costs.mean()) if len(costs) else np.nan, count),
        "drawing.median_cost": (float(costs.median()) if len(costs) else np.nan, count),
        "drawing.hard_check_share": (100 * float(good.mean()) if len(good) else np.nan, count),
        "drawing.accuracy": (float(right.mean()), len(right)),
        "drawing.seconds": (seconds, count),
        "drawing.lack_at_most_six_lines": (float((lacking <= MOST).sum()), count),
    }
    return Outcome(figures, {"pictures": _pictures(answer), "lacking": lacking.tolist()})


def more_strokes(device: str) -> Outcome:
    """How many of the studied drawings have a plan when more strokes than six are allowed."""
    cat = domain("drawing")
    figures = {}
    for strokes in (7, 8, 9):
        answer = Watched(max_steps=strokes).fit(cat.problem, device).find(cat.people)
        figures[f"drawing.solved_within_{strokes}"] = (float(len(answer.plans)), len(cat.people))
    return Outcome(figures)


def _pictures(answer: Any) -> list[dict[str, Any]]:
    """Lines of each drawing and the strokes added, in pixels, shortest plans first."""
    out = []
    for person, _ in answer.plans.sort_values(["steps", "cost"]).index:
        states = answer.states_of(person).to_numpy(dtype=float)
        first, last = (state.reshape(-1, 4) for state in (states[0], states[-1]))
        used, added = (first < 256).any(1), (first >= 256).all(1) & (last < 256).any(1)
        out.append({"person": str(person), "lines": first[used].tolist(), "added": last[added].tolist()})
    return out
