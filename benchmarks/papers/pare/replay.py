"""What was published for COMPAS, by putting the two errors of the released code back.

The linear program is handed the wrong sign, in training and in recourse, and the PAC bound the confidence 0.95 where
it needs 0.05. Nothing of this is in the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ledger import Outcome

from pare.runs import Trained, Workshop, quality
from turnabout.models import Differentiable
from turnabout.rules import Around
from turnabout.train import pac_rank
from turnabout.typing import Tensor

# The released code: two layers of ReLU, batches of ten.
RELEASED = {"hidden": (100, 100), "activation": "relu", "batch": 10}


@dataclass(frozen=True)
class WrongWay:
    """The change that the released code computes: the one that lowers the score most."""

    def __call__(self, model: Differentiable, around: Around) -> Tensor:
        return self.from_slope(model.gradient(around.x), around)

    def from_slope(self, slope: Tensor, around: Around) -> Tensor:
        return around.steepest(-slope)


def step(t: Trained, rows: np.ndarray) -> np.ndarray:
    """Scores after the change of the released code, (n,)."""
    model = t.pare.model(0.5)  # its margin is the logit
    around = t.study.region.bind(t.study.schema).around(t.study.schema.encode(t.people(rows)))
    assert isinstance(model, Differentiable)
    return model.margin(around.x + WrongWay()(model, around)).sigmoid().numpy()


def compas(workshop: Workshop) -> Outcome:
    out = Outcome()
    found: dict[str, list[float]] = {}
    models = workshop.trained(workshop.study("compas"), (0.0, 0.8), inner=WrongWay(), **RELEASED)
    for t in models:
        prefix = "replay.compas.ours" if t.pare.lam else "replay.compas.baseline"
        cut, own = t.f1max, t.scores(t.test)
        reached, refused = step(t, t.test), own < cut
        kind = quality(own >= cut, t.truth(t.test))
        for what in ("f1", "accuracy"):
            found.setdefault(f"{prefix}.{what}", []).append(kind[what])
        share = float((reached[refused] > cut).mean()) if refused.any() else 1.0
        found.setdefault(f"{prefix}.recourse_refused", []).append(share)
        found.setdefault(f"{prefix}.recourse_all", []).append(float(((own >= cut) | (reached > cut)).mean()))
        k = pac_rank(len(t.calibration), 0.05, 0.95)  # (their confidence)
        assert k is not None
        most = float(np.sort(step(t, t.calibration))[k])
        theirs = t.threshold_below(most)
        found.setdefault(f"{prefix}.pare.f1", []).append(quality(own >= theirs, t.truth(t.test))["f1"])
        found.setdefault(f"{prefix}.pare.recourse_all", []).append(float(((own >= theirs) | (reached > theirs)).mean()))
    for name, values in found.items():
        out.figures[name] = (values, len(models[0].test))
    lost = [b - a for b, a in zip(found["replay.compas.baseline.accuracy"], found["replay.compas.ours.accuracy"])]
    out.figures["replay.compas.accuracy_lost"] = (lost, len(models[0].test))
    return out
