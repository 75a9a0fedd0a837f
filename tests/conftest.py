"""What every test may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["plait.testing.fixtures", "pytester"]

# A busy machine makes single examples slow; the time limit per test still holds.
# Thirty examples keep the property tests within a minute; new ones are drawn in every run.
settings.register_profile("plait", deadline=None, max_examples=30)
settings.load_profile("plait")

# Weights that happen to be on this machine must not change what a test sees.
os.environ["PLAIT_MODELS"] = os.devnull


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only backend there is."""
    return "asyncio"
