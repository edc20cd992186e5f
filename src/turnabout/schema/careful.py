"""What a draft of a schema says of people: what is fixed, which way things are good, which amounts are sensible.

Each guess stands in the notes with its reason. Names speak (`column_words`), then the data (`trends`), and whoever
drafts has the last word: what is named in `immutable=`, `increasing=`, `decreasing=` or `free=` is left as it is said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from turnabout.schema.column_words import Kind, says
from turnabout.schema.features import Feature, Scalar
from turnabout.schema.identities import Derived
from turnabout.schema.identity_search import find_relations
from turnabout.schema.levels import Binary, Category, Levels, raw_codes
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough
from turnabout.schema.raw_cells import floats
from turnabout.schema.trends import Trend, trends
from turnabout.schema.useful import draft_choices, part_of

CODES = 50  # levels from which on a category looks like a code
LEAKED = 5  # people of the rarer outcome below whom a column equals the labels by accident
IDS = 50  # rows from which on whole numbers that never repeat look like an identifier
FIXED: dict[Kind, str] = {
    "protected": "law or nature fixes it",
    "identity": "it says who or where somebody is",
    "time": "only time changes it",
    "past": "it counts what has happened",
    "others": "others set it",
    "asked": "another answer would be another request",
}


@dataclass
class Draft:
    """Features and notes as they are drafted, column by column.

    said : columns about whose direction the caller has spoken.
    """

    table: pd.DataFrame
    features: dict[str, Feature]
    notes: list[str]
    said: Collection[str]
    accepted: np.ndarray | None

    def finish(self) -> None:
        """Fix, direct, compute and measure, in this order."""
        for name, feature in list(self.features.items()):
            if name not in self.said and not isinstance(feature, Passthrough):
                self._by_name(name, feature)
        self._leaks()
        self._directions()
        self._identities()
        self._choices()

    def _note(self, name: str, text: str) -> None:
        self.notes.append(f"{name}: {text}")

    def _fix(self, name: str, why: str) -> None:
        if self.features[name].moves != "fixed":
            self.features[name] = replace(self.features[name], moves="fixed")  # type: ignore[type-var]
            self._note(name, f"fixed: {why}.")

    # -- names ------------------------------------------------------------------------------------------------

    def _by_name(self, name: str, feature: Feature) -> None:
        for kind, why in FIXED.items():
            if (group := says(name, kind)) is not None:
                return self._fix(name, f"its name speaks of {group}, and {why}")
        if isinstance(feature, Category) and len(feature.levels) > CODES:
            return self._fix(name, f"{len(feature.levels)} levels look like a code")
        if isinstance(feature, Number) and feature.step == 1 and len(self.table) >= IDS:
            column = self.table[name].dropna()
            if column.is_unique and len(column) == len(self.table):
                return self._fix(name, "whole numbers that never repeat look like an identifier")
        if isinstance(feature, Scalar) and feature.moves == "free":
            worse, better = says(name, "worse"), says(name, "better")
            if worse is not None and better is None:
                self._direct(name, "down", f"its name speaks of {worse}, and advice does not raise that")
            elif better is not None and worse is None:
                self._direct(name, "up", f"its name speaks of {better}, and advice does not lower that")
        return None

    def _direct(self, name: str, way: str, why: str) -> None:
        self.features[name] = replace(self.features[name], moves=way)  # type: ignore[type-var]
        self._note(name, f"may only go {way}: {why}.")

    # -- data -------------------------------------------------------------------------------------------------

    def _numbers(self) -> dict[str, np.ndarray]:
        """Numbers, and levels by their position, NaN where missing."""
        out = {}
        for name, feature in self.features.items():
            if isinstance(feature, Number):
                out[name] = floats(self.table[name])
            elif isinstance(feature, Levels):
                codes = raw_codes(feature.levels, self.table[name]).astype(float)
                out[name] = np.where(codes < 0, np.nan, codes)
        return out

    def _leaks(self) -> None:
        if self.accepted is None or min(self.accepted.sum(), (~self.accepted).sum()) < LEAKED:
            return
        for name in self.features:
            codes = pd.factorize(self.table[name])[0]
            if codes.max() == 1 and codes.min() == 0 and len({*(codes == self.accepted).tolist()}) == 1:
                self._fix(name, "it equals the labels: a leak, to be left out of the model")

    def _directions(self) -> None:
        """Where the outcome gets better one way, plainly or as far as the data lean, plans do not go the other way."""
        if self.accepted is None:
            return
        columns = {
            name: values
            for name, values in self._numbers().items()
            if len(np.unique(values[np.isfinite(values)])) > 1 and self._leak_free(name)
        }
        for name, trend in trends(columns, self.accepted).items():
            feature = self.features[name]
            if name in self.said or feature.moves == "fixed":
                continue
            if trend.leans is None:
                if trend.looked and feature.moves == "free" and _is_a_mark(feature):
                    self._fix(name, f"neither its name nor the data say which way is good, {trend.words}")
            elif feature.moves == "free":
                why = "people fare better so" if trend.good else "the data lean that way"
                self._direct(name, trend.leans, f"{why}, {trend.words}")
            elif trend.good not in (None, feature.moves):
                self._conflict(name, trend)

    def _leak_free(self, name: str) -> bool:
        return not any(note.startswith(f"{name}: fixed: it equals the labels") for note in self.notes)

    def _conflict(self, name: str, trend: Trend) -> None:
        self._note(name, f"the data say the opposite, {trend.words}; the name has the last word until you say it.")

    def _identities(self) -> None:
        """Columns that are computed from others, as far as exact relations tell."""
        numbers = {n: floats(self.table[n]) for n, f in self.features.items() if _counts(f)}
        levels = {n: self.table[n].to_numpy(dtype=object) for n, f in self.features.items() if isinstance(f, Category)}
        for relation in find_relations(numbers, levels):
            name, feature = relation.target, self.features[relation.target]
            if name in self.said or not self._leak_free(name) or not isinstance(feature, (Number, Binary)):
                continue
            low, high = (feature.low, feature.high) if isinstance(feature, Number) else (0.0, 1.0)
            whole, way = relation.decimals == 0, feature.moves
            directed = way in ("up", "down")
            self.features[name] = Derived(
                name, relation.formula, low=low, high=high, step=1.0 if whole else None, label=feature.label,
                unit=feature.unit if isinstance(feature, Number) else "", missing=feature.missing,
                decimals=None if whole else relation.decimals, moves=way if directed else "fixed",
            )  # fmt: skip
            keeps = f" As a consequence it may only {'rise' if way == 'up' else 'fall'}." if directed else ""
            self._note(name, f"computed from others: {relation.formula}, in {relation.share:.1%} of the rows.{keeps}")

    def _choices(self) -> None:
        """Steps that people use, changes worth making and how far people go, of numbers that move."""
        for name, feature in self.features.items():
            if not isinstance(feature, Number) or isinstance(feature, Derived) or feature.moves == "fixed":
                continue
            values = floats(self.table[name])
            there = np.isfinite(values)
            good = values[there & self.accepted] if self.accepted is not None else None
            share, most = part_of(values[there]) if says(name, "amounts") is not None else (None, None)
            drafted = draft_choices(values[there], feature.unit_step, feature.low, feature.high, good, share, most)
            if drafted.reach is None:
                continue
            provide = feature.missing and says(name, "better") is not None
            self.features[name] = replace(
                feature,
                provide=provide,
                useful_step=drafted.useful_step,
                least_change=drafted.least_change,
                reach=drafted.reach,
            )
            step = "" if drafted.useful_step is None else f"in steps of {drafted.useful_step:g}, "
            if provide:
                self._note(name, "a missing cell can be provided: plans say between which values it must lie.")
            self._note(name, f"plans change it {step}by at least {drafted.least_change:g}, {drafted.reach}.")


def _counts(feature: Feature) -> bool:
    """Whether the values of a feature are numbers."""
    return isinstance(feature, Number) or (
        isinstance(feature, Levels) and all(isinstance(level, (int, float)) for level in feature.levels)
    )


def _is_a_mark(feature: Feature) -> bool:
    """Whether a feature says yes or no of a person, and not which of two amounts or terms."""
    if not isinstance(feature, Binary):
        return False
    first, second = feature.levels
    said = [level for level in (first, second) if isinstance(level, str)]
    return {first, second} == {0, 1} or (len(said) == 2 and not any(c.isdigit() for level in said for c in level))
