"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PeopleFile = Annotated[
    str, typer.Argument(help="Table of people: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
]
ModelFile = Annotated[
    Path, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
]
SchemaFile = Annotated[
    Path | None, typer.Option(help="Schema, YAML or JSON; drafted from the background or the people if left out.")
]
RulesFile = Annotated[
    Path | None,
    typer.Option(help="Rules that every plan keeps, YAML or JSON: a list like `- {rule: at_most, k: 3}`."),
]
CostFile = Annotated[
    Path | None,
    typer.Option(help="What a change costs, YAML or JSON, like `kind: L1`; Effort if left out."),
]
LimitsFile = Annotated[
    Path | None,
    typer.Option(
        help="What single people will not or cannot change: a CSV of person, feature, low, high, fixed, difficulty, or "
        "YAML or JSON like `Ada: {job: fixed, income: \\[null, 60000]}`. People are named as in --id, or by row from 0."
    ),
]
MethodName = Annotated[str | None, typer.Option(help="One of `turnabout methods`; picked by the model if left out.")]
Yes = Annotated[str | None, typer.Option(help="The favourable value of the labels; true and 1 if left out.")]
Threshold = Annotated[
    float | None, typer.Option(help="Accepted when P(yes) is at least this; the model's own rule if left out.")
]
Target = Annotated[
    str | None,
    typer.Option(
        help="The class that counts as accepted. The second of two if left out; needed where that reads as a refusal, "
        "or where labels contradict it."
    ),
]
Reach = Annotated[
    list[str] | None,
    typer.Option(help="How far a column may move, like hours=9; may be repeated. Others then stay as they are."),
]
Seed = Annotated[int, typer.Option(help="Same seed, same answer.", min=0)]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds after which to stop with what there is.")]
QueryLimit = Annotated[
    int | None, typer.Option(help="Rows that a search may ask the model about, for each refused person.", min=1)
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that names each person.")]
Out = Annotated[
    Path | None, typer.Option(help="Name for NAME.json and the page NAME.html; JSON on stdout if left out.")
]
Epsilon = Annotated[float, typer.Option(help="Share of people who may be left without recourse.")]
Alpha = Annotated[float, typer.Option(help="Probability with which the promise may fail.")]
