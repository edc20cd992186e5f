"""Jobs: one sequence of actions for one person, cut down to what its parameters can change."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.actions.steps import StepTables
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

SLACK = 1e-8  # share of their size by which conditions and reaches are loosened: rounding cannot make a proof wrong
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
        priced = torch.stack(prices(tables)).sum(0)[:, moving] > 0
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


def prices(tables: StepTables) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights (A+1, e) of the four kinds of price."""
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


def size_of(lo: Tensor, hi: Tensor) -> Tensor:
    """What limits are loosened by a share of: one, and the larger of their sizes where these are finite."""
    return 1.0 + torch.maximum(lo.abs(), hi.abs()).nan_to_num(posinf=0.0)


def loosening(tables: StepTables) -> Tensor:
    """(A+1, C) what is added to each condition.

    A strict one is held to STRICT, so that two of them do not meet at one value that neither allows; except where it
    only asks for a change (new age > old age), which is loosened like the others so that a step may be idle.
    """
    change = ((tables.of_old + tables.of_new) == 0).all(-1) & (tables.offset == 0)
    size = tables.size.abs()
    return torch.where(tables.strict & ~change, -STRICT * size, SLACK * size)
