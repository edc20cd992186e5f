"""Small HTML of objects, for notebooks: a line of title, and tables or text. Everything is escaped."""

from __future__ import annotations

from html import escape

import pandas as pd

ROWS = 20  # of a table, at most
COLUMNS = 12


def block(title: str, *tables: pd.DataFrame) -> str:
    """A title above tables; long and wide ones are cut, and say so."""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(map(_table, tables))}</div>"


def report_html(report: object) -> str:
    """A report as it prints itself; written `_repr_html_ = report_html` in its class."""
    lines = escape(str(report))
    return f"<div><p><b>{escape(type(report).__name__)}</b></p><pre style='white-space: pre-wrap'>{lines}</pre></div>"


def _table(frame: pd.DataFrame) -> str:
    shown = frame.iloc[:ROWS, :COLUMNS]
    html = shown.to_html(escape=True, border=0, max_rows=ROWS, max_cols=COLUMNS, float_format=lambda v: f"{v:.6g}")
    cut = [f"{len(frame)} rows"] * (len(frame) > ROWS) + [f"{frame.shape[1]} columns"] * (frame.shape[1] > COLUMNS)
    return html + (f"<p>The first part of {' and '.join(cut)}.</p>" if cut else "")
