"""How sure is an option, when k of m models accept it?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from turnabout.errors import AuditError
from turnabout.intervals import lower_bound
from turnabout.parameters import Positive, Share, Whole, checked


@checked(
    AuditError,
    models=Whole(1, hint="use 30."),
    validity=Share(above=0, below=1),
    confidence=Share(above=0, below=1),
)
def validity_of_counts(
    models: int,
    validity: float = 0.9,
    prior: tuple[float, float] = (1.0, 1.0),
    confidence: float = 0.95,
    complete: bool = False,
) -> pd.DataFrame:
    r"""What k of m accepting models say of the share theta of all models that accept an option, for k = 0, ..., m.

        theta ~ Beta(a, b) beforehand,     theta | k of m ~ Beta(a + k, b + m - k)                               (1)

    One line per k. probability: P(theta >= validity | k of m). credible_low: theta exceeds it with probability
    `confidence`, given the counts; over options whose theta are drawn from the prior it is below theta in that share of
    cases. exact_low: the one-sided Clopper-Pearson bound, below any theta in at least that share of cases. robust:
    whether credible_low reaches the validity.

    Parameters
    ----------
    prior : (a, b).
    complete : the m models are all there are: theta is k / m, and so are both bounds.

    >>> validity_of_counts(30).loc[[29, 30], ["credible_low", "robust"]].round(3)
        credible_low  robust
    29         0.856   False
    30         0.908    True
    """
    from scipy.special import betainc, betaincinv

    check_prior(prior)
    k = np.arange(models + 1)
    share = k / models
    table = pd.DataFrame({"share": share, "probability": (share >= validity).astype(np.float64)})
    if complete:
        table = table.assign(credible_low=share, exact_low=share)
    else:
        a, b = prior[0] + k, prior[1] + models - k  # (1)
        table["probability"] = betainc(b, a, 1.0 - validity)
        table["credible_low"] = betaincinv(a, b, 1.0 - confidence)
        table["exact_low"] = [lower_bound(int(count), models, confidence) for count in k]
    return table.assign(robust=table["credible_low"] >= validity)


def check_prior(prior: object) -> None:
    """Refuse what is no prior."""
    good = isinstance(prior, (tuple, list)) and len(prior) == 2 and all(map(Positive().allows, prior))
    if not good:
        raise AuditError(f"prior={prior!r} is no Beta prior.", hint="use two numbers above 0, like (1, 1).")
