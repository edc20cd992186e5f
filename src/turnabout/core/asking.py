"""Asking a model about many rows so that one bad row costs only itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from turnabout.errors import ModelError

T = TypeVar("T")
FAILURES = (32, 1024)  # single rows on which a model may fail before it is given up: a sixteenth, within these


@dataclass
class Unanswered:
    """Rows about which a model gave no answer."""

    rows: dict[int, ModelError] = field(default_factory=dict)
    answered: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> ModelError:
        """What the model said when it failed last."""
        return next(reversed(self.rows.values()))

    @property
    def is_down(self) -> bool:
        """Whether the model answered nothing at all."""
        return bool(self.rows) and not self.answered

    def check(self, answers: T) -> T:
        """The answers; raises what the model said if there are none."""
        if self.is_down:
            raise self.last
        return answers


def ask_patiently(ask: Callable[[int, int], None], start: int, stop: int) -> Unanswered:
    """Ask about rows start to stop; where the model fails, about each half, down to single rows, which are asked twice.

    Never raises a ModelError. When the model has failed on too many rows, the rest counts as unanswered too.
    """
    out = Unanswered()
    parts = [(start, stop)] if stop > start else []
    least, most = FAILURES
    bearable = max(least, min((stop - start) // 16, most))
    while parts:
        a, b = parts.pop()
        for last in (False, True) if b - a == 1 else (True,):
            try:
                ask(a, b)
                out.answered += b - a
                break
            except ModelError as error:
                if not last:
                    continue
                if b - a > 1 and len(out) <= bearable:
                    middle = (a + b) // 2
                    parts += [(middle, b), (a, middle)]
                else:
                    out.rows.update(dict.fromkeys(range(a, b), error))
                    if len(out) > bearable:
                        out.rows.update({row: error for c, d in parts for row in range(c, d)})
                        return out
    return out
