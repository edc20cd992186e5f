"""A reader's second look at an answer: what a careful loan officer would question before a letter goes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from turnabout.core.different import differ
from turnabout.core.option_words import provided_words
from turnabout.core.problem import Problem
from turnabout.core.result import Recourse, Status
from turnabout.documents import Document
from turnabout.markup import block
from turnabout.schema import Derived, Feature, Number, Schema
from turnabout.schema.careful import FIXED
from turnabout.schema.column_words import says
from turnabout.schema.features import GRID_NOISE
from turnabout.schema.identities import Identities
from turnabout.schema.identity_search import find_relations
from turnabout.schema.raw_cells import floats
from turnabout.schema.trends import trends
from turnabout.schema.useful import ordinary_range, useful_step

TINY = 0.01  # share of the ordinary range below which a change is hardly worth making
MOST = 0.6  # share of people whose first option uses one feature, from which on it looks like a loophole
ENOUGH = 10  # people below whom no share is judged
TOGETHER = 0.8  # correlation of ranks from which on two columns move together
SIMILAR = 50  # accepted people, alike in what cannot change, with whom a person's new values are compared
LOOKED_AT = 4096  # accepted people among whom these are looked for
SHOWN = 3


@dataclass(frozen=True)
class Concern(Document):
    """One thing to look at.

    kind : "tiny", "odd amounts", "unseen values", "unlike similar people", "loophole", "against the direction",
        "not theirs to change", "moves alone", "nearly the same" or "inconsistent".
    feature : the column; "" where it is about whole options.
    count, of : how many options, or pairs of options, of how many.
    says : a sentence with an example.
    mend : the line of a schema that would mend it.
    """

    kind: str
    feature: str
    count: int
    of: int
    says: str
    mend: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.says} ({self.count} of {self.of}). To mend it: {self.mend}"


@dataclass(frozen=True)
class Review(Document):
    """Concerns about an answer, the most frequent first.

    people, options : how many people have options, and how many options there are.
    """

    concerns: tuple[Concern, ...]
    people: int
    options: int

    def __str__(self) -> str:
        head = f"{self.options} options of {self.people} people: "
        if not self.concerns:
            return head + "nothing to question."
        return "\n".join([f"{head}{len(self.concerns)} concerns.", *(f"- {c}" for c in self.concerns)])

    @property
    def brief(self) -> str:
        """A short paragraph: which concerns there are, and what is said of the first."""
        if not self.concerns:
            return f"A careful reader would question nothing about these {self.options} options."
        names = [f"{c.kind}{f' ({c.feature})' if c.feature else ''} in {c.count} of {c.of}" for c in self.concerns]
        more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        things = "1 thing" if len(names) == 1 else f"{len(names)} things"
        first = self.concerns[0]
        return (
            f"A careful reader would question {things} about these {self.options} options: "
            f"{'; '.join(names[:SHOWN])}{more}. First of all, {first.says}. To mend that: {first.mend}"
        )

    def __len__(self) -> int:
        return len(self.concerns)

    def table(self) -> pd.DataFrame:
        """One line for each concern."""
        return pd.DataFrame([c.to_dict() for c in self.concerns], columns=list(Concern.__dataclass_fields__))

    def _repr_html_(self) -> str:
        return block(str(self).splitlines()[0], self.table())


def review(answer: Recourse, problem: Problem | None = None) -> Review:
    """What a careful reader would question: with the problem, its schema, background and labels are looked at too."""
    options = answer.options
    people = len(options.index.unique("person")) if len(options) else 0
    found = tuple(_Reading(answer, problem).concerns()) if len(options) else ()
    return Review(tuple(sorted(found, key=lambda c: -c.count / c.of)), people, len(options))


def smallest_worth(feature: Feature | None, values: np.ndarray) -> float:
    """The smallest change of a number worth making: as declared, else 1 % of the ordinary range of values (m,)."""
    declared = float(getattr(feature, "least", 0.0))
    return declared or (TINY * ordinary_range(values) if len(values) else 0.0)


class _Reading:
    """The options beside the people they are for, column by column."""

    def __init__(self, answer: Recourse, problem: Problem | None):
        self.answer, self.problem = answer, problem
        labels = answer.options.index.get_level_values("person")
        self.own = answer.people.iloc[answer.people.index.get_indexer(labels)]
        self.names = [name for name in answer.choices if name in answer.people.columns]
        self.numbers = {n: self._pair(n) for n in self.names if self._is_number(n)}

    def _is_number(self, name: str) -> bool:
        if self.problem is not None and name in self.problem.schema.names:
            return type(self.problem.schema[name]) is Number
        column = self.answer.people[name]
        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        return bool(numeric and column.nunique() > 2)

    def _pair(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return floats(self.own[name]), floats(self.answer.options[name])

    @property
    def crowd(self) -> pd.DataFrame:
        """The people whom values are compared with: the background, or those of the answer."""
        background = None if self.problem is None else self.problem.background
        return self.answer.people if background is None else background

    @property
    def accepted(self) -> pd.DataFrame | None:
        """People who are accepted, if there are enough of them."""
        problem = self.problem
        if problem is not None and problem.background is not None and problem.labels is not None:
            some = problem.background[problem.labels.cpu().numpy()]
        else:
            some = self.answer.people[(self.answer.status == Status.ACCEPTED).to_numpy(dtype=bool)]
        return some if len(some) >= ENOUGH else None

    @cached_property
    def changed(self) -> dict[str, np.ndarray]:
        """(o,) which options change each feature."""
        changes = self.answer.changes()
        place = {key: i for i, key in enumerate(self.answer.options.index)}
        out = {name: np.zeros(len(self.answer.options), dtype=bool) for name in self.names}
        for person, option, name in zip(changes["person"], changes["option"], changes["feature"], strict=True):
            out[name][place[person, option]] = True
        return out

    def concerns(self) -> Iterator[Concern]:
        for name, (own, new) in self.numbers.items():
            yield from self._amounts(name, own, new)
        for name in self.names:
            yield from self._not_theirs(name)
        yield from self._against()
        yield from self._loophole()
        yield from self._alone()
        yield from self._same()
        yield from self._inconsistent()

    def _example(self, name: str, where: np.ndarray) -> str:
        """The first of some options, in words."""
        i = int(where.argmax())
        person, option = self.answer.options.index[i]
        own, new = self.own[name].iloc[i], self.answer.options[name].iloc[i]
        there = provided_words(self.answer, person, option, name) or _text(new)
        return f"{name} from {_text(own)} to {there} for person {person}, option {option}"

    def _concern(self, kind: str, name: str, where: np.ndarray, why: str, mend: str) -> Iterator[Concern]:
        if where.any():
            yield Concern(kind, name, int(where.sum()), len(where), f"{self._example(name, where)}; {why}", mend)

    def _amounts(self, name: str, own: np.ndarray, new: np.ndarray) -> Iterator[Concern]:
        values = floats(self.crowd[name]) if name in self.crowd else floats(self.answer.people[name])
        values = values[np.isfinite(values)]
        spread = ordinary_range(values) if len(values) else 0.0
        moved = self.changed[name] & np.isfinite(own) & np.isfinite(new)
        if spread > 0:
            grid = 1.0 if (values == np.rint(values)).all() else 10.0**-6
            declared = self.problem.schema[name] if self.problem is not None else None
            least = smallest_worth(declared, values)
            tiny = moved & (np.abs(new - own) < least * (1 - GRID_NOISE))
            yield from self._concern(
                "tiny",
                name,
                tiny,
                f"a change below {least:g} is hardly worth making",
                f"{name}: least_change: {least:g}",
            )
            step = (getattr(declared, "useful_step", None)) or useful_step(values, grid)
            with np.errstate(invalid="ignore"):
                odd = moved & (np.abs(new / step - np.rint(new / step)) > 1e-6)
            yield from self._concern(
                "odd amounts", name, odd, f"people count in {step:g}", f"{name}: useful_step: {step:g}"
            )
        if self.accepted is not None and name in self.accepted:
            good = floats(self.accepted[name])
            good = good[np.isfinite(good)]
            if len(good):
                low, high = good.min(), good.max()
                beyond = (
                    moved & ((new < low) | (new > high)) & ~((own < low) & (new > own) | (own > high) & (new < own))
                )
                mend = f"{name}: reach: {{low: {low:g}, high: {high:g}}}"
                yield from self._concern("unseen values", name, beyond, "no accepted person has that", mend)
                yield from self._unlike(name, own, new, moved & ~beyond)

    @cached_property
    def similar(self) -> tuple[pd.DataFrame, np.ndarray] | None:
        """Accepted people, and (o, SIMILAR) the places of those most like each option's person in fixed features."""
        problem, good = self.problem, self.accepted
        if problem is None or good is None or len(good) < 2 * SIMILAR:
            return None
        schema = problem.schema
        fixed = [schema.slices[j] for j, f in enumerate(schema.features) if f.moves == "fixed" and f.width]
        if not fixed:
            return None
        good = good.iloc[np.linspace(0, len(good) - 1, min(len(good), LOOKED_AT)).astype(int)]
        columns = [column for part in fixed for column in range(part.start, part.stop)]
        x, others = schema.read(self.own).x[:, columns], schema.read(good).x[:, columns]
        near = [torch.cdist(part, others, p=1).topk(SIMILAR, largest=False).indices for part in x.split(1024)]
        return good, torch.cat(near).numpy()

    def _unlike(self, name: str, own: np.ndarray, new: np.ndarray, moved: np.ndarray) -> Iterator[Concern]:
        if self.similar is None:
            return
        good, near = self.similar
        values = floats(good[name])[near]
        low, high = (
            np.where(np.isnan(values), np.inf, values).min(1),
            np.where(np.isnan(values), -np.inf, values).max(1),
        )
        with np.errstate(invalid="ignore"):
            up = new > own
            unlike = moved & (low <= high) & np.where(up, new > high, new < low)
            room = np.maximum(np.where(up, high - own, own - low), 0)
        if unlike.any():
            why = f"none of the {SIMILAR} accepted people most like them, in what cannot change, has that"
            mend = f"{name}: reach: {{absolute: {np.median(room[unlike]):g}}}"
            yield from self._concern("unlike similar people", name, unlike, why, mend)

    def _not_theirs(self, name: str) -> Iterator[Concern]:
        for kind, why in FIXED.items():
            if (group := says(name, kind)) is not None:
                said = f"the name speaks of {group}, and {why}"
                yield from self._concern(
                    "not theirs to change", name, self.changed[name], said, f"{name}: moves: fixed"
                )
                return

    def _against(self) -> Iterator[Concern]:
        problem = self.problem
        proven = {}
        if problem is not None and problem.background is not None and problem.labels is not None:
            columns = {n: floats(problem.background[n]) for n in self.numbers}
            proven = trends(columns, problem.labels.cpu().numpy())
        for name, (own, new) in self.numbers.items():
            way = "down" if says(name, "worse") else "up" if says(name, "better") else None
            why = "its name speaks of what advice does not " + ("raise" if way == "down" else "lower")
            if way is None and name in proven and proven[name].good is not None:
                way, why = proven[name].good, f"people fare better the other way, {proven[name].words}"
            if way is None:
                continue
            with np.errstate(invalid="ignore"):
                wrong = self.changed[name] & ((new < own) if way == "up" else (new > own))
            yield from self._concern("against the direction", name, wrong, why, f"{name}: moves: {way}")

    def _loophole(self) -> Iterator[Concern]:
        first = np.asarray(self.answer.options.index.get_level_values("option") == 0)
        if first.sum() < ENOUGH:
            return
        for name, changed in self.changed.items():
            share = changed[first].mean()
            if share >= MOST:
                why = f"the first option of {share:.0%} of people uses it: a loophole, or the wrong price"
                where = changed & first
                yield Concern(
                    "loophole", name, int(where.sum()), int(first.sum()), f"{name}: {why}",
                    f"cost: {{kind: Effort, difficulty: {{{name}: 2}}}}",
                )  # fmt: skip

    def _alone(self) -> Iterator[Concern]:
        crowd = self.crowd
        names = [n for n in self.numbers if n in crowd and self.changed[n].any()]
        others = [n for n in self.names if n in crowd and n in self.numbers]
        ranks = pd.DataFrame({n: floats(crowd[n]) for n in others}).rank()
        together = ranks.corr().abs().to_numpy() if len(ranks) > ENOUGH and len(others) > 1 else None
        if together is None:
            return
        for name in names:
            row = together[others.index(name)]
            partners = [(o, float(r)) for o, r in zip(others, row, strict=True) if o != name and r >= TOGETHER]
            for other, r in partners[:1]:
                where = self.changed[name] & ~self.changed[other]
                why = f"{name} and {other} move together in life (rank correlation {r:.2f})"
                mend = f"{{kind: derived, name: {other}, formula: ...}}, or rules: structural_equations"
                yield from self._concern("moves alone", name, where, why, mend)

    def _same(self) -> Iterator[Concern]:
        schema = self.problem.schema if self.problem is not None else None
        if schema is None:
            return
        x, x_new = schema.read(self.own).x, schema.read(self.answer.options).x
        person = self.answer.options.index.get_level_values("person")
        codes = pd.factorize(person)[0]
        ends = range(len(codes))
        pairs = [(i, j) for i in ends for j in ends[i + 1 : i + 50] if codes[i] == codes[j]]
        if not pairs:
            return
        i, j = (np.array(side) for side in zip(*pairs, strict=True))
        alike = ~differ(schema, x[i], x_new[i], x_new[j]).numpy()
        if alike.any():
            at = int(alike.argmax())
            says_ = f"options of person {person[i[at]]} are nearly the same"
            yield Concern("nearly the same", "", int(alike.sum()), len(pairs), says_, "a larger least_change")

    def _inconsistent(self) -> Iterator[Concern]:
        """Exact relations among the people's columns that their new rows break."""
        crowd, options = self.crowd, self.answer.options
        names = [n for n in self.answer.features if n in crowd and pd.api.types.is_numeric_dtype(crowd[n])]
        for relation in find_relations({n: floats(crowd[n]) for n in names}):
            whole = relation.decimals == 0
            derived = Derived(
                relation.target,
                relation.formula,
                step=1.0 if whole else None,
                decimals=None if whole else relation.decimals,
            )
            parts = [n for n in names if n != relation.target]
            schema = Schema((*(Number(n, low=0, high=1) for n in parts), derived))
            identities = Identities(schema.features, schema.slices)
            broken = (identities.holds(options, derived) == 0) & ~(identities.holds(self.own, derived) == 0)
            mend = f"{{kind: derived, name: {relation.target}, formula: {relation.formula}}}"
            why = f"it is {relation.formula} in {relation.share:.1%} of the rows"
            yield from self._concern("inconsistent", relation.target, broken, why, mend)


def _text(cell: object) -> str:
    if pd.api.types.is_scalar(cell) and pd.isna(cell):  # type: ignore[call-overload]
        return "missing"
    return f"{cell:g}" if isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool) else str(cell)
