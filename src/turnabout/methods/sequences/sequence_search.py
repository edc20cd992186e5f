"""Algorithm 1 of the paper for everyone at once: which sequences to solve, in which order, and what came of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from turnabout.core.run import Run
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.scores import SequenceScore
from turnabout.methods.sequences.sequence_set import ActionSequence, Pairs, SequenceSet, owned
from turnabout.methods.sequences.solve import STARTS, Parts, Solver
from turnabout.typing import Tensor

SAVING = 1e-4  # share of the cost that a step must save to be worth its trouble
WEIGHT = 100.0  # of a missing margin in the objective by which sequences are ranked


@dataclass
class Ledger:
    """What is known of the sequences of n people: `place[i][sequence]` is a row of the tensors."""

    place: list[dict[ActionSequence, int]]
    r: list[Tensor] = field(default_factory=list)  # (length of the sequence, P) each, in main memory
    cost: list[float] = field(default_factory=list)
    margin: list[float] = field(default_factory=list)
    incumbent: list[float] = field(default_factory=list)  # cheapest accepted plan of each person
    alone: list[float] = field(default_factory=list)  # cheapest accepted plan of a single action

    @classmethod
    def empty(cls, n: int) -> Ledger:
        return cls([{} for _ in range(n)], incumbent=[float("inf")] * n, alone=[float("inf")] * n)

    def enter(self, pairs: Pairs, best: Best) -> None:
        """Write down solved sequences."""
        cost, margin, r = best.cost.tolist(), best.margin.tolist(), best.r.cpu()
        for k, (i, sequence) in enumerate(pairs):
            if sequence in self.place[i]:
                row = self.place[i][sequence]
                if cost[k] < self.cost[row]:
                    self.r[row], self.cost[row], self.margin[row] = r[k, : len(sequence)], cost[k], margin[k]
            else:
                self.place[i][sequence] = len(self.cost)
                self.r.append(r[k, : len(sequence)])
                self.cost.append(cost[k])
                self.margin.append(margin[k])
            self.incumbent[i] = min(self.incumbent[i], cost[k])
            if len(sequence) == 1:
                self.alone[i] = min(self.alone[i], cost[k])

    def objective(self, i: int, sequence: ActionSequence) -> float:
        """Value of problem (3) at a solved sequence: its cost where accepted, else by how much it is refused."""
        if not sequence:
            return WEIGHT * 1e6
        row = self.place[i][sequence]
        cost, margin = self.cost[row], self.margin[row]
        return cost if cost < float("inf") else WEIGHT * max(0.0, -margin) if margin > -float("inf") else WEIGHT * 1e6


@dataclass
class SequenceSearch:
    """Grows sequences for n people, best score first, and solves them in batches.

    Sequences of one action are solved first whatever the score. A sequence is passed over when the constant costs of
    its actions alone reach the person's best plan, or when a condition that no parameter can move fails; neither can
    change the answer. What a sequence's draws look at depends on the sequences it grows from and on single actions
    only, so that every order of exploration solves each sequence alike.
    """

    solver: Solver
    sequences: SequenceSet
    max_steps: int
    beam: int
    expired: Callable[[], bool]
    parts: Parts = field(default_factory=lambda: Run().parts)  # of a batch, as many as the time limit allows

    def __post_init__(self) -> None:
        self.n = len(self.solver.decision.x)
        self.ledger = Ledger.empty(self.n)
        self.constant = self.solver.actions.tables.constant.tolist()
        self.explored: list[list[ActionSequence]] = [[] for _ in range(self.n)]

    def breadth(self) -> Ledger:
        """Level by level: every sequence of a length before any longer one; beyond `beam` parents, the best."""
        level: list[list[ActionSequence]] = [[()] for _ in range(self.n)]
        for _ in range(self.max_steps):
            pairs: Pairs = []
            for i, parents in enumerate(level):
                if self.expired():
                    break
                pairs += [(i, longer) for sequence in parents for longer in self._open(i, sequence)]
            solved = self._solve(pairs)
            level = [[] for _ in range(self.n)]
            for i, sequence in solved:
                level[i].append(sequence)
            level = [self._narrow(i, parents) for i, parents in enumerate(level)]
            if self.expired() or not any(level):
                break
        return self.ledger

    def _narrow(self, i: int, parents: list[ActionSequence]) -> list[ActionSequence]:
        """At most `beam` parents, those of the smallest objective."""
        if len(parents) <= self.beam:
            return parents
        return [
            sequence for _, sequence in sorted((self.ledger.objective(i, sequence), sequence) for sequence in parents)
        ][: self.beam]

    def best_first(self, score: SequenceScore, width: int, iterations: int | None = None) -> Ledger:
        """Each round every person's `width` extensions of the smallest score, until none is left."""
        heaps: list[list[tuple[float, int, ActionSequence]]] = [[] for _ in range(self.n)]
        self._push(heaps, self._solve([(i, longer) for i in range(self.n) for longer in self._open(i, ())]), score)
        done = [len(sequences) for sequences in self.explored]
        while any(heaps) and not self.expired():
            pairs: Pairs = []
            for i, heap in enumerate(heaps):
                taken = 0
                while heap and taken < width and (iterations is None or done[i] < iterations):
                    sequence = heapq.heappop(heap)[2]
                    if self._worth(i, sequence):
                        pairs.append((i, sequence))
                        taken += 1
                        done[i] += 1
                if iterations is not None and done[i] >= iterations:
                    heap.clear()
            if not pairs:
                continue
            self._push(heaps, self._solve(pairs), score)
        return self.ledger

    def again(self) -> Ledger:
        """A second look at every explored sequence, with what is known by now: what a plan need not exceed, and the
        parameters of the sequences that lack one of its actions.
        """
        pairs = [(i, sequence) for i, sequences in enumerate(self.explored) for sequence in sequences]
        for some in self.parts(len(pairs), 1 << 13, "again", STARTS):
            part = [pair for pair in pairs[some] if self._worth(*pair)]
            if part and not self.expired():
                self._run(part, again=True)
        return self.ledger

    def ranked(self, i: int, padded: bool = False, most: int | None = None) -> list[ActionSequence]:
        """Accepted sequences of a person, cheapest first, at most so many; without those in which a step saves next to
        nothing, unless `padded`.
        """
        costs = {sequence: self.ledger.cost[row] for sequence, row in self.ledger.place[i].items()}
        if not padded:
            return self.worthwhile(costs, most)
        ranked = sorted((c, len(w), w) for w, c in costs.items() if c < float("inf"))
        return [sequence for _, _, sequence in ranked[:most]]

    def worthwhile(self, costs: dict[ActionSequence, float], most: int | None = None) -> list[ActionSequence]:
        """Sequences by cost, without those that cost as much, but for a ten-thousandth, without one action."""
        out: list[ActionSequence] = []
        for cost, _, sequence in sorted((c, len(w), w) for w, c in costs.items() if c < float("inf")):
            if len(out) == most:
                break
            shorter = (self.sequences.normal(sequence[:j] + sequence[j + 1 :])[0] for j in range(len(sequence)))
            enough = cost * (1 + SAVING) + 1e-9
            if all(costs.get(w, float("inf")) > enough for w in shorter):
                out.append(sequence)
        return out

    # -- one batch --------------------------------------------------------------------------------------------

    def _open(self, i: int, sequence: ActionSequence) -> list[ActionSequence]:
        return [longer for longer in self.sequences.extensions(sequence) if self._worth(i, longer)]

    def _worth(self, i: int, sequence: ActionSequence) -> bool:
        return sum(self.constant[a] for a in sequence) < self.ledger.incumbent[i]

    def _solve(self, pairs: Pairs) -> Pairs:
        """Solve pairs of a person and a sequence, shorter sequences first; returns those whose guards hold."""
        solved: Pairs = []
        by_length: dict[int, Pairs] = {}
        for pair in pairs:
            by_length.setdefault(len(pair[1]), []).append(pair)
        for length, group in sorted(by_length.items()):
            group = self._guarded(group, length)
            for some in self.parts(len(group), 1 << 13, f"sequences {length}", STARTS):
                if self.expired():
                    return solved
                part = [pair for pair in group[some] if self._worth(*pair)]
                if part:
                    self._run(part)
                    solved += part
                for i, sequence in part:
                    self.explored[i].append(sequence)
        return solved

    def _run(self, pairs: Pairs, again: bool = False) -> None:
        """Solve sequences and enter them, from the parameters of parents (again: of themselves and all relatives)."""
        device = self.solver.decision.x.device
        longest = max(len(sequence) for _, sequence in pairs)
        owner, sequences = owned(pairs, longest, device)
        budget = torch.tensor(
            [self._budget(i, sequence, again) for i, sequence in pairs], dtype=torch.float64, device=device
        )
        size = self.solver.actions.tables.gain.shape[1]
        warm = torch.zeros(len(pairs), longest + 1 if again else 1, longest, size, dtype=torch.float64)
        for k, (i, sequence) in enumerate(pairs):
            known = self.ledger.place[i]
            if again:
                warm[k, longest, : len(sequence)] = self.ledger.r[known[sequence]]
            for j in range(len(sequence)) if again else (len(sequence) - 1,):  # without its action j
                shorter, order = self.sequences.normal(sequence[:j] + sequence[j + 1 :])
                if shorter in known:
                    places = [at + (at >= j) for at in order]  # of its actions in the sequence
                    warm[k, j if again else 0, places] = self.ledger.r[known[shorter]]
        self.ledger.enter(pairs, self.solver.solve(owner, sequences, budget, warm.to(device), again))

    def _budget(self, i: int, sequence: ActionSequence, again: bool) -> float:
        """What the parameters of a sequence may cost to be of interest, without its constant costs."""
        known = [self.ledger.incumbent[i] if again else self.ledger.alone[i]]
        for stop in range(1, len(sequence)):
            row = self.ledger.place[i].get(sequence[:stop])
            if row is not None:
                known.append(self.ledger.cost[row])
        return max(1e-9, min(known) - sum(self.constant[a] for a in sequence))

    def _guarded(self, pairs: Pairs, length: int) -> Pairs:
        """Without the sequences in which a condition fails that reads only what no parameter moves."""
        if not pairs or self.solver.actions.free:
            return pairs
        device = self.solver.decision.x.device
        owner, sequences = owned(pairs, length, device)
        keep = torch.zeros(len(pairs), dtype=torch.bool, device=device)
        for some in self.parts(len(pairs), 1 << 15, "guards"):
            keep[some] = _guards_hold(self.solver.batch(owner[some], sequences[some]))
        return [pair for pair, good in zip(pairs, keep.tolist(), strict=True) if good]

    # -- scores -----------------------------------------------------------------------------------------------

    def _push(self, heaps: list[list[tuple[float, int, ActionSequence]]], solved: Pairs, score: SequenceScore) -> None:
        """Put the extensions of solved sequences on their people's heaps; ties by the order of exploration."""
        values = score.values(self, solved).tolist()
        for k, (i, sequence) in enumerate(solved):
            if len(sequence) < self.max_steps:
                for longer in self._open(i, sequence):
                    heapq.heappush(heaps[i], (values[k][longer[-1]], len(heaps[i]), longer))

    def ends(self, pairs: Pairs) -> Tensor:
        """(pairs, d) the rows to which solved sequences lead."""
        decision, device = self.solver.decision, self.solver.decision.x.device
        out = decision.x[torch.tensor([i for i, _ in pairs], dtype=torch.long, device=device)].clone()
        for length in {len(sequence) for _, sequence in pairs} - {0}:
            rows = [k for k, (_, sequence) in enumerate(pairs) if len(sequence) == length]
            mine = [pairs[k] for k in rows]
            batch = self.solver.batch(*owned(mine, length, device))
            r = torch.stack([self.ledger.r[self.ledger.place[i][sequence]] for i, sequence in mine]).to(device)
            out[rows] = decision.tables.encoded(out[rows], batch.script.roll(batch.start, r).end)
        return out


def _guards_hold(batch: Batch) -> Tensor:
    """(B,) whether all conditions hold whose columns no parameter of the sequence has moved so far."""
    script = batch.script
    good = torch.ones(len(batch.owner), dtype=torch.bool, device=batch.owner.device)
    moved = torch.zeros_like(batch.start, dtype=torch.bool)
    old = batch.start
    zero = torch.zeros(len(batch.owner), script.gain.shape[2], dtype=old.dtype, device=old.device)
    for t in range(script.steps):
        new = script.move(t, old, zero)
        before = moved
        touched = (script.gain[t] != 0).any(1)
        led = script.leader[t] != torch.arange(old.shape[1], device=old.device)
        moved = moved | touched | (led & (touched | moved).gather(1, script.leader[t]))
        of_old, of_new = script.of_old[t] != 0, script.of_new[t] != 0
        free = (of_old & before.unsqueeze(1)).any(-1) | (of_new & moved.unsqueeze(1)).any(-1)
        good &= (free | (script.slack(t, old, new) >= -1e-9)).all(-1)
        old = new
    return good
