"""One thing a person may do: what it changes, what it costs, when it is possible, how long it takes."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from turnabout.actions.action_text import read_conditions, read_expression, read_price
from turnabout.actions.effects import Effect, Scale, Set, Shift, read_effect
from turnabout.actions.expressions import Condition, Expression, as_expression
from turnabout.actions.numbers import checked, plain
from turnabout.actions.prices import Price, Priced, as_price
from turnabout.documents import shown
from turnabout.errors import ActionError
from turnabout.typing import Json, Tensor, as_tuple

Map = Callable[[Tensor, Tensor], Tensor]
Reading = Callable[[Tensor, Tensor, Tensor], Tensor]
Start = Callable[[Tensor, torch.Generator], Tensor]
Terms = Condition | str | tuple[Condition, ...]


@dataclass(frozen=True)
class Parameter:
    """How much of an action a person chooses to do: its name, limits and unit of measure."""

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ActionError(f"a parameter is named {self.name!r}.", hint="every parameter needs a name.")
        if not isinstance(self.unit, str):
            raise ActionError(f"the parameter '{self.name}' has the unit {self.unit!r}.", hint="give a text.")
        for side in ("low", "high"):
            if (value := getattr(self, side)) is not None:
                object.__setattr__(self, side, checked(value, f"{side} of the parameter '{self.name}'"))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ActionError(
                f"the parameter '{self.name}' has low={self.low:g} above high={self.high:g}.", hint="swap them."
            )

    def to_dict(self) -> Json:
        """Every field that says something."""
        out: Json = {"name": self.name}
        out |= {side: plain(value) for side in ("low", "high") if (value := getattr(self, side)) is not None}
        return out | ({"unit": self.unit} if self.unit else {})


@dataclass(frozen=True)
class FreeForm:
    """The functions of a free-form action, over encoded people; see Action.free."""

    effect: Map
    cost: Reading
    precondition: Reading | None
    footprint: tuple[str, ...]
    reads: tuple[str, ...] | None
    start: Start | None
    project: Map | None = None


@dataclass(frozen=True, eq=False, init=False)
class Action:
    """One thing a person may do.

        Action("AddEducation", effect=[Shift("education", by="years"), Follow("age", "education", times=2)],
               cost=Absolute("education"), precondition=[new("education") > old("education")],
               duration=2 * (new("education") - old("education")))

    Everything is read in the person's units and on the printed row: the values before the step and after it.

    Parameters
    ----------
    name : how the action is called in plans; different for every action of a set.
    effect : what it changes, one effect per feature.
    cost : a number, Absolute, Squared or Constant, joined by +; or its text, "|age| / 10 + 5".
    precondition : what must hold, of the row before and after: comparisons of old(...) and new(...), or their texts.
    duration : a number or a sum of old(...) and new(...), in the time unit of the set; or its text.
    parameters : limits and units of what the effects leave open; those not listed have none.
    repeatable : whether a plan may hold the action more than once.
    label : the sentence of a letter, with parameters in braces: "study for {years} more years".
    """

    name: str
    effect: tuple[Effect, ...]
    cost: Price
    precondition: tuple[Condition, ...]
    duration: Expression
    parameters: tuple[Parameter, ...]
    repeatable: bool = False
    label: str = ""
    form: FreeForm | None = field(default=None, repr=False)

    def __init__(
        self,
        name: str,
        effect: Effect | Sequence[Effect | Mapping[str, Any]],
        cost: Priced | float | str,
        precondition: Terms | Iterable[Terms] = (),
        duration: Expression | float | str = 0.0,
        parameters: Iterable[Parameter] = (),
        repeatable: bool = False,
        label: str = "",
        *,
        form: FreeForm | None = None,
    ):
        if not isinstance(name, str) or not name.strip():
            raise ActionError(f"an action is named {name!r}.", hint="every action needs a name.")
        effects = (effect,) if isinstance(effect, (Effect, Mapping)) else as_tuple(effect)
        if effects is None:
            raise ActionError(
                f"the action '{name}' has effect={shown(effect)}.", hint="write effect=Shift(...), or a list."
            )
        if form is not None and not isinstance(form, FreeForm):
            raise ActionError(f"the action '{name}' has form={shown(form)}.", hint="write Action.free(...).")
        fields: dict[str, Any] = {
            "name": name,
            "effect": tuple(read_effect(entry, name) for entry in effects),
            "cost": read_price(cost) if isinstance(cost, str) else as_price(cost),
            "precondition": _conditions(precondition, name),
            "duration": read_expression(duration) if isinstance(duration, str) else as_expression(duration),
            "parameters": _parameters(parameters, name),
            "repeatable": repeatable,
            "label": label,
            "form": form,
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        if not isinstance(repeatable, bool) or not isinstance(label, str):
            raise ActionError(
                f"the action '{name}' has repeatable={repeatable!r} and label={label!r}.",
                hint="repeatable is true or false, label is a text.",
            )
        if form is None:
            self._check_effects()
            object.__setattr__(self, "parameters", self._all_parameters())
        self._check_label()

    @classmethod
    def free(
        cls,
        name: str,
        parameters: Iterable[Parameter],
        effect: Map,
        cost: Reading,
        precondition: Reading | None = None,
        footprint: Iterable[str] = (),
        duration: Expression | float | str = 0.0,
        repeatable: bool = False,
        start: Start | None = None,
        reads: Iterable[str] | None = None,
        label: str = "",
        project: Map | None = None,
    ) -> Action:
        """An action written as differentiable functions of encoded people x (n, d) and parameters r (n, P).

        effect : (x, r) -> x_new (n, d); only the columns of the footprint may differ.
        cost : (x, x_new, r) -> (n,), at least 0.
        precondition : (x, x_new, r) -> (n, c), every column at least 0 where the step is allowed.
        footprint : the features it changes. reads : those it looks at; all of them when None.
        start : (x, generator) -> (n, P), where a search may begin; between the limits of the parameters when None.
        project : (x, r) -> r, the nearest parameters at which the precondition holds, if that is easily said.
        """
        named = _parameters(parameters, name)
        if twice := [p.name for i, p in enumerate(named) if p.name in [q.name for q in named[:i]]]:
            raise ActionError(f"the action '{name}' has two parameters '{twice[0]}'.", hint="name them differently.")
        touched = (footprint,) if isinstance(footprint, str) else as_tuple(footprint)
        if not touched:
            raise ActionError(f"the free-form action '{name}' has no footprint.", hint="name the features it changes.")
        functions = {"effect": effect, "cost": cost, "precondition": precondition, "start": start, "project": project}
        for what, function in functions.items():
            if not (callable(function) or (function is None and what not in ("effect", "cost"))):
                raise ActionError(f"{what} of the free-form action '{name}' is {function!r}.", hint="give a function.")
        form = FreeForm(effect, cost, precondition, touched, None if reads is None else tuple(reads), start, project)
        return cls(name, (), 0.0, (), duration, named, repeatable, label, form=form)

    # -- what it touches --------------------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether it is written as functions rather than declared."""
        return self.form is not None

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the features it changes."""
        return self.form.footprint if self.form is not None else tuple(effect.feature for effect in self.effect)

    @property
    def reads(self) -> tuple[str, ...] | None:
        """Names of the features whose values before the step matter, besides its own; None for all of them."""
        if self.form is not None:
            return self.form.reads
        names = [name for effect in self.effect for name in effect.reads]
        names += [name for condition in self.precondition for name in condition.features()]
        names += self.duration.features()
        return tuple(dict.fromkeys(names))

    def parameter_of(self, effect: Effect) -> str | None:
        """The parameter that an effect uses, or None."""
        if isinstance(effect, Set):
            return effect.to if isinstance(effect.to, str) and effect.to in self._names() else None
        return effect.parameter

    def sentence(self, parameters: Mapping[str, float]) -> str:
        """The label with the parameters of a step in place of their names."""
        out = ""
        for text, name, _, _ in string.Formatter().parse(self.label):
            out += text + ("" if name is None else f"{parameters[name]:.6g}")
        return out

    # -- checks -----------------------------------------------------------------------------------------------

    def _check_effects(self) -> None:
        if not self.effect:
            raise ActionError(f"the action '{self.name}' has no effect.", hint="give Shift, Set, Scale, ...")
        names = [effect.feature for effect in self.effect]
        if twice := [n for i, n in enumerate(names) if n in names[:i]]:
            raise ActionError(
                f"the action '{self.name}' changes '{twice[0]}' twice.", hint="join both into one effect."
            )
        if twice := [n for i, n in enumerate(self._names()) if n in self._names()[:i]]:
            raise ActionError(f"the action '{self.name}' declares '{twice[0]}' twice.", hint="once is enough.")
        used = {n for effect in self.effect if (n := self.parameter_of(effect)) is not None}
        if idle := [n for n in self._names() if n not in used]:
            raise ActionError(
                f"the action '{self.name}' declares the parameter '{idle[0]}', which no effect uses.",
                hint="name it in Shift(..., by=...), Scale(..., by=...) or Set(..., to=...).",
            )
        scaled = {effect.by for effect in self.effect if isinstance(effect, Scale)}
        for effect in self.effect:
            if isinstance(effect, (Shift, Set)) and (name := self.parameter_of(effect)) and name in scaled:
                raise ActionError(
                    f"in the action '{self.name}' the parameter '{name}' is both a factor and an amount.",
                    hint="use two parameters.",
                )
        for term in self.cost.terms:
            if (priced := getattr(term, "feature", None)) is not None and priced not in names:
                raise ActionError(
                    f"the action '{self.name}' prices a change of '{priced}', which it does not change.",
                    hint=f"it changes {', '.join(names)}.",
                )

    def _check_label(self) -> None:
        try:
            asked = [part[1] for part in string.Formatter().parse(self.label) if part[1] is not None]
        except ValueError as error:
            raise ActionError(
                f"the label {self.label!r} of '{self.name}' cannot be read: {error}.", hint="write {years} or {{ }}."
            ) from None
        if unknown := [name for name in asked if name not in self._names()]:
            raise ActionError(
                f"the label of '{self.name}' asks for {{{unknown[0]}}}, which is not a parameter.",
                hint=f"its parameters are {', '.join(self._names()) or 'none'}.",
            )

    def _names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    def _all_parameters(self) -> tuple[Parameter, ...]:
        """Declared and derived ones, in the order in which the effects use them."""
        declared = {parameter.name: parameter for parameter in self.parameters}
        used = [name for effect in self.effect if (name := self.parameter_of(effect)) is not None]
        return tuple(declared.get(name) or Parameter(name) for name in dict.fromkeys(used))

    # -- plain values -----------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Plain values; conditions, costs and expressions as texts."""
        if self.form is not None:
            raise ActionError(
                f"the free-form action '{self.name}' cannot be written to a file.", hint="keep it in Python."
            )
        out: Json = {"name": self.name, "effect": [effect.to_dict() for effect in self.effect]}
        constant = all(getattr(term, "feature", None) is None for term in self.cost.terms)
        out["cost"] = plain(self.cost.constant) if constant and len(self.cost.terms) == 1 else str(self.cost)
        if self.precondition:
            out["precondition"] = [str(condition) for condition in self.precondition]
        if not self.duration.same_as(Expression()):
            is_number = self.duration.is_constant
            out["duration"] = plain(self.duration.constant) if is_number else str(self.duration)
        needed = {e.to for e in self.effect if isinstance(e, Set) and self.parameter_of(e)}
        if said := [p.to_dict() for p in self.parameters if p != Parameter(p.name) or p.name in needed]:
            out["parameters"] = said
        if self.repeatable:
            out["repeatable"] = True
        return out | ({"label": self.label} if self.label else {})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Action):
            return NotImplemented
        return self._key() == other._key() and self.duration.same_as(other.duration)

    def __hash__(self) -> int:
        return hash(self.name)

    def _key(self) -> tuple[Any, ...]:
        return (
            *(self.name, self.effect, self.cost, self.precondition),
            *(self.parameters, self.repeatable, self.label, self.form),
        )


