"""A schema in words, for a person to review: one line per feature, what moves, how far people can go."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from turnabout.schema.features import Feature, Scalar
from turnabout.schema.identities import Derived
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough

COLUMNS = ("feature", "kind", "values", "moves", "missing", "label")


def summary_of(features: Iterable[Feature]) -> pd.DataFrame:
    """One line per feature."""
    rows = [(f.name, f.kind, _values(f), f.moves, _gaps(f), f.title) for f in features]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def reaches_of(features: Iterable[Feature]) -> list[str]:
    """What limits the choice of each feature that may move, in words: steps, least change, reach."""
    scalars = [f for f in features if isinstance(f, Scalar) and f.moves != "fixed"]
    said = [(f.title, [*_steps(f), *([] if f.reach is None else [str(f.reach)])]) for f in scalars]
    return [f"{title} {', '.join(parts)}" for title, parts in said if parts]


def _steps(f: Scalar) -> list[str]:
    steps = [] if f.choice_step == f.unit_step else [f"in steps of {f.choice_step:g}"]
    return steps + ([f"by at least {f.least:g}"] if f.least else [])


def moves_of(features: Iterable[Feature]) -> str:
    """The features that a plan may change, with their directions, in one line."""
    named = [f.name if f.moves == "free" else f"{f.name} ({f.moves})" for f in features if f.moves != "fixed"]
    return ", ".join(named) or "nothing"


def _values(f: Feature) -> str:
    if isinstance(f, Derived):
        values = f.formula
        values += "" if f.direction == "free" else f", may only {'rise' if f.direction == 'up' else 'fall'}"
    elif isinstance(f, Number):
        values = f"{f.low:g} to {f.high:g}" + (f" {f.unit}" if f.unit else "")
        values += f", steps of {f.step:g}" if f.step else f", {f.places} decimals"
        values += f"; used in {f.useful_step:g}" if f.useful_step else ""
        values += f"; changes from {f.least_change:g}" if f.least_change else ""
    elif isinstance(f, Passthrough):
        values = "anything"
    else:
        levels = getattr(f, "levels", ())
        values = ", ".join(map(str, levels[:6])) + (f", ... ({len(levels)})" if len(levels) > 6 else "")
    return f"{values}; {f.reach}" if isinstance(f, Scalar) and f.reach is not None else values


def _gaps(feature: Feature) -> str:
    """What a missing cell means, in a word or two."""
    return "" if not feature.missing else "can be provided" if getattr(feature, "provide", False) else "yes"
