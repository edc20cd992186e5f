"""Recourse round after round: offer, move, relabel, retrain. Are promises kept, and what becomes of the model?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from turnabout.actions import ActionSet
from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.accepting import Accept
from turnabout.audit.risk.calibration import cross_fitted, folds_of
from turnabout.audit.risk.eta import ask_eta
from turnabout.audit.risk.risk_people import read_labels
from turnabout.audit.rounds.lender import Lender, margins
from turnabout.audit.rounds.rounds_report import Round, Rounds
from turnabout.audit.rounds.simulated_people import Crowd, Oracle, Promise
from turnabout.core import Method, Problem
from turnabout.costs import Cost
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.parameters import Finite, Instance, Maybe, Share, Whole, checked
from turnabout.rules import Rule
from turnabout.schema import Schema, as_frame
from turnabout.typing import Progress

FOLDS = 5
LEARNED = "gradient boosting on the first labels, cross-fitted and calibrated"


# over 80 lines because its parameters are documented
@checked(
    AuditError,
    method=Instance(Method, "a method", hint="pass an instance, such as Wachter(); it need not be fitted."),
    schema=Maybe(Instance(Schema, hint="Schema.infer(table) drafts one.")),
    rounds=Whole(1, hint="one round is one offer to all."),
    compliance=Share(),
    capacity=Maybe(Whole(1, hint="None is no limit.")),
    held_out=Finite(least=0, below=1),
    seed=Whole(0),
)
def rounds_of_recourse(
    estimator: Any,
    people: Any,
    labels: Any,
    method: Method,
    *,
    schema: Schema | None = None,
    rounds: int = 5,
    compliance: float = 1.0,
    accept: Accept = 1.0,
    capacity: int | None = None,
    eta: Any = None,
    retrain: Any = True,
    held_out: float = 0.3,
    threshold: float | None = None,
    cost: Cost | None = None,
    rules: Iterable[Rule] = (),
    actions: ActionSet | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Rounds:
    r"""What recourse does over several rounds, when people move and the model is trained on people who moved.

    The same people apply in every round. In each, the refused are offered their first option by the method; some take
    it up and become the printed row, as verified; labels follow; the model is trained again:

        x <- x_new   with probability accept;    then y ~ eta(x_new)   with probability compliance, else y stays    (1)

    It is a simulation: it shows what would follow if eta were the truth, people behaved as in (1), and nothing else
    changed meanwhile. With eta learned from the labels, rows far from all people are a guess.

    A share of the people is set apart: they live through the same rounds, but no model is trained on them. All shares
    and means are over them, with intervals that hold given eta and the fitted models. With a capacity, outcomes of
    people depend on each other, and the intervals are only approximate.

    Use it before promising that an option "will be accepted": the report says how many such promises the next models
    break.

    Parameters
    ----------
    estimator : a scikit-learn classifier or Pipeline on raw columns; a clone of it is fitted in each round.
    people, labels : a table, and True for the good, who ought to be approved.
    method : any; a clone of it is fitted to each round's model.
    schema : what may change; inferred from the people where none is given.
    rounds : how many, from 1 up.
    compliance : share of movers whose improvement is real.
    accept : probability of taking an option up, or a rule on its cost, such as WithinCost(0.3); see `accepting`.
    capacity : approve only so many people, those of the highest margins. Equal margins are decided alike, so that it
        may be fewer.
    eta : P(good): a fitted classifier or a function of tables. Without it, it is learned from the first labels.
    retrain : True; False to keep the first model; or another estimator, to be trained from the second model on.
    held_out : share of people set apart. With 0, people are judged by models trained on them, which is optimistic.
    threshold, cost, rules, actions : those of wrap and of Problem.
    seed : same seed, same answer. Estimators that were given no random_state get this one, within Pipelines too.
    progress : called with (people done, people in all rounds together).
    """
    given = as_frame(people)
    _check(given, estimator, capacity, retrain, held_out)
    y = read_labels(labels, given.index, np.ones(len(given), dtype=bool))
    schema = Schema.infer(given) if schema is None else schema
    table = schema.table(given)
    crowd = Crowd(table, y, held_out, seed)
    if (good := crowd.only_class()) is not None:
        raise AuditError(
            f"the {int(crowd.trained.sum())} people to train on are all {'good' if good else 'bad'}.",
            hint="give more people, or set fewer apart with held_out=.",
        )
    oracle = _oracle(eta, schema, table, y, seed)
    later = None if retrain is False else estimator if retrain is True else retrain
    lender = Lender(estimator, later, schema, table, threshold, capacity, seed)

    simulation = _Simulation(
        crowd=crowd,
        lender=lender,
        question=_Question(schema, cost, tuple(rules), actions),
        method=method,
        answers=partial(crowd.respond, accept=accept, compliance=compliance, oracle=oracle),
        first_again=isinstance(retrain, bool),
        seed=seed,
    )
    stopped = simulation.run(rounds, progress)
    return Rounds(
        states=tuple(simulation.states),
        promises=_lasting(simulation.promises, len(simulation.states), crowd.judged),
        moves=crowd.moves(),
        stopped=stopped,
        judged=int(crowd.judged.sum()),
        trained=int(crowd.trained.sum()),
        made_by=repr(method),
        eta=LEARNED if eta is None else "as given",
        capacity=capacity,
    )


@dataclass(frozen=True, eq=False)
class _Question:
    """What the problems of all rounds have in common."""

    schema: Schema
    cost: Cost | None
    rules: tuple[Rule, ...]
    actions: ActionSet | None

    def of(self, crowd: Crowd, lender: Lender) -> Problem:
        """The problem of the people and the model as they are now."""
        background, known = crowd.table[crowd.trained], crowd.y[crowd.trained]
        return Problem(self.schema, lender.model, self.cost, self.rules, background, known, self.actions)


@dataclass(eq=False)
class _Simulation:
    """The rounds: in each the lender decides, the refused are offered their options, and people respond.

    Attributes
    ----------
    answers : from the promise of a round to how many people move, and how many of them are compliant.
    first_again : whether the second model is trained as the first was, or is the first.
    promises : of every round in which people could respond.
    states : of every round that began, and of the end.
    start : (n,) margins of the first people before the first model.
    """

    crowd: Crowd
    lender: Lender
    question: _Question
    method: Method
    answers: Callable[[Promise], tuple[int, int]]
    first_again: bool
    seed: int
    promises: list[Promise] = field(default_factory=list)
    states: list[Round] = field(default_factory=list)
    start: np.ndarray = field(init=False)

    def run(self, rounds: int, progress: Progress | None) -> str | None:
        """All rounds, and the state after the last; why they ended early, or None."""
        n, stopped = len(self.crowd.table), None
        for r in range(rounds):
            self._decide()
            stopped = self._offer(_overall(progress, r, rounds, n))
            if stopped is not None:
                break
        else:
            self._decide()
        if progress is not None:
            progress(rounds * n, rounds * n)
        return stopped

    def _offer(self, progress: Progress | None) -> str | None:
        """Offer options and let people respond; why no round can follow, or None."""
        crowd, lender, r = self.crowd, self.lender, len(self.promises)
        fitted = self.method.clone().fit(self.question.of(crowd, lender))
        answer = fitted.find(crowd.table[~lender.yes], seed=self.seed, progress=progress)
        promise = Promise.of(r + 1, answer, crowd.table.index)
        self.states[-1] = replace(
            self.states[-1],
            offered=Rate.among(promise.offered[crowd.judged & ~lender.yes]),
            cost=Estimate.mean(promise.cost[crowd.judged & promise.offered]),
        )
        if not promise.offered.any() and (r > 0 or self.first_again):  # else the next model is another one
            who = "nobody is refused" if lender.yes.all() else "no option was found for anyone who is refused"
            return f"in round {r + 1} {who}: further rounds would all be alike."
        self.promises.append(promise)
        movers, compliant = self.answers(promise)
        self.states[-1] = replace(self.states[-1], movers=movers, compliant=compliant)
        if lender.later is not None and (good := crowd.only_class()) is not None:
            kind = "good" if good else "bad"
            return f"after round {r + 1} everyone to train on is {kind}: no model can be learned from one class."
        return None

    def _decide(self) -> None:
        """Train the model and note the state, before anything is offered in it."""
        crowd, lender, r = self.crowd, self.lender, len(self.states)
        lender.train(crowd.table, crowd.trained, crowd.y)
        if not r:
            self.start = lender.margin_of_first
        for promise in self.promises:
            promise.kept[r] = promise.spread(margins(lender.model, promise.rows) >= 0)
        mine, yes, now, start = crowd.judged, lender.yes, lender.margin_of_first, self.start
        latest = np.array([promise.kept[r] for promise in self.promises]).reshape(r, len(yes))
        holds = mine & (crowd.holds > 0)
        last = unretrained = Rate.of(0, 0)
        if self.promises:
            fresh = self.promises[-1]
            last = Rate.among(fresh.kept[r][mine & fresh.offered])
            assert lender.before is not None
            unretrained = Rate.among(fresh.spread(margins(lender.before, fresh.rows) >= 0)[mine & fresh.offered])
        known = mine & np.isfinite(now) & np.isfinite(start)
        state = Round(
            number=r,
            cut=lender.cut,
            approved=int(yes.sum()),
            refused=int((~yes).sum()),
            risk=Rate.among((yes != crowd.y)[mine]),
            defaults=Rate.among(~crowd.y[mine & yes]),
            taken=Rate.among(yes[mine & (crowd.moved_in > 0)]),
            open=Rate.among(
                latest[crowd.holds[holds] - 1, holds.nonzero()[0]] if holds.any() else np.zeros(0, dtype=bool)
            ),
            last=last,
            last_unretrained=unretrained,
            changed=Rate.among(((now >= 0) != (start >= 0))[mine]),
            drift=Estimate.mean((now - start)[known]),
            offered=Rate.of(0, 0),
            cost=Estimate(None, None, None, 0),
            movers=0,
            compliant=0,
        )
        self.states.append(state)


def _lasting(promises: list[Promise], states: int, judged: np.ndarray) -> pd.DataFrame:
    """See Rounds.promises."""
    rows = []
    for promise in promises:
        for state in range(promise.made, states):
            rate = Rate.among(promise.kept[state][promise.offered & judged])
            rows.append((promise.made, state, rate.value, rate.low, rate.high, rate.hits, rate.n))
    table = pd.DataFrame(rows, columns=["made", "judged", "value", "low", "high", "hits", "n"])
    kinds = {"made": "int64", "judged": "int64", "value": "Float64", "low": "float64", "high": "float64"}
    return table.astype({**kinds, "hits": "int64", "n": "int64"})


def _oracle(eta: Any, schema: Schema, table: pd.DataFrame, y: np.ndarray, seed: int) -> Oracle:
    """P(good) of new rows, asked of what was given or learned from the first labels."""
    if eta is None:
        folds_of(y, FOLDS, seed)  # refuses labels that nothing can be learned from
        x = schema.encode(table).numpy()

        def learned(rows: pd.DataFrame, place: np.ndarray) -> np.ndarray:
            return cross_fitted(x, y, (schema.encode(rows).numpy(),), place, FOLDS, seed)[0].value

        return learned
    ask_eta(eta, table)  # refuses what gives no probabilities before any round
    return lambda rows, place: ask_eta(eta, rows)


def _overall(progress: Progress | None, r: int, rounds: int, n: int) -> Progress | None:
    """Progress within a round, counted over all of them; approved people count as done at once."""
    if progress is None:
        return None
    return lambda done, refused: progress(r * n + n - refused + done, rounds * n)


def _check(people: pd.DataFrame, estimator: Any, capacity: int | None, retrain: Any, held_out: float) -> None:
    for name, one in (("estimator", estimator), ("retrain", retrain)):
        if (name == "estimator" or not isinstance(one, bool)) and not (
            hasattr(one, "fit") and not isinstance(one, type)
        ):
            raise AuditError(f"{name}={one!r} cannot be fitted.", hint="pass a scikit-learn classifier or Pipeline.")
    if capacity is not None and capacity > len(people):
        raise AuditError(
            f"capacity={capacity!r} is not between 1 and the {len(people)} people.", hint="None is no limit."
        )
    if not people.index.is_unique or isinstance(people.index, pd.MultiIndex):
        raise AuditError("two people share an index label, or it has levels.", hint="people.reset_index(drop=True)")
    kept = round(held_out * len(people))
    if (held_out > 0 and kept < 1) or len(people) - kept < 2:
        raise AuditError(
            f"with held_out={held_out!r}, {kept} of {len(people)} people are set apart.",
            hint="give more people: some to judge, and two or more to train on.",
        )
