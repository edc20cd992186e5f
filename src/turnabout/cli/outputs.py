"""Files and folders that a command will write: tried before the work begins, because a search may take hours."""

from __future__ import annotations

import os
from pathlib import Path

import typer


def check_files(**files: Path | None) -> None:
    """Refuse files that cannot be written, by the option that names each. A file that is there keeps its content."""
    for option, file in files.items():
        if file is None:
            continue
        try:
            reason = _why_no_file(file)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
        if reason:
            raise typer.BadParameter(f"{str(file)!r} {reason}.", param_hint=f"--{option}")
    given = {option: file.absolute() for option, file in files.items() if file is not None}
    if len(set(given.values())) < len(given):
        raise typer.BadParameter("two files have the same name; the second would replace the first.", param_hint=option)


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be made or written to; leaves no trace of the trial."""
    made: list[Path] = []
    reason = ""
    try:
        if folder.exists() and not folder.is_dir():
            reason = "is not a folder"
        else:
            for place in [*reversed(folder.absolute().parents), folder.absolute()]:
                if not place.is_dir():
                    place.mkdir()
                    made.append(place)
            reason = _why_no_file(folder / f".turnabout-{os.getpid()}")
    except OSError as error:
        reason = f"cannot be written to: {error.strerror}"
    finally:
        for place in reversed(made):
            place.rmdir()
    if reason:
        raise typer.BadParameter(f"{str(folder)!r} {reason}.", param_hint=f"--{option}")


def _why_no_file(file: Path) -> str:
    """Why a file cannot be written, or "". Opens it: permissions do not tell all, and to root they tell nothing."""
    if file.is_dir():
        return "is a folder"
    if not file.absolute().parent.is_dir():
        return "lies in a folder that is not there"
    is_new = not os.path.lexists(file)
    if not is_new and not file.is_symlink() and not file.is_file():  # a device or a pipe, which waits for a reader
        return "" if os.access(file, os.W_OK) else "cannot be written: permission denied"
    target_is_new = not file.exists()
    with open(file, "ab"):
        pass
    if is_new:
        file.unlink()
    elif target_is_new:  # behind a link that led nowhere
        file.resolve().unlink()
    return ""
