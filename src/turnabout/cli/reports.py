"""What the reports share: where they are written, what they say of the files, and the JSON and the page."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from turnabout.cli.outputs import check_files
from turnabout.cli.screen import say

if TYPE_CHECKING:
    from turnabout.audit.audit_report import AuditReport
    from turnabout.cli.posed_question import Question
    from turnabout.explain.explain_report import ExplainReport
    from turnabout.typing import Json

    Report = TypeVar("Report", AuditReport, ExplainReport)


def check_out(out: Path | None) -> Path | None:
    """The two files' common name; refuses before the work what would fail after it."""
    if out is None:
        return None
    from turnabout.render.palette import need_matplotlib

    if os.path.isdir(out):  # which never raises
        raise typer.BadParameter(
            f"{str(out)!r} is a folder; name the report in it, like {str(out / 'report')!r}.", param_hint="--out"
        )
    stem = out.with_suffix("") if out.suffix in (".json", ".html") else out
    for suffix in (".json", ".html"):
        check_files(out=Path(f"{stem}{suffix}"))
    need_matplotlib()
    return stem


def of_files(report: Report, question: Question, asked: Json, warned: list[str]) -> Report:
    """The report of a command: with the names of its files, what was noted while they were read, and its line."""
    return replace(
        report,
        asked=report.asked | asked,
        notes=(*question.notes, *report.notes),
        warnings=tuple(warned),
        command=shlex.join(["turnabout", *sys.argv[1:]]),
    )


def write_report(report: Report, draw: Callable[[Json], str], out: Path | None) -> None:
    """The document on stdout, or with its page in two files."""
    text = report.to_json(indent=2)
    if out is None:
        print(text)
        return
    Path(f"{out}.json").write_text(text + "\n", encoding="utf-8")
    Path(f"{out}.html").write_text(draw(json.loads(text)), encoding="utf-8")  # from what was written, and nothing else
    say(f"{out}.json and {out}.html are written; the page opens in any browser.")
