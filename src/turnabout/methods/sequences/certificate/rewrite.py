"""Actions written anew, so that a parameter is the change of its column: the same plans, easier to bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch

from turnabout.actions.steps import StepTables
from turnabout.methods.sequences.certificate.jobs import Kinds, gains, is_led
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Rewritten:
    r"""Tables in which a parameter that sets a new value has become a shift:

        s'_j = keep_j s_j + add_j + gain r   is   s'_j = s_j + gain d,   d = r + ((keep_j - 1) s_j + add_j) / gain.  (1)

    Its price |s'_j - s_j| then is that of d alone, whatever happened before. The limits declared for r, and those of
    scalings, become conditions on the states before and after.

    tables : the new ones.  declared : the old ones.  target : (A+1, P) the column of a rewritten parameter, or -1.
    """

    tables: StepTables
    declared: StepTables
    target: Tensor

    @classmethod
    def of(cls, declared: StepTables) -> Self:
        """Rewrite every parameter that is the only one of its column, and moves no other."""
        gain, led = gains(declared), is_led(declared)
        plain = (declared.keep == 1) & (declared.add == 0)
        shown = gain != 0
        alone = shown & (shown.sum(1, keepdim=True) == 1) & (shown.sum(-1, keepdim=True) == 1)
        fresh = alone & (~plain & ~led).unsqueeze(1)  # (A+1, P, e)
        target = torch.where(fresh.any(-1), fresh.to(torch.int8).argmax(-1), -1)
        here = fresh.any(1)
        tables = replace(declared, keep=torch.where(here, 1.0, declared.keep), add=torch.where(here, 0.0, declared.add))
        kinds = Kinds.of(tables)
        turning = torch.zeros_like(declared.used)
        for a in (kinds.lead >= 0).nonzero().squeeze(1).tolist():
            turning[a, kinds.dial[a]] = True
        tables = _limited(tables, declared, turning | (target >= 0))
        low = torch.where(target >= 0, -torch.inf, declared.low)
        return cls(replace(tables, low=low, high=torch.where(target >= 0, torch.inf, declared.high)), declared, target)

    def as_declared(self, start: Tensor, sequences: Tensor, r: Tensor) -> Tensor:
        """Parameters (n, T, P) of plans from states (n, e), as the declared tables have them; (1)."""
        script, out = self.tables.script(sequences), []
        line = torch.where(sequences >= 0, sequences, self.tables.actions)
        state = start
        for t in range(sequences.shape[1]):
            a = line[:, t]
            j = self.target[a]
            at = j.clamp(min=0)
            gain = gains(self.declared)[a].gather(2, at.unsqueeze(-1)).squeeze(-1)
            keep, add = self.declared.keep[a].gather(1, at), self.declared.add[a].gather(1, at)
            shift = ((keep - 1) * state.gather(1, at) + add) / torch.where(gain == 0, 1.0, gain)
            out.append(torch.where(j >= 0, r[:, t] - shift, r[:, t]))
            state = script.affine(t, state).at(r[:, t])
        return torch.stack(out, 1)


def _limited(tables: StepTables, declared: StepTables, which: Tensor) -> StepTables:
    """The limits of some parameters (A+1, P) as conditions: low <= (s'_j - keep_j s_j - add_j) / gain <= high."""
    which = which & (torch.isfinite(tables.low) | torch.isfinite(tables.high))
    if not bool(which.any()):
        return tables
    gain = gains(declared)
    parts: dict[str, list[Tensor]] = {name: [] for name in ("of_old", "of_new", "offset", "strict", "size")}
    for p in range(which.shape[1]):
        j = (gain[:, p] != 0).to(torch.int8).argmax(-1, keepdim=True)
        slope = torch.where(which[:, p, None], gain[:, p].gather(1, j), 1.0)
        at = torch.zeros_like(declared.keep).scatter(1, j, 1 / slope)
        for sign, end in ((1.0, tables.low[:, p]), (-1.0, tables.high[:, p])):
            asked = (which[:, p] & torch.isfinite(end)).unsqueeze(1)
            parts["of_new"].append(torch.where(asked, sign * at, 0.0))
            parts["of_old"].append(torch.where(asked, -sign * at * declared.keep, 0.0))
            beyond = -sign * (end + (at * declared.add).sum(1))
            parts["offset"].append(torch.where(asked.squeeze(1), beyond, 0.0))
            parts["size"].append(tables.unit[:, p].abs())
            parts["strict"].append(torch.zeros_like(asked.squeeze(1)))
    return replace(
        tables,
        **{name: torch.cat([getattr(tables, name), torch.stack(rows, 1)], 1) for name, rows in parts.items()},
    )
