"""What methods that draw codes share: decoded codes are asked about, and the best rows of each person are kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.core import Proposal
from turnabout.core.verify import clearance
from turnabout.methods.growing_spheres import BestSamples
from turnabout.methods.latent import LatentMethod, LatentSpace
from turnabout.typing import Tensor

SPARE = 4  # samples proposed beyond the options asked for


@dataclass(frozen=True)
class DecodedRows:
    """Codes of some people as they would be printed."""

    own: Tensor  # (a, s, d) the people's rows
    rows: Tensor  # (a, s, d)
    margin: Tensor  # (a, s) -inf where a rule is broken
    cost: Tensor  # (a, s)


class LatentSampler(LatentMethod):
    """A method that draws codes around or for each person."""

    def look(self, x: Tensor, z: Tensor) -> DecodedRows:
        """Decode codes (a, s, q) of people x (a, d), and ask."""
        own = x.unsqueeze(1).expand(-1, z.shape[1], -1)
        rows = LatentSpace(self.problem_, x.unsqueeze(1), self.coder, z).printed(z)
        margin = self.ask(rows)
        if self.problem_.rules:
            margin = margin.masked_fill(self.problem_.violation(own, rows) > 0, -torch.inf)
        return DecodedRows(own, rows, margin, self.problem_.cost(own, rows))

    def _keep(
        self,
        x: Tensor,
        some: Tensor,
        z: Tensor,
        plausible: BestSamples,
        accepted: BestSamples,
        luck: Tensor | float = 0.0,
    ) -> Tensor:
        """Decode codes (a, s, q) of people `some`, ask and keep the best; (a,) who had a plausible one.

        Of plausible rows the best are those with the lowest cost less `luck` (s,).
        """
        met = self.look(x, z)
        accepted.note_nearest(some, met.rows, met.margin)
        good = met.margin >= clearance(self.problem_)
        accepted.add(some, met.rows, met.cost.masked_fill(~good, torch.inf))
        likely = good.clone()
        likely[good] = self.criterion(met.own[good], met.rows[good])
        hit = likely.any(1)
        plausible.add(some[hit], met.rows[hit], (met.cost - luck)[hit].masked_fill(~likely[hit], torch.inf))
        return hit


def met_rows(plausible: BestSamples, accepted: BestSamples) -> Proposal:
    """The best plausible rows, the cheapest that is accepted, and the one with the highest margin."""
    return Proposal(torch.cat([plausible.x_new, accepted.x_new[:, :1], accepted.nearest.unsqueeze(1)], 1))
