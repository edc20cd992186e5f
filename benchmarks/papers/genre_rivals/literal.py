"""GenRe's protocol once more, literally and without turnabout: the published split, one column for each feature.

Doing nothing and the nearest row that both the model (P above .7) and the drawn outcome call good, for people whom the
model refuses: an oracle for `bench.protocols.Paper`, and how far both move from one draw of outcomes to the next.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from ledger import Outcome
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import LocalOutlierFactor
from torch import nn

EPOCHS = {"adult": 40, "compas": 100, "heloc": 100}
CONFIDENT = 0.7
CHUNK = 2000


@cache
def judges(data: str) -> tuple[np.ndarray, int, list[int], CalibratedClassifierCV, LocalOutlierFactor, np.ndarray]:
    """Scaled rows, train before test; how many train; immutable columns; the forest, outlier factor and P(good)."""
    from turnabout.errors import DataError

    folder = Path(os.environ.get("TURNABOUT_DATA", "nowhere"), data)
    parts = []
    for part in ("train", "test"):
        file = folder / f"carla_{data}_{part}.csv.gz"
        if not file.is_file():
            raise DataError(f"{file.name} is not under TURNABOUT_DATA.")
        table = pd.read_csv(file)
        parts.append(table.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype("category").cat.codes))
    whole, n = pd.concat(parts), len(parts[0])
    names, rows, good = list(whole.columns[:-1]), whole.iloc[:, :-1].to_numpy(float), whole.iloc[:, -1].to_numpy() == 1
    low, high = rows[:n].min(0), rows[:n].max(0)
    rows = (rows - low) / (high - low)
    fixed = [i for i, name in enumerate(names) if name.split("_")[0] in ("race", "sex")]
    weight = np.where(good, 0.5 / good.mean(), 0.5 / (1 - good.mean()))
    forest = CalibratedClassifierCV(RandomForestClassifier(random_state=42), method="isotonic")
    chance = forest.fit(rows, good, sample_weight=weight).predict_proba(rows)[:, 1]
    outliers = LocalOutlierFactor(n_neighbors=5, novelty=True).fit(rows[chance > 0.5])
    return rows, n, fixed, forest, outliers, chance


def learner(rows: np.ndarray, good: np.ndarray, epochs: int, balanced: bool, seed: int) -> nn.Module:
    """Three layers of 10, Adam 1e-3, batches of 64 in the order of the file."""
    torch.manual_seed(seed)
    widths = ((rows.shape[1], 10), (10, 10), (10, 10))
    network = nn.Sequential(*(m for i, o in widths for m in (nn.Linear(i, o), nn.ReLU())), nn.Linear(10, 1))
    x, y = torch.tensor(rows, dtype=torch.float32), torch.tensor(good, dtype=torch.float32)
    weight = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean())) if balanced else torch.ones_like(y)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for start in range(0, len(x), 64):
            part = slice(start, start + 64)
            loss = nn.functional.binary_cross_entropy_with_logits(network(x[part])[:, 0], y[part], weight[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def nearest(own: np.ndarray, pool: np.ndarray, fixed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The place of the nearest row of the pool with the same immutable cells, and its distance."""
    places, lengths = [], []
    for start in range(0, len(own), CHUNK):
        part = torch.from_numpy(own[start : start + CHUNK])
        apart = torch.cdist(part, torch.from_numpy(pool), p=1)
        if fixed:
            other = torch.cdist(part[:, fixed], torch.from_numpy(pool[:, fixed]), p=1) > 1e-6
            apart = apart.masked_fill(other, torch.inf)
        least = apart.min(1)
        places.append(least.indices.numpy())
        lengths.append(least.values.numpy())
    return np.concatenate(places), np.concatenate(lengths)


def replay(data: str, seed: int, most: int | None) -> Outcome:
    """One draw of outcomes, of the first weights, and all refused test people (or the first `most`)."""
    torch.set_num_threads(1)
    rows, n, fixed, forest, outliers, chance = judges(data)
    good = np.random.default_rng(seed).random(len(rows)) < chance
    network = learner(rows[:n], good[:n], EPOCHS[data], data != "heloc", seed)
    with torch.no_grad():
        said = torch.sigmoid(network(torch.tensor(rows, dtype=torch.float32)))[:, 0].numpy()
    asked = (np.flatnonzero(said[n:] <= 0.5) + n)[:most]
    pool = rows[:n][(said[:n] > CONFIDENT) & good[:n]]
    place, cost = nearest(rows[asked], pool, fixed)
    figures: dict[str, tuple[float | list[float], int]] = {}
    for name, x_new, paid in (("nothing", rows[asked], 0 * cost), ("NNR_both", pool[place], cost)):
        valid = (forest.predict_proba(x_new)[:, 1] > 0.5).mean()
        inlier = (outliers.predict(x_new) > 0).mean()
        figures[f"literal.{data}.{name}.score"] = (valid + inlier - paid.mean() / rows.shape[1], len(asked))
        figures[f"literal.{data}.{name}.unseen_validity"] = (valid, len(asked))
    return Outcome(figures)
