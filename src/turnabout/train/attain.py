"""The row a person would reach by their best change, as it would be printed."""

from __future__ import annotations

import pandas as pd
import torch

from turnabout.models import Model
from turnabout.nn.inner import Inner
from turnabout.rules.regions import Region


def attain(model: Model, region: Region, people: pd.DataFrame, inner: Inner) -> pd.DataFrame:
    """Printed rows (same index) one change away, of the highest margin `inner` finds; their own where none beats it."""
    schema = model.schema
    table = schema.table(people)
    x = schema.encode(people)
    bound = region.bind(schema)
    delta = inner(model, bound.printable(x))  # type: ignore[arg-type]
    own, best = model.margin(x), x.clone()
    for outward in (False, True):
        x_new = bound.snap(x, schema.snap(x, x + delta, outward))
        margin = model.margin(x_new)
        better = (margin > own) & (bound.violation(x, x_new) <= 0)
        best[better], own = x_new[better], torch.where(better, margin, own)
    return schema.write(table, x, best)
