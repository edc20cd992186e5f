"""The cheapest German plan of one action, found by looking everywhere, with nothing of the library's search.

The network, the rows and the actions are written down again here, in NumPy: a grid over what an action may do to the
amount, the duration or the age, and halving between the last refused and the first accepted point on either side.
"""

from __future__ import annotations

import io

import numpy as np
import torch
from ledger import Outcome

from action_sequences.answers import Answers, Watched
from turnabout.core.run import Run
from turnabout.core.verify import clearance
from turnabout.datasets.data_files import obtain
from turnabout.studies.domains import german_domain

# Columns of the study's rows, and means and deviations of its 900 training rows.
DURATION, AMOUNT, AGE = 4, 21, 46
MEAN = {DURATION: 18791 / 900, AMOUNT: 2977434 / 900, AGE: 32036 / 900}
DEVIATION = {DURATION: 12.125812583, AMOUNT: 2842.667493885, AGE: 11.465735483}
GUARANTORS, JOB, FOREIGN = slice(38, 41), slice(54, 58), slice(61, 63)
ACTIONS = (
    "WaitYears",
    "Naturalize",
    "ChangeCreditAmount",
    "ChangeLoanPeriod",
    "AdjustLoanPeriod",
    "GetGuarantor",
    "GetUnskilledJob",
)
HALVINGS = 60
AT_ONCE = 50_000  # rows put to the network together


class Network:
    """Rows (n, 63) of the study -> logit of a good risk less that of a bad one."""

    def __init__(self, content: bytes):
        arrays = np.load(io.BytesIO(content), allow_pickle=False)
        self.layers = [(arrays[f"kernel_{i}"].astype(float), arrays[f"bias_{i}"].astype(float)) for i in range(3)]

    def __call__(self, first: np.ndarray) -> np.ndarray:
        """From the sums of the first layer (n, 40)."""
        out = first
        for kernel, bias in self.layers[1:]:
            out = np.maximum(out, 0) @ kernel + bias
        return out[:, 0] - out[:, 1]

    def first(self, z: np.ndarray) -> np.ndarray:
        kernel, bias = self.layers[0]
        return z @ kernel + bias


def rows() -> tuple[Network, np.ndarray]:
    """The network and the hundred rows (100, 63), read from the study's files; raw numbers are whole."""
    stored, network = (obtain(source).content for source in german_domain.RECIPE.sources)
    z = np.loadtxt(io.BytesIO(stored), delimiter=",", skiprows=1)[:, :63]
    for column in MEAN:
        z[:, column] = (_raw(z, column).round() - MEAN[column]) / DEVIATION[column]
    return Network(network), z


def _raw(z: np.ndarray, column: int) -> np.ndarray:
    return MEAN[column] + DEVIATION[column] * z[:, column]


def one_action(network: Network, z: np.ndarray, action: str, points: int, clear: float = 0.0) -> float:
    """The least cost at which the action alone brings one person (63,) to a margin; inf if it cannot."""
    levels = {"Naturalize": (FOREIGN, 1), "GetGuarantor": (GUARANTORS, 2), "GetUnskilledJob": (JOB, 1)}
    if action in levels:
        place, level = levels[action]
        now = int(z[place].argmax())
        if now == level or (action == "GetUnskilledJob" and now != 0):
            return np.inf
        other = z.copy()
        other[place] = np.eye(place.stop - place.start)[level]
        return 5.0 if network(network.first(other[None]))[0] >= clear else np.inf
    duration, amount, age = (float(_raw(z[None], column)[0]) for column in (DURATION, AMOUNT, AGE))
    slope = np.zeros(63)  # by how much the row moves with the action's parameter
    if action == "WaitYears":
        slope[AGE], low, high = 1 / DEVIATION[AGE], 0.0, 119.999999 - age
    elif action == "ChangeLoanPeriod":
        slope[DURATION], low, high = 1 / DEVIATION[DURATION], 0.5 - duration, 119.5 - duration
    else:
        slope[AMOUNT], low, high = 1 / DEVIATION[AMOUNT], 1 - amount, 99999 - amount
        if action == "AdjustLoanPeriod":
            if amount <= 1000:
                return np.inf
            slope[DURATION] = duration / amount / DEVIATION[DURATION]
            low, high = max(low, (0.5 / duration - 1) * amount), min(high, (119.5 / duration - 1) * amount)
        elif age <= 15:
            return np.inf

    def cost(r: float) -> float:
        return abs(r) if action == "WaitYears" else (r / (duration if action == "ChangeLoanPeriod" else amount)) ** 2

    base, lean = network.first(z[None])[0], slope @ network.layers[0][0]

    def margin(r: np.ndarray) -> np.ndarray:
        parts = [network(base + part[:, None] * lean) for part in np.array_split(r, max(1, len(r) // AT_ONCE))]
        return np.concatenate(parts)

    best = np.inf
    for end in (low, high):  # costs grow with |r|: on each side the first accepted point is the cheapest
        count = max(2, round(points * abs(end) / max(high - low, 1e-12)))
        r = np.linspace(0.0, end, count)
        yes = margin(r) >= clear
        if not yes.any() or end == 0:
            continue
        k = int(yes.argmax())
        refused, accepted = r[max(0, k - 1)], r[k]
        for _ in range(HALVINGS):
            middle = (refused + accepted) / 2
            if margin(np.array([middle]))[0] >= clear:
                accepted = middle
            else:
                refused = middle
        best = min(best, cost(accepted))
    return best


def against_scan(answers: Answers, points: int) -> Outcome:
    """The search with sequences of one action beside the scan, for every person and action."""
    network, z = rows()
    people = answers.asked("german")
    problem = answers.problem("german")
    x = problem.schema.encode(people)
    with torch.no_grad():
        ours = problem.margin(x).numpy()
    apart = float(np.abs(ours - network(network.first(z[: len(people)]))).max())
    assert apart < 1e-6, f"the two readings of the network differ by {apart}"
    method = Watched(max_steps=1).fit(problem)
    method.run = Run(seed=0)
    ledger = method.explore(x).ledger
    assert tuple(problem.actions.names) == ACTIONS
    exact, kept = (
        np.array([[one_action(network, row, action, points, clear) for action in ACTIONS] for row in z[: len(people)]])
        for clear in (0.0, 2 * clearance(problem))  # the boundary itself, and the margin that the search keeps
    )
    found = np.full_like(exact, np.inf)
    for i, place in enumerate(ledger.place):
        for sequence, row in place.items():
            found[i, sequence[0]] = ledger.cost[row]
    solvable = np.isfinite(exact)
    both = solvable & np.isfinite(found)
    gap = found[both] / exact[both] - 1
    best, printed = exact.min(1), answers.get("german", 1, 0).answer.plans["cost"].droplevel("option")
    reachable = np.isfinite(best)
    shown = printed.reindex(people.index).to_numpy(dtype=float)
    printed_gap = np.where(np.isnan(shown), np.inf, shown)[reachable] / best[reachable] - 1
    n = len(people)
    figures = {
        "german.len1_cases": (float(solvable.sum()), n),
        "german.len1_cases_missed": (float((solvable & ~both).sum()), n),
        "german.len1_worst_gap_to_scan": (float(gap.max()), n),
        "german.len1_worst_gap_at_same_margin": (float((found[both] / kept[both] - 1).max()), n),
        "german.len1_people": (float(reachable.sum()), n),
        "german.len1_worst_printed_gap": (float(printed_gap.max()), n),
    }
    data = {"points": points, "below_scan": float(gap.min()), "mean": float(best[reachable].mean())}
    return Outcome(figures, data)
