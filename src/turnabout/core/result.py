"""The answer: tables and statuses, frozen, without a model; JSON both ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from turnabout.core.attribution import Attribution
from turnabout.core.option_words import changes_in_words, provided_words
from turnabout.core.plan import Plans
from turnabout.core.validation import check_document, load_schema
from turnabout.documents import Versioned
from turnabout.documents.frames import frame_from_json, frame_to_json
from turnabout.errors import TurnaboutError, also
from turnabout.markup import block
from turnabout.schema import Schema
from turnabout.schema.raw_cells import cells_of
from turnabout.typing import Json, Tensor, is_whole

if TYPE_CHECKING:
    from turnabout.core.problem import Problem
    from turnabout.core.second_look import Review

NUMBERS = ("cost", "margin")
STEPS = {
    "action": "object",
    "parameters": "object",
    "change": "object",
    "becomes": "object",
    "cost": "float64",
    "duration": "float64",
    "margin": "float64",
}
"""Columns of `Recourse.steps`, with their types."""
PLANS = {
    "steps": "int64",
    "cost": "float64",
    "duration": "float64",
    "lower_bound": "Float64",
    "gap": "Float64",
    "tolerance": "Float64",
}
"""Columns of `Recourse.plans`, with their types."""
WAIVED = {"rule": "object"}
"""Columns of `Recourse.waived`, with their types."""
PROVIDED = {"feature": "object", "low": "float64", "high": "float64"}
"""Columns of `Recourse.provided`, with their types."""


class Status(StrEnum):
    """What there is to say to one person."""

    ACCEPTED = "ACCEPTED"  # the model already says yes
    FOUND = "FOUND"  # at least one option, verified as printed
    NOT_FOUND = "NOT_FOUND"  # searched, and none found; `why` says how near the search came
    IMPOSSIBLE = "IMPOSSIBLE"  # there is none, with a proof
    UNFINISHED = "UNFINISHED"  # the time or the queries allowed ended before the search did
    UNREADABLE = "UNREADABLE"  # the person's row does not fit the schema; `why` names the cell
    FAILED = "FAILED"  # the model gave no answer for this person; `why` says what it said instead


@dataclass
class Proposal:
    """What a search proposes: x_new (n, k, d), good or not; the judge decides.

    NaN rows stand for "nothing to propose". A method that can prove that a person has no recourse sets their entry
    of `impossible` and says why in `proof`. A method whose rows are legal and proved to be the cheapest says so by
    `minimal`: they are then verified as they are, without a walk back that could save nothing.

    A method that answers with sequences of actions gives them as `plans`. They are then replayed and verified as they
    stand, and x_new is not looked at.
    """

    x_new: Tensor
    impossible: Tensor | None = None  # (n,) bool
    proof: dict[int, str] = field(default_factory=dict)  # row -> one sentence that can be checked
    minimal: bool = False
    plans: Plans | None = None


TABLES = ("steps", "plans", "waived", "provided")  # of an answer, beside its options


def empty_steps() -> pd.DataFrame:
    """`Recourse.steps` of an answer without plans."""
    index = pd.MultiIndex.from_tuples([], names=["person", "option", "step"])
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in STEPS.items()}).set_axis(index)


def empty_plans() -> pd.DataFrame:
    """`Recourse.plans` of an answer without plans."""
    index = pd.MultiIndex.from_tuples([], names=["person", "option"])
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PLANS.items()}).set_axis(index)


def empty_waived() -> pd.DataFrame:
    """`Recourse.waived` of an answer that keeps every rule."""
    index = pd.MultiIndex.from_tuples([], names=["person", "option"])
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in WAIVED.items()}).set_axis(index)


def empty_provided() -> pd.DataFrame:
    """`Recourse.provided` of an answer that asks for no missing cell."""
    index = pd.MultiIndex.from_tuples([], names=["person", "option"])
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PROVIDED.items()}).set_axis(index)


@dataclass(frozen=True, eq=False)
class Recourse(Versioned):
    """Verified answers for a table of people.

    Attributes
    ----------
    people : the table as given.
    options : index (person, option); the new row in the person's units, its cost and its margin. Verified only.
    status : one Status per person.
    why : for each person without an option: reason, best margin reached, rows asked, what binds, and the proof.
    made_by : the method, with its parameters.
    seconds : how long it took.
    steps : of answers with plans. Index (person, option, step from 1): the action, its parameters (JSON), the change
        in words, the cells as they become (JSON), cost, duration, and the margin of the row reached by then.
    plans : of answers with plans. Index (person, option): how many steps, their cost and duration together, a cost
        that no plan of the person undercuts and the share by which this one lies above it, and the error of each
        step that it withstands. The last three are <NA> where nothing was proved.
    yes : what counts as a yes of the model: "P(approve) >= 0.5".
    waived : options that were made although a rule, declared waivable, could not be checked because a cell is missing.
        Index (person, option): the rule, or several joined by "; ".
    provided : missing cells that an option asks to provide. Index (person, option): the feature, and between which
        values it must lie; the option holds for all of them, in the steps in which people use the number.
    derived : columns that are computed from others. Options hold what follows, and it is no change.
    """

    people: pd.DataFrame
    options: pd.DataFrame
    status: pd.Series
    why: pd.DataFrame
    made_by: str
    seconds: float
    steps: pd.DataFrame = field(default_factory=empty_steps)
    plans: pd.DataFrame = field(default_factory=empty_plans)
    yes: str = ""
    waived: pd.DataFrame = field(default_factory=empty_waived)
    derived: tuple[str, ...] = ()
    provided: pd.DataFrame = field(default_factory=empty_provided)

    mark = "turnabout_recourse"
    title = "an answer"

    def __len__(self) -> int:
        return len(self.people)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.people.index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recourse) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {name}" for name, n in self.counts().items() if n)
        yes = f"; yes when {self.yes}" if self.yes else ""
        waived = f", {len(self.waived)} with a rule waived" if len(self.waived) else ""
        options = f"{len(self.options)} options{waived}"
        return f"Recourse({len(self)} people: {counts or 'nobody'}; {options}; {self.made_by}{yes})"

    def _repr_html_(self) -> str:
        counts = {name: n for name, n in self.counts().items() if n}
        changes = self.changes_in_words().set_index(["person", "option"])
        return block(repr(self), pd.DataFrame(counts, index=["people"]), changes)

    @property
    def features(self) -> list[str]:
        """The columns a plan may speak of."""
        return [c for c in self.options.columns if c not in NUMBERS]

    @property
    def choices(self) -> list[str]:
        """The features that people choose, without those that follow from others."""
        return [name for name in self.features if name not in self.derived]

    @property
    def fingerprint(self) -> str:
        """A hash of everything but the time it took."""
        document = self.to_dict() | {"seconds": 0.0}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    @property
    def refused(self) -> pd.Series:
        """True for people whom the model is known to refuse: not for those it accepts or has no answer about."""
        unknown = (Status.ACCEPTED, Status.UNREADABLE, Status.FAILED)
        return ~self.status.isin(unknown).astype(bool)

    def counts(self) -> dict[str, int]:
        """How many people have each status."""
        return {status.value: int((self.status == status).sum()) for status in Status}

    def changes(self) -> pd.DataFrame:
        """Only what changed: person, option, feature, from, to; without what follows from other columns."""
        labels = self.options.index.get_level_values("person")
        own = self.people.iloc[self.people.index.get_indexer(labels)][self.features]
        parts = []
        for name in self.choices:
            new, old = self.options[name], own[name].set_axis(self.options.index)
            different = np.array([_differs(a, b) for a, b in zip(old, new, strict=True)], dtype=bool)
            part = pd.DataFrame({"feature": name, "from": cells_of(old[different]), "to": cells_of(new[different])})
            parts.append(part)
        table = pd.concat(parts) if parts else pd.DataFrame(columns=["feature", "from", "to"], index=self.options.index)
        table = table.reset_index()
        if not len(table):
            return table
        rank = pd.Series(range(len(self.options)), index=self.options.index)
        place = rank.loc[pd.MultiIndex.from_frame(table[["person", "option"]])].to_numpy()
        return table.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)

    def changes_in_words(self) -> pd.DataFrame:
        """The same for people: a missing cell to provide reads "at least 3,160 (up to 8,260)"."""
        return changes_in_words(self)

    def of(self, person: Any) -> pd.DataFrame:
        """One person's options beside their own row, features down, only where something changes.

        A missing cell to provide reads "at least 3,160 (up to 8,260)".
        """
        try:
            known = person in self.people.index
        except TypeError:  # a list, say
            known = False
        if not known:
            raise also(TurnaboutError, KeyError)(
                f"there is no person {person!r} in this answer.", hint="use a label of people.index."
            )
        place = self.people.index.get_loc(person)
        columns: dict[str, Any] = {"now": self.people[self.choices].iloc[place]}
        mine = self.options.index.get_level_values("person") == person
        for (_, option), row in self.options[mine].iterrows():
            cells = row[self.choices]
            words = {name: said for name in self.choices if (said := provided_words(self, person, option, name))}
            columns[f"option {option}"] = pd.Series(cells.to_dict() | words) if words else cells
        table = pd.DataFrame(columns)
        if table.shape[1] == 1:
            return table
        moved = [any(_differs(table.iloc[i, 0], v) for v in table.iloc[i, 1:]) for i in range(len(table))]
        return table[moved]

    def review(self, problem: Problem | None = None) -> Review:
        """What a careful reader would question before a letter goes out, with counts and what would mend it.

        Pass the problem so that its schema, background and labels are looked at too.
        """
        from turnabout.core.second_look import review

        return review(self, problem)

    def waivers(self, person: Any, option: int = 0) -> str:
        """A sentence that names the rules waived for one option; empty where there is none."""
        mine = [key == (person, option) for key in self.waived.index]
        rules = "; ".join(self.waived["rule"][mine])
        return f"Not checked, because a cell is missing: {rules}." if rules else ""

    def steps_of(self, person: Any, option: int = 0) -> pd.DataFrame:
        """The steps of one plan, in order; index: step from 1."""
        mine = [key[0] == person and key[1] == option for key in self.steps.index]
        if not any(mine):
            raise also(TurnaboutError, KeyError)(
                f"person {person!r} has no plan as option {option!r} in this answer.",
                hint="answer.plans lists the plans there are; only methods that work with actions make some.",
            )
        return self.steps[mine].droplevel(["person", "option"])

    def states_of(self, person: Any, option: int = 0) -> pd.DataFrame:
        """The printed rows through which one plan leads, their own first; index: step from 0."""
        steps = self.steps_of(person, option)
        own = self.people[self.features].iloc[self.people.index.get_loc(person)]
        rows = [own.to_dict()]
        for text in steps["becomes"]:
            rows.append(rows[-1] | json.loads(text))
        return pd.DataFrame(rows, index=pd.RangeIndex(len(rows), name="step"))

    def to_directions(self, schema: Schema, option: int = 0) -> Attribution:
        """Where each person is told to move, x_new - x in encoded columns: directions, no contributions.

        Accepted people have the zero direction; people without this option are left out.

        option : from 0; one that somebody has, or 0.
        """
        given = self.options.index.get_level_values("option")
        if not is_whole(option, 0) or (option and option not in given):
            most = f"the last option of this answer is {given.max()}" if len(given) else "this answer has no options"
            raise TurnaboutError(f"option={option!r} is nobody's.", hint=f"use a whole number from 0; {most}.")
        own = given == option
        moved = self.options[own].droplevel("option")
        still = self.people[(self.status == Status.ACCEPTED).to_numpy(dtype=bool)]
        names = [label for label in self.people.index if label in moved.index or label in still.index]
        x = schema.encode(self.people.loc[names])
        there = pd.concat([schema.table(moved), schema.table(still)]).loc[names]
        values = pd.DataFrame((schema.encode(there) - x).numpy(), index=there.index, columns=list(schema.columns))
        return Attribution(
            values=values,
            errors=None,
            base=None,
            output=None,
            kind="direction",
            space="input",
            score="where to move",
            made_by=self.made_by,
            exact=True,
            asked=0,
            seed=None,
            notes=("a direction says where to move, not how much a feature matters.",),
        )

    # -- JSON -------------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Plain data under the versioned JSON Schema `recourse.schema.json`."""
        document = {
            self.mark: self.version,
            "made_by": self.made_by,
            "yes": self.yes,
            "seconds": self.seconds,
            "people": frame_to_json(self.people),
            "options": frame_to_json(self.options),
            "status": [str(s.value) for s in self.status],
            "why": frame_to_json(self.why),
        }
        if self.derived:
            document["derived"] = list(self.derived)
        parts = {name: getattr(self, name) for name in TABLES}
        return document | {name: frame_to_json(frame) for name, frame in parts.items() if len(frame)}

    @classmethod
    def _check(cls, document: Json) -> None:
        check_document(document, "recourse", "this answer")

    @classmethod
    def _read(cls, document: Json) -> Self:
        from turnabout.core.consistency import check_answer, torn

        people, options, why = (frame_from_json(document[name], name) for name in ("people", "options", "why"))
        if len(document["status"]) != len(people):
            raise torn(f"it has {len(document['status'])} statuses for {len(people)} people")
        status = pd.Series([Status(s) for s in document["status"]], index=people.index, dtype=object, name="status")
        tables = {name: frame_from_json(document[name], name) for name in TABLES if name in document}
        yes, derived = document.get("yes", ""), tuple(document.get("derived", ()))
        made_by, seconds = document["made_by"], document["seconds"]
        answer = cls(people, options, status, why, made_by, seconds, **tables, yes=yes, derived=derived)
        check_answer(answer)
        return answer


def json_schema() -> Json:
    """The JSON Schema of an answer."""
    return load_schema("recourse")


def _differs(a: Any, b: Any) -> bool:
    if pd.isna(a) or pd.isna(b):
        return not (pd.isna(a) and pd.isna(b))
    return bool(a != b)
