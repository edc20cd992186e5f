"""Cells of the two studies beside tables: sentences with discrete changes, and ensembles of trees."""

from __future__ import annotations

from ledger import Outcome


def sentences(seeds: int, small: bool) -> Outcome:
    from pare.sentiment import study

    return study(range(seeds), small)


def trees(name: str, full: bool) -> Outcome:
    from pare.trees import study

    return study(name, 5 if full else 1, 5 if full else 1)
