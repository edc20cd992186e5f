"""No attribution is recourse sensitive and robust: the known example, and attributions of real models."""

from __future__ import annotations

import torch
from ledger import Outcome

from turnabout.studies.attribution_maps.line import one_dimension
from turnabout.studies.attribution_maps.map_report import audit_attribution
from turnabout.typing import Tensor

CELLS = 2001  # midpoints of as many cells of (-0.75, 0.75), 0 among them
POINTS = ((torch.arange(CELLS, dtype=torch.float64) - CELLS // 2) * 1.5 / CELLS).unsqueeze(1)
WIDTHS = (0.3, 0.5, 0.501, 0.6, 0.75, 0.9, 1.0, 1.001, 1.2)


def known(x: Tensor) -> Tensor:
    return x[:, 0].abs() - 0.75


MAPS = {
    "gradient": torch.sign,
    "smoothgrad01": lambda x: 2 * torch.special.ndtr(x / 0.1) - 1,
    "smoothgrad05": lambda x: 2 * torch.special.ndtr(x / 0.5) - 1,
    "nearest": lambda x: torch.where(x >= 0, 0.75, -0.75) - x,
    "constant": torch.ones_like,
}


def table() -> Outcome:
    """The five maps on f(x) = |x| - 0.75 with moves of at most 1, and where a continuous sensitive map can exist."""
    out = Outcome()
    for name, phi in MAPS.items():
        report = audit_attribution(known, phi, POINTS, 1.0)
        out.figures[f"theorem.{name}.rate"] = (float(report.sensitivity.rate.value or 0.0), CELLS)
        out.figures[f"theorem.{name}.lipschitz"] = (float(report.continuity.at(1e-4).lipschitz), CELLS)
        if report.witness is not None:
            kind = str(report.witness.kind.value).lower()
            size = float(report.witness.size) if report.witness.size is not None else float("nan")
            out.figures[f"theorem.{name}.{kind}"] = (size, 1)
            out.notes.append(f"{name}: {report.witness}")
    for a in WIDTHS:
        possible = one_dimension(lambda x, a=a: abs(x) - a, 1.0, -3.0, 3.0, roots=(-a, a)).possible
        out.figures[f"theorem.possible.{a:g}"] = (float(possible), 1)
    return out
