"""The comparison by hand, under the name of a protocol."""

from __future__ import annotations

import pytest
from lending import Lending

from turnabout.bench import grid_run, protocols


@pytest.fixture
def lending(monkeypatch):
    """The protocol's class; it counts how often it was posed."""
    monkeypatch.setitem(protocols.PROTOCOLS, "lending", Lending())
    monkeypatch.setattr(Lending, "posed", 0)
    grid_run._case.cache_clear()
    yield Lending
    grid_run._case.cache_clear()
