"""The file of a comparison: one line of JSON for each finished cell, written as soon as it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnabout.documents import write_json
from turnabout.errors import BenchError

MARK = "turnabout_bench"
VERSION = 1
Key = tuple[str, str, str, str, bool, int]


class CellLines:
    """Finished cells in a file. A line that was being written when a run was stopped is taken out when it is opened."""

    def __init__(self, file: Path | None):
        self.file = file
        self.lines: list[dict[str, Any]] = []
        if file is not None and file.exists():
            self.lines = self._read(file)

    def _read(self, file: Path) -> list[dict[str, Any]]:
        text = file.read_bytes()
        kept, end = [], 0
        pieces = text.split(b"\n")
        for place, piece in enumerate(pieces):
            line = _line(piece)
            if line is not None:
                kept.append(line)
            if line is not None or (not piece.strip() and place + 1 < len(pieces)):
                end += len(piece) + 1
            elif place + 1 == len(pieces):  # without a line break: what was being written when a run was stopped
                break
            else:
                raise BenchError(
                    f"line {place + 1} of {str(file)!r} is no finished cell.",
                    hint="take that line out of the file, or write to another folder with --out.",
                )
        if end != len(text):  # the end of the last good line, with its line break
            with open(file, "r+b") as opened:
                opened.truncate(min(end, len(text)))
                if end > len(text):
                    opened.seek(0, os.SEEK_END)
                    opened.write(b"\n")
        return kept

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Append finished cells."""
        new = list(lines)
        self.lines += new
        if self.file is None or not new:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a", encoding="utf-8") as opened:
            opened.write("".join(f"{write_json({MARK: VERSION} | line)}\n" for line in new))
            opened.flush()
            os.fsync(opened.fileno())

    def latest(self, fingerprint: str) -> dict[Key, dict[str, Any]]:
        """The last line of each cell that was measured with these settings."""
        return {key_of(line): line for line in self.lines if line["fingerprint"] == fingerprint}


def key_of(line: dict[str, Any]) -> Key:
    """As `BenchCell.key`."""
    return (line["protocol"], line["data"], line["model"], line["method"], line["refine"], line["seed"])


def _line(piece: bytes) -> dict[str, Any] | None:
    """A finished cell, or None."""
    try:
        line = json.loads(piece)
        key_of(line)
        return line if line[MARK] == VERSION and "fingerprint" in line and "values" in line else None
    except (ValueError, KeyError, TypeError):
        return None
