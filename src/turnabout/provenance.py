"""What a report was made with: versions, the call that made it, and the warnings that were given on the way."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from turnabout.documents import shown

PACKAGES = ("turnabout", "numpy", "pandas", "scipy", "scikit-learn", "torch")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found.setdefault("turnabout", sys.modules["turnabout"].__version__)  # imported from its sources, not installed
    return found


def call_of(function: str, given: str, asked: Mapping[str, object]) -> str:
    """The call that made a report, as a text: turnabout.audit.report(problem, people, seed=0)."""
    return f"{function}({', '.join([given, *(f'{name}={shown(value)}' for name, value in asked.items())])})"


def as_asked(value: object) -> object:
    """A parameter as a document holds it: a plain value as it is, anything else as a short text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else shown(value)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The texts of warnings for users, each once and complete at the end; they are then given as ever."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            if str(warning.message) in texts:
                continue
            texts.append(str(warning.message))
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
