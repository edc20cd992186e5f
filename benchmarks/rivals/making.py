"""Making a case: read the data, train the model, choose the refused people, write everything in the neutral form."""

import json
import sys
from pathlib import Path

import case as frame
import numpy as np
import pandas as pd

# What a plan may not touch: origin, family and age; the bureau's own score, and history.
FIXED = {
    "adult": ("age", "marital-status", "relationship", "race", "sex", "native-country"),
    "heloc": (
        "ExternalRiskEstimate",
        "MSinceOldestTradeOpen",
        "MaxDelqEver",
        "NumTrades60Ever2DerogPubRec",
        "NumTrades90Ever2DerogPubRec",
    ),
}


def read_table(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """People, who was good (bool), and who is in the test half (bool)."""
    if name == "adult":
        table = pd.read_csv(folder / "adult" / "adult_named.csv.gz")
        good, test = table["income"] == ">50K", table["split"] == "test"
        # education repeats education-num; fnlwgt is the census's weight of the row, not a fact about the person
        table = table.drop(columns=["income", "split", "education", "fnlwgt"])
        return table, good.to_numpy(bool), test.to_numpy(bool)
    table = pd.read_csv(folder / "heloc" / "heloc_dataset_v1.csv.gz")
    good = table.pop("RiskPerformance") == "Good"
    known = (table != -9).any(axis=1)
    table, good = table[known].reset_index(drop=True), good[known]
    return table, good.to_numpy(bool), np.random.default_rng(0).random(len(table)) < 0.25


def make_case(name: str, kind: str, people: int, data: Path, folder: Path) -> frame.Case:
    """Train the model, choose the refused people, and write the case for the workers."""
    table, good, test = read_table(name, data)
    columns = []
    for column, values in table[~test].items():
        numeric = pd.api.types.is_numeric_dtype(values)
        levels = () if numeric else tuple(sorted(values.unique()))
        low, high = (float(values.min()), float(values.max())) if numeric else (0.0, 1.0)
        columns.append(frame.Column(str(column), levels, low, high, column in FIXED[name]))
    coded = np.column_stack(
        [pd.Index(c.levels).get_indexer(table[c.name]) if c.levels else table[c.name] for c in columns]
    ).astype(float)
    low = np.array([c.low for c in columns])
    high = np.array([np.inf if c.levels else c.high for c in columns])
    inside = ((coded >= low) & (coded <= high)).all(axis=1)  # no library is asked about values the training never saw
    train, labels = coded[~test], good[~test].astype(int)

    folder.mkdir(parents=True, exist_ok=True)
    told = {"kind": kind, "columns": [vars(c) | {"levels": list(c.levels)} for c in columns]}
    (folder / "case.json").write_text(json.dumps(told))
    train_model(kind, frame.encode(columns, train, scaled=kind == "net"), labels, folder)
    ask = frame.load_model(folder, kind)

    def probability(rows: np.ndarray) -> np.ndarray:
        return ask(frame.encode(columns, rows, scaled=kind == "net"))

    candidates = coded[test & inside]
    refused = np.random.default_rng(0).permutation(candidates[probability(candidates) < 0.5])[: people + 1]
    accuracy = ((probability(coded[test & inside]) >= 0.5) == good[test & inside]).mean()
    print(f"{name}, {kind}: {len(train)} training rows, test accuracy {accuracy:.3f}", file=sys.stderr)
    expected = probability(np.concatenate([train, refused[1:]]))
    np.savez(folder / "rows.npz", train=train, labels=labels, people=refused[1:], warm=refused[0], expected=expected)
    return frame.load(folder)


def train_model(kind: str, x: np.ndarray, labels: np.ndarray, folder: Path) -> None:
    """A ReLU net of three layers of ten, or a hundred boosted trees of depth three; stored in a neutral form."""
    if kind == "net":
        from sklearn.neural_network import MLPClassifier

        net = MLPClassifier((10, 10, 10), early_stopping=True, max_iter=60, random_state=0).fit(x, labels)
        layers = enumerate(zip(net.coefs_, net.intercepts_, strict=True))
        np.savez(folder / "net.npz", **{k: v for i, (w, b) in layers for k, v in ((f"W{i}", w), (f"b{i}", b))})
    else:
        import xgboost

        trees = xgboost.XGBClassifier(n_estimators=100, max_depth=3, n_jobs=1, random_state=0)
        trees.fit(x, labels).get_booster().save_model(folder / "trees.json")
