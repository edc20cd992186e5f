"""Declared actions read against a schema: names, levels and limits are looked up, and lines written."""

from __future__ import annotations

from turnabout.actions.action import Action
from turnabout.actions.effects import Effect, Follow, KeepRatio, Scale, Set, Shift
from turnabout.actions.expressions import Condition, Expression, When
from turnabout.actions.lines import ActionLine, Row
from turnabout.actions.numbers import brief
from turnabout.actions.prices import Absolute, Squared
from turnabout.errors import ActionError
from turnabout.schema import Category, Feature, Number, Scalar, Schema
from turnabout.typing import Level

GRID_NOISE = 1e-6  # share of a grid step within which a number lies on the grid, as the schema has it


class Compiler:
    """Writes the lines of one schema's actions."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.start = {name: s.start for name, s in zip(schema.names, schema.slices, strict=True)}

    # -- names ------------------------------------------------------------------------------------------------

    def feature(self, name: str, action: Action) -> Feature:
        if name not in self.start:
            raise ActionError(
                f"the action '{action.name}' names the feature '{name}', which the schema does not have.",
                hint=f"its features are {', '.join(self.schema.names)}.",
            )
        return self.schema[name]

    def scalar(self, name: str, action: Action, doing: str) -> tuple[Scalar, int]:
        """A feature of one column, and that column."""
        feature = self.feature(name, action)
        if not isinstance(feature, Scalar):
            raise ActionError(
                f"the action '{action.name}' {doing} the category '{name}', whose levels have no order.",
                hint='use Set("f", "level"), old("f") == "level" and a constant cost.',
            )
        return feature, self.start[name]

    def number(self, name: str, action: Action, doing: str) -> tuple[Number, int]:
        feature, column = self.scalar(name, action, doing)
        if not isinstance(feature, Number):
            raise ActionError(
                f"the action '{action.name}' {doing} '{name}', which is not a Number.",
                hint="ratios need numbers; shift or set the levels of an ordinal.",
            )
        return feature, column

    def level(self, feature: Feature, level: Level, action: Action) -> int:
        """Position of a level."""
        levels: tuple[Level, ...] = getattr(feature, "levels", ())
        if level not in levels:
            extra = f" or declare Parameter({level!r})" if isinstance(feature, Scalar) else ""
            shown = f"one of {list(levels)}" if levels else "a number"
            raise ActionError(
                f"the action '{action.name}' names {level!r} as a value of '{feature.name}', which is not {shown}.",
                hint=f"levels are written as in the schema{extra}.",
            )
        return levels.index(level)

    # -- one action -------------------------------------------------------------------------------------------

    def line(self, action: Action) -> ActionLine:
        """The line of an action; refuses what the schema does not have or allow. A free-form one only takes time."""
        line = ActionLine(action)
        for name in action.writes:
            if self.feature(name, action).moves == "fixed":
                raise ActionError(
                    f"the action '{action.name}' changes '{name}', which the schema holds fixed.",
                    hint=f"leave the effect out, or declare '{name}' with another moves.",
                )
        self._duration(line)
        if action.is_free:
            for name in action.reads or ():
                self.feature(name, action)
            return line
        place = {parameter.name: p for p, parameter in enumerate(action.parameters)}
        for effect in action.effect:
            self._effect(line, effect, place)
        for effect in action.effect:
            if isinstance(effect, Follow):
                self._follow(line, effect, seen=())
        for effect in action.effect:
            if isinstance(effect, KeepRatio):
                self._keep_ratio(line, effect)
        self._price(line)
        for condition in action.precondition:
            line.rows += self.rows(condition, action)
        self._signs(line)
        self._present(line)
        return line

    def _effect(self, line: ActionLine, effect: Effect, place: dict[str, int]) -> None:
        action = line.action
        if isinstance(effect, Shift):
            _, column = self.scalar(effect.feature, action, "shifts")
            line.keep[column] = 1.0
            if isinstance(effect.by, str):
                line.gain[place[effect.by], column] = effect.times
            elif effect.by is not None:
                line.add[column] = effect.by * effect.times
        elif isinstance(effect, Scale):
            self._scale(line, effect, place)
        elif isinstance(effect, Set):
            self._set(line, effect, place)

    def _scale(self, line: ActionLine, effect: Scale, place: dict[str, int]) -> None:
        feature, column = self.number(effect.feature, line.action, "multiplies")
        if not isinstance(effect.by, str):
            assert effect.by is not None
            line.keep[column] = effect.by
            return
        self._one_sign(feature, line.action, "multiplies it by a chosen factor")
        p = place[effect.by]
        line.keep[column] = 1.0
        if p in line.factors:  # keeps its ratio to the first one that the factor multiplies
            line.leader[column] = line.factors[p]
            return
        line.factors[p] = column
        line.gain[p, column] = 1.0
        parameter, sign = line.action.parameters[p], 1.0 if feature.high > 0 else -1.0
        old, new = f"old {feature.name}", f"new {feature.name}"
        if parameter.low is not None:
            text = f"{new} at least {brief(parameter.low)} times {old}"
            line.rows.append(Row({column: -sign * parameter.low}, {column: sign}, 0.0, False, text))
        if parameter.high is not None:
            text = f"{new} at most {brief(parameter.high)} times {old}"
            line.rows.append(Row({column: sign * parameter.high}, {column: -sign}, 0.0, False, text))

    def _set(self, line: ActionLine, effect: Set, place: dict[str, int]) -> None:
        action, feature, column = line.action, self.feature(effect.feature, line.action), self.start[effect.feature]
        name = action.parameter_of(effect)
        if isinstance(feature, Category):
            if name is not None:
                raise ActionError(
                    f"the action '{action.name}' sets the category '{feature.name}' to the parameter '{name}'.",
                    hint="set a category to one of its levels; write one action per level.",
                )
            chosen = self.level(feature, effect.to, action)
            for k in range(len(feature.levels)):
                line.keep[column + k] = 0.0
                line.add[column + k] = float(k == chosen)
            return
        line.keep[column] = 0.0
        if name is not None:
            line.gain[place[name], column] = 1.0
        elif isinstance(feature, Number):
            line.add[column] = self._legal(feature, effect.to, action)
        else:
            line.add[column] = float(self.level(feature, effect.to, action))

    def _legal(self, feature: Number, to: Level, action: Action) -> float:
        """A number that a printed row may hold."""
        if isinstance(to, (str, bool)):
            self.level(feature, to, action)
        value = float(to)
        slack = GRID_NOISE * feature.unit_step
        if not feature.low - slack <= value <= feature.high + slack:
            raise ActionError(
                f"the action '{action.name}' sets '{feature.name}' to {brief(value)}, outside "
                f"[{brief(feature.low)}, {brief(feature.high)}].",
                hint="widen the bounds of the feature, or set a value inside.",
            )
        steps = value / feature.unit_step
        if abs(steps - round(steps)) > GRID_NOISE + 1e-15 * abs(steps):
            raise ActionError(
                f"the action '{action.name}' sets '{feature.name}' to {brief(value)}, which is not a multiple of "
                f"{brief(feature.unit_step)}.",
                hint="set a value that the feature's step allows.",
            )
        return value

    def _follow(self, line: ActionLine, effect: Follow, seen: tuple[str, ...]) -> None:
        """x' = x + times (change of the leader): the leader's gain and constant shift, times `times`."""
        _, column = self.scalar(effect.feature, line.action, "shifts")
        if column in line.keep:
            return
        if effect.feature in seen:
            raise ActionError(
                f"in the action '{line.action.name}' the features {', '.join(seen)} follow each other in a circle.",
                hint="one of them must be shifted.",
            )
        first = next((e for e in line.action.effect if e.feature == effect.leader), None)
        if isinstance(first, Follow):
            self._follow(line, first, (*seen, effect.feature))
        leader = self.start.get(effect.leader, -1)
        moved = line.keep.get(leader) == 1.0 and leader not in line.leader
        if not moved or isinstance(first, KeepRatio):
            raise ActionError(
                f"in the action '{line.action.name}' '{effect.feature}' follows '{effect.leader}', which is not "
                "shifted by it.",
                hint=f'add Shift("{effect.leader}", by=...) to its effects.',
            )
        line.keep[column] = 1.0
        if leader in line.add:
            line.add[column] = effect.times * line.add[leader]
        for (p, j), gain in list(line.gain.items()):
            if j == leader:
                line.gain[p, column] = effect.times * gain

    def _keep_ratio(self, line: ActionLine, effect: KeepRatio) -> None:
        """Led by the column at the start of the chain of ratios, which the action changes itself."""
        action = line.action
        _, column = self.number(effect.feature, action, "keeps the ratio of")
        ratios = {e.feature: e.leader for e in action.effect if isinstance(e, KeepRatio)}
        root, seen = effect.leader, [effect.feature]
        while root in ratios and root not in seen:
            seen.append(root)
            root = ratios[root]
        if root not in action.writes or root in ratios:
            raise ActionError(
                f"in the action '{action.name}' '{effect.feature}' keeps its ratio to '{effect.leader}', which the "
                "action does not change.",
                hint=f'add Shift("{root}", by=...) or another effect on it.',
            )
        feature, leader = self.number(root, action, "keeps a ratio to")
        self._one_sign(feature, action, "keeps a ratio to it")
        line.keep[column] = 1.0
        line.leader[column] = line.leader.get(leader, leader)

    def _price(self, line: ActionLine) -> None:
        line.constant = line.action.cost.constant
        for term in line.action.cost.terms:
            if not isinstance(term, (Absolute, Squared)):
                continue
            _, column = self.scalar(term.feature, line.action, "prices the change of")
            if term.relative:
                number, _ = self.number(term.feature, line.action, "prices the relative change of")
                self._one_sign(number, line.action, "prices its relative change")
            kind = ("absolute" if isinstance(term, Absolute) else "squared") + ("_relative" if term.relative else "")
            of_kind = line.prices.setdefault(kind, {})
            of_kind[column] = of_kind.get(column, 0.0) + term.factor

    def _duration(self, line: ActionLine) -> None:
        line.takes = line.action.duration.constant
        line.takes_old = self._weights(line.action.duration, "old", line.action)
        line.takes_new = self._weights(line.action.duration, "new", line.action)

    def _weights(self, expression: Expression, when: When, action: Action) -> dict[int, float]:
        return {
            self.scalar(name, action, "counts with")[1]: weight for w, name, weight in expression.terms if w == when
        }

    # -- conditions -------------------------------------------------------------------------------------------

    def rows(self, condition: Condition, action: Action) -> list[Row]:
        """A declared condition as inequalities."""
        text = str(condition)
        if isinstance(condition.right, Expression):
            return self._compare(condition.left - condition.right, condition, action, text)
        single = condition.left.single
        assert single is not None
        feature = self.feature(single[1], action)
        if isinstance(feature, Number):
            if isinstance(condition.right, (str, bool)) or condition.sense == "is not":
                raise ActionError(
                    f"the action '{action.name}' asks for '{text}', but '{feature.name}' is a number.",
                    hint="compare numbers with <, <=, > or >= and a number.",
                )
            return self._compare(condition.left - condition.right, condition, action, text)
        k, column = self.level(feature, condition.right, action), self.start[feature.name]

        def row(weights: dict[int, float], offset: float) -> Row:
            old = single[0] == "old"
            return Row(weights if old else {}, {} if old else weights, offset, False, text)

        if isinstance(feature, Category):
            if condition.sense not in ("is", "is not"):
                raise ActionError(
                    f"the action '{action.name}' asks for '{text}', but the levels of '{feature.name}' have no order.",
                    hint="use == or !=, or declare the feature as Ordinal.",
                )
            sign = 1.0 if condition.sense == "is" else -1.0
            return [row({column + k: sign}, -0.5 * sign)]
        at_least = {"is": k, ">=": k, ">": k + 1}.get(condition.sense)
        at_most = {"is": k, "<=": k, "<": k - 1}.get(condition.sense)
        if condition.sense == "is not":
            last = len(getattr(feature, "levels", ())) - 1
            if k not in (0, last):
                raise ActionError(
                    f"the action '{action.name}' asks for '{text}', but '{feature.name}' has levels on both sides.",
                    hint="use < or >, in two actions if both sides are meant.",
                )
            at_least, at_most = (1, None) if k == 0 else (None, last - 1)
        out = [] if at_least is None else [row({column: 1.0}, 0.5 - at_least)]
        return out + ([] if at_most is None else [row({column: -1.0}, at_most + 0.5)])

    def _compare(self, gap: Expression, condition: Condition, action: Action, text: str) -> list[Row]:
        """gap = left - right, compared with zero."""
        if gap.is_constant:
            raise ActionError(
                f"the condition '{text}' of the action '{action.name}' compares a value with itself.",
                hint='compare new("f") with old("f"), or with a number.',
            )
        out = []
        for sign in {">": (1.0,), ">=": (1.0,), "<": (-1.0,), "<=": (-1.0,), "is": (1.0, -1.0)}[condition.sense]:
            side = gap * sign
            old, new = self._weights(side, "old", action), self._weights(side, "new", action)
            out.append(Row(old, new, side.constant, condition.sense in ("<", ">"), text))
        return out

    # -- conditions that go without saying --------------------------------------------------------------------

    def _one_sign(self, feature: Number, action: Action, because: str) -> None:
        if feature.low < 0 < feature.high or feature.low == feature.high == 0:
            raise ActionError(
                f"the action '{action.name}' {because}, but '{feature.name}' goes from {brief(feature.low)} to "
                f"{brief(feature.high)} and a ratio needs values of one sign.",
                hint="shift it, price the plain change, or narrow the bounds of the feature.",
            )

    def _signs(self, line: ActionLine) -> None:
        """Old values that something is divided by must not be zero, nor of the other sign than their range."""
        divided = {*line.leader.values(), *line.factors.values()}
        divided |= {j for kind, of in line.prices.items() if kind.endswith("relative") for j in of}
        for column in sorted(divided):
            feature = self.schema.features[int(self.schema.feature_of[column])]
            assert isinstance(feature, Number)
            sign = 1.0 if feature.high > 0 else -1.0
            if not any(_implies_sign(row, column, sign) for row in line.rows):
                text = f"old {feature.name} {'>' if sign > 0 else '<'} 0"
                line.rows.append(Row({column: sign}, {}, 0.0, True, text))

    def _present(self, line: ActionLine) -> None:
        """Nothing is known of a missing cell: what reads or writes it is not allowed."""
        action = line.action
        for name in dict.fromkeys((*action.writes, *(action.reads or ()))):
            if self.feature(name, action).missing:
                column = self.schema.slices[self.schema.index(name)].stop - 1
                line.rows.append(Row({column: -1.0}, {}, 0.5, False, f"{name} is not missing"))


def _implies_sign(row: Row, column: int, sign: float) -> bool:
    """Whether a condition alone says that the old value is of this sign."""
    if set(row.of_old) != {column} or row.of_new:
        return False
    weight = row.of_old[column] * sign
    return weight > 0 and (row.offset < 0 or (row.offset == 0 and row.strict))
