"""The mock gateway, with the servers that most tests use."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from plait.testing import MockGateway

SEND = {
    "name": "send",
    "description": "Send a mail.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
    "responseTemplate": "sent to {{to}}",
}
BOOK = {"name": "book", "description": "Book a room."}
FIND = {"name": "find", "description": "Find a file."}

MakeGateway = Callable[..., MockGateway]


@pytest.fixture
def make_gateway(tmp_path: Path) -> Generator[MakeGateway]:
    """Start gateways with the servers mail, calendar and files."""
    with ExitStack() as stack:

        def make(**options: Any) -> MockGateway:
            folder = tmp_path / "mocks"
            folder.mkdir(exist_ok=True)
            gateway = MockGateway(folder, **options)
            gateway.add_server("mail", [SEND])
            gateway.add_server("calendar", [BOOK])
            gateway.add_server("files", [FIND])
            return stack.enter_context(gateway)

        yield make


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> MockGateway:
    """Start one gateway as it is without options."""
    return make_gateway()
