"""Recourse round after round: offer, move, relabel, retrain. Are promises kept, and what becomes of the model?"""

from __future__ import annotations

from collections.abc import Iterable
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
    and means are over them, with intervals that hold given eta and the models as they came out. A capacity joins fates;
    then the intervals are only approximate.

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
    held_out : share of people set apart. With 0, people are judged by models trained on them, which flatters those.
    threshold, cost, rules, actions : those of wrap and of Problem.
    seed : same seed, same answer. Estimators that were given no random_state get this one, within Pipelines too.
    progress : called with (people done, people in all rounds together).
    """
    given = as_frame(people)
    _check(given, estimator, capacity, retrain, held_out)
    y = read_labels(labels, given.index, np.ones(len(given), dtype=bool))
    schema = Schema.infer(given) if schema is None else schema
    table, bound = schema.table(given), tuple(rules)
    crowd = Crowd(table, y, held_out, seed)
    if crowd.only_class() is not None:
        raise AuditError(
            f"the {int(crowd.trained.sum())} people to train on are all {'good' if crowd.only_class() else 'bad'}.",
            hint="give more people, or set fewer apart with held_out=.",
        )
    oracle = _oracle(eta, schema, table, y, seed)
    later = None if retrain is False else estimator if retrain is True else retrain
    lender = Lender(estimator, later, schema, table, threshold, capacity, seed)
    promises: list[Promise] = []
    states: list[Round] = []
    stopped = None
    while True:
        r = len(states)
        lender.train(crowd.table, crowd.trained, crowd.y)
        for promise in promises:
            promise.kept[r] = promise.spread(margins(lender.model, promise.rows) >= 0)
        if r == 0:
            start = lender.margin_of_first
        before = _before(crowd, lender, promises, start)
        if r == rounds:
            states.append(Round(r, **before, offered=Rate.of(0, 0), cost=_none(), movers=0, compliant=0))
            break
        background, known = crowd.table[crowd.trained], crowd.y[crowd.trained]
        problem = Problem(schema, lender.model, cost, bound, background, known, actions)
        answer = (
            method.clone()
            .fit(problem)
            .find(crowd.table[~lender.yes], seed=seed, progress=_overall(progress, r, rounds, len(table)))
        )
        promise = Promise.of(r + 1, answer, table.index)
        offered = Rate.among(promise.offered[crowd.judged & ~lender.yes])
        price = Estimate.mean(promise.cost[crowd.judged & promise.offered])
        if not promise.offered.any() and (r > 0 or isinstance(retrain, bool)):  # else the next model is another one
            states.append(Round(r, **before, offered=offered, cost=price, movers=0, compliant=0))
            who = "nobody is refused" if lender.yes.all() else "no option was found for anyone who is refused"
            stopped = f"in round {r + 1} {who}: further rounds would all be alike."
            break
        promises.append(promise)
        movers, compliant = crowd.respond(promise, accept, compliance, oracle)
        states.append(Round(r, **before, offered=offered, cost=price, movers=movers, compliant=compliant))
        if later is not None and (good := crowd.only_class()) is not None:
            kind = "good" if good else "bad"
            stopped = f"after round {r + 1} everyone to train on is {kind}: no model can be learned from one class."
            break
    if progress is not None:
        progress(rounds * len(table), rounds * len(table))
    return Rounds(
        states=tuple(states),
        promises=_lasting(promises, len(states), crowd.judged),
        moves=crowd.moves(),
        stopped=stopped,
        judged=int(crowd.judged.sum()),
        trained=int(crowd.trained.sum()),
        made_by=repr(method),
        eta=LEARNED if eta is None else "as given",
        capacity=capacity,
    )


def _before(crowd: Crowd, lender: Lender, promises: list[Promise], start: np.ndarray) -> dict[str, Any]:
    """The figures of a state that are known before anything is offered in it."""
    mine, yes, now = crowd.judged, lender.yes, lender.margin_of_first
    state = len(promises)
    latest = np.array([p.kept[state] for p in promises]).reshape(state, len(yes))
    holds = mine & (crowd.holds > 0)
    last = unretrained = Rate.of(0, 0)
    if promises:
        fresh = promises[-1]
        last = Rate.among(fresh.kept[state][mine & fresh.offered])
        assert lender.before is not None
        unretrained = Rate.among(fresh.spread(margins(lender.before, fresh.rows) >= 0)[mine & fresh.offered])
    known = mine & np.isfinite(now) & np.isfinite(start)
    return {
        "cut": lender.cut,
        "approved": int(yes.sum()),
        "refused": int((~yes).sum()),
        "risk": Rate.among((yes != crowd.y)[mine]),
        "defaults": Rate.among(~crowd.y[mine & yes]),
        "taken": Rate.among(yes[mine & (crowd.moved_in > 0)]),
        "open": Rate.among(
            latest[crowd.holds[holds] - 1, holds.nonzero()[0]] if holds.any() else np.zeros(0, dtype=bool)
        ),
        "last": last,
        "last_unretrained": unretrained,
        "changed": Rate.among(((now >= 0) != (start >= 0))[mine]),
        "drift": Estimate.mean((now - start)[known]),
    }


def _none() -> Estimate:
    return Estimate(None, None, None, 0)


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
    """Progress within a round, told as progress in all of them; who is approved is done at once."""
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
