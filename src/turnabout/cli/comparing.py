"""The command that compares methods: a grid in, a leader board out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnabout.cli.app import app
from turnabout.cli.outputs import check_folder
from turnabout.cli.screen import frame_table, out, say
from turnabout.errors import TurnaboutError
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    from turnabout.bench import Board

FIGURE = "board.png"


@app.command("bench")
def compare(
    grid: Annotated[
        Path | None,
        typer.Argument(help="What to compare, YAML or JSON; all methods on German credit if left out."),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="A taste: one data set, model and seed, 20 people. Under three minutes.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes to work in.", min=1)] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the board as CSV, Markdown and a figure, and for finished cells: a run that was stopped "
            "goes on where it was.",
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Measure cells that failed again.")] = False,
) -> None:
    """Compare methods on data sets, models and seeds, and print the leader board.

    Methods of your own take part by import path, `package.module:Class`, also from the folder you are in.
    """
    from turnabout import bench

    if folder is not None:
        check_folder("out", folder)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    asked = bench.Grid() if grid is None else bench.Grid.load(grid)
    asked = asked.small() if small else asked
    with Bar("comparing") as progress:
        board = bench.run(asked, folder, jobs=jobs, progress=progress, retry=retry)
    _print(board)
    if folder is not None:
        from turnabout.render import save_board

        files = [*board.write(folder)]
        try:
            files.append(save_board(board.table, folder / FIGURE))
        except TurnaboutError as error:  # without matplotlib
            say(f"no figure is drawn: {error.message}")
        say(f"{', '.join(str(file) for file in files)} are written.")
    if board.nothing_measured:
        say("no method was measured.")
        raise typer.Exit(1)


def _print(board: Board) -> None:
    """The board as tables for the eye, or as Markdown where it goes elsewhere; what failed on stderr."""
    if out.is_terminal:
        for title, table in board.shown():
            out.print(frame_table(table.apply(lambda column: column.str.replace(" [", "\n[", regex=False)), title))
    else:
        print(board.to_markdown(), end="")
    for line in board.not_measured():
        say(f"not measured: {line}")
