"""The published studies, read once for all tests that look at them."""

from __future__ import annotations

from functools import cache

from turnabout.studies import domains


def load(name: str, whole: bool = False) -> domains.Domain:
    """A study, which is frozen: tests only read it."""
    return _load(name, whole)


@cache
def _load(name: str, whole: bool) -> domains.Domain:
    return domains.load(name, whole)
