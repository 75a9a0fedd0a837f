"""A real browser for the tests of pages; `make test-browser` runs them, `make test` does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium, chromium_path

if "PLAIT_BROWSER" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

SHOTS = Path(os.environ.get("PLAIT_SCREENSHOTS", ".cache/screenshots"))
"""Where screenshots are written, to be looked at."""


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Start the browser once for all tests."""
    program = chromium_path()
    if program is None:
        pytest.skip("Chromium is not installed")
    started = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def shots() -> Path:
    """Return the folder of screenshots."""
    return SHOTS


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> None:
    """Look at nothing: a page has the viewer of its module start servers, which last as long."""
