"""Plans that bear slips: the margin to aim at, raised until enough resampled plans are still accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from turnabout.core.plan import Plans
from turnabout.core.plan_noise import draws_of, largest_theta, under_noise
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.printable import PlanPrinter
from turnabout.methods.sequences.sequence_search import SequenceSearch
from turnabout.methods.sequences.sequence_set import ActionSequence, owned
from turnabout.methods.sequences.trust import walk
from turnabout.models import Differentiable
from turnabout.typing import Tensor

ROUNDS = 8  # of raising the margin
ROOM = (1.0, 0.8, 0.65)  # shares of theta by which parameters keep away from their limits
STRETCHES = (0.0, 0.3, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0)  # in units of theta
DRAWS = 256
CHECKS = 2048  # fresh draws by which a plan is checked
HARDEN = 0.5  # share of the time left for finding them
SLIPPED = 48  # sequences of a person that are tried


def spread(share: float, draws: int) -> float:
    """Standard error of a share counted over so many draws."""
    return math.sqrt(share * (1 - share) / draws)


@dataclass(frozen=True)
class Slips:
    """How plans are followed: every parameter r becomes r (1 + theta u), u uniform in [-1, 1]; a plan must survive in
    `share` of such draws."""

    theta: float
    share: float
    noise: Tensor  # (draws, T, P) of u


def harden(batch: Batch, best: Best, slips: Slips, rounds: int, expired: Callable[[], bool]) -> Best:
    r"""For each row with an accepted plan, the cheapest parameters met that survive in `share` of the draws.

    With m(u) the margin under slips u, aims at a margin kappa of the unspoiled plan and repeats

        kappa <- kappa + max(0, -quantile_{1 - share} m(u)),     rho <- argmin cost s.t. margin >= kappa      (1)

    until the quantile is not negative. Parameters keep room to their limits for all slips, or for most of them (ROOM):
    a plan may lose some draws to a condition if it loses the fewer to the model. Rows that never get there cost inf.
    Where the model has no gradients, plans are only stretched.
    """
    out = Best(best.r.clone(), torch.full_like(best.cost, torch.inf), best.margin.clone())
    smooth = isinstance(batch.decision.model, Differentiable)
    for part in ROOM:
        roomy = replace(batch, theta=part * slips.theta)
        _stretch(roomy, best, out, slips)
        if smooth:
            _raise(roomy, best, out, slips, rounds, expired)
    return out


def _stretch(batch: Batch, best: Best, out: Best, slips: Slips) -> None:
    """The plainest cure: every step a little longer; the least stretch that survives goes to out."""
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    for much in STRETCHES:
        if not len(rows):
            return
        part = batch.take(rows)
        r = part.limits(best.r[rows] * (1 + much * slips.theta))[0]
        share, _ = _under_slips(part, r, slips)
        path = part.script.roll(part.start, r)
        cost = path.cost.sum(1)
        good = (share >= slips.share) & part.kept(path) & (part.margin(path) >= 0)
        cheaper = good & (cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = r[cheaper], cost[cheaper]
        rows = rows[~good]


def _raise(batch: Batch, best: Best, out: Best, slips: Slips, rounds: int, expired: Callable[[], bool]) -> None:
    """Repeat (1) with one choice of room; what survives and is cheaper goes to out."""
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    kappa, r = torch.zeros_like(best.cost), best.r.clone()
    for _ in range(ROUNDS):
        if not len(rows) or expired():
            return
        part = batch.take(rows)
        met = Best.none(r[rows])
        walk(part, r[rows], met, kappa[rows], rounds, expired)
        lost = torch.isinf(met.cost)
        r[rows] = torch.where(lost.view(-1, 1, 1), r[rows], met.r)
        share, short = _under_slips(part, r[rows], slips)
        good = (share >= slips.share) & ~lost
        cheaper = good & (met.cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = met.r[cheaper], met.cost[cheaper]
        kappa[rows] += 1.02 * short + 1e-9  # (1)
        # dearer than a plan that survives, or out of reach: no use going on
        rows = rows[~good & ~lost & (met.cost < out.cost[rows]) & torch.isfinite(short)]


def _under_slips(batch: Batch, r: Tensor, slips: Slips) -> tuple[Tensor, Tensor]:
    """(B,) share of slipped plans that are accepted with all conditions kept, and (B,) the margin they lack.

    The margin lacking is that of the draw that must still succeed, after those whose conditions fail are given up; inf
    where too many of them fail.
    """
    noise = slips.noise.to(r.device)
    draws = len(noise)
    share, short = torch.zeros_like(r[:, 0, 0]), torch.zeros_like(r[:, 0, 0])
    each = max(1, (1 << 15) // draws)
    for s in range(0, len(r), each):
        some = torch.arange(s, min(s + each, len(r)), device=r.device)
        many = batch.take(some.repeat_interleave(draws))
        slipped = r[some].repeat_interleave(draws, 0) * (1 + slips.theta * noise.repeat(len(some), 1, 1))
        with torch.no_grad():
            path = many.script.roll(many.start, slipped)
            margin = many.margin(path)
        kept = many.kept(path).reshape(len(some), draws)
        margin = torch.where(kept, margin.reshape(len(some), draws), torch.inf)  # those given up come last
        share[some] = ((margin >= 0) & kept).to(r.dtype).mean(1)
        spare = int((1 - slips.share) * draws) - (draws - kept.sum(1))  # failures left for the margin
        lowest = margin.sort(1).values.gather(1, spare.clamp(0, draws - 1).unsqueeze(1)).squeeze(1)
        short[some] = torch.where(spare >= 0, (-lowest).clamp(min=0), torch.inf)
    return share, short


@dataclass(frozen=True)
class FirmPlans:
    """Plans that are accepted in `share` of the cases when every parameter is missed by up to theta.

    limit : a plan that bears slips is not given where it costs more than this many times the ordinary one.
    """

    printer: PlanPrinter
    theta: float
    share: float
    limit: float

    def plans(self, x: Tensor, search: SequenceSearch, ordinary: Plans) -> Plans:
        """Plans that bear slips; people for whom no sequence has one keep their ordinary plans."""
        run, longest, size = self.printer.run, self.printer.longest, ordinary.r.shape[3]
        # shares are counted over draws: aim beyond, so that what is asked for holds for other draws as well
        aim = min(1.0, self.share + spread(self.share, DRAWS))
        slips = Slips(self.theta, aim, draws_of(DRAWS, longest, size, run.rng("slips")).to(x.device))
        firm_ones: list[tuple[int, ActionSequence, Tensor]] = []
        for i, mine in enumerate(self._hardened(x, search, slips, size)):
            costs = {sequence: c for sequence, (c, _) in mine.items()}
            most = self.limit * search.ledger.incumbent[i]
            ranked = [sequence for sequence in search.worthwhile(costs) if costs[sequence] <= most]
            firm_ones += [(i, sequence, mine[sequence][1]) for sequence in ranked[: 3 + run.options]]
        check = draws_of(CHECKS, longest, size, run.rng("check"))
        enough = min(1.0, self.share + 3 * spread(self.share, CHECKS))
        people = torch.tensor([i for i, _, _ in firm_ones], dtype=torch.long, device=x.device)

        def accept(at: Tensor, sequence: Tensor, parameters: Tensor) -> Tensor:
            kept = under_noise(self.printer.problem, x[people[at]], sequence, parameters, self.theta, check)
            return kept.allowed >= enough

        firm, _ = self.printer.plans(x, [(i, w) for i, w, _ in firm_ones], [r for _, _, r in firm_ones], accept)
        return self._with_tolerance(x, ordinary, firm, slips.noise)

    def _hardened(
        self, x: Tensor, search: SequenceSearch, slips: Slips, size: int
    ) -> list[dict[ActionSequence, tuple[float, Tensor]]]:
        """For each person, the sequences that were hardened: cost, inf where none was found, and parameters."""
        run, longest, ledger, device = self.printer.run, self.printer.longest, search.ledger, x.device
        out: list[dict[ActionSequence, tuple[float, Tensor]]] = [{} for _ in range(len(x))]
        chosen = [(i, sequence) for i in range(len(x)) for sequence in search.ranked(i, padded=True, most=SLIPPED)]
        if not chosen:
            return out
        batch = search.solver.batch(*owned(chosen, longest, device))
        rows = [ledger.place[i][sequence] for i, sequence in chosen]
        r = torch.zeros(len(chosen), longest, size, dtype=x.dtype, device=device)
        for k, row in enumerate(rows):
            r[k, : len(ledger.r[row])] = ledger.r[row].to(device)
        cost = torch.tensor([ledger.cost[row] for row in rows], dtype=x.dtype, device=device)
        rounds = search.solver.effort.rounds
        with run.within(HARDEN):
            for part in run.parts(len(chosen), len(chosen), "harden", DRAWS):
                known = Best(r[part], cost[part], cost[part])
                at = torch.arange(part.start, part.stop, device=device)
                best = harden(batch.take(at), known, slips, rounds, lambda: run.expired)
                for k, (i, sequence) in enumerate(chosen[part]):
                    out[i][sequence] = float(best.cost[k]), best.r[k]
        return out

    def _with_tolerance(self, x: Tensor, ordinary: Plans, firm: Plans, noise: Tensor) -> Plans:
        """Firm plans for whoever has one, ordinary ones for the others, each with what it withstands."""
        has = (firm.sequences >= 0).flatten(1).any(1)
        width = max(firm.sequences.shape[1], ordinary.sequences.shape[1])
        both = Plans(_widen(ordinary.sequences, width, -1), _widen(ordinary.r, width, 0.0))
        both.sequences[has], both.r[has] = _widen(firm.sequences, width, -1)[has], _widen(firm.r, width, 0.0)[has]
        live = (both.sequences >= 0).any(-1)
        both.tolerance = torch.full(live.shape, torch.nan, dtype=x.dtype, device=x.device)
        who, slot = live.nonzero(as_tuple=True)
        for part in self.printer.run.parts(len(who), max(1, len(who)), "tolerance", 10 * DRAWS):
            i, k = who[part], slot[part]
            both.tolerance[i, k] = largest_theta(
                self.printer.problem, x[i], both.sequences[i, k], both.r[i, k], self.share, noise
            )
        return both


def _widen(part: Tensor, width: int, value: float) -> Tensor:
    """(n, k, ...) -> (n, width, ...), filled up with a value."""
    more = part.new_full((part.shape[0], width - part.shape[1], *part.shape[2:]), value)
    return torch.cat([part, more], 1)
