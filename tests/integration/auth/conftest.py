"""The protected server of these tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from plait.testing import oauth_server
from tests.integration.auth.helpers import Shop


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Shop]:
    """Run a protected server, with the options of `offering`."""
    options: dict[str, Any] = getattr(request, "param", {})
    with oauth_server(**options) as server:
        yield Shop(server, tmp_path / "logins")
