"""The README says only what runs: its examples, its output, its table of methods."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import turnabout as ta

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
PYTHON = [i for i, (language, _) in enumerate(BLOCKS) if language == "python"]


def test_the_ten_lines_print_what_the_readme_says():
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        exec(BLOCKS[PYTHON[0]][1], {})
    shown = BLOCKS[PYTHON[0] + 1][1]
    assert [line.rstrip() for line in heard.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_your_own_model_and_csv(tmp_path, monkeypatch):
    """The second example, on files of the kind it speaks of."""
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {
            "age": rng.integers(20, 70, 400),
            "sex": rng.choice(["f", "m"], 400),
            "education": rng.integers(8, 20, 400),
            "income": rng.integers(10, 90, 400),
        }
    )
    train["repaid"] = (train.income + 3 * train.education + rng.normal(0, 8, 400) > 90).astype(int)
    columns = make_column_transformer(
        ("passthrough", make_column_selector(dtype_include="number")),
        (OrdinalEncoder(), make_column_selector(dtype_exclude="number")),
    )
    model = make_pipeline(columns, RandomForestClassifier(30, max_depth=5, random_state=0))
    model.fit(train.drop(columns="repaid"), train.repaid)
    monkeypatch.chdir(tmp_path)
    joblib.dump(model, "model.joblib")
    train.to_csv("train.csv", index=False)
    train.drop(columns="repaid").head(40).to_csv("people.csv", index=False)
    scope: dict = {}
    exec(BLOCKS[PYTHON[1]][1], scope)
    answer, people = scope["answer"], scope["people"]
    assert (model.predict_proba(answer.options[model.feature_names_in_])[:, 1] >= 0.6).all() and len(answer.options)
    own = people.loc[answer.options.index.get_level_values("person")]
    assert (answer.options.sex.to_numpy() == own.sex.to_numpy()).all()


def first_column(heading: str) -> list[str]:
    """What the first column of a table in code type holds, in the section under a heading."""
    section = README.read_text(encoding="utf-8").split(heading, 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_every_method_stands_in_the_table():
    assert first_column("## Methods") == [cls.__name__ for cls in ta.methods.ALL]


def test_every_status_stands_in_the_table():
    assert first_column("# turnabout") == [status.value for status in ta.Status]
