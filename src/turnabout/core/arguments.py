"""What people type, as what is meant: one rule without a list, a class without brackets, a name, True for a bar.

Where the meaning is plain it is taken; where it is not, the error says what to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from turnabout.core.landing_targets import Landing, Mirror, Probability
from turnabout.costs import Cost, Effort
from turnabout.errors import MethodError, ProblemError, TurnaboutError, also
from turnabout.progress_bar import Bar
from turnabout.rules import Rule
from turnabout.typing import Progress, is_number


def instance_of(value: Any, kind: type[Any], what: str, error: type[TurnaboutError], example: str) -> Any:
    """A value of a kind: itself, or a class of that kind that can be made without arguments, made."""
    hint = f"write {example}."
    if isinstance(value, kind):
        return value
    if isinstance(value, type) and issubclass(value, kind) and not inspect.isabstract(value):
        try:
            return value()
        except TypeError:
            raise error(f"{what}={value.__name__} is a class that cannot be made without arguments.", hint) from None
    shown = repr(value) if len(repr(value)) <= 80 else f"a {type(value).__name__}"
    raise also(error, TypeError)(f"{what}={shown} is not a {kind.__name__}.", hint)


def as_rules(rules: Any) -> tuple[Rule, ...]:
    """Rules from a rule, several of them, or nothing."""
    if rules is None:
        return ()
    if isinstance(rules, (Rule, type)) or not isinstance(rules, Iterable) or isinstance(rules, (str, bytes, Mapping)):
        rules = (rules,)
    example = "rules=[rules.AtMost(3), rules.Ordered('a', 'b')]; rules.from_dict reads one from a file"
    return tuple(instance_of(rule, Rule, "rules", ProblemError, example) for rule in rules)


def as_cost(cost: Any) -> Cost:
    """A cost from a cost, the class or name of one that needs nothing more, or nothing."""
    if cost is None:
        return Effort()
    if isinstance(cost, str):
        by_name = {name.lower(): kind for name, kind in Cost.KINDS.items()}
        cost = by_name.get(cost.lower(), cost)
    made: Cost = instance_of(cost, Cost, "cost", ProblemError, "cost=costs.L1(difficulty={'income': 2.0})")
    return made


def as_landing(landing: Any) -> Landing | None:
    """A landing from a landing, the class of one, a probability, "mirror", or nothing."""
    if landing is None:
        return None
    if isinstance(landing, str) and landing.lower() == "mirror":
        return Mirror()
    if is_number(landing):
        return Probability(float(landing))
    example = "landing=landing.Probability(0.7), Mirror() or Profit()"
    made: Landing = instance_of(landing, Landing, "landing", MethodError, example)
    return made


def as_progress(progress: Any, what: str = "finding recourse") -> Progress | None:
    """A function of (done, total); True stands for a bar that says what goes on."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return Bar(what)
    if callable(progress) and not isinstance(progress, type):
        called: Progress = progress
        return called
    hint = "write progress=True for a bar, or a function of (done, total)."
    raise also(MethodError, TypeError)(f"progress={progress!r} cannot be called.", hint)


def as_device(device: Any) -> str:
    """The name of a device that there is."""
    try:
        name = str(torch.device(device))
        torch.empty(0, device=name)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        hint = "use device='cpu', or 'cuda' on a machine with a GPU."
        raise MethodError(f"device={device!r} cannot be used here: {reason}", hint) from None
    return name
