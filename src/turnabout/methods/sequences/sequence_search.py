"""Algorithm 1 of the paper for everyone at once: which words to solve, in which order, and what came of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch

from turnabout.core.run import Run
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.solve import STARTS, Parts, Solver
from turnabout.methods.sequences.words import SequenceSet, Word, as_tensor
from turnabout.typing import Tensor

Score = Literal["breadth", "objective", "gradient"]
SAVING = 1e-4  # share of the cost that a step must save to be worth its trouble
WEIGHT = 100.0  # of a missing margin in the objective by which sequences are ranked


@dataclass
class Ledger:
    """What is known of the words of n people: `place[i][word]` is a row of the tensors."""

    place: list[dict[Word, int]]
    r: list[Tensor] = field(default_factory=list)  # (length of the word, P) each, in main memory
    cost: list[float] = field(default_factory=list)
    margin: list[float] = field(default_factory=list)
    incumbent: list[float] = field(default_factory=list)  # cheapest accepted plan of each person
    alone: list[float] = field(default_factory=list)  # cheapest accepted plan of a single action

    @classmethod
    def empty(cls, n: int) -> Ledger:
        return cls([{} for _ in range(n)], incumbent=[float("inf")] * n, alone=[float("inf")] * n)

    def enter(self, pairs: list[tuple[int, Word]], best: Best) -> None:
        """Write down solved words."""
        cost, margin, r = best.cost.tolist(), best.margin.tolist(), best.r.cpu()
        for k, (i, word) in enumerate(pairs):
            if word in self.place[i]:
                row = self.place[i][word]
                if cost[k] < self.cost[row]:
                    self.r[row], self.cost[row], self.margin[row] = r[k, : len(word)], cost[k], margin[k]
            else:
                self.place[i][word] = len(self.cost)
                self.r.append(r[k, : len(word)])
                self.cost.append(cost[k])
                self.margin.append(margin[k])
            self.incumbent[i] = min(self.incumbent[i], cost[k])
            if len(word) == 1:
                self.alone[i] = min(self.alone[i], cost[k])

    def objective(self, i: int, word: Word) -> float:
        """Value of problem (3) at a solved word: its cost where accepted, else by how much it is refused."""
        if not word:
            return WEIGHT * 1e6
        row = self.place[i][word]
        cost, margin = self.cost[row], self.margin[row]
        return cost if cost < float("inf") else WEIGHT * max(0.0, -margin) if margin > -float("inf") else WEIGHT * 1e6


@dataclass
class SequenceSearch:
    """Grows words for n people, best score first, and solves them in batches.

    Words of one action are solved first whatever the score. A word is passed over when the constant costs of its
    actions alone reach the person's best plan, or when a condition that no parameter can move fails; neither can
    change the answer. What a word's draws look at depends on the words it grows from and on single actions only,
    so that every order of exploration solves each word alike.
    """

    solver: Solver
    words: SequenceSet
    max_steps: int
    beam: int
    expired: Callable[[], bool]
    progress: Callable[[int, int], None] | None = None
    parts: Parts = field(default_factory=lambda: Run().parts)  # of a batch, as many as the time limit allows

    def __post_init__(self) -> None:
        self.n = len(self.solver.decision.x)
        self.ledger = Ledger.empty(self.n)
        self.constant = self.solver.actions.tables.constant.tolist()
        self.explored: list[list[Word]] = [[] for _ in range(self.n)]

    def breadth(self) -> Ledger:
        """Level by level: every word of a length before any longer one; beyond `beam` parents, the best."""
        level: list[list[Word]] = [[()] for _ in range(self.n)]
        for _ in range(self.max_steps):
            pairs: list[tuple[int, Word]] = []
            for i, parents in enumerate(level):
                if self.expired():
                    break
                pairs += [(i, longer) for word in parents for longer in self._open(i, word)]
            solved = self._solve(pairs)
            level = [[] for _ in range(self.n)]
            for i, word in solved:
                level[i].append(word)
            level = [self._narrow(i, parents) for i, parents in enumerate(level)]
            if self.expired() or not any(level):
                break
        return self.ledger

    def _narrow(self, i: int, parents: list[Word]) -> list[Word]:
        """At most `beam` parents, those of the smallest objective."""
        if len(parents) <= self.beam:
            return parents
        return [word for _, word in sorted((self.ledger.objective(i, word), word) for word in parents)][: self.beam]

    def best_first(self, score: Score, width: int, iterations: int | None = None) -> Ledger:
        """Each round every person's `width` extensions of the smallest score, until none is left."""
        heaps: list[list[tuple[float, int, Word]]] = [[] for _ in range(self.n)]
        self._push(heaps, self._solve([(i, longer) for i in range(self.n) for longer in self._open(i, ())]), score)
        done = [len(words) for words in self.explored]
        while any(heaps) and not self.expired():
            pairs: list[tuple[int, Word]] = []
            for i, heap in enumerate(heaps):
                taken = 0
                while heap and taken < width and (iterations is None or done[i] < iterations):
                    word = heapq.heappop(heap)[2]
                    if self._worth(i, word):
                        pairs.append((i, word))
                        taken += 1
                        done[i] += 1
                if iterations is not None and done[i] >= iterations:
                    heap.clear()
            if not pairs:
                continue
            self._push(heaps, self._solve(pairs), score)
        return self.ledger

    def again(self) -> Ledger:
        """A second look at every explored word, with what is known by now: what a plan need not exceed, and the
        parameters of the words that lack one of its letters.
        """
        pairs = [(i, word) for i, words in enumerate(self.explored) for word in words]
        for some in self.parts(len(pairs), 1 << 13, "again", STARTS):
            part = [pair for pair in pairs[some] if self._worth(*pair)]
            if part and not self.expired():
                self._run(part, again=True)
        return self.ledger

    def ranked(self, i: int, padded: bool = False, most: int | None = None) -> list[Word]:
        """Accepted words of a person, cheapest first, at most so many; without those in which a step saves next to
        nothing, unless `padded`.
        """
        costs = {word: self.ledger.cost[row] for word, row in self.ledger.place[i].items()}
        if not padded:
            return self.worthwhile(costs, most)
        ranked = sorted((c, len(w), w) for w, c in costs.items() if c < float("inf"))
        return [word for _, _, word in ranked[:most]]

    def worthwhile(self, costs: dict[Word, float], most: int | None = None) -> list[Word]:
        """Words by cost, without those that cost as much, but for a ten-thousandth, without one of their letters."""
        out: list[Word] = []
        for cost, _, word in sorted((c, len(w), w) for w, c in costs.items() if c < float("inf")):
            if len(out) == most:
                break
            shorter = (self.words.normal(word[:j] + word[j + 1 :])[0] for j in range(len(word)))
            enough = cost * (1 + SAVING) + 1e-9
            if all(costs.get(w, float("inf")) > enough for w in shorter):
                out.append(word)
        return out

    # -- one batch --------------------------------------------------------------------------------------------

    def _open(self, i: int, word: Word) -> list[Word]:
        return [longer for longer in self.words.extensions(word) if self._worth(i, longer)]

    def _worth(self, i: int, word: Word) -> bool:
        return sum(self.constant[a] for a in word) < self.ledger.incumbent[i]

    def _solve(self, pairs: list[tuple[int, Word]]) -> list[tuple[int, Word]]:
        """Solve pairs of a person and a word, shorter words first; returns those whose guards hold."""
        solved: list[tuple[int, Word]] = []
        by_length: dict[int, list[tuple[int, Word]]] = {}
        for pair in pairs:
            by_length.setdefault(len(pair[1]), []).append(pair)
        for length, group in sorted(by_length.items()):
            group = self._guarded(group, length)
            for some in self.parts(len(group), 1 << 13, f"words {length}", STARTS):
                if self.expired():
                    return solved
                part = [pair for pair in group[some] if self._worth(*pair)]
                if part:
                    self._run(part)
                    solved += part
                for i, word in part:
                    self.explored[i].append(word)
        return solved

    def _run(self, pairs: list[tuple[int, Word]], again: bool = False) -> None:
        """Solve words and enter them, from the parameters of their parents (again: of themselves and all relatives)."""
        device = self.solver.decision.x.device
        longest = max(len(word) for _, word in pairs)
        owner = torch.tensor([i for i, _ in pairs], device=device)
        words = as_tensor([word for _, word in pairs], longest, device)
        budget = torch.tensor([self._budget(i, word, again) for i, word in pairs], dtype=torch.float64, device=device)
        size = self.solver.actions.tables.gain.shape[1]
        warm = torch.zeros(len(pairs), longest + 1 if again else 1, longest, size, dtype=torch.float64)
        for k, (i, word) in enumerate(pairs):
            known = self.ledger.place[i]
            if again:
                warm[k, longest, : len(word)] = self.ledger.r[known[word]]
            for j in range(len(word)) if again else (len(word) - 1,):  # without its letter j
                shorter, order = self.words.normal(word[:j] + word[j + 1 :])
                if shorter in known:
                    places = [at + (at >= j) for at in order]  # of its letters in the word
                    warm[k, j if again else 0, places] = self.ledger.r[known[shorter]]
        label = "again" if again else "first"
        self.ledger.enter(pairs, self.solver.solve(owner, words, budget, warm.to(device), label))

    def _budget(self, i: int, word: Word, again: bool) -> float:
        """What the parameters of a word may cost to be of interest, without its constant costs."""
        known = [self.ledger.incumbent[i] if again else self.ledger.alone[i]]
        for stop in range(1, len(word)):
            row = self.ledger.place[i].get(word[:stop])
            if row is not None:
                known.append(self.ledger.cost[row])
        return max(1e-9, min(known) - sum(self.constant[a] for a in word))

    def _guarded(self, pairs: list[tuple[int, Word]], length: int) -> list[tuple[int, Word]]:
        """Without the words in which a condition fails that reads only what no parameter moves."""
        if not pairs or self.solver.actions.free:
            return pairs
        device = self.solver.decision.x.device
        owner = torch.tensor([i for i, _ in pairs], device=device)
        words = as_tensor([word for _, word in pairs], length, device)
        keep = torch.zeros(len(pairs), dtype=torch.bool, device=device)
        for some in self.parts(len(pairs), 1 << 15, "guards"):
            keep[some] = _guards_hold(self.solver.batch(owner[some], words[some]))
        return [pair for pair, good in zip(pairs, keep.tolist(), strict=True) if good]

    # -- scores -----------------------------------------------------------------------------------------------

    def _push(self, heaps: list[list[tuple[float, int, Word]]], solved: list[tuple[int, Word]], score: Score) -> None:
        """Put the extensions of solved words on their people's heaps; ties by the order of exploration."""
        steep = self.steepness(solved) if score == "gradient" else None
        for k, (i, word) in enumerate(solved):
            if len(word) >= self.max_steps:
                continue
            for longer in self._open(i, word):
                if steep is not None:
                    value = -float(steep[k, longer[-1]])
                else:
                    value = float(len(longer)) if score == "breadth" else self.ledger.objective(i, word)
                heapq.heappush(heaps[i], (value, len(heaps[i]), longer))

    def steepness(self, pairs: list[tuple[int, Word]]) -> Tensor:
        r"""(pairs, A) mean over an action's footprint of |d loss / d x_j| at the end of each word.

        The loss is the cross-entropy of the decision, log(1 + exp(-margin)), of the trained model; x_j are encoded
        columns.
        """
        decision, actions = self.solver.decision, self.solver.actions
        feet = [actions.footprint_columns(a) for a in range(len(actions.names))]
        out = torch.zeros(len(pairs), len(feet), dtype=torch.float64)
        ends = self.ends(pairs)
        slope = loss_slope(decision.model, ends)
        for a, columns in enumerate(feet):
            out[:, a] = slope[:, columns].mean(1).cpu()
        return out

    def ends(self, pairs: list[tuple[int, Word]]) -> Tensor:
        """(pairs, d) the rows to which solved words lead."""
        decision, device = self.solver.decision, self.solver.decision.x.device
        owner = torch.tensor([i for i, _ in pairs], dtype=torch.long, device=device)
        out = decision.x[owner].clone()
        for length in {len(word) for _, word in pairs} - {0}:
            rows = [k for k, (_, word) in enumerate(pairs) if len(word) == length]
            mine = [pairs[k] for k in rows]
            batch = self.solver.batch(owner[rows], as_tensor([word for _, word in mine], length, device))
            r = torch.stack([self.ledger.r[self.ledger.place[i][word]] for i, word in mine]).to(device)
            out[rows] = decision.tables.encoded(out[rows], batch.script.roll(batch.start, r).end)
        return out


def loss_slope(model: object, x: Tensor) -> Tensor:
    """(m, d) |d loss / d x| with loss = log(1 + exp(-margin)): the cross-entropy of a yes."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = torch.nn.functional.softplus(-model.margin(leaf))  # type: ignore[attr-defined]
        (slope,) = torch.autograd.grad(loss.sum(), leaf)
    return slope.abs()


def _guards_hold(batch: Batch) -> Tensor:
    """(B,) whether all conditions hold whose columns no parameter of the word has moved so far."""
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
