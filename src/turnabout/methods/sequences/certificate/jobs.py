"""Jobs: one sequence of actions for one person, cut down to what its parameters can change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch

from turnabout.actions.steps import TINY, StepTables
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

SLACK = 1e-8  # conditions and reaches are loosened by this share of their size, so that rounding cannot forge a proof
STRICT = 1e-10  # a strict condition holds by at least this share of its size


@dataclass(frozen=True)
class Kinds:
    r"""What the A actions of some tables do to the m columns that parameters move; one line each, as in `StepTables`.

    A column moves if some parameter gains on it, or if it follows or leads another. All others change by constants
    only: along a sequence they are known beforehand. An action is a *scaling* if its one parameter moves one column and
    prices are relative to it, or others keep their ratio to it. Then the factor u = s'_l / s_l stands for the
    parameter:

        s'_j = u s_j     for the column and its followers,       D_j / s_j = u - 1,                              (1)

    so that relative prices do not depend on the state, and scalings in any order lead to the same place.

    moving : (m,) their columns.  lead : (A+1,) the column a scaling's parameter moves, -1 for other actions.
    dial : (A+1,) its parameter.  scaled : (A+1, m) columns multiplied by u.
    own : (A+1, P, m) columns that move by gain * parameter and nothing else.
    leading : (A+1, P, m) the column that shows a parameter's size.
    coupled : (A+1, m) columns that take a share of a parameter whose size another column shows.
    written : (A+1, m) columns that may change.
    """

    moving: Tensor
    lead: Tensor
    dial: Tensor
    scaled: Tensor
    own: Tensor
    leading: Tensor
    coupled: Tensor
    written: Tensor

    @classmethod
    def of(cls, tables: StepTables, leads: Tensor | None = None) -> Kinds:
        """Read the kinds off the tables.

        leads (A+1, P) says which column of a state shows a parameter, -1 for none: what is printed of it defines the
        parameter, and all other columns are rounded. Where it is not given, that is the first column with a price.
        """
        gain, led = gains(tables), is_led(tables)
        moves = (gain != 0).any(1) | led
        for a, j in led.nonzero().tolist():
            moves[a, tables.leader[a, j]] = True
        if not bool(moves.any()):  # where no action has a parameter, one column stands for those that could move
            moves[0, 0] = True
        moving = moves.any(0).nonzero().squeeze(1)
        gain, led, leader = gain[..., moving], led[:, moving], tables.leader[:, moving]
        plain = ~led & (tables.keep[:, moving] == 1) & (tables.add[:, moving] == 0)
        shown, count = gain != 0, (gain != 0).sum(1)
        priced = torch.stack(_costs(tables)).sum(0)[:, moving] > 0
        relative = (tables.absolute_relative + tables.squared_relative)[:, moving] > 0
        lead = torch.full_like(tables.constant, -1).long()
        dial, scaled = lead.clone().clamp(min=0), torch.zeros_like(plain)
        for a in range(len(lead)):
            at = shown[a].nonzero()
            if int(tables.used[a].sum()) != 1 or len(at) != 1:
                continue
            p, l = at[0].tolist()
            followers = led[a] & (leader[a] == moving[l])
            if plain[a, l] and (relative[a, l] or followers.any()) and bool((followers == led[a]).all()):
                lead[a], dial[a], scaled[a] = l, p, followers
                scaled[a, l] = True
        own = shown & (plain & (count == 1)).unsqueeze(1)
        leading = _first(shown & priced.unsqueeze(1), shown)
        if leads is not None:
            leading = shown & (leads.unsqueeze(-1) == moving)
        coupled = led | (shown & ~leading).any(1)
        written = led | shown.any(1) | ~plain
        return cls(moving, lead, dial, scaled, own, leading, coupled, written)


def _first(wanted: Tensor, else_: Tensor) -> Tensor:
    """The first True of each last axis, of `else_` where there is none."""
    mask = torch.where(wanted.any(-1, keepdim=True), wanted, else_)
    return mask & (mask.cumsum(-1) == 1)


def is_led(tables: StepTables) -> Tensor:
    """(A+1, e) which columns follow another."""
    return tables.leader != torch.arange(tables.leader.shape[1], device=tables.leader.device)


def gains(tables: StepTables) -> Tensor:
    """(A+1, P, e) without parameters that are not used, and without columns that follow their leader instead."""
    return tables.gain * tables.used.unsqueeze(-1) * ~is_led(tables).unsqueeze(1)


def _costs(tables: StepTables) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return tables.absolute, tables.absolute_relative, tables.squared, tables.squared_relative


@dataclass(frozen=True)
class Jobs(TensorRows):
    """J jobs of T steps with P parameters over the m moving columns; all other columns are folded into constants.

    `scales` (J, T) says which steps are taken as scalings; `rounding` (J, T, m) how far a printed value may lie from
    the exact one in columns that are coupled; `grid` (J, T, m) the distance between the values that a step may lead
    to, 0 for any; `fixed` (J, e) the end state, right in the columns that do not move.
    """

    person: Tensor  # (J,)
    sequences: Tensor  # (J, T)
    start: Tensor  # (J, m)
    lo: Tensor  # (J, m) reach
    hi: Tensor
    fixed: Tensor  # (J, e)
    constant: Tensor  # (J,) cost that no parameter changes
    keep: Tensor  # (J, T, m)
    add: Tensor
    gain: Tensor  # (J, T, P, m)
    leader: Tensor  # (J, T, m) among the moving columns
    absolute: Tensor  # (J, T, m)
    absolute_relative: Tensor
    squared: Tensor
    squared_relative: Tensor
    of_old: Tensor  # (J, T, C, m)
    of_new: Tensor
    offset: Tensor  # (J, T, C) loosened
    low: Tensor  # (J, T, P) limits declared
    high: Tensor
    lead: Tensor  # (J, T)
    dial: Tensor
    scaled: Tensor  # (J, T, m)
    own: Tensor  # (J, T, P, m)
    rounding: Tensor  # (J, T, m)
    grid: Tensor
    scales: Tensor  # (J, T) bool

    def __len__(self) -> int:
        return len(self.person)

    @property
    def steps(self) -> int:
        return self.sequences.shape[1]

    @property
    def parameters(self) -> int:
        return self.gain.shape[2]

    def with_scales(self, scales: Tensor) -> Self:
        """The same jobs, with these steps taken as scalings."""
        return replace(self, scales=scales)


def loosening(tables: StepTables) -> Tensor:
    """(A+1, C) what is added to each condition.

    A strict one is held to STRICT, so that two of them do not meet at one value that neither allows; except where it
    only asks for a change (new age > old age), which is loosened like the others so that a step may be idle.
    """
    change = ((tables.of_old + tables.of_new) == 0).all(-1) & (tables.offset == 0)
    size = tables.size.abs()
    return torch.where(tables.strict & ~change, -STRICT * size, SLACK * size)


def make_jobs(
    tables: StepTables,
    kinds: Kinds,
    start: Tensor,
    sequences: Tensor,
    person: Tensor,
    lo: Tensor,
    hi: Tensor,
    rounding: Tensor | None = None,
    grid: Tensor | None = None,
) -> tuple[Jobs, Tensor]:
    """Sequences (J, T) for people (J,) -> jobs, and (J,) False where a guard or the reach of a constant column fails.

    start, lo, hi (n, e) are in units; grid (e,) is the distance between values that a person would read, to which
    all columns are held that a step writes; rounding (e,) loosens only those that are coupled.
    """
    if grid is not None:
        rounding = 0.5 * grid
    line = torch.where(sequences >= 0, sequences, torch.full_like(sequences, tables.actions))
    columns = kinds.moving
    fixed, constant, offset, possible = _fold(tables, columns, line, start[person], lo[person], hi[person])
    place = torch.full((start.shape[1],), 0, device=start.device)
    place[columns] = torch.arange(len(columns), device=start.device)
    used = tables.used[line]
    jobs = Jobs(
        person=person,
        sequences=sequences,
        start=start[person][:, columns],
        lo=lo[person][:, columns],
        hi=hi[person][:, columns],
        fixed=fixed,
        constant=constant,
        **{
            name: getattr(tables, name)[..., columns][line]
            for name in ("keep", "add", "absolute", "absolute_relative", "squared", "squared_relative")
        },
        gain=gains(tables)[..., columns][line],
        leader=place[tables.leader[:, columns]][line],
        of_old=tables.of_old[..., columns][line],
        of_new=tables.of_new[..., columns][line],
        offset=offset,
        low=torch.where(used, tables.low[line], 0.0),
        high=torch.where(used, tables.high[line], 0.0),
        lead=kinds.lead[line],
        dial=kinds.dial[line],
        scaled=kinds.scaled[line],
        own=kinds.own[line],
        rounding=kinds.coupled[line] * (0.0 if rounding is None else rounding[columns]),
        grid=kinds.written[line] * (0.0 if grid is None else grid[columns]),
        scales=torch.zeros_like(line, dtype=torch.bool),
    )
    return jobs, possible


def _fold(
    tables: StepTables, moving: Tensor, line: Tensor, state: Tensor, lo: Tensor, hi: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the columns that do not move come to: end states (J, e), cost (J,), offsets (J, T, C), all possible (J,)."""
    rest = torch.ones(state.shape[1], dtype=torch.bool, device=state.device)
    rest[moving] = False
    low, high = lo[:, rest], hi[:, rest]
    free = SLACK * (1.0 + torch.maximum(low.abs(), high.abs()).nan_to_num(posinf=0.0))
    constant = torch.zeros(len(line), dtype=state.dtype, device=state.device)
    possible = torch.ones(len(line), dtype=torch.bool, device=state.device)
    offsets = []
    for t in range(line.shape[1]):
        a, old = line[:, t], state
        state = tables.keep[a] * old + tables.add[a]
        before, after = old[:, rest], state[:, rest]
        possible &= ((after >= low - free) & (after <= high + free)).all(1)
        base, size = before.abs().clamp(min=TINY), (after - before).abs()
        absolute, absolute_relative, squared, squared_relative = (part[a][:, rest] for part in _costs(tables))
        linear, curved = absolute + absolute_relative / base, squared + squared_relative / (base * base)
        constant = constant + tables.constant[a] + (linear * size + curved * size * size).sum(1)
        known = (tables.of_old[a][..., rest] * before.unsqueeze(1)).sum(-1)
        known += (tables.of_new[a][..., rest] * after.unsqueeze(1)).sum(-1)
        offsets.append(known + tables.offset[a] + loosening(tables)[a])
    return state, constant, torch.stack(offsets, 1), possible
