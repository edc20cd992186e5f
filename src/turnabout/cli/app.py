"""The application that commands join, and the codes with which it ends."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from turnabout.cli.screen import say, talk

app = typer.Typer(
    name="turnabout",
    help="What a refused person can really do to be accepted, verified before anyone reads it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
schema_app = typer.Typer(help="Draft and review schemas.", no_args_is_help=True)
actions_app = typer.Typer(help="Draft and review the actions that plans are made of.", no_args_is_help=True)
app.add_typer(schema_app, name="schema")
app.add_typer(actions_app, name="actions")


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """What a refused person can really do to be accepted, verified before anyone reads it."""
    if version:
        from turnabout import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """Exit 0 when done, 1 when it failed, 2 when misused."""
    from turnabout.errors import TurnaboutError

    with contextlib.suppress(AttributeError, OSError, ValueError):  # a stream that is not a file's
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, UserWarning):
                say(f"warning: {message}")
            else:
                shown(message, category, *where)

        warnings.showwarning = tell  # type: ignore[assignment]
        try:
            run()
        except TurnaboutError as error:
            fail(f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:
            fail("stopped.")
        except OSError as error:  # a disk that is full, a file that went away
            drop_stdout()
            fail(f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}.")
        except (MemoryError, RecursionError) as error:
            fail(f"{type(error).__name__}: the files are too large or nested too deeply for this machine.")


def run() -> None:
    """The command that was given, and everything that it wrote."""
    try:
        app()
    finally:
        sys.stdout.flush()


def drop_stdout() -> None:
    """Let nothing more be written to a stdout that takes nothing, also not when the process ends."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(reason: str) -> NoReturn:
    talk.print(reason, style="red", markup=False, highlight=False)
    raise SystemExit(1) from None
