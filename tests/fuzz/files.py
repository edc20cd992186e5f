"""The same question through the command line: tables written by hand, and the answer read from its JSON."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import turnabout as ta
    from fuzz.questions import Question
    from fuzz.worlds import World


def ask_by_file(world: World, question: Question) -> ta.Recourse:
    """The answer of `turnabout find`; an exit with an error raises what it said."""
    import joblib

    import turnabout as ta
    from command_line import turnabout
    from fuzz.attack import declare

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        joblib.dump(world.decider.model, home / "model.joblib")
        declare(world.columns).save(home / "schema.yaml")
        people = write_people(home, world, question)
        world.training.to_parquet(home / "background.parquet")
        arguments: list[Any] = ["find", people, "--model", home / "model.joblib", "--schema", home / "schema.yaml"]
        arguments += ["--id", "who", "--options", question.options, "--background", home / "background.parquet"]
        for name, value in world.decider.arguments.items():
            arguments += [f"--{name}", value]
        done = turnabout(*arguments)
    if done.returncode != 0:
        raise ta.TurnaboutError(f"exit {done.returncode}: {done.told}", hint="")
    return ta.Recourse.from_json(done.stdout)


def write_people(home: Path, world: World, question: Question) -> Path:
    """A table of the people, with the column `who` for their labels."""
    path = home / f"people.{question.file}"
    names = ["who", *world.by_name]
    question.labels = [str(label) for label in question.labels]
    rows = [[label, *row] for label, row in zip(question.labels, question.people)]
    if question.file == "csv":
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(names)
            writer.writerows([["" if cell is None else _short(cell) for cell in row] for row in rows])
    elif question.file == "parquet":
        from fuzz.frames import build

        table = build(world.columns, question.people)
        table.insert(0, "who", pd.array(question.labels, dtype="str"))
        table.to_parquet(path)
    else:
        records = [dict(zip(names, row)) for row in rows]
        text = "\n".join(json.dumps(r) for r in records) if question.file == "jsonl" else json.dumps(records)
        path.write_text(text, encoding="utf-8")
    return path


def _short(cell: Any) -> str:
    """A cell as a file has it: 3 and not 3.0."""
    return str(int(cell)) if isinstance(cell, float) and cell == int(cell) else str(cell)
