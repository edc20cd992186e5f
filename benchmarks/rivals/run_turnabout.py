"""Worker: turnabout's methods by name, at their defaults, all people in one call; immutables are in the schema."""

import case as frame
import numpy as np
import pandas as pd
import torch

import turnabout as ta
from turnabout.schema import Category, Number, Schema


def net(case: frame.Case) -> torch.nn.Module:
    """The net as a torch module: what it sees is what the schema encodes."""
    with np.load(case.folder / "net.npz") as stored:
        parts: list[torch.nn.Module] = []
        for i in range(len(stored.files) // 2):
            weights, bias = torch.from_numpy(stored[f"W{i}"]), torch.from_numpy(stored[f"b{i}"])
            layer = torch.nn.Linear(*weights.shape, dtype=torch.float64)
            layer.weight.data, layer.bias.data = weights.T.contiguous(), bias
            parts += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def trees(case: frame.Case, table: pd.DataFrame) -> object:
    """The boosted trees as the Pipeline on raw columns that a user would have."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from xgboost import XGBClassifier

    steps = [
        (OneHotEncoder(categories=[list(c.levels)], sparse_output=False) if c.levels else "passthrough", [c.name])
        for c in case.columns
    ]
    columns = make_column_transformer(*steps, verbose_feature_names_out=False).fit(table)
    booster = XGBClassifier(n_jobs=1)
    booster.load_model(case.folder / "trees.json")
    return make_pipeline(columns, booster)


def prepare(case: frame.Case, variant: str, seed: int) -> frame.Search:
    """The method fitted to the question; `variant` is its class name."""
    torch.set_num_threads(1)

    known = pd.DataFrame(case.table(case.train))
    schema = Schema(
        tuple(
            Category(c.name, c.levels, moves="fixed" if c.fixed else "free")
            if c.levels
            else Number(c.name, c.low, c.high, step=1, moves="fixed" if c.fixed else "free")
            for c in case.columns
        )
    )
    original = net(case) if case.kind == "net" else trees(case, known)
    model = ta.models.wrap(original, schema, threshold=0.5, background=known)
    assert ((model.judge(known) >= 0) == (case.expected[: len(known)] >= 0.5)).all()
    problem = ta.Problem(schema, model, cost=ta.costs.L1(), background=known, labels=case.labels == 1)
    method = getattr(ta.methods, variant)().fit(problem)

    def search(coded: np.ndarray) -> list[np.ndarray | None]:
        answer = method.find(pd.DataFrame(case.table(coded)), options=1, seed=seed)
        plans: list[np.ndarray | None] = [None] * len(coded)
        for (person, _), row in answer.options.iterrows():
            cells = [c.levels.index(row[c.name]) if c.levels else row[c.name] for c in case.columns]
            plans[person] = np.array(cells, dtype=float)
        return plans

    return search


if __name__ == "__main__":
    frame.work(prepare, batch=True, needs=["turnabout", "torch", "pandas", "numpy"])
