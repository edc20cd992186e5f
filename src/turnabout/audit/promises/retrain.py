"""Do given options hold when the model is trained again? Refits, and a guarantee for each option."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.audit.fairness.outcomes import check_answer, fingerprint, placed_first_options
from turnabout.audit.promises.refit import Refit
from turnabout.audit.promises.training_sets import Bootstrap, Retrain, read_training
from turnabout.audit.promises.validity import check_prior, validity_of_counts
from turnabout.audit.rates import members
from turnabout.core import Problem, Recourse
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.models import Model, wrap
from turnabout.parameters import Instance, Share, Whole, checked
from turnabout.typing import Json, Progress

ROWS = 256  # training people handed to wrap, for the types of their columns
AGAIN = Bootstrap()


@dataclass(frozen=True, eq=False)
class Retrained(Document):
    """What retrained models say of the options of an answer.

    Attributes
    ----------
    retrain : how training sets were made.
    models : how many models were fitted.
    complete : whether they are all there are, so that bounds are the shares themselves: every training set there is was
        fitted, none was passed over, and no random_state of the estimator is left open. Randomness that an estimator
        does not show in its parameters is not seen.
    options : index (person, option). accepts: how many models say yes; share, probability, credible_low, exact_low and
        robust: what that count says of the option's validity, as in `validity_of_counts`.
    kept : over people: share of the models that accept a person's first option, on average. The interval is about
        other people before these models, which they share.
    over_models : the same mean with its interval over models, by `Estimate.share`: about these people before another
        model. Neither of the two intervals covers other people and other models.
    robust : share of people whose first option is robust.
    by_group : kept within each group.
    single_class : samples that held one class only, and were drawn again or skipped.
    unanswered : answers that models did not give, for example on a level their sample lacked; counted as no.
    reproduced : share of the answer's people about whom a model refitted on the unchanged data decides as the problem's
        model does. Far from 1 says that the estimator, the data or the threshold are not those of the model.
    validity, prior, confidence, seconds : as asked; the time it took.
    fingerprint : of the options asked about, to tell a report on this answer from one on another.
    """

    retrain: str
    models: int
    complete: bool
    options: pd.DataFrame
    kept: Rate
    over_models: Estimate
    robust: Rate
    by_group: dict[Hashable, Rate]
    single_class: int
    unanswered: int
    reproduced: Rate
    validity: float
    prior: tuple[float, float]
    confidence: float
    seconds: float
    fingerprint: str

    _repr_html_ = report_html

    def __str__(self) -> str:
        every = "all there are" if self.complete else f"over models {self.over_models}"
        lines = [
            f"{self.retrain}: first options are accepted by a share of {self.models} retrained models of {self.kept}; "
            f"{every}",
            f"  robust, with a validity of {self.validity:g} or more at probability {self.confidence:g}: {self.robust}",
            f"  refitted on the unchanged data, the model decides as before for {self.reproduced}",
        ]
        lines += [f"  {group}: {rate}" for group, rate in self.by_group.items()]
        if self.single_class:
            lines.append(f"  {self.single_class} samples of a single class were passed over")
        if self.unanswered:
            lines.append(f"  {self.unanswered} answers were not given, and count as no")
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """Plain values for JSON; groups by the text of their labels, options by that of the people's."""
        out = super().to_dict()
        ends = {name: out.pop(name) for name in ("seconds", "fingerprint")}
        options = self.to_frame().to_dict("list")
        options["person"] = [str(label) for label in options["person"]]
        return out | {"options": options} | ends

    def to_frame(self) -> pd.DataFrame:
        """One line per option, with person and option as columns."""
        return self.options.reset_index()


@dataclass(frozen=True, eq=False)
@checked(AuditError, how=Instance(Retrain, "a way to train again", hint="use Bootstrap(models=30)."))
class Retraining:
    """How the model of a problem was made, so that a report can train it again; parameters as of `after_retraining`."""

    estimator: Any
    people: Any
    labels: Any
    how: Retrain = AGAIN
    threshold: float | None = None
    target: object = None


