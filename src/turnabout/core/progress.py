"""How far a search is, and a bar that shows it."""

from __future__ import annotations

from typing import Any

from turnabout.typing import Progress


class Bar:
    """Called with (done, total); draws a bar on stderr and takes it away when all is done."""

    def __init__(self, what: str = "finding recourse"):
        self.what = what
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self.what, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self._bar.stop()
            self._bar = None


class Done:
    """Counts people who have their answer, and tells whoever asked for progress."""

    def __init__(self, total: int, progress: Progress | None, done: int):
        self.total, self.progress, self.done = total, progress, 0
        self.add(done)

    def add(self, more: int) -> None:
        """So many more people have their answer."""
        self.done = min(self.done + more, self.total)
        if self.progress is not None:
            self.progress(self.done, self.total)
