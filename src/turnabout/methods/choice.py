"""Pick a method by what the model offers, and the one-liner built on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from turnabout.core import Method, Problem, Recourse
from turnabout.core.arguments import instance_of
from turnabout.core.landing_targets import Landing
from turnabout.costs import Cost
from turnabout.errors import MethodError
from turnabout.methods.exact_linear import ExactLinear
from turnabout.methods.local_search import LocalSearch
from turnabout.models import Additive, Model, wrap
from turnabout.models.unseen import UnseenLevels
from turnabout.rules import Rule
from turnabout.schema import Schema, as_frame
from turnabout.typing import Progress


def choose(problem: Problem) -> Method:
    """A fitted method for the problem: ExactLinear for linear and additive models whose cost and rules it can prove
    things of, LocalSearch for everything else."""
    if isinstance(problem.model, Additive):
        try:
            return ExactLinear().fit(problem)
        except MethodError:  # a cost or rule without an exact form
            pass
    return LocalSearch().fit(problem)


def as_method(method: Any) -> Method:
    """A method from a method, its class or its name, which may be spelled growing-spheres."""
    from turnabout.methods import ALL

    if isinstance(method, str):
        wanted = method.lower().replace("-", "").replace("_", "")
        named = [cls for cls in ALL if cls.__name__.lower() == wanted]
        if not named:
            raise MethodError(
                f"there is no method {method!r}.", hint=f"there are {', '.join(cls.__name__ for cls in ALL)}."
            )
        method = named[0]
    made: Method = instance_of(method, Method, "method", MethodError, "method=methods.Wachter(lam=0.1)")
    return made


def fitted_to(problem: Problem, method: Method | type[Method] | str | None) -> Method:
    """A method fitted to a problem: the one asked for, by itself, its class or its name, or else the one chosen."""
    return choose(problem) if method is None else as_method(method).fit(problem)


def find(
    model: Any,
    people: Any,
    *,
    schema: Schema | None = None,
    background: Any = None,
    labels: Any = None,
    cost: Cost | None = None,
    rules: Rule | Iterable[Rule] = (),
    threshold: float | None = None,
    target: Any = None,
    target_range: tuple[float | None, float | None] | None = None,
    method: Method | type[Method] | str | None = None,
    options: int = 1,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
    landing: Landing | float | None = None,
    query_limit: int | None = None,
    unseen_levels: UnseenLevels | None = None,
    limits: Any = None,
) -> Recourse:
    """Recourse in one call: wrap the model, pose the problem, pick a method, find.

    Parameters
    ----------
    model : a fitted classifier, pipeline, network or function, or one already wrapped.
    people : the table of those who ask.
    schema : what values exist; drafted from the background (or else from the people) when None. A warning names what
        may move then: review it before anyone reads the plans.
    method : which method to use, or its name; chosen by what the model offers when None.

    The other arguments are those of `turnabout.models.wrap`, `Problem` and `Method.find`.
    """
    method = None if method is None else as_method(method)
    if schema is None and isinstance(model, Model):
        schema = model.schema
    elif schema is None:
        table = people if background is None else background
        schema = Schema.infer(table, labels=None if background is None else labels)
        warnings.warn(
            f"the schema was drafted from {len(as_frame(table))} rows: plans may change {schema.what_moves()}. "
            "Hint: review Schema.infer(table).summary() and its notes, and pass schema=.",
            stacklevel=2,
        )
    if not isinstance(model, Model):
        model = wrap(
            model,
            schema,
            threshold=threshold,
            target=target,
            target_range=target_range,
            background=background,
            unseen_levels=unseen_levels,
        )
    elif unseen_levels is not None:
        raise MethodError("the model is wrapped already.", hint="give unseen_levels= to wrap.")
    elif threshold is not None or target is not None or target_range is not None:
        raise MethodError("the model is wrapped already, with its own cut-off.", hint="give the cut-off to wrap.")
    problem = Problem(schema, model, cost=cost, rules=rules, background=background, labels=labels)
    return fitted_to(problem, method).find(
        people,
        options=options,
        seed=seed,
        time_limit=time_limit,
        progress=progress,
        landing=landing,
        query_limit=query_limit,
        limits=limits,
    )
