"""Fewer jobs: sequences that another sequence of the same person covers need no proof of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import torch

from turnabout.actions.steps import StepTables
from turnabout.methods.sequences.certificate.certificate_task import CertificateTask
from turnabout.methods.sequences.certificate.jobs import Jobs, Kinds, is_led, loosening
from turnabout.methods.sequences.certificate.parameter_boxes import roll
from turnabout.methods.sequences.sequence_set import ActionSequence, normal_order
from turnabout.solvers.bounds import Hull
from turnabout.typing import Tensor

Edge = tuple[int, int]


@dataclass(frozen=True)
class Traits:
    """What actions touch, for telling which of them interfere; (A, e) unless said otherwise.

    writes : columns whose value may change.  reads : columns that effect, price or conditions look at.
    shares : columns read by a ratio that is kept.  priced : columns with a price.
    plainly : columns priced by the size of the change itself.  turned : columns a scaling multiplies.
    idle : (A,) actions that can do nothing for nothing.
    """

    writes: Tensor
    reads: Tensor
    shares: Tensor
    priced: Tensor
    plainly: Tensor
    turned: Tensor
    idle: Tensor

    @classmethod
    def of(cls, tables: StepTables, kinds: Kinds) -> Traits:
        """Read off the tables."""
        led = is_led(tables)
        shares = led.clone()
        for a, j in led.nonzero().tolist():
            shares[a, tables.leader[a, j]] = True
        still = led | ((tables.keep == 1) & (tables.add == 0))
        writes = ~still | (tables.gain != 0).any(1) | led
        plainly = (tables.absolute != 0) | (tables.squared != 0)
        priced = plainly | (tables.absolute_relative != 0) | (tables.squared_relative != 0)
        reads = writes | shares | priced | (tables.of_old != 0).any(1) | (tables.of_new != 0).any(1)
        turned = torch.zeros_like(led)
        turned[:, kinds.moving] = kinds.scaled
        zero = (~tables.used | ((tables.low <= 0) & (tables.high >= 0))).all(1)
        idle = tables.used.any(1) & zero & (tables.constant == 0) & still.all(1)
        return cls(*(part[:-1] for part in (writes, reads, shares, priced, plainly, turned, idle)))

    def apart(self, a: int, b: int) -> bool:
        """Whether neither action reads or writes what the other writes: their order never matters."""
        return not bool((self.writes[a] & self.reads[b]).any() or (self.writes[b] & self.reads[a]).any())

    def alike(self, a: int, b: int, a_turns: bool, b_turns: bool) -> bool:
        """Whether a then b leads where b then a does, at the same cost, wherever both orders are allowed."""
        shared = self.writes[a] & self.writes[b]
        both = self.turned[a] & self.turned[b] if a_turns and b_turns else torch.zeros_like(shared)
        if bool((shared & ~both).any()):
            return False
        for one, other, turns in ((a, b, a_turns), (b, a, b_turns)):
            met = self.writes[other]
            if turns and bool((met & self.turned[one] & self.plainly[one]).any()):
                return False
            read = self.priced[one] | self.shares[one]
            if bool((met & (read & ~self.turned[one] if turns else read)).any()):
                return False
        return True


class Reduction:
    r"""Which sequences cover which, given what each person's parameters can do.

    A sequence w' covers w for a person if every allowed plan of w in its first box is one of w' at the same cost:

        insertion : w' is w with actions put in that can stand idle: parameters that allow zero, no constant cost, no
                    effect at zero, and conditions that hold for every state w can be in at that point;          (1)
        exchange  : w' is w with two neighbors exchanged that lead to the same states at the same cost (they move
                    different columns, or both are scalings), if all that is asked of them in the new order holds
                    for every parameter in the box.                                                             (2)

    A job is needed only if no other one covers it; of jobs that cover each other, one is.

    Parameters
    ----------
    task : the sequences, the actions, and people's states with their reach.
    """

    def __init__(self, task: CertificateTask):
        self.task = task
        self.rounded = task.off > 0  # (e,) columns whose order matters, since they are rounded on the way
        self.traits = Traits.of(task.tables, task.kinds)
        count = task.tables.actions
        self.apart = [[self.traits.apart(a, b) for b in range(count)] for a in range(count)]
        self.sequences: list[ActionSequence] = [
            tuple(a for a in sequence if a >= 0) for sequence in task.sequences.tolist()
        ]
        self.place = {sequence: i for i, sequence in enumerate(self.sequences)}
        self.alike: dict[ActionSequence, int] = {}  # one sequence for each normal form
        for i, sequence in enumerate(self.sequences):
            self.alike.setdefault(self.normal(sequence), i)
        self.longer = self._longer()

    def normal(self, sequence: ActionSequence) -> ActionSequence:
        """The first of the sequences that differ from this one only by the order of actions that never interfere."""
        return tuple(sequence[k] for k in normal_order(sequence, self.apart))

    def needed(self, jobs: Jobs, low: Tensor, high: Tensor) -> Tensor:
        """(J,) True for the jobs that must be proved; boxes (J, K) are finite and hold every plan that matters."""
        sequence = [self.place[tuple(a for a in line if a >= 0)] for line in jobs.sequences.tolist()]
        place = {key: j for j, key in enumerate(zip(jobs.person.tolist(), sequence))}
        edges = self._insertions(jobs, low, high, place) + self._exchanges(jobs, low, high, place)
        for (person, w), j in place.items():
            same = place.get((person, self.alike[self.normal(self.sequences[w])]))
            if same is not None and same != j:
                edges.append((j, same))
        return _uncovered(len(jobs), edges).to(low.device)

    # -- insertions -------------------------------------------------------------------------------------------

    def _insertions(self, jobs: Jobs, low: Tensor, high: Tensor, place: dict[Edge, int]) -> list[Edge]:
        """Pairs (covered, covering) by (1)."""
        able = self._able(jobs, roll(jobs, low, high).states).tolist()  # (J, T+1, A)
        edges = []
        for (person, w), j in place.items():
            for i, added in self.longer.get(w, []):
                other = place.get((person, i))
                if other is not None and all(able[j][t][a] for t, a in added):
                    edges.append((j, other))
        return edges

    def _longer(self) -> dict[int, list[tuple[int, list[tuple[int, int]]]]]:
        """For each sequence, those with it and otherwise only actions that can be idle, as (after step, action)."""
        out: dict[int, list[tuple[int, list[tuple[int, int]]]]] = {}
        idle = self.traits.idle.tolist()
        for i, whole in enumerate(self.sequences):
            for size in range(1, len(whole)):
                for kept in combinations(range(len(whole)), size):
                    part = self.place.get(tuple(whole[k] for k in kept))
                    added = [(sum(k < t for k in kept), whole[t]) for t in range(len(whole)) if t not in kept]
                    if part is not None and all(idle[a] for _, a in added):
                        out.setdefault(part, []).append((i, added))
        return out

    def _able(self, jobs: Jobs, states: list[Hull]) -> Tensor:
        """(J, T+1, A) whether the conditions of an action that does nothing hold at every state of that time."""
        tables, moving = self.task.tables, self.task.kinds.moving
        both = (tables.of_old + tables.of_new)[:-1]  # (A, C, e)
        part = both[..., moving]
        state, out = self.task.start[jobs.person], []
        for t, hull in enumerate(states):
            if t > 0:
                line = torch.where(jobs.sequences[:, t - 1] >= 0, jobs.sequences[:, t - 1], tables.actions)
                state = tables.keep[line] * state + tables.add[line]
            state = state.index_fill(1, moving, 0.0)  # what is left does not depend on parameters
            known = (both * state[:, None, None]).sum(-1) + (tables.offset + loosening(tables))[:-1]
            ends = torch.stack([part * hull.low[:, None, None], part * hull.high[:, None, None]])
            least = known + ends.amin(0).sum(-1)  # (J, A, C)
            out.append((least >= 0).all(-1))
        return torch.stack(out, 1)

    # -- exchanges --------------------------------------------------------------------------------------------

    def _exchanges(self, jobs: Jobs, low: Tensor, high: Tensor, place: dict[Edge, int]) -> list[Edge]:
        """Pairs (covered, covering) by (2)."""
        edges, spots = [], []
        turns = jobs.scales.tolist()
        for (person, w), j in place.items():
            whole = self.sequences[w]
            for t in range(len(whole) - 1):
                a, b = whole[t], whole[t + 1]
                if self.apart[a][b] or not self.traits.alike(a, b, turns[j][t], turns[j][t + 1]):
                    continue
                if bool((self.traits.writes[a] & self.traits.writes[b] & self.rounded).any()):
                    continue
                i = self.alike.get(self.normal((*whole[:t], b, a, *whole[t + 2 :])))
                other = None if i is None else place.get((person, i))
                if other is not None and i != w:
                    edges.append((j, other))
                    spots.append(t)
        if not edges:
            return []
        fine = self._allowed(jobs, low, high, torch.tensor([j for j, _ in edges]), torch.tensor(spots))
        return [edge for edge, ok in zip(edges, fine.tolist()) if ok]

    def _allowed(self, jobs: Jobs, low: Tensor, high: Tensor, rows: Tensor, t: Tensor) -> Tensor:
        """(B,) whether the steps t and t + 1 of these jobs can be exchanged, whatever the parameters."""
        rows, t = rows.to(low.device), t.to(low.device)
        each = torch.arange(len(rows), device=low.device)
        order = torch.arange(jobs.steps, device=low.device).repeat(len(rows), 1)
        order[each, t], order[each, t + 1] = t + 1, t
        p = jobs.parameters
        dims = (order.unsqueeze(-1) * p + torch.arange(p, device=low.device)).flatten(1)
        sequences = jobs.sequences[rows].gather(1, order)
        swapped, possible = replace(self.task, grid=None, rounding=None).jobs(sequences, jobs.person[rows])
        places = order.unsqueeze(-1).expand(-1, -1, jobs.rounding.shape[-1])
        swapped = replace(
            swapped, scales=jobs.scales[rows].gather(1, order), rounding=jobs.rounding[rows].gather(1, places)
        )
        rolled = roll(swapped, low[rows].gather(1, dims), high[rows].gather(1, dims))
        least = torch.stack([part.least.amin(1) for part in rolled.rows], 1)
        sure = torch.stack([_one_signed(swapped, s, hull) for s, hull in enumerate(rolled.states[:-1])], 1)
        fine = (least >= 0) & sure
        return possible & fine[each, t] & fine[each, t + 1]


def _one_signed(jobs: Jobs, t: int, hull: Hull) -> Tensor:
    """(B,) whether the column that step t scales cannot be zero; True for other steps."""
    lead = jobs.lead[:, t, None].clamp(min=0)
    low, high = hull.low.gather(1, lead).squeeze(1), hull.high.gather(1, lead).squeeze(1)
    return ~jobs.scales[:, t] | (low > 0) | (high < 0)


def _uncovered(count: int, edges: list[Edge]) -> Tensor:
    """(count,) the first of each group of jobs that cover each other and are covered by none outside."""
    towards: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        towards[a].append(b)
    reached: list[set[int]] = []
    for j in range(count):
        seen, stack = {j}, [j]
        while stack:
            for k in towards[stack.pop()]:
                if k not in seen:
                    seen.add(k)
                    stack.append(k)
        reached.append(seen)
    return torch.tensor([all(j in reached[k] and j <= k for k in reached[j]) for j in range(count)], dtype=torch.bool)
