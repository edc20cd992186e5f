"""Levels that the schema lists and the training table did not have.

A model may refuse such a level, or answer as if it were another one; neither is a promise. What training had is read
off the encoders and boosters inside the model, and off the background; what cannot be read is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from turnabout.errors import TurnaboutError
from turnabout.models.libraries.inside import encoded_levels
from turnabout.models.model import Model
from turnabout.models.probe import base_row
from turnabout.schema import Category, Feature, Ordinal, Schema
from turnabout.schema.levels import raw_codes
from turnabout.typing import Level, Tensor

UnseenLevels = Literal["avoid", "allow"]
Unseen = dict[str, frozenset[Level]]


def mark_unseen(model: Model, original: Any, background: pd.DataFrame | None, how: UnseenLevels) -> Model:
    """The model with its `unseen` levels, those that plans do not move to, and a note that names them."""
    seen = levels_seen(model, original, background)
    doubtful = {f.name: [v for v in f.levels if v not in seen.get(f.name, ())] for f in _leveled(model.schema)}  # type: ignore[attr-defined]
    telling = hasattr(model._judge, "original")  # of a function, a call that fails says nothing about training
    asked = {name: levels for name, levels in doubtful.items() if levels and (telling or name in seen)}
    refused = _refused(model, asked, background)
    new = {name: levels for name, levels in doubtful.items() if name in seen} if how == "avoid" else {}
    unseen: Unseen = {}
    for name in doubtful:
        if levels := frozenset(new.get(name, ())) | frozenset(refused.get(name, ())):
            unseen[name] = levels
    if unseen:
        model.unseen = unseen
        model.notes = (*model.notes, _note(model.schema, unseen, refused))
    return model


def levels_seen(model: Model, original: Any, background: pd.DataFrame | None) -> dict[str, set[Hashable]]:
    """The levels that training had, by column; columns of which nothing is known are left out.

    A column type may list categories that no row of the training table held, so it counts only without a background.
    """
    learned: dict[str, set[Hashable]] = {}
    for name, levels in encoded_levels(original):
        own = set(levels)
        learned[name] = learned[name] & own if name in learned else own
    observed = {} if background is None else _observed(model.schema, background)
    types = getattr(getattr(model._judge, "original", None), "dtypes", {}) if background is None else {}
    for name, dtype in types.items():
        learned.setdefault(name, set(dtype.categories.tolist()))
    return {name: learned.get(name, set()) | observed.get(name, set()) for name in {**observed, **learned}}


def _observed(schema: Schema, background: pd.DataFrame) -> dict[str, set[Hashable]]:
    """The levels that stand in the background; levels that are numbers in an order count as numbers."""
    out: dict[str, set[Hashable]] = {}
    for feature in _leveled(schema):
        levels: tuple[Level, ...] = feature.levels  # type: ignore[attr-defined]
        is_scale = isinstance(feature, Ordinal) and not any(isinstance(level, str) for level in levels)
        if feature.name in background.columns and not is_scale:
            codes = raw_codes(levels, background[feature.name])
            out[feature.name] = {levels[code] for code in np.unique(codes[codes >= 0])}
    return {name: held for name, held in out.items() if held}


def _leveled(schema: Schema) -> list[Feature]:
    return [feature for feature in schema.features if getattr(feature, "levels", ()) and feature.moves != "fixed"]


def _refused(model: Model, doubtful: Mapping[str, list[Level]], background: pd.DataFrame | None) -> Unseen:
    """The doubtful levels on which the original raises or answers nothing, though it answers about another row."""
    base = _answered_row(model, background) if doubtful else None
    if base is None:
        return {}
    schema = model.schema
    cells = [(name, level) for name, levels in doubtful.items() for level in levels]
    x = base.repeat(len(cells), 1)
    for row, (name, level) in zip(x, cells, strict=True):
        f = schema.names.index(name)
        row[schema.slices[f]] = torch.tensor(_cell(schema.features[f], level), dtype=x.dtype)
    failed = [i for i in _unanswered(model, x) if _unanswered(model, x[i : i + 1])]  # a call may fail by chance
    if len(failed) == len(cells) and _unanswered(model, base):
        return {}
    out: dict[str, set[Level]] = {}
    for i in failed:
        out.setdefault(cells[i][0], set()).add(cells[i][1])
    return {name: frozenset(levels) for name, levels in out.items()}


def _answered_row(model: Model, background: pd.DataFrame | None) -> Tensor | None:
    """An encoded row (1, d) about which the original answers: of the background, or one of first levels; or None."""
    schema = model.schema
    tries = [base_row(schema)]
    if background is not None and len(background):
        reading = schema.read(background.iloc[: min(len(background), 32)])
        readable = ~(reading.lost | reading.unreadable.any(1))
        tries = [row.unsqueeze(0) for row in reading.x[torch.as_tensor(readable)][:3]] + tries
    return next((x for x in tries if not _unanswered(model, x)), None)


def _unanswered(model: Model, x: Tensor) -> list[int]:
    """The rows of x (n, d) on which the original raises or says NaN; halved until they are found."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # encoders warn of unknown levels
            margin = model.judge(model.decode(x))
        return np.flatnonzero(np.isnan(margin)).tolist()
    except (TurnaboutError, TypeError, ValueError):
        if len(x) == 1:
            return [0]
        half = len(x) // 2
        return _unanswered(model, x[:half]) + [half + i for i in _unanswered(model, x[half:])]


def _cell(feature: Feature, level: Level) -> list[float]:
    """Encoded cells of a feature at a level."""
    levels: tuple[Level, ...] = feature.levels  # type: ignore[attr-defined]
    k = levels.index(level)
    cells = [float(i == k) for i in range(len(levels))] if isinstance(feature, Category) else [k / (len(levels) - 1)]
    return [*cells, 0.0] if feature.missing else cells


def _note(schema: Schema, unseen: Unseen, refused: Unseen) -> str:
    texts = []
    for name, levels in unseen.items():
        shown = [repr(v) for v in schema[name].levels if v in levels]  # type: ignore[attr-defined]
        texts.append(f"{name} {', '.join(shown[:6])}{', ...' if len(shown) > 6 else ''}")
    consent = "" if refused == unseen else "; unseen_levels='allow' lets plans use those that the model answers about"
    return f"levels that training did not have are not recommended: {'; '.join(texts)}{consent}."
