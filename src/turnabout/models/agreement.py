"""A compiled form is used only if it says what the original says."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from turnabout.errors import ModelError, SchemaError
from turnabout.models.batch_noise import margin_gap
from turnabout.models.model import Additive, Judge, Model, Trees
from turnabout.models.probe import legal_position, random_rows
from turnabout.schema import Number, Schema
from turnabout.typing import Tensor

BACKGROUND_ROWS = 2000
BOUNDARY_ROWS = 512


@dataclass(frozen=True)
class Agreement:
    """Why a compiled form is not to be used (None if it may), and how far off it is near the boundary."""

    reason: str | None
    gap: float = 0.0


def sample(schema: Schema, background: pd.DataFrame | None, judge: Judge) -> list[tuple[Tensor, pd.DataFrame]]:
    """Rows on which forms are checked, encoded and as tables: random legal ones, and up to 2000 of the background.

    Random rows have missing cells only if the original can answer about those, and are left out if it cannot answer
    about the others either (a level it has never seen).
    """
    pairs = []
    if background is not None:
        reading = schema.read(background)
        told = np.flatnonzero(~reading.unreadable.any(1))
        table = reading.readable(reading.table, told)
        if len(table) > BACKGROUND_ROWS:
            table = table.iloc[np.linspace(0, len(table) - 1, BACKGROUND_ROWS).astype(int)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # values outside the bounds are no news here
            pairs.append((schema.encode(table), table))
    for missing in (True, False) if any(f.missing for f in schema.features) else (False,):
        x = random_rows(schema, missing=missing)
        table = schema.decode(x, getattr(judge, "like", None))
        try:
            judge(table)
        except (ModelError, SchemaError):
            continue
        pairs.append((x, table))
        break
    return pairs


def boundary_sample(model: Model) -> list[tuple[Tensor, pd.DataFrame]]:
    """The random legal rows nearest to the boundary of a compiled form, where a small difference shows; pairs."""
    x = random_rows(model.schema, 16 * BOUNDARY_ROWS, missing=False)
    with torch.no_grad():
        nearest = model.margin(x).abs().argsort()[:BOUNDARY_ROWS]
    return _asked(model, x[nearest])


def step_sample(model: Model) -> list[tuple[Tensor, pd.DataFrame]]:
    """Random legal rows whose numbers lie beside the jumps of a compiled form, where a wrong edge shows; pairs."""
    if not (isinstance(model, Trees) or (isinstance(model, Additive) and model.terms.jumps is not None)):
        return []
    x = random_rows(model.schema, BOUNDARY_ROWS, missing=False)
    rng = np.random.default_rng(0)
    for feature, s in zip(model.schema.features, model.schema.slices, strict=True):
        if not isinstance(feature, Number):
            continue
        cuts = model.forest.cuts[s.start] if isinstance(model, Trees) else model.terms.cuts(s.start)
        if not len(cuts):
            continue
        chosen = feature.low + cuts.cpu().numpy()[rng.integers(len(cuts), size=len(x))] * feature.span
        beside = chosen + rng.integers(-1, 2, len(x)) * feature.unit_step
        moved = torch.tensor([legal_position(feature, v) for v in beside.tolist()], dtype=torch.float64)
        x[:, s.start] = torch.where(torch.from_numpy(rng.random(len(x)) < 0.7), moved, x[:, s.start])
    return _asked(model, x)


def _asked(model: Model, x: Tensor) -> list[tuple[Tensor, pd.DataFrame]]:
    """Rows and their table; nothing where the original cannot answer about them."""
    table = model.decode(x)
    try:
        model.judge(table)
    except (ModelError, SchemaError):
        return []
    return [(x, table)]


def compare(model: Model, pairs: list[tuple[Tensor, pd.DataFrame]], tolerance: float) -> Agreement:
    """Compare the compiled form of a model with the original, row by row.

    Margins must agree within `tolerance` * (1 + |margin|), and so in sign wherever they are further from zero.
    Log-odds may instead agree as probabilities: those read back from a probability near 0 or 1 are mostly rounding.
    """
    largest = 0.0
    for x, table in pairs:
        asked = model.judge(table)
        with torch.no_grad():
            fast = model.margin(x).detach().cpu().numpy()
        known = ~np.isnan(asked)
        a, b = asked[known], fast[known]
        gap = np.abs(a - b) / (1.0 + np.abs(a))
        if model.scale == "log-odds":
            as_probability = np.abs(0.5 * np.tanh(a / 2) - 0.5 * np.tanh(b / 2))
            gap = np.where(as_probability <= model.noise, 0.0, gap)
        gap = np.nan_to_num(gap, nan=np.inf)
        wrong = gap > tolerance
        if wrong.any():
            i = int(gap.argmax())
            return Agreement(
                f"the compiled form disagrees with the original on {int(wrong.sum())} of {len(x)} rows; "
                f"at worst it says {b[i]:.9g} where the original says {a[i]:.9g}"
            )
        near = np.abs(a) <= np.median(np.abs(a)) if len(a) else known[:0]
        largest = max(largest, float(margin_gap(model, a[near], b[near]).max(initial=0.0)))
    return Agreement(None, largest)
