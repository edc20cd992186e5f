"""A bar for long training."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class TrainingBar:
    """A progress bar on stderr; inside `with`, a function of (done, total)."""

    def __init__(self, title: str):
        self.title = title

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task: Any = self._bar.add_task(self.title, total=None)
        return self

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
