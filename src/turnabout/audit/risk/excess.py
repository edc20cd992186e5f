"""By how much recourse raises or lowers the risk of a classifier: the formulas, on plain arrays."""

from __future__ import annotations

import numpy as np

from turnabout.errors import AuditError


def excess_risk(before: np.ndarray, after: np.ndarray, moves: np.ndarray, compliance: float | np.ndarray) -> np.ndarray:
    r"""What each person adds to R_Q - R_P, the risk after recourse minus the risk before; the mean is the difference.

    A refused person who moves is accepted at their landing point. With w the probability that they move, eta0 and eta1
    those of repaying before and after, and rho the share (or probability) of compliance, they add

        w (1 - 2 eta0 - rho (eta1 - eta0))                                                              (1)

    With rho = 1, compliant, the improvement is real: w (1 - eta0 - eta1). With rho = 0, defiant, nothing changes but
    the row: w (1 - 2 eta0). (1) holds for any classifier, and for any proposals that it accepts. The label may replace
    eta0: its mean is eta0, so that the mean of (1) stays the same.

    Parameters
    ----------
    before : (n,) eta0, or labels.
    after : (n,) eta1; not looked at where nobody moves.
    moves : (n,) w: 0 for the accepted, and for those without an option.
    compliance : rho, for all or for each.

    References
    ----------
    Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.

    >>> excess_risk(np.array([0.2]), np.array([0.5]), np.array([1.0]), compliance=1.0).round(12).tolist()
    [0.3]
    """
    b, e, w = (np.asarray(values, dtype=np.float64) for values in (before, after, moves))
    if not b.shape == e.shape == w.shape or b.ndim != 1:
        raise AuditError(
            f"before, after and moves have shapes {b.shape}, {e.shape} and {w.shape}.",
            hint="give one number per person in each.",
        )
    e = np.where(w > 0, e, 0.0)
    rho = np.asarray(compliance, dtype=np.float64)
    for name, values in (("before", b), ("after", e), ("moves", w), ("compliance", rho)):
        if not ((values >= 0) & (values <= 1)).all():  # NaN is neither
            raise AuditError(f"{name} holds what is no probability.", hint="give numbers from 0 to 1, without gaps.")
    return w * (1.0 - 2.0 * b - rho * (e - b))  # (1)


def break_even(before: np.ndarray, after: np.ndarray, moves: np.ndarray) -> float | None:
    r"""The compliance at which recourse leaves the risk as it is.

        rho* = sum w (1 - 2 eta0) / sum w (eta1 - eta0)                                                 (1)

    Above 1 no compliance suffices, below 0 even defiant people do no harm. None where landing points are no better
    on average than where people came from: then compliance does not help, and (1) has no meaning. For landing points
    on the boundary of the Bayes classifier, where eta1 = 1/2, it is 2 whoever moves.
    """
    harm = excess_risk(before, after, moves, 0.0).sum()
    better = harm - excess_risk(before, after, moves, 1.0).sum()
    return float(harm / better) if better > 0 else None  # (1)
