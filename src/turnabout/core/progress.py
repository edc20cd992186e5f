"""How far a search is."""

from __future__ import annotations

from turnabout.typing import Progress


class Done:
    """Counts people who have their answer and reports the count to `progress`."""

    def __init__(self, total: int, progress: Progress | None, done: int):
        self.total, self.progress, self.done = total, progress, 0
        self.add(done)

    def add(self, more: int) -> None:
        """So many more people have their answer."""
        self.done = min(self.done + more, self.total)
        if self.progress is not None:
            self.progress(self.done, self.total)
