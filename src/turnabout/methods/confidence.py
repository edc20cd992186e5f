"""Which margin stands for a confidence of the model, whatever scale its margins have."""

from __future__ import annotations

import math

import numpy as np

from turnabout.core import GUARD, Problem


def confident_margin(problem: Problem, confidence: float) -> float:
    """The margin of rows that the model accepts with such a confidence; none, where a yes itself asks for more.

    Where the model gives P(yes), that must reach the confidence: a margin in log-odds must reach log(confidence /
    (1 - confidence)) less the log-odds of the cut-off. A margin in log-odds without a cut-off, against the best of
    several other classes, must reach the first of these; other margins must reach the quantile 2 * confidence - 1 of
    the margins of all accepted background rows.
    """
    model, margin = problem.model, problem.background_margin
    if model.cut is not None:
        return max(0.0, model.margin_at(confidence))
    if model.scale == "log-odds":  # against the best of several other classes
        return math.log(confidence / (1 - confidence))
    accepted = np.zeros(0) if margin is None else margin[margin >= GUARD].cpu().numpy()
    return float(np.quantile(accepted, 2 * confidence - 1)) if len(accepted) else 0.0
