"""Cases from real data: people as they are, and the models people use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from turnabout.core import Problem
from turnabout.datasets import load
from turnabout.models import Additive, Differentiable, LinearMargin, ReluNet, Trees, wrap
from turnabout.schema import Category, Number, Schema
from turnabout.testing.generate import Case, acting
from turnabout.testing.trial import quiet

Estimator = Literal["logistic", "mlp", "boosting"]
OFFERS: dict[Estimator, tuple[type, ...]] = {
    "logistic": (LinearMargin, Additive, Differentiable),
    "mlp": (ReluNet, Differentiable),
    "boosting": (Trees,),
}
TRAIN = 600


def estimators_for(requires: type | None) -> tuple[Estimator, ...]:
    """Estimators that offer a capability."""
    return tuple(kind for kind, offered in OFFERS.items() if requires is None or requires in offered)


@lru_cache(maxsize=16)
def real_case(name: str, estimator: Estimator, people: int = 8, actions: bool = False) -> Case:
    """A data set, a pipeline fitted on some of it, and a few other people of whom most are refused.

    With `actions` the problem has drafted ones, and costs that go with them.
    """
    if actions:
        case = real_case(name, estimator, people)
        return Case(f"{case} and actions", acting(case.problem), case.people)
    data = load(name)
    train, test = data.split(test=0.25, seed=0)
    rows = train.people.sample(min(TRAIN, len(train)), random_state=0).sort_index()
    labels = train.accepted.loc[rows.index].to_numpy(dtype=bool)
    with quiet():
        fitted = _pipeline(data.schema, estimator).fit(rows, labels)
        model = wrap(fitted, data.schema, background=rows)
    problem = Problem(data.schema, model, background=rows, labels=labels)
    some = test.people.sample(min(400, len(test)), random_state=1)
    margins = model.judge(some)
    refused, accepted = some[margins < 0], some[margins >= 0]
    few = accepted.iloc[: max(1, people // 4)]
    asking = refused.iloc[: people - len(few)]
    table = some.loc[some.index.isin([*few.index, *asking.index])]
    return Case(f"{name} with {estimator}", problem, table)


def _pipeline(schema: Schema, estimator: Estimator) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    trees = estimator == "boosting"
    parts: list[tuple[str, Any, list[str]]] = []
    for f in schema:
        if isinstance(f, Number):
            numbers: Any = (
                "passthrough" if trees else make_pipeline(SimpleImputer(add_indicator=f.missing), StandardScaler())
            )
            parts.append((f.name, numbers, [f.name]))
        elif isinstance(f, Category):
            parts.append((f.name, OneHotEncoder(handle_unknown="ignore", sparse_output=False), [f.name]))
        else:
            order = OrdinalEncoder(
                categories=[list(f.levels)],  # type: ignore[attr-defined]
                handle_unknown="use_encoded_value",
                unknown_value=-1,
            )
            parts.append((f.name, order, [f.name]))
    models: dict[Estimator, Any] = {
        "logistic": LogisticRegression(max_iter=500),
        "mlp": MLPClassifier((8,), max_iter=40, random_state=0),
        "boosting": HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=7, random_state=0),
    }
    return Pipeline([("columns", ColumnTransformer(parts)), ("model", models[estimator])])
