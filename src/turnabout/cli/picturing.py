"""The command that draws what methods do in the plane."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from turnabout.cli.app import app
from turnabout.cli.outputs import check_folder
from turnabout.cli.screen import say
from turnabout.progress_bar import Bar

SMALL_PEOPLE = 12


@app.command("pictures")
def picture(
    folder: Annotated[Path, typer.Option("--out", help="Folder for a picture of each data set and the data drawn.")],
    data: Annotated[list[str] | None, typer.Option(help="moons or circles, both if left out; may be repeated.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method, all that need no actions if left out; may be repeated. package.module:Class works."
        ),
    ] = None,
    people: Annotated[int, typer.Option(help="Refused people to draw, at most.", min=1)] = 40,
    seed: Annotated[int, typer.Option(help="Draws the people, the model and the searches.", min=0)] = 0,
    refined: Annotated[
        bool, typer.Option("--refined", help="Draw options walked back towards the person, as find answers.")
    ] = False,
    small: Annotated[bool, typer.Option("--small", help="A taste: 12 people.")] = False,
) -> None:
    """Draw what methods do in two dimensions: refused people, joined to their options. A PNG and a JSON each."""
    from turnabout import bench
    from turnabout.render import save_planes
    from turnabout.render.palette import need_matplotlib

    check_folder("out", folder)
    need_matplotlib()
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    asked = min(people, SMALL_PEOPLE) if small else people
    with Bar("drawing") as progress:
        drawn = bench.pictures(data or tuple(bench.TOYS), method or None, asked, seed, refined, progress)
    for one in drawn:
        file = one.write(folder)
        image = save_planes(one.to_dict(), folder / f"{one.data}.png")
        for label, why in one.left_out.items():
            say(f"not drawn on {one.data}: {label}: {why}")
        say(f"{image} and {file} are written.")
    if not any(one.panels for one in drawn):
        say("no method is drawn: none of them applies.")
        raise typer.Exit(1)
