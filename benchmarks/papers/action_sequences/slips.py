"""Plans not followed to the letter: figure 3 of the paper, and plans made to bear it."""

from __future__ import annotations

import numpy as np
from ledger import Outcome

import turnabout as ta
from action_sequences.answers import Answers, Found, hard_check
from turnabout.core.plan_noise import draws_of, read_plans, under_noise

THETAS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3)
THETA, PROBABILITY, DRAWS = 0.03, 0.8, 1000
FRESH = 271828  # seeds of the draws: none that a search uses
SETS = 10  # of draws: plans made for a share of 80 % stand so near to it that one set would decide for all of them


def tolerated(problem: ta.Problem, found: Found, theta: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(plans,) twice: whether a plan is accepted in 80 % of the draws, and whether its conditions hold in these too.

    Without noise a plan is what was printed, to the digit; slips are not rounded.
    """
    if theta == 0:
        good = hard_check(problem, found.answer)
        return good, good
    told = read_plans(problem, found.answer)
    noise = draws_of(DRAWS, told.sequences.shape[1], told.r.shape[2], np.random.default_rng([FRESH, seed]))
    kept = under_noise(problem, told.x, told.sequences, told.r, theta, noise)
    return (kept.accepted >= PROBABILITY).numpy(), (kept.allowed >= PROBABILITY).numpy()


def curve(answers: Answers, name: str, robust: float | None) -> Outcome:
    """Shares of the plans that tolerate each theta; robust plans by the mean over several sets of draws."""
    problem, found = answers.problem(name), answers.get(name, 4, 0, robust)
    sets = 1 if robust is None else SETS
    means = [
        100 * np.mean([tolerated(problem, found, theta, k) for k in range(sets if theta else 1)], axis=(0, 2))
        for theta in THETAS
    ]
    data = {
        "theta": list(THETAS),
        "accepted": [float(decision) for decision, _ in means],
        "allowed": [float(allowed) for _, allowed in means],
    }
    at = THETAS.index(THETA)
    what = "plain" if robust is None else "robust_curve"
    n = len(found.costs)
    figures = {
        f"{name}.{what}_share": (data["allowed"][at], n),
        f"{name}.{what}_share_decision_only": (data["accepted"][at], n),
    }
    return Outcome(figures, data)


def robust(answers: Answers, name: str, seed: int) -> Outcome:
    """Plans made for theta = 0.03, tried on several sets of fresh draws, and what they cost beside ordinary ones."""
    problem = answers.problem(name)
    plain, firm = answers.get(name, 4, seed), answers.get(name, 4, seed, THETA)
    sets = [tolerated(problem, firm, THETA, SETS * (seed + 1) + k) for k in range(SETS)]
    decision, allowed = (100 * np.array([both[part].mean() for both in sets]) for part in (0, 1))
    usually = np.mean([good for _, good in sets], axis=0) >= 0.5
    before, after = (found.answer.plans["cost"].droplevel("option") for found in (plain, firm))
    both = after.index[usually].intersection(before.index)
    ratio = after.loc[both].to_numpy() / before.loc[both].to_numpy() - 1
    n = len(answers.asked(name))
    figures = {
        "robust_share": (float(allowed.mean()), len(usually)),
        "robust_share_least": (float(allowed.min()), len(usually)),
        "robust_share_most": (float(allowed.max()), len(usually)),
        "robust_share_decision_only": (float(decision.mean()), len(usually)),
        "robust_extra_cost": (100 * float(ratio.mean()), len(both)),
        "robust_extra_cost_of_means": (
            100 * (float(after.loc[both].mean()) / float(before.loc[both].mean()) - 1),
            len(both),
        ),
        "robust_median_extra_cost": (100 * float(np.median(ratio)), len(both)),
        "robust_seconds": (firm.seconds, n),
    }
    return Outcome({f"{name}.{what}": value for what, value in figures.items()})
