"""What is shown where: data on stdout, talk, tables and bars for the eye."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from turnabout.stdout import stdout_for_data

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.core import Recourse

__all__ = ["frame_table", "out", "say", "show_why", "stdout_for_data", "talk"]

out = Console()
talk = Console(stderr=True)


def say(text: str) -> None:
    """A line of talk, letter by letter."""
    talk.print(text, markup=False, highlight=False)


def frame_table(frame: pd.DataFrame, title: str, digits: int | None = None) -> Table:
    """A data frame as a terminal table; numbers in full, as they were verified, unless digits are given."""
    table = Table(title=escape(title), title_justify="left")
    for name in frame.columns:
        table.add_column(escape(str(name)), overflow="fold")  # on a narrow screen nothing is left out
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(f"{c:.{digits}g}" if digits and isinstance(c, float) else str(c)) for c in row))
    return table


def show_why(answer: Recourse) -> None:
    """Rules that were waived, and for whom; those without a plan, and why."""
    if len(answer.waived):
        out.print(frame_table(answer.waived.reset_index(), "Rules not checked, because a cell is missing"))
    if len(answer.why):
        out.print(frame_table(answer.why.reset_index()[["person", "reason", "binding", "proof"]], "No plan, and why"))
