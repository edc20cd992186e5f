"""What is best for each person so far, while a search goes on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

SAME = 1e-12  # costs nearer than this are equal


@dataclass
class Incumbent(TensorRows):
    """What is known for each of n people: the cheapest accepted row, or the one that came nearest to it; and a hope."""

    row: Tensor  # (n, d)
    cost: Tensor  # (n,) infinite where no row is accepted
    margin: Tensor  # (n,)
    own: Tensor  # (n,) margin of the person's own row
    hope: Tensor  # (n, d) a refused row that costs less and is not far from accepted
    hope_cost: Tensor  # (n,) infinite where there is none
    hope_margin: Tensor  # (n,)

    @classmethod
    def at(cls, x: Tensor, own: Tensor) -> Incumbent:
        """Nothing but the people's own rows (n, d) and margins (n,)."""
        none = torch.full_like(own, torch.inf)
        return cls(x.clone(), none.clone(), own.clone(), own, x.clone(), none, -none)

    @property
    def found(self) -> Tensor:
        """(n,) who has an accepted row."""
        return torch.isfinite(self.cost)

    def offer(self, owner: Tensor, row: Tensor, cost: Tensor, margin: Tensor, aim: float) -> Tensor:
        """Rows (m, d) for people owner (m,), accepted from margin `aim` on: keep the better. Returns who gained."""
        accepted = torch.where(margin >= aim, cost, torch.inf)
        least = torch.full_like(self.cost, torch.inf).scatter_reduce_(0, owner, accepted, "amin")
        most = torch.full_like(self.margin, -torch.inf).scatter_reduce_(0, owner, margin, "amax")
        cheaper = least < self.cost - SAME
        nearer = ~self.found & torch.isinf(least) & (most > self.margin)
        wins = torch.where(cheaper[owner], accepted == least[owner], nearer[owner] & (margin == most[owner]))
        better, at = first_of_each(owner, wins, len(self.cost))
        self.row[better], self.cost[better], self.margin[better] = row[at], accepted[at], margin[at]
        self._hope(owner, row, cost, margin, aim)
        return better

    def _hope(self, owner: Tensor, row: Tensor, cost: Tensor, margin: Tensor, aim: float) -> None:
        """Keep the refused row with the least of: share of the best cost that it spends, plus share of the way left."""
        way = (aim - self.own).clamp(min=SAME)
        price = torch.where(self.found, self.cost, 1.0).clamp(min=SAME)
        score = cost / price[owner] + (aim - margin) / way[owner]
        score = torch.where((margin < aim) & (cost < self.cost[owner]) & (cost > SAME), score, torch.inf)
        now = self.hope_cost / price + (aim - self.hope_margin) / way
        least = torch.full_like(now, torch.inf).scatter_reduce_(0, owner, score, "amin")
        better, at = first_of_each(owner, (score == least[owner]) & (score < now[owner]), len(now))
        self.hope[better], self.hope_cost[better], self.hope_margin[better] = row[at], cost[at], margin[at]


def first_of_each(owner: Tensor, wins: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Who of n people has a winner (n,), and the place of the first one of each."""
    place = wins.nonzero().squeeze(1)
    first = owner.new_full((n,), len(owner)).scatter_reduce_(0, owner[place], place, "amin")
    return first < len(owner), first[first < len(owner)]
