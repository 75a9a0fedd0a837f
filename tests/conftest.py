"""What every test may use."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = ["plait.testing.fixtures", "pytester"]

# A busy machine makes single examples slow; the time limit per test still holds.
settings.register_profile("plait", deadline=None)
settings.load_profile("plait")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only backend there is."""
    return "asyncio"
