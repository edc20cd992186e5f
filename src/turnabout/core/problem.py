"""The question: a schema, a model, a cost and rules, bound together once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.actions import Action, ActionSet, BoundActions
from turnabout.core.arguments import as_cost, as_rules
from turnabout.core.asking import Unanswered, ask_patiently
from turnabout.costs import BoundCost, Cost
from turnabout.errors import ProblemError, also
from turnabout.models import Model
from turnabout.models.favourable import check_labels, some_of_each
from turnabout.models.filled import filled
from turnabout.rules import BoundRule, DerivedDirections, KnownLevels, Rule
from turnabout.schema import Feature, Schema, as_frame
from turnabout.typing import Tensor

RESERVED = ("person", "option", "cost", "margin")  # columns of an answer
SLICE = 1 << 18  # rows asked of the model in one call
RULE_ROUNDS = 4
FILLED = 1e-9  # encoded difference within which a person's own row is what formulas say
HOLDS = 0.5  # share of the background for which an identity must hold, to be one
COMPANY = 17  # rows of a batch in which a row counts as among others


class Problem:
    """A question of recourse: who may do what, what it costs, and who decides.

    Parameters
    ----------
    schema : what values exist and which way each may move.
    model : the decision maker, from `turnabout.models.wrap`.
    cost : what a change costs; L1 on [0, 1]-scaled features by default.
    rules : constraints that join columns.
    background : a table of ordinary people (the training rows), for methods and costs that need one.
    labels : True where a background person was really accepted, in the same order. Where they contradict the class
        that the model was taken to mean by a yes, the question is refused; where target= said it, that is warned of.
    actions : what people may do step by step, for methods that answer with plans; others do not look at them.
    """

    limits: str = ""
    """What holds of the people asked about beyond the schema, in words."""
    added_rules: tuple[Rule, ...] = ()
    """Rules beyond the declared ones that hold of these people."""

    def __init__(
        self,
        schema: Schema,
        model: Model,
        cost: Cost | None = None,
        rules: Rule | Iterable[Rule] = (),
        background: Any = None,
        labels: Any = None,
        actions: ActionSet | None = None,
    ):
        if not isinstance(schema, Schema):
            raise also(ProblemError, TypeError)(
                f"{type(schema).__name__} is not a Schema.", hint="Schema.infer(table) drafts one."
            )
        if not isinstance(model, Model):
            raise also(ProblemError, TypeError)(
                f"{type(model).__name__} is not a wrapped model.", hint="use turnabout.models.wrap(model, schema)."
            )
        if not model.schema.encodes_like(schema):
            raise ProblemError("the model was wrapped with another schema.", hint="wrap it with the problem's schema.")
        if taken := [name for name in schema.names if name in RESERVED]:
            raise ProblemError(
                f"a feature is named '{taken[0]}', a name that answers use for themselves.", hint="rename the column."
            )
        self.declared_cost = as_cost(cost)
        self.declared_rules = as_rules(rules)
        schema = schema.with_derived([name for rule in self.declared_rules for name in rule.derived])
        self.schema = self.declared_schema = schema  # the latter stays as the question was put, before limits and reach
        self.model = filled(model, schema)
        self.background = None if background is None else as_frame(background).reset_index(drop=True)
        self.labels = self._read_labels(labels)
        self.background_x = self._read_background()
        self._check_labels()
        self._check_identities()
        self.cost: BoundCost = self.declared_cost.bind(schema, self.background_x)
        self.rules: tuple[BoundRule, ...] = self._bound(schema)
        self.declared_actions, self.actions = self._read_actions(actions)

    def __repr__(self) -> str:
        rows = "" if self.background is None else f", background of {len(self.background)} rows"
        rules = "".join(f", {rule.name}" for rule in self.rules)
        rules += "" if self.actions is None else f", {len(self.actions)} actions"
        return f"Problem({len(self.schema)} features, {self.model!r}, cost={self.declared_cost!r}{rules}{rows})"

    def _read_actions(self, actions: Any) -> tuple[ActionSet | None, BoundActions | None]:
        if actions is None:
            return None, None
        if isinstance(actions, BoundActions):
            if actions.schema != self.schema:
                raise ProblemError(
                    "the actions were bound to another schema.", hint="pass the ActionSet itself: Problem binds it."
                )
            actions = ActionSet(actions.actions, actions.time_unit)
        if isinstance(actions, Action) or (isinstance(actions, (list, tuple)) and actions):
            actions = ActionSet((actions,) if isinstance(actions, Action) else tuple(actions))
        if not isinstance(actions, ActionSet):
            raise also(ProblemError, TypeError)(
                f"actions={actions!r} is not an ActionSet.",
                hint="write actions=ActionSet([Action(...), ...]); ActionSet.draft(schema) drafts one.",
            )
        return actions, actions.bind(self.schema)

    def _read_background(self) -> Tensor | None:
        """The background encoded; its rows that cannot be read are left out, and their labels."""
        if self.background is None:
            return None
        reading = self.schema.read(self.background)
        lost = reading.lost | reading.unreadable.any(1)
        if lost.any():
            complaint = reading.complaint(int(lost.argmax()))
            if lost.all():
                raise ProblemError(
                    f"none of the {len(lost)} background rows can be read: {complaint.message}", hint=complaint.hint
                )
            warnings.warn(
                f"{int(lost.sum())} of {len(lost)} background rows cannot be read and are left out: "
                f"{complaint.message}",
                stacklevel=4,
            )
            kept = np.flatnonzero(~lost)
            self.background = reading.readable(self.background, kept)
            self.labels = None if self.labels is None else self.labels[torch.as_tensor(kept)]
        return reading.x[torch.as_tensor(~lost)]

    def _read_labels(self, labels: Any) -> Tensor | None:
        if labels is None:
            return None
        if self.background is None:
            raise ProblemError("labels came without a background table.", hint="pass background=... beside labels=...")
        values = np.asarray(labels if not isinstance(labels, pd.Series) else labels.to_numpy())
        if values.shape != (len(self.background),):
            raise ProblemError(
                f"there are {values.size} labels for {len(self.background)} background rows.",
                hint="labels stand in the order of the background rows.",
            )
        odd = [v for v in values.tolist() if pd.isna(v) or v not in (0, 1)]  # True == 1
        if odd:
            raise ProblemError(
                f"labels hold {odd[0]!r}; they say who was accepted.",
                hint="pass booleans without gaps, for example labels = y == 'good'.",
            )
        return torch.as_tensor(values.astype(bool))

    def _bound(self, schema: Schema) -> tuple[BoundRule, ...]:
        """The rules that hold whatever the method: those declared, those that model and schema bring, those added."""
        known: list[Rule] = [KnownLevels(self.model.unseen)] if self.model.unseen else []  # nobody is sent there
        if any(f.direction != "free" for f in schema.identities.derived):
            known.append(DerivedDirections())
        return tuple(rule.bind(schema) for rule in (*self.declared_rules, *known, *self.added_rules))

    def _check_labels(self) -> None:
        """Labels and what the model says about some people of the background must not contradict each other."""
        if self.labels is None or self.background is None:
            return
        accepted = self.labels.numpy()
        some = some_of_each(accepted)
        margin, _ = self.ask_original(self.background.iloc[some])
        check_labels(self.model, margin, accepted[some])

    def _check_identities(self) -> None:
        """What is declared as derived must be what the background holds."""
        if self.background is None:
            return
        for f in self.schema.identities.derived:
            kept = self.schema.identities.holds(self.schema.table(self.background), f)
            kept = kept[~np.isnan(kept)]
            share = float(kept.mean()) if len(kept) else 1.0
            said = f"'{f.name}' is declared as {f.formula}, which holds for {share:.1%} of {len(kept)} background rows"
            if share < HOLDS:
                raise ProblemError(
                    f"{said}.", hint="mend the formula, give it the decimals of the column, or declare a Number."
                )
            if share < 1:
                warnings.warn(f"{said}; in proposed rows it always does.", stacklevel=3)

    def on(self, device: str) -> Problem:
        """This problem with its tensors on a device; the same object where they are there already."""
        if device == "cpu":
            return self
        moved = copy.copy(self)
        moved.__dict__.pop("background_margin", None)
        moved.model = self.model.to(device)
        moved.background_x = None if self.background_x is None else self.background_x.to(device)
        moved.labels = None if self.labels is None else self.labels.to(device)
        moved.actions = None if self.actions is None else self.actions.to(device)
        return moved

    def decided_by(self, model: Model) -> Problem:
        """The same question put to another decision maker."""
        other = copy.copy(self)
        other.__dict__.pop("background_margin", None)
        other.model = filled(model, self.schema)
        return other

    def without(self, features: Iterable[int]) -> Problem:
        """The same question where nobody may change some features; refuses where a rule needs them to follow."""
        out = set(features)
        kept = enumerate(self.schema.features)
        fixed = [replace(f, moves="fixed") if i in out and f.moves != "fixed" else f for i, f in kept]  # type: ignore
        return self.under(fixed)

    def under(self, features: Iterable[Feature], rules: Iterable[Rule] = ()) -> Problem:
        """The same question with other directions, steps or reach of the features, and more rules."""
        other = copy.copy(self)
        other.added_rules = (*self.added_rules, *rules)
        other.schema = replace(self.schema, features=tuple(features))
        other.rules = other._bound(other.schema)
        if self.declared_actions is not None:
            other.actions = self._able(self.declared_actions, other.schema)
        return other

    def _able(self, actions: ActionSet, schema: Schema) -> BoundActions | None:
        """The actions that change nothing which is fixed for these people alone; None where there is none."""
        held = {f.name for f, g in zip(schema, self.declared_schema, strict=True) if f.moves == "fixed" != g.moves}
        able = tuple(action for action in actions.actions if not held & set(action.writes))
        return ActionSet(able, actions.time_unit).bind(schema) if able else None

    @cached_property
    def background_margin(self) -> Tensor | None:
        """(rows,) the model's margin on the background."""
        return None if self.background_x is None else self.margin(self.background_x)

    def margin(self, x: Tensor) -> Tensor:
        """(..., d) -> (...): the model's margin without gradients, -inf where it has none.

        Raises if the model answers nothing at all.
        """
        margin, unanswered = self.ask(x)
        return unanswered.check(margin)

    def ask(self, x: Tensor) -> tuple[Tensor, Unanswered]:
        """As `margin`, and the rows, of x flattened, on which the model failed."""
        flat = x.reshape(-1, x.shape[-1])
        out = torch.full_like(flat[:, 0], torch.nan)
        lost = Unanswered()

        def ask(start: int, stop: int) -> None:
            with torch.no_grad():
                out[start:stop] = self.model.margin(flat[start:stop]).to(out.dtype)

        for start in range(0, len(flat), SLICE):
            part = ask_patiently(ask, start, min(start + SLICE, len(flat)))
            lost.rows.update(part.rows)
            lost.answered += part.answered
        margin = torch.nan_to_num(out, nan=-torch.inf, neginf=-torch.inf, posinf=torch.inf)
        return margin.reshape(x.shape[:-1]), lost

    def judge(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) the original's margins of raw rows; NaN for rows on which it fails. Raises if it answers none."""
        margin, unanswered = self.ask_original(table)
        return unanswered.check(margin)

    def ask_original(self, table: pd.DataFrame) -> tuple[np.ndarray, Unanswered]:
        """As `judge`, and the rows on which the original failed."""
        out = np.full(len(table), np.nan)

        def ask(start: int, stop: int) -> None:
            out[start:stop] = self.model.judge(table.iloc[start:stop])

        return out, ask_patiently(ask, 0, len(table))

    def ask_alone(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) the original's margins of raw rows, asked one by one; or NaN."""
        return np.array([self.ask_original(table.iloc[i : i + 1])[0][0] for i in range(len(table))], dtype=np.float64)

    def ask_otherwise(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) the lowest of the original's margins of raw rows alone and, of a few, in a larger batch; or NaN."""
        alone = self.ask_alone(table)
        if not 0 < len(table) < COMPANY:
            return alone
        places = np.resize(np.arange(len(table)), COMPANY)
        together, _ = self.ask_original(table.iloc[places])
        return np.minimum(alone, together[: len(table)])

    def reads_back(self, people: pd.DataFrame, x: Tensor, margin: np.ndarray) -> np.ndarray:
        """(n,) whether a search sees these people as the original does: only then can it prove anything of them.

        The margin of the encoded row is the judge's, what is derived is what its formula says, and, where searches ask
        the original about decoded rows, these hold the person's own cells.
        """
        same = (self.schema.fill(x) - x).abs().amax(-1).cpu().numpy() <= FILLED
        same &= np.abs(self.margin(x).cpu().numpy() - margin) <= 1e-6 * (1 + np.abs(margin)) + self.model.noise
        if self.model.compiled:
            return same
        seen = self.schema.decode(x)
        for name in self.schema.names:
            own, read = people[name], seen[name]
            both_missing = own.isna().to_numpy(dtype=bool) & read.isna().to_numpy(dtype=bool)
            # as text: 1, 1.0 and True may differ to a model
            same &= both_missing | (own.astype(str).to_numpy(dtype=object) == read.astype(str).to_numpy(dtype=object))
        return same

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, d) -> lowest and highest values each person may reach, by their features alone."""
        return self.schema.bounds(x)

    def relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Continuous projection of x_new (n, d) onto what each person may do, for use inside a search."""
        x_new = self.schema.relax(x, x_new)
        for rule in self.rules:
            x_new = self.schema.relax(x, rule.relax(x, x_new))
        return x_new

    def snap(self, x: Tensor, x_new: Tensor, outward: bool = False) -> Tensor:
        """Exact projection of x_new (n, d): legal values everywhere, rules kept where they can be."""
        x_new = self.schema.snap(x, x_new, outward)
        for _ in range(RULE_ROUNDS if self.rules else 0):
            if not (self.violation(x, x_new) > 0).any():
                break
            for rule in self.rules:
                x_new = rule.snap(x, x_new)
        return x_new

    def follow(self, x: Tensor, x_new: Tensor) -> Tensor:
        """x_new (n, d) with what follows from it in its place, as printed."""
        for rule in self.rules:
            x_new = rule.follow(x, x_new)
        return x_new

    def violation(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(n,) by how much the worst rule is broken; 0 where all are kept."""
        worst = x_new.new_zeros(x_new.shape[:-1])
        filled = self.schema.identities.follow(x, x_new) if any(not rule.fills for rule in self.rules) else x_new
        for rule in self.rules:
            worst = torch.maximum(worst, rule.violation(x, x_new if rule.fills else filled))
        return worst