# over 80 lines because its parameters are documented
@checked(
    AuditError,
    retrain=Instance(Retrain, "a way to train again", hint="use Bootstrap(models=30)."),
    validity=Share(above=0, below=1),
    seed=Whole(0),
    confidence=Share(above=0, below=1),
)
def after_retraining(
    problem: Problem,
    answer: Recourse,
    estimator: Any,
    people: Any,
    labels: Any,
    *,
    retrain: Retrain = AGAIN,
    groups: Any = None,
    threshold: float | None = None,
    target: object = None,
    wrap_as: Callable[[Any], Model] | None = None,
    validity: float = 0.9,
    prior: tuple[float, float] = (1.0, 1.0),
    seed: int = 0,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Retrained:
    r"""Train the model again and again, and ask each new model about the options that were given.

    Let theta be the share of all models that might come next, of the kind that `retrain` draws, that accept an option:
    its validity. With k of m models accepting, and a Beta(a, b) prior,

        theta | data ~ Beta(a + k, b + m - k)                                                                   (1)

    gives P(theta >= validity) and the bound that theta exceeds with probability `confidence`: `validity_of_counts`. It
    holds for models trained as here, not for another kind of model, other features or a new threshold.

    Parameters
    ----------
    answer : to this problem, of any method.
    estimator : the scikit-learn estimator or Pipeline on raw columns that the problem's model was, fitted or not. It is
        cloned; where it has a random_state of None, each clone gets one by the seed, and no report is complete. Give a
        number where training is not random, or where its one outcome is meant.
    people, labels : what it was trained on; columns that the schema does not know are left out.
    retrain : Bootstrap(), LeaveOut(), Shift(...) or Newer(...).
    groups : one label per person of the answer, for kept by group.
    threshold, target : as they were given to `turnabout.models.wrap` for the problem's model.
    wrap_as : what makes a Model of a fitted estimator, instead of threshold and target.
    validity : share of models that ought to accept an option.
    prior : (a, b) of the Beta prior; (1, 1) holds every validity for equally likely.
    progress : called with (models done, models in all).

    References
    ----------
    Stępka, Lango, Stefanowski (2025), Counterfactual explanations with probabilistic guarantees on their robustness to
    model change; there options are moved until they are robust, here they are judged as they stand.
    """
    began = time.perf_counter()
    check_prior(prior)
    check_answer(problem, answer)
    inside = members(groups, answer.people.index)
    table, truth = read_training(people, labels, list(problem.schema.names))
    refit = Refit(problem, estimator, wrap_as or _wrapped_like(problem, table, threshold, target))
    rng = np.random.default_rng(seed)
    same = refit.fit((table, truth), rng)
    if wrap_as is None:
        refit.check_threshold(same)
    reproduced = _reproduced(problem, same, answer)
    said, single_class = refit.ask(answer, (table, truth), retrain, rng, progress)  # (m, o)
    complete = retrain.is_complete(len(table)) and not single_class and not refit.is_random
    known = validity_of_counts(len(said), validity, prior, confidence, complete)
    accepts = (said >= 0).sum(0)
    options = known.iloc[accepts].set_axis(answer.options.index).assign(accepts=accepts)
    first, place = placed_first_options(answer)
    kept, robust = (np.zeros(len(answer.people), dtype=kind) for kind in (np.float64, bool))  # of first options
    kept[place], robust[place] = (options.loc[first.index, name] for name in ("share", "robust"))
    mine = np.isin(np.arange(len(answer.people)), place)
    is_first = answer.options.index.get_level_values("option") == 0
    by_model = (said[:, is_first] >= 0).mean(1) if len(first) else np.zeros(0)
    return Retrained(
        retrain=repr(retrain),
        models=len(said),
        complete=complete,
        options=options,
        kept=Rate.among(kept[place], confidence),
        over_models=_over_models(by_model, complete, confidence),
        robust=Rate.among(robust[place], confidence),
        by_group={label: Rate.among(kept[mask & mine], confidence) for label, mask in inside.items()},
        single_class=single_class,
        unanswered=int(np.isnan(said).sum()),
        reproduced=Rate.among(reproduced, confidence),
        validity=validity,
        prior=(float(prior[0]), float(prior[1])),
        confidence=confidence,
        seconds=time.perf_counter() - began,
        fingerprint=fingerprint(problem, answer),
    )


def _wrapped_like(
    problem: Problem, table: pd.DataFrame, threshold: float | None, target: object
) -> Callable[[Any], Model]:
    """What wraps a fitted estimator as the problem's model was wrapped."""
    typed = any(isinstance(kind, pd.CategoricalDtype) for kind in table.dtypes)  # such columns must keep their levels
    rows = table.head(ROWS) if typed else None
    return lambda fitted: wrap(fitted, problem.schema, threshold, target=target, background=rows)


def _reproduced(problem: Problem, same: Model, answer: Recourse) -> np.ndarray:
    """(n,) about whom the model refitted on the same people decides as the problem's does; refuses too few."""
    people = problem.schema.table(answer.people)
    alike = (Problem(problem.schema, same).judge(people) >= 0) == (problem.judge(people) >= 0)
    if not alike.mean() >= 0.5:
        raise AuditError(
            f"trained again on these people, the model decides otherwise for {(~alike).mean():.0%} of people.",
            hint="give the estimator and the data that the problem's model was made of, and target= as it was wrapped.",
        )
    return alike


def _over_models(shares: np.ndarray, complete: bool, confidence: float) -> Estimate:
    """The mean over models; no interval is left if they are all there are."""
    if complete and len(shares):
        mean = float(shares.mean())
        return Estimate(mean, mean, mean, len(shares))
    return Estimate.share(shares, confidence)
