"""Plans that tolerate execution noise: the margin aimed at rises until enough noisy copies are still accepted."""

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
ROBUST = 0.5  # share of the time left for finding them
MOST = 48  # sequences of a person that are tried


def standard_error(share: float, draws: int) -> float:
    """Standard error of a share counted over so many draws."""
    return math.sqrt(share * (1 - share) / draws)


@dataclass(frozen=True)
class PlanNoise:
    """How plans are executed: every parameter r becomes r (1 + theta u), u uniform in [-1, 1]; a plan must stay
    accepted in `share` of such draws."""

    theta: float
    share: float
    draws: Tensor  # (draws, T, P) of u


def made_robust(batch: Batch, best: Best, noise: PlanNoise, rounds: int, expired: Callable[[], bool]) -> Best:
    r"""For each row with an accepted plan, the cheapest parameters met that are still accepted in `share` of the draws.

    With m(u) the margin under noise u, aims at a margin kappa of the plan without noise and repeats

        kappa <- kappa + max(0, -quantile_{1 - share} m(u)),     rho <- argmin cost s.t. margin >= kappa      (1)

    until the quantile is not negative. Parameters keep room to their limits for all noise, or for most of it (ROOM):
    a few draws may break a condition if that leaves fewer to be refused by the model. Rows without such parameters
    cost inf.
    Where the model has no gradients, plans are only stretched.
    """
    out = Best(best.r.clone(), torch.full_like(best.cost, torch.inf), best.margin.clone())
    smooth = isinstance(batch.decision.model, Differentiable)
    for part in ROOM:
        roomy = replace(batch, theta=part * noise.theta)
        _stretch(roomy, best, out, noise)
        if smooth:
            _raise(roomy, best, out, noise, rounds, expired)
    return out


