"""Numbers of the action language: which are allowed, and how they are written so that they read back exactly."""

from __future__ import annotations

import math
from numbers import Real

from turnabout.documents import shown
from turnabout.errors import ActionError
from turnabout.typing import as_float

LARGEST = 1e15  # beyond it a double no longer holds every whole number and half


def checked(value: object, what: str) -> float:
    """A finite number of ordinary size as a float; else an error that names what holds it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ActionError(f"{what} is {value!r}, which is not a number.", hint="give a plain number.")
    number = as_float(value)
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise ActionError(
            f"{what} is {shown(value)}, which is not a finite number of ordinary size.",
            hint=f"use numbers between -{LARGEST:g} and {LARGEST:g}; leave a limit out where there is none.",
        )
    return number + 0.0  # no negative zero


def positive(value: object, what: str) -> float:
    """A number above zero."""
    number = checked(value, what)
    if number <= 0:
        raise ActionError(f"{what} is {value!r}.", hint="use a number above zero.")
    return number


def plain(number: float) -> int | float:
    """A whole number as int, others as they are: how files hold it."""
    return int(number) if number.is_integer() else number


def show(number: float) -> str:
    """The shortest text that reads back as this number."""
    return repr(plain(float(number)))


def brief(number: float) -> str:
    """A number for a sentence: at most twelve digits, so that the dust of a difference does not show."""
    return f"{number + 0.0:.12g}"
