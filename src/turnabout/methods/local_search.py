"""Search by asking: single changes, bundles of them under an additive guess, and a complete count where it is short."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from turnabout.core import GUARD, Method, Problem, Proposal
from turnabout.core.candidates import places
from turnabout.errors import MethodError
from turnabout.methods.bundles import Aims, bundle
from turnabout.methods.incumbent import SAME, Incumbent
from turnabout.methods.rows_to_try import accepted_rows, nearest, scattered
from turnabout.methods.single_changes import MoveTargets, SingleChanges
from turnabout.parameters import Whole, checked
from turnabout.solvers.legal_rows import LegalRows
from turnabout.typing import Tensor

BLOCK = 1 << 15  # rows between two looks at the clock
COUNTED = 1 << 18  # rows of a complete count held at a time
FAR = 1e12  # stands for an infinite margin


@checked(MethodError, rounds=Whole(0), plans=Whole(1), kicks=Whole(0), samples=Whole(0), exhaustive=Whole(0))
class LocalSearch(Method):
    r"""The cheapest accepted row that can be found by asking alone; for any model.

    For each refused person x, looks for

        min over x'   c(x, x')     s.t.   f(x') > 0,   x' legal for x,                                       (1)

    with f the model's margin and c the problem's cost. All single changes of the plan z held so far (at first x) are
    asked. Their gains are taken to add up, which makes (1) a knapsack,

        min over S   sum_{s in S} c(x, z + s) - c(x, z)     s.t.   sum_{s in S} f(z + s) - f(z) >= -t f(z),    (2)

    with at most one change s, the way back included, in each feature. It is solved for everyone at once by dynamic
    programming, for a range of t; the bundles S are asked too, and the cheapest accepted row is the next z. So the
    guess is renewed where it matters and need only hold nearby. To leave a local optimum, the search also goes on from
    a refused row that is cheap and near acceptance (a kick). The values asked are, for tree ensembles, the nearest
    beyond each cut, which is all that matters to them; for other models, the levels, steps about the person's own value
    and the plan's, and common values. Whoever has no plan by then starts from near accepted background people and from
    random changes, the same draws for everybody.

    People who can reach no more than `exhaustive` rows have all of them asked, the cheapest first: their plan is the
    cheapest there is, and if there is none, that is proved.

    Use it for models without gradients or an exact engine: forests, boosted trees, any function. It does not say how
    much cheaper a plan could be; for linear models the exact method is faster and proves its plans. With `options`,
    each further plan does without a change that an earlier one makes.

    Parameters
    ----------
    rounds : times the guess (2) is renewed, at most, on the way to a plan.
    plans : bundles asked in each round, at most.
    kicks : refused rows from which the search goes on.
    samples : random starts for people who have no plan yet.
    exhaustive : ask all rows of people who can reach at most this many; 0 for never.

    References
    ----------
    Brughmans, Leyman, Martens (2023), NICE: an algorithm for nearest instance counterfactual explanations. There plans
    are made of single changes towards an accepted neighbour; here changes lead anywhere, neighbours are a last resort.
    de Oliveira, Sorensen, Martens (2023), A model-agnostic and data-independent tabu search algorithm to generate
    counterfactuals (CFNOW). There one change is made at a time; here bundles are, and changes are taken back.
    """

    chunk = 512
    finds_ways: ClassVar[bool] = True

    def __init__(self, rounds: int = 4, plans: int = 24, kicks: int = 1, samples: int = 64, exhaustive: int = 4096):
        self.rounds = rounds
        self.plans = plans
        self.kicks = kicks
        self.samples = samples
        self.exhaustive = exhaustive

    @classmethod
    def small(cls) -> Self:
        return cls(rounds=3, plans=12, samples=16, exhaustive=512)

    def _fit(self, problem: Problem) -> None:
        device = torch.device(self.device_)
        self.moves_ = SingleChanges.of(problem.schema, problem.model, problem.background_x, bool(problem.rules)).to(
            device
        )
        self.aim_ = max(GUARD, 2 * problem.model.noise)
        self.accepted_ = accepted_rows(problem, self.aim_).to(device)

    # -- who gets which search --------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        own = self._margins(x).clamp(-FAR, FAR)
        best, complete = self._solve(x, own, torch.full((len(x), len(self.problem_.schema)), torch.inf).to(x))
        plans = best.row.unsqueeze(1)
        if self.run.options > 1:
            plans = torch.cat([plans, self._others(x, own, best)], 1)
        impossible = complete & ~best.found & (best.margin < -self.aim_) & torch.isfinite(best.margin)
        return Proposal(plans, impossible, self._proofs(x, best, impossible))

    def _solve(self, x: Tensor, own: Tensor, cap: Tensor) -> tuple[Incumbent, Tensor]:
        """The best rows in which every feature costs less than its cap (n, F), and (n,) whose rows were all asked."""
        best = Incumbent.at(x, own)
        if self.problem_.rules:
            best.margin[self.problem_.violation(x, x) > 0] = -torch.inf
        complete = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        choices = LegalRows.of(self.problem_.schema, x, cap <= 0)
        self._count(choices, cap, best, complete)
        who = (choices.count > self.exhaustive).nonzero().squeeze(1)
        if len(who):
            rest = best.take(who)
            self._explore(x[who], rest, cap[who])
            best.put(who, rest)
        return best, complete

    def _others(self, x: Tensor, own: Tensor, best: Incumbent) -> Tensor:
        """(n, k - 1, d) plans that change other sets of features; NaN where there is none.

        First the changes of the best plan are forbidden, one at a time and the dearest first; then one change of every
        plan so far; then the changes of the best plan are only made smaller, which helps where nothing goes without.
        """
        schema, cost, wanted = self.problem_.schema, self.problem_.cost, self.run.options - 1
        out = torch.full((len(x), wanted, x.shape[1]), torch.nan, dtype=x.dtype, device=x.device)
        count = torch.zeros(len(x), dtype=torch.long, device=x.device)
        sets = [schema.changed(x, best.row)]  # features changed by each plan so far, (n, F)
        share, order = (
            cost.per_feature(x, best.row).masked_fill(~sets[0], -1.0).sort(dim=1, descending=True, stable=True)
        )
        changes = sets[0].sum(1)
        hit = torch.full_like(share, torch.inf).scatter_(1, order[:, :1], 0.0)
        for attempt in range(2 * wanted + 2):
            smaller = attempt > changes
            rank = torch.where(smaller, attempt - changes - 1, attempt).clamp(max=len(schema) - 1).unsqueeze(1)
            limit = torch.where(smaller.unsqueeze(1), share.gather(1, rank), 0.0)
            one = torch.full_like(share, torch.inf).scatter_(1, order.gather(1, rank), limit)
            cap = torch.where((changes == attempt).unsqueeze(1), hit, one)
            who = (best.found & (count < wanted) & (attempt <= 2 * changes)).nonzero().squeeze(1)
            if not len(who) or self.run.expired:
                break
            other, _ = self._solve(x[who], own[who], cap[who])
            used = schema.changed(x[who], other.row)
            new = other.found & ~torch.stack([(used == known[who]).all(1) for known in sets]).any(0)
            at = who[new]
            out[at, count[at]] = other.row[new]
            count[at] += 1
            sets.append(torch.zeros_like(sets[0]).index_put_((at,), used[new]))
            hit[at, cost.per_feature(x[at], other.row[new]).argmax(1)] = 0.0
        return out

    def _proofs(self, x: Tensor, best: Incumbent, impossible: Tensor) -> dict[int, str]:
        who = impossible.nonzero().squeeze(1)
        none = torch.zeros(len(who), len(self.problem_.schema), dtype=torch.bool, device=x.device)
        counts = LegalRows.of(self.problem_.schema, x[who], none).count.long().tolist()
        which = "were listed and those that keep the rules asked" if self.problem_.rules else "were asked"
        return {
            i: f"all {count:,} rows this person may reach {which}; the best is refused by {-margin:.4g}."
            for i, count, margin in zip(who.tolist(), counts, best.margin[who].tolist(), strict=True)
        }

    # -- asking -----------------------------------------------------------------------------------------------

    def _margins(self, rows: Tensor) -> Tensor:
        """(m, d) -> (m,); -inf for what the time limit leaves unasked."""
        out = rows.new_full((len(rows),), -torch.inf)
        for i in range(0, len(rows), BLOCK):
            if self.run.expired:
                break
            out[i : i + BLOCK] = self.ask(rows[i : i + BLOCK])
        return out

    def _asked(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (m, d) made to keep the rules, their costs and margins (m,); -inf where a rule stays broken."""
        if not self.problem_.rules:
            return rows, self.problem_.cost(x, rows), self._margins(rows)
        rows, kept = rows.clone(), torch.zeros_like(rows[:, 0], dtype=torch.bool)
        for part in self.run.parts(len(rows), max(1, len(rows)), "snap"):
            kept[part] = self.problem_.violation(x[part], rows[part]) <= 0
            broken = (~kept[part]).nonzero().squeeze(1) + part.start  # legal values as they are, but for the rules
            rows[broken] = self.problem_.snap(x[broken], rows[broken])
            kept[broken] = self.problem_.violation(x[broken], rows[broken]) <= 0
        return rows, self.problem_.cost(x, rows), self._margins(rows).masked_fill_(~kept, -torch.inf)

    def _count(self, choices: LegalRows, cap: Tensor, best: Incumbent, complete: Tensor) -> None:
        """Ask about all rows of people who have few, cheapest first; marks in `complete` people with none left."""
        count = choices.count
        unanswered = torch.zeros_like(complete)  # who can reach rows about which the model says nothing
        small = (count <= self.exhaustive).nonzero().squeeze(1)
        group = torch.div(count[small].cumsum(0), COUNTED, rounding_mode="floor")
        for g in group.unique().tolist():
            owner, rows = choices.every(small[group == g])
            if self.problem_.schema.derived:  # what follows may lie where nobody can choose
                rows = torch.cat([rows, self.problem_.follow(choices.x[owner], rows)])
                owner = torch.cat([owner, owner])
            kept = self.problem_.violation(choices.x[owner], rows) <= 0
            if not bool(torch.isinf(cap).all()):
                kept &= (
                    self.problem_.cost.per_feature(choices.x[owner], rows) < (cap[owner] - SAME).clamp(min=SAME)
                ).all(1)
            owner, rows = owner[kept], rows[kept]
            cost = self.problem_.cost(choices.x[owner], rows)
            order = cost.argsort(stable=True)
            order = order[owner[order].argsort(stable=True)]
            owner, rows, cost = owner[order], rows[order], cost[order]
            place = places(owner)
            done, upto = 0, 64
            while done < self.exhaustive and not self.run.expired:
                turn = (place >= done) & (place < upto) & ~best.found[owner]
                margin = self._margins(rows[turn])
                unanswered[owner[turn][margin <= -FAR]] = True
                best.offer(owner[turn], rows[turn], cost[turn], margin, self.aim_)
                done, upto = upto, 4 * upto
            if not self.run.expired:
                complete[small[group == g]] = ~unanswered[small[group == g]]

    # -- the search -------------------------------------------------------------------------------------------

    def _explore(self, x: Tensor, best: Incumbent, cap: Tensor) -> None:
        """Climb from x, go on from hopes, and for people without a plan start elsewhere; updates best."""
        if not len(self.moves_):
            return
        reach = self.moves_.reach(x, x, self.problem_.cost.per_feature)
        everyone = torch.arange(len(x), device=x.device)
        self._climb(x, best, cap, reach, everyone, x, best.own, first=True)
        short = (~best.found).nonzero().squeeze(1)
        if len(short) and not self.run.expired:
            helped = self._start_elsewhere(x, best, cap, short)
            self._climb(x, best, cap, reach, helped, best.row[helped], best.margin[helped])
        for _ in range(self.kicks):
            who = (best.hope_cost < best.cost).nonzero().squeeze(1)
            z, margin = best.hope[who], best.hope_margin[who]
            best.hope_cost[who] = torch.inf  # each is tried once
            self._climb(x, best, cap, reach, who, z, margin)

    def _climb(
        self,
        x: Tensor,
        best: Incumbent,
        cap: Tensor,
        reach: MoveTargets,
        who: Tensor,
        z: Tensor,
        margin: Tensor,
        first: bool = False,
    ) -> None:
        """Renew the guess (2) for some people, at z to begin with and then at their best row, while that helps."""
        per_feature = self.problem_.cost.per_feature
        for _ in range(self.rounds):
            if not len(who) or self.run.expired:
                return
            fixed = first or self.moves_.anchored
            here = reach.take(who) if fixed else self.moves_.reach(x[who], z, per_feature)
            mine = best.take(who)
            better = self._around(x[who], z, margin, mine, cap[who], here, first)
            best.put(who, mine)
            who = who[better | (~mine.found & first)]
            z, margin, first = best.row[who], best.margin[who], False

    def _around(
        self, x: Tensor, z: Tensor, margin: Tensor, best: Incumbent, cap: Tensor, reach: MoveTargets, first: bool
    ) -> Tensor:
        """Ask single changes of z, then bundles of them that cost less than the best; returns (n,) whom that helped."""
        cost, moves = self.problem_.cost, self.moves_
        now, leaves, bound = cost(x, z), moves.leaves(z), best.cost.unsqueeze(1) - SAME
        margin = torch.where(torch.isfinite(margin), margin, best.own)  # -inf where z breaks a rule
        wanted = (reach.first if first else reach.legal) & (reach.value != z[:, moves.column])
        wanted &= (reach.alone < bound) & (reach.alone < (cap[:, moves.feature] - SAME).clamp(min=SAME))
        who, move = wanted.nonzero(as_tuple=True)
        rows = moves.rows(z[who], move, leaves[who, move], reach.value[who, move])
        if self.problem_.rules or not cost.separable:
            rows, price, asked = self._asked(x[who], rows)
            extra = torch.full_like(reach.alone, torch.inf).index_put_((who, move), price - now[who])
        else:  # the cost of a row is known from those of its changes
            asked, extra = self._margins(rows), reach.alone - cost.per_feature(x, z)[:, moves.feature]
            price = now[who] + extra[who, move]
        gain = torch.full_like(reach.alone, -torch.inf).index_put_((who, move), asked - margin[who])
        need = self.aim_ - margin
        if first:
            aims = Aims.first(need, self.plans)
        else:
            aims = Aims.again(need, self.aim_ - best.own, gain, extra, self.plans)
        better = best.offer(who, rows, price, asked, self.aim_)
        bound = best.cost.unsqueeze(1) - SAME
        changed = self.problem_.schema.changed(x, z)
        last = torch.stack([changed[:, f] for f, _, _ in moves.spans], 1)
        bundles = bundle(gain, extra, moves.spans, last, aims)  # (2)
        fresh = torch.isfinite(bundles.extra) & (bundles.extra + now.unsqueeze(1) < bound)
        fresh[:, 1:] &= (bundles.extra[:, 1:] - bundles.extra[:, :-1]).abs() > SAME
        who, slot = fresh.nonzero(as_tuple=True)
        rows, steps = z[who], bundles.moves[who, slot]
        for j in range(steps.shape[1]):
            does = (steps[:, j] >= 0).nonzero().squeeze(1)
            person, move = who[does], steps[does, j]
            rows[does] = moves.rows(rows[does], move, leaves[person, move], reach.value[person, move])
        rows, price, asked = self._asked(x[who], rows)
        return better | best.offer(who, rows, price, asked, self.aim_)

    def _start_elsewhere(self, x: Tensor, best: Incumbent, cap: Tensor, short: Tensor) -> Tensor:
        """Offer some people (m,) near accepted background rows and random changes; returns whom that helped."""
        schema = self.problem_.schema
        draws = torch.from_numpy(self.run.rng("starts").random((2, self.samples, len(schema)))).to(x)
        owner, rows = scattered(schema, x[short], draws)
        if len(self.accepted_):
            owner_near, near = nearest(self.problem_, x[short], self.accepted_)
            owner, rows = torch.cat([owner_near, owner]), torch.cat([near, rows])
        owner = short[owner]
        rows = schema.snap(x[owner], rows)
        dear = self.problem_.cost.per_feature(x[owner], rows) >= (cap[owner] - SAME).clamp(min=SAME)
        rows = torch.where(dear[:, schema.feature_of.to(x.device)], x[owner], rows)
        rows, cost, margin = self._asked(x[owner], rows)
        return best.offer(owner, rows, cost, margin, self.aim_).nonzero().squeeze(1)