def _parameters(given: object, action: str) -> tuple[Parameter, ...]:
    """Parameters as a tuple; one may come without a list."""
    listed = (given,) if isinstance(given, Parameter) else as_tuple(given)
    hint = 'write [Parameter("years", low=1), ...].'
    if listed is None:
        raise ActionError(f"the action '{action}' has parameters={shown(given)}.", hint=hint)
    if odd := [entry for entry in listed if not isinstance(entry, Parameter)]:
        raise ActionError(f"the action '{action}' has the parameter {shown(odd[0])}.", hint=hint)
    return listed


def _conditions(given: Terms | Iterable[Terms], action: str) -> tuple[Condition, ...]:
    """Conditions, texts and what `between` gives, as one flat tuple."""
    out: list[Condition] = []
    entries = (given,) if isinstance(given, (Condition, str)) else as_tuple(given)
    for entry in (given,) if entries is None else entries:
        if isinstance(entry, Condition):
            out.append(entry)
        elif isinstance(entry, str):
            out += read_conditions(entry)
        elif isinstance(entry, (tuple, list)):
            out += _conditions(entry, action)
        else:
            raise ActionError(
                f"the action '{action}' has the condition {entry!r}.",
                hint='compare old("...") or new("...") with something, or write its text.',
            )
    return tuple(out)
