"""The application that commands join, and the codes with which it ends."""

from __future__ import annotations

from typing import Annotated

import typer

from turnabout.cli.screen import talk

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

    try:
        app()
    except TurnaboutError as error:
        talk.print(f"{type(error).__name__}: {error}", style="red", markup=False, highlight=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        talk.print("stopped.")
        raise SystemExit(1) from None
