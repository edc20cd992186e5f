"""Calling the command line from tests, in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from turnabout.cli import main


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str

    @property
    def told(self) -> str:
        """What was said, in one line."""
        return " ".join(self.stderr.replace("│", " ").split())


def turnabout(*arguments: object, stdin: str = "") -> Done:
    """Call the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    with (
        mock.patch.object(sys, "argv", ["turnabout", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return Done(code, out.getvalue(), err.getvalue())
