"""Rules that join columns, as a search for plans needs them: limits of a parameter, and whether all are kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.actions.steps import TINY, StepTables
from turnabout.core.problem import Problem
from turnabout.rules import BoundRule
from turnabout.typing import Tensor

NOISE = 1e-11  # encoded units by which a state may break a rule; the hard check comes on printed states
AT_ONCE = 1 << 16  # rows put to the rules together


@dataclass(frozen=True)
class Rules:
    """The rules of a problem for the people x (n, d) of one chunk; every state after a step must keep them.

    Those that are inequalities are rows over states s (e,) in units,  weight . s + offset >= 0,  weight (M, e) and
    offset (n, M); they limit the parameters of a step while the others stand still.
    """

    rules: tuple[BoundRule, ...]
    tables: StepTables
    x: Tensor
    weight: Tensor
    offset: Tensor

    @classmethod
    def of(cls, problem: Problem, tables: StepTables, x: Tensor) -> Rules | None:
        """Those of a problem; None where it has none."""
        if not problem.rules:
            return None
        weights, offsets = [x.new_zeros(0, len(tables.columns))], [x.new_zeros(len(x), 0)]
        still = x.clone()
        still[:, tables.columns] = (-tables.bottom / tables.span).to(x)  # encoded, where states are zero
        for rule in problem.rules:
            form = rule.linear_form(x)
            if form is not None:
                weights.append(-form.a[:, tables.columns] / tables.span)
                offsets.append(form.b - still @ form.a.T)
        return cls(problem.rules, tables, x, torch.cat(weights), torch.cat(offsets, 1))

    def limits(self, owner: Tensor, base: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """(B,), (B,): where r may lie so that the states base + r slope (B, e) of people owner (B,) keep the rows."""
        if not len(self.weight):
            none = torch.full_like(base[:, 0], torch.inf)
            return -none, none
        a, b = base @ self.weight.T + self.offset[owner], slope @ self.weight.T  # all of a + r b >= 0
        size = self.weight.abs().amax(-1)
        cut = -a / torch.where(b.abs() <= TINY * size, torch.ones_like(b), b)
        low = torch.where(b > TINY * size, cut, -torch.inf).amax(-1)
        return low, torch.where(b < -TINY * size, cut, torch.inf).amin(-1)

    def kept(self, owner: Tensor, states: Tensor, give: float = NOISE) -> Tensor:
        """(B,) whether all states (B, T, e) of people owner (B,) keep every rule, but for what rounding takes."""
        steps = states.shape[1]
        out = []
        for rows in torch.arange(len(owner), device=owner.device).split(max(1, AT_ONCE // max(1, steps))):
            x = self.x[owner[rows]].repeat_interleave(steps, 0)
            x_new = self.tables.encoded(x, states[rows].detach().flatten(0, 1).to(x))
            worst = torch.zeros_like(x[:, 0])
            for rule in self.rules:
                worst = torch.maximum(worst, rule.violation(x, x_new))
            out.append((worst <= give).reshape(-1, steps).all(1))
        return torch.cat(out) if out else torch.ones_like(owner, dtype=torch.bool)
