"""One server on HTTP, for all tests of a module that do not kill it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.nursery import fault_server

Servers = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def servers() -> Generator[Servers]:
    """Return what makes a configuration with the one server, called `server`, in an era."""
    with fault_server("http") as running:

        def config(protocol: str = "legacy", **more: Any) -> dict[str, Any]:
            return {"server": {"url": running.url, "protocol": protocol, **more}}

        yield config
