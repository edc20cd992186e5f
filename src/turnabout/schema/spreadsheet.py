"""CSV for people, who open it in a spreadsheet: a text cell that would be run as a formula is marked as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

RUN = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""Starts of texts that some spreadsheet runs (the last four are wide forms of = + - @), behind marks or not."""


QUOTED = re.compile('[,;"\t\r\n]')  # also what other spreadsheets split lines and cells at


def spreadsheet_csv(frame: pd.DataFrame) -> str:
    """A table as CSV, without its index, in which no cell is a formula.

    An apostrophe is put before texts that start with = + - @, a tab or a line break, in cells and in names of columns,
    which spreadsheets take as "what follows is text". Texts that start with apostrophes and one of those get one
    more, so that `bare_text` undoes it in every case. Numbers stay numbers: -5 is written as -5.
    """
    lines: list[Iterable[Any]] = [frame.columns, *frame.itertuples(index=False, name=None)]
    return "".join(",".join(_cell(cell, alone=frame.shape[1] == 1) for cell in line) + "\n" for line in lines)


def bare_text(cell: str) -> str:
    """The text of a cell that `spreadsheet_csv` wrote: without the mark, if it has one."""
    return cell[1:] if cell.startswith("'") and RUN.match(cell) else cell


def _cell(cell: Any, alone: bool) -> str:
    text = "" if pd.api.types.is_scalar(cell) and pd.isna(cell) else str(cell)
    if not pd.api.types.is_number(cell) and RUN.match(text):
        text = f"'{text}"
    if QUOTED.search(text) or text != text.strip() or (alone and not text):  # a blank line is no row
        return '"' + text.replace('"', '""') + '"'
    return text
