"""The nearest point that a forest accepts, within a distance."""

from __future__ import annotations

import torch

from turnabout.errors import AuditError
from turnabout.models import Model
from turnabout.solvers.leaf_search import LeafSearch
from turnabout.typing import Tensor

MOST = 100_000  # cells that one search may look at


class NearestCell:
    """Finds the nearest point of {margin >= 0} for a forest, or says that none is within a distance.

    Numbers, ordinals and binaries move continuously in the encoded space, a level of a category changes as a whole
    (which moves two columns by 1), a missing cell stays missing. What comes out is exact, however large the forest
    (see `LeafSearch`); a search that would not end in reasonable time is refused.

    Parameters
    ----------
    model : offers Trees.
    norm : 1, 2 or infinity.
    """

    def __init__(self, model: Model, norm: float):
        self.cells = LeafSearch(model, lambda move: torch.linalg.vector_norm(move, ord=norm, dim=1))

    def find(self, x: Tensor, within: float) -> tuple[Tensor, Tensor]:
        """x (n, d) -> distance (n,), inf where nothing accepted is within reach, and the point (n, d), or x itself."""
        found = self.cells.find(x, within, total=MOST)
        if bool(found.unknown.any()):
            raise AuditError(
                "the forest has too many cells within reach of these people for an exact answer.",
                hint="ask about fewer people or a smaller distance, or use a forest of fewer or smaller trees.",
            )
        return found.distance, found.point
