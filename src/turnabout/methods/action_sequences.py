"""Optimal sequences of real-world actions (Ramakrishnan, Lee, Albarghouthi, 2020)."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.core.plan import PlanColumns, Plans
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.sequences.batch import Best
from turnabout.methods.sequences.carlini import RELAXATIONS, Descent, Relaxation
from turnabout.methods.sequences.printable import PlanPrinter, tightened
from turnabout.methods.sequences.proof_engines import ENGINES, ProofEngine
from turnabout.methods.sequences.robust import RobustPlans
from turnabout.methods.sequences.rules import Rules
from turnabout.methods.sequences.scores import SCORES, SequenceScore
from turnabout.methods.sequences.sequence_search import SequenceSearch
from turnabout.methods.sequences.sequence_set import ActionSequence, SequenceSet, as_tensor
from turnabout.methods.sequences.solve import SearchEffort, Solver
from turnabout.methods.sequences.state_margins import StateMargins
from turnabout.parameters import Finite, Flag, Instance, Maybe, Share, Whole, checked
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.methods.sequences.certificate import Certificates

EXPLORE, PROVE = 0.5, 0.7  # shares of the time left for finding plans that are to be proved, and for proofs
SAVED = 0.3  # share of the queries that is left for printing plans
MOST_SEQUENCES = 20_000  # sequences over which a lower bound is proved
SPARE = 6  # plans made printable for each person, beyond the options asked for


@checked(
    MethodError,
    max_steps=Whole(1, hint="use 1 or more; the paper uses 4."),
    score=SCORES,
    iterations=Maybe(Whole(1, hint="leave it out for a full search.")),
    effort=Maybe(Instance(SearchEffort, hint="leave it out, or write SearchEffort(draws=64).")),
    relaxation=RELAXATIONS,
    passes=Whole(0),
    merge=Flag(),
    beam=Whole(1),
    robust=Maybe(Share(above=0, below=1, hint="0.03 is three percent of a parameter.")),
    robust_share=Share(above=0, hint="the paper uses 0.8."),
    robust_limit=Finite(least=1, hint="give a factor from 1 up."),
    certify=Flag(),
    gap=Finite(least=0),
    engine=ENGINES,
)
class ActionSequences(Method):
    r"""The cheapest sequence of a person's actions that the model accepts.

    With actions a, their parameters r, costs c and preconditions, finds for each refused person x_0

        min over (sigma, rho)  sum_i c_{sigma_i}(x_{i-1}, rho_i),   x_i = a_{sigma_i}(x_{i-1}, rho_i)         (1)
        s.t. the model accepts x_k, and every precondition holds at its step.

    Sequences grow one action at a time, the smallest score first (Algorithm 1), with
        breadth:    score = length of the sequence,                                                           (2)
        objective:  score = value of (3) at the parent,
        gradient:   score = - mean |d loss / d x_j| over the footprint of the added action, at the parent's end,
    and for each the parameters solve, from several starts,

        min over rho   w max(0, -margin(x_k)) + sum_i c_i + conditions                                        (3)

    from a grid or draws, by convex steps along the boundary: the model is linearised, the cost is not, and the one
    multiplier of  margin + slope . (rho' - rho) >= 0  found by halving. Adam on (3), with the adaptive weight w, goes
    first where the effort has a `descent`: by default for free-form actions and with the exponential relaxation. Orders
    of actions that commute are one sequence. Where the published code never checks preconditions, adds their penalty to
    the cost and compares z-scores with raw bounds, plans here are replayed as printed and their cost is the cost.

    Use it when what a person can do is known as actions: with steps, guards, side effects and prices. It is not exact;
    `certify=True` adds a proven lower bound and the gap to it.

    Parameters
    ----------
    max_steps : longest sequence.
    score : which sequence to look at next, "breadth", "objective", "gradient" or a `SequenceScore`; all find the same
        plans unless `iterations` or a time limit ends the search.
    iterations : sequences solved for each person, at most; None for all.
    effort : how hard to look for parameters; None picks by the actions.
    relaxation : how conditions enter (3): "projection" with an augmented Lagrangian, the paper's "exponential", or a
        `Relaxation`.
    passes : looks at every sequence; from the second on, with what is known of all others.
    merge : treat orders of commuting actions as one sequence.
    beam : sequences of one length from which longer ones grow, for each person; only large sets of actions reach it.
    robust : theta; plans are then the cheapest found that are still accepted, with every condition kept, in
        `robust_share` of the cases when each parameter r is replaced by any in [(1 - theta) r, (1 + theta) r]. People
        without such a plan get an ordinary one; `answer.plans.tolerance` says what each withstands.
    certify : also prove a lower bound on the cost of every plan of at most max_steps actions, for linear models, ReLU
        nets and tree ensembles; `answer.plans` then holds lower_bound and gap; people proved to have no plan are
        IMPOSSIBLE.
    gap : relative distance between bound and cost at which a proof stops.
    engine : what proves: "branch" (and bound), "milp" (integer programs), "auto" (the one, then for small models the
        other), or a `ProofEngine`.
    robust_limit : a robust plan is not given where it costs more than this many times the ordinary one.

    References
    ----------
    Ramakrishnan, Lee, Albarghouthi (2020), Synthesizing action sequences for modifying model decisions, AAAI.
    """

    needs_actions = True
    chunk = 512

    def __init__(
        self,
        max_steps: int = 4,
        score: str | SequenceScore = "breadth",
        iterations: int | None = None,
        effort: SearchEffort | None = None,
        relaxation: str | Relaxation = "projection",
        passes: int = 2,
        merge: bool = True,
        beam: int = 1000,
        robust: float | None = None,
        robust_share: float = 0.8,
        robust_limit: float = 2.0,
        certify: bool = False,
        gap: float = 0.005,
        engine: str | ProofEngine = "auto",
    ):
        self.max_steps = max_steps
        self.score = score
        self.iterations = iterations
        self.effort = effort
        self.relaxation = relaxation
        self.passes = passes
        self.merge = merge
        self.beam = beam
        self.robust = robust
        self.robust_share = robust_share
        self.robust_limit = robust_limit
        self.certify = certify
        self.gap = gap
        self.engine = engine

    @classmethod
    def small(cls) -> Self:
        return cls(max_steps=2, passes=1, beam=16, effort=SearchEffort(draws=8, restarts=2, rounds=6))

    def _fit(self, problem: Problem) -> None:
        SCORES.get(self.score).check(problem.model)
        assert problem.actions is not None
        if self.certify:
            import turnabout.methods.sequences.certificate  # noqa: F401 - takes a while: not within a time limit
        self.actions_ = tightened(problem)
        # the order of changes matters to a rule that may be kept at both ends and broken between
        joined = tuple(set(rule.features) for rule in problem.rules if not rule.undoing_keeps)
        self.sequences_ = SequenceSet(self.actions_, self.merge, joined)

    def _search(self, x: Tensor) -> Proposal:
        with self.run.within(EXPLORE if self.certify or self.robust is not None else PROVE), self.run.saving(SAVED):
            search = self.explore(x)
        chosen = [(i, sequence) for i in range(len(x)) for sequence in _choice(search, i, SPARE + 2 * self.run.options)]
        given = [search.ledger.r[search.ledger.place[i][sequence]] for i, sequence in chosen]
        with self.run.within(PROVE if self.certify or self.robust is not None else 1.0):
            plans, cost = self._printer.plans(x, chosen, given)
        with self.run.within(PROVE):
            proved = self._certify(x, search, cost) if self.certify and not self._is_limited else None
        if proved is not None:
            plans = self._add_proved(x, search, plans, proved, cost)
        if self.robust is not None:
            robust = RobustPlans(self._printer, self.robust, self.robust_share, self.robust_limit)
            plans = robust.plans(x, search, plans)
        proposal = Proposal(x.unsqueeze(1), plans=plans)
        if proved is not None:
            plans.lower_bound = torch.where(torch.isfinite(proved.lower_bound), proved.lower_bound, torch.nan)
            proposal.impossible = torch.isinf(proved.lower_bound) & proved.complete
            count = len(search.solver.actions.names)
            for i in proposal.impossible.nonzero().squeeze(1).tolist():
                proposal.proof[i] = (
                    f"no sequence of at most {self.max_steps} of the {count} actions ends at an accepted row; shown by "
                    f"{proved.how[i]} over all their parameters."
                )
        return proposal

    @property
    def _printer(self) -> PlanPrinter:
        return PlanPrinter(self.problem_, self.run, self.ask, self.max_steps)

    @property
    def _is_limited(self) -> bool:
        """Whether the search may ask about few rows only; a proof would need the model's form, or all rows."""
        return self.run.query_limit is not None and not self.problem_.model.compiled

    def _certify(self, x: Tensor, search: SequenceSearch, upper: Tensor) -> Certificates | None:
        """Lower bounds for everyone, over the values that can be printed; upper (n,) is what printed plans cost."""
        from turnabout.methods.sequences.certificate import CertificateTask, certify

        problem, actions = self.problem_, self.problem_.actions
        assert actions is not None
        sequences = self.sequences_.up_to(self.max_steps)
        if len(sequences) > MOST_SEQUENCES:
            warnings.warn(
                f"{len(sequences):,} sequences are too many for a proof; plans come without a lower bound. Hint: lower "
                "max_steps, or leave out actions.",
                stacklevel=2,
            )
            return None
        left, rules = self.run.left, search.solver.rules
        ground = PlanColumns.of(problem.schema, actions, x.device)
        task = CertificateTask(
            problem.model,
            actions.tables,
            x,
            as_tensor(sequences, self.max_steps, x.device),
            search.solver.lo,
            search.solver.hi,
            grid=ground.step,
            leads=ground.lead,
            keeps=None if rules is None else lambda who, state: rules.kept(who, state.unsqueeze(1), give=1e-9),
            noise=problem.model.noise,
            opaque=tuple(actions.free),
        )
        return certify(task, upper, self.gap, None if math.isinf(left) else max(0.0, left), engine=self.engine)

    def _add_proved(self, x: Tensor, search: SequenceSearch, plans: Plans, proved: Certificates, cost: Tensor) -> Plans:
        """The plans, and those that the proof met where they are cheaper than what was printed, at cost (n,)."""
        chosen, given = [], []
        for i in (proved.cost < cost * (1 - 1e-9)).nonzero().squeeze(1).tolist():
            sequence, order = self.sequences_.normal(tuple(a for a in proved.sequences[i].tolist() if a >= 0))
            r, found = proved.r[i][order], proved.cost[i : i + 1]
            search.ledger.enter([(i, sequence)], Best(r.unsqueeze(0), found, torch.zeros_like(found)))
            chosen.append((i, sequence))
            given.append(r)
        if not chosen:
            return plans
        more, _ = self._printer.plans(x, chosen, given)
        return Plans(torch.cat([plans.sequences, more.sequences], 1), torch.cat([plans.r, more.r], 1))

    def explore(self, x: Tensor) -> SequenceSearch:
        """Solve the sequences of refused people x (n, d); the search with its ledger, for those who study it."""
        solver = self._solver(x)
        expired = lambda: self.run.expired  # noqa: E731
        search = SequenceSearch(solver, self.sequences_, self.max_steps, self.beam, expired, parts=self.run.parts)
        SCORES.get(self.score).explore(search, self.iterations)
        for _ in range(0 if solver.actions.free else self.passes - 1):
            search.again()
        return search

    def _solver(self, x: Tensor) -> Solver:
        problem, actions = self.problem_, self.actions_
        lo, hi = problem.bounds(x)
        decision = StateMargins(problem.model, actions.tables, x, self.ask)
        effort = self.effort
        if effort is None:
            effort = (
                SearchEffort(draws=64, restarts=8, descent=Descent(steps=40, lr=1.0))
                if actions.free
                else SearchEffort()
            )
        relaxation = RELAXATIONS.get(self.relaxation)
        effort = replace(effort, descent=effort.descent or relaxation.descent)
        if self._is_limited:
            effort = effort.within(self.run.queries_left / (len(x) * len(self.sequences_.up_to(self.max_steps))))
        return Solver(
            decision,
            actions,
            actions.tables.units(lo),
            actions.tables.units(hi),
            2 * clearance(problem),
            effort,
            relaxation,
            self.run.rng,
            lambda: self.run.expired,
            self.run.parts,
            last=self.passes < 2,
            rules=Rules.of(problem, actions.tables, x),
        )


def _choice(search: SequenceSearch, i: int, count: int) -> list[ActionSequence]:
    """A person's cheapest accepted sequences; if there are none, the one that came nearest."""
    ledger = search.ledger
    ranked = search.ranked(i, most=count)
    if ranked or not ledger.place[i]:
        return ranked
    return [max(ledger.place[i], key=lambda sequence: (ledger.margin[ledger.place[i][sequence]], sequence))]
