"""What every test shares: one thread, repeatable random cases, the folder of larger data sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# "ci": the same few cases on every run. "thorough": many fresh ones, TURNABOUT_HYPOTHESIS=thorough make test.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("ci", derandomize=True, max_examples=15, database=None, print_blob=True, **_common)
settings.register_profile("thorough", max_examples=200, print_blob=True, **_common)
settings.load_profile(os.environ.get("TURNABOUT_HYPOTHESIS", "ci"))


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder named by TURNABOUT_DATA; the test is skipped where there is none."""
    named = os.environ.get("TURNABOUT_DATA")
    if not named:
        pytest.skip("TURNABOUT_DATA is not set: it names the folder that holds the larger data sets")
    if not Path(named).is_dir():
        pytest.skip(f"TURNABOUT_DATA names {named!r}, which is not a folder")
    return Path(named)
