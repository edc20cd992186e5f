"""The main job on the embedded data set: a credit model, and a plan for everyone it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from turnabout import datasets, metrics, models
from turnabout.core import Problem, Recourse, Status
from turnabout.core.second_look import Review
from turnabout.datasets import Dataset
from turnabout.methods import choose
from turnabout.typing import Progress


@dataclass(frozen=True)
class Showcase:
    """What the demo shows."""

    answer: Recourse
    summary: pd.DataFrame
    metrics: pd.DataFrame
    title: str
    plan: pd.DataFrame
    review: Review


def credit_model(train: Dataset) -> Any:
    """A logistic regression on raw columns: numbers scaled, levels one-hot."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [f.name for f in train.schema if f.kind == "number"]
    levels = [f.name for f in train.schema if f.kind != "number"]
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), numbers), ("levels", OneHotEncoder(handle_unknown="ignore"), levels)]
    )
    return make_pipeline(columns, LogisticRegression(max_iter=2000)).fit(train.people, train.accepted)


def run(
    seed: int = 0,
    options: int = 1,
    progress: Progress | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Showcase:
    """Train, wrap, pose, find, measure."""
    data = datasets.load("german", advice=True)
    train, test = data.split(seed=seed)
    say(f"Data: {len(data.people)} credit applicants, {len(data.schema)} features (Statlog German credit, CC BY 4.0).")
    classifier = credit_model(train)
    say(f"Model: logistic regression, right for {classifier.score(test.people, test.accepted):.0%} of the test part.")
    model = models.wrap(classifier, data.schema, background=train.people)
    problem = Problem(data.schema, model, background=train.people, labels=train.accepted)
    method = choose(problem)
    answer = method.find(test.people, options=options, seed=seed, progress=progress)
    say(f"Answer: {answer!r}, in {answer.seconds:.2f} s.")
    summary = pd.DataFrame(list(answer.counts().items()), columns=["status", "people"])
    title, plan = one_plan(answer, problem)
    measured = metrics.measure(answer, problem, seed=seed)
    return Showcase(answer, summary, measured[measured.n > 0], title, plan, answer.review(problem))


def one_plan(answer: Recourse, problem: Problem) -> tuple[str, pd.DataFrame]:
    """The first person with a plan of two changes or more (or just the first), in the words of the schema."""
    found = answer.status.index[answer.status == Status.FOUND]
    if not len(found):
        return "Nobody was given a plan", pd.DataFrame(columns=["feature", "now", "option 0"])
    counts = answer.changes().query("option == 0").groupby("person").size()
    several = [person for person in found if counts.get(person, 0) >= 2]
    person = several[0] if several else found[0]
    plan = answer.of(person)
    titles = [problem.schema[name].title for name in plan.index]
    return f"What person {person} can do", plan.reset_index(drop=True).assign(feature=titles)[
        ["feature", *plan.columns]
    ]