def _stretch(batch: Batch, best: Best, out: Best, noise: PlanNoise) -> None:
    """Make every step a little longer; the shortest that is robust goes to out."""
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    for much in STRETCHES:
        if not len(rows):
            return
        part = batch.take(rows)
        r = part.limits(best.r[rows] * (1 + much * noise.theta))[0]
        share, _ = _under_noise(part, r, noise)
        path = part.script.roll(part.start, r)
        cost = path.cost.sum(1)
        good = (share >= noise.share) & part.kept(path) & (part.margin(path) >= 0)
        cheaper = good & (cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = r[cheaper], cost[cheaper]
        rows = rows[~good]


def _raise(batch: Batch, best: Best, out: Best, noise: PlanNoise, rounds: int, expired: Callable[[], bool]) -> None:
    """Repeat (1) with one choice of room; robust parameters that are cheaper go to out."""
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
        share, short = _under_noise(part, r[rows], noise)
        good = (share >= noise.share) & ~lost
        cheaper = good & (met.cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = met.r[cheaper], met.cost[cheaper]
        kappa[rows] += 1.02 * short + 1e-9  # (1)
        # costs more than a robust plan, or cannot become one
        rows = rows[~good & ~lost & (met.cost < out.cost[rows]) & torch.isfinite(short)]


def _under_noise(batch: Batch, r: Tensor, noise: PlanNoise) -> tuple[Tensor, Tensor]:
    """(B,) share of noisy plans that are accepted with all conditions kept, and (B,) the margin they lack.

    The margin lacking is that of the draw that must still succeed, after those whose conditions fail are given up; inf
    where too many of them fail.
    """
    u = noise.draws.to(r.device)
    draws = len(u)
    share, short = torch.zeros_like(r[:, 0, 0]), torch.zeros_like(r[:, 0, 0])
    each = max(1, (1 << 15) // draws)
    for s in range(0, len(r), each):
        some = torch.arange(s, min(s + each, len(r)), device=r.device)
        many = batch.take(some.repeat_interleave(draws))
        noisy = r[some].repeat_interleave(draws, 0) * (1 + noise.theta * u.repeat(len(some), 1, 1))
        with torch.no_grad():
            path = many.script.roll(many.start, noisy)
            margin = many.margin(path)
        kept = many.kept(path).reshape(len(some), draws)
        # draws that break a condition come last
        margin = torch.where(kept, margin.reshape(len(some), draws), torch.inf)
        share[some] = ((margin >= 0) & kept).to(r.dtype).mean(1)
        spare = int((1 - noise.share) * draws) - (draws - kept.sum(1))  # failures left for the margin
        lowest = margin.sort(1).values.gather(1, spare.clamp(0, draws - 1).unsqueeze(1)).squeeze(1)
        short[some] = torch.where(spare >= 0, (-lowest).clamp(min=0), torch.inf)
    return share, short


@dataclass(frozen=True)
class RobustPlans:
    """Plans that are accepted in `share` of the cases when every parameter is missed by up to theta.

    limit : a robust plan is not given where it costs more than this many times the ordinary one.
    """

    printer: PlanPrinter
    theta: float
    share: float
    limit: float

    def plans(self, x: Tensor, search: SequenceSearch, ordinary: Plans) -> Plans:
        """Robust plans; people for whom no sequence has one keep their ordinary plans."""
        run, longest, size = self.printer.run, self.printer.longest, ordinary.r.shape[3]
        # shares are counted over draws: aim beyond, so that what is asked for holds for other draws as well
        aim = min(1.0, self.share + standard_error(self.share, DRAWS))
        noise = PlanNoise(self.theta, aim, draws_of(DRAWS, longest, size, run.rng("slips")).to(x.device))
        chosen: list[tuple[int, ActionSequence, Tensor]] = []
        for i, mine in enumerate(self._made_robust(x, search, noise, size)):
            costs = {sequence: c for sequence, (c, _) in mine.items()}
            most = self.limit * search.ledger.incumbent[i]
            ranked = [sequence for sequence in search.worthwhile(costs) if costs[sequence] <= most]
            chosen += [(i, sequence, mine[sequence][1]) for sequence in ranked[: 3 + run.options]]
        check = draws_of(CHECKS, longest, size, run.rng("check"))
        enough = min(1.0, self.share + 3 * standard_error(self.share, CHECKS))
        people = torch.tensor([i for i, _, _ in chosen], dtype=torch.long, device=x.device)

        def accept(at: Tensor, sequence: Tensor, parameters: Tensor) -> Tensor:
            kept = under_noise(self.printer.problem, x[people[at]], sequence, parameters, self.theta, check)
            return kept.allowed >= enough

        robust, _ = self.printer.plans(x, [(i, w) for i, w, _ in chosen], [r for _, _, r in chosen], accept)
        return self._with_tolerance(x, ordinary, robust, noise.draws)

    def _made_robust(
        self, x: Tensor, search: SequenceSearch, noise: PlanNoise, size: int
    ) -> list[dict[ActionSequence, tuple[float, Tensor]]]:
        """For each person, the sequences tried: cost, inf where none was found, and parameters."""
        run, longest, ledger, device = self.printer.run, self.printer.longest, search.ledger, x.device
        out: list[dict[ActionSequence, tuple[float, Tensor]]] = [{} for _ in range(len(x))]
        chosen = [(i, sequence) for i in range(len(x)) for sequence in search.ranked(i, padded=True, most=MOST)]
        if not chosen:
            return out
        batch = search.solver.batch(*owned(chosen, longest, device))
        rows = [ledger.place[i][sequence] for i, sequence in chosen]
        r = torch.zeros(len(chosen), longest, size, dtype=x.dtype, device=device)
        for k, row in enumerate(rows):
            r[k, : len(ledger.r[row])] = ledger.r[row].to(device)
        cost = torch.tensor([ledger.cost[row] for row in rows], dtype=x.dtype, device=device)
        rounds = search.solver.effort.rounds
        with run.within(ROBUST):
            for part in run.parts(len(chosen), len(chosen), "harden", DRAWS):
                known = Best(r[part], cost[part], cost[part])
                at = torch.arange(part.start, part.stop, device=device)
                best = made_robust(batch.take(at), known, noise, rounds, lambda: run.expired)
                for k, (i, sequence) in enumerate(chosen[part]):
                    out[i][sequence] = float(best.cost[k]), best.r[k]
        return out

    def _with_tolerance(self, x: Tensor, ordinary: Plans, robust: Plans, noise: Tensor) -> Plans:
        """Robust plans for people who have one, ordinary ones for the others; each with its tolerance."""
        has = (robust.sequences >= 0).flatten(1).any(1)
        width = max(robust.sequences.shape[1], ordinary.sequences.shape[1])
        both = Plans(_widen(ordinary.sequences, width, -1), _widen(ordinary.r, width, 0.0))
        both.sequences[has], both.r[has] = _widen(robust.sequences, width, -1)[has], _widen(robust.r, width, 0.0)[has]
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
