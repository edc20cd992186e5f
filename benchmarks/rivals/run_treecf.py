"""Worker: treecf on the model's own JSON, with frozen, one-hot, range and whole-number constraints.

treecf minimizes sum_j weight_j |x'_j - x_j| / sigma_j over the columns the model sees. With sigma_j the training range
of a number and 2 for each one-hot column (a switch moves two of them) that is the L1 cost of the table, so both sides
minimize the same thing. Its own default is sigma_j = the median absolute deviation ("own cost").
"""

import json
import warnings

import case as frame
import numpy as np
from treecf import Counterfactual, Explainer, Freeze, OneHot, Range, Target
from treecf.ir.evaluate import raw_score


def prepare(case: frame.Case, variant: str, seed: int) -> frame.Search:
    """An Explainer with the constraints of the case; everything else at its defaults (10 s for a person at most)."""
    warnings.filterwarnings("ignore")
    backend, _, own = variant.partition(", ")
    constraints, sigma, policy = [], {}, {}
    for c in case.columns:
        names = [f"{c.name}={level}" for level in c.levels] or [c.name]
        sigma |= dict.fromkeys(names, 2.0 if c.levels else c.high - c.low)
        if c.fixed:
            constraints += [Freeze(name) for name in names]
        elif c.levels:
            constraints.append(OneHot(tuple(names)))
        else:
            constraints.append(Range(c.name, c.low, c.high))
            policy[c.name] = "integer"
    told = json.loads((case.folder / "trees.json").read_text())
    told["learner"]["feature_names"] = case.encoded_names
    explainer = Explainer(
        told,
        background=case.encode(case.train),
        constraints=constraints,
        normalizers=None if own else sigma,
        value_policy=policy,
    )
    parsed = np.array(
        [raw_score(explainer.ir, row) for row in case.encode(case.people)]
    )  # treecf reads the trees itself
    assert np.allclose(1.0 / (1.0 + np.exp(-parsed)), case.expected[len(case.train) :], atol=1e-6)
    target = Target.probability(range=(0.5, 1.0))

    def search(coded: np.ndarray) -> list[np.ndarray | None]:
        answer = explainer.explain(case.encode(coded)[0], target, backend=backend, seed=seed)
        frame.proved.append(answer.proof in ("optimal", "certified"))
        return [case.code(answer.x_cf[None, :])[0] if isinstance(answer, Counterfactual) else None]

    return search


if __name__ == "__main__":
    frame.work(prepare, batch=False, needs=["treecf", "numpy"])
