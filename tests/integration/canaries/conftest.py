"""The server that tells back what it hears."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.integration.canaries.mirror import Mirror


@pytest.fixture
def elsewhere() -> Generator[Mirror]:
    """Run the same on another origin."""
    with Mirror() as server:
        yield server
