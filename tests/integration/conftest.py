"""What the tests with real processes and sockets share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from typing import Unpack

import pytest

from plait.testing import FaultOptions, ServerProcess
from plait.testing.faults.fault_options import Transport
from plait.testing.fixtures import StartFaultServer
from tests import nursery


@pytest.fixture
def fault_server() -> Generator[StartFaultServer]:
    """Give the function of the fixture of this name, with servers that start at once."""
    with ExitStack() as stack:

        def start(transport: Transport = "http", **options: Unpack[FaultOptions]) -> ServerProcess:
            return stack.enter_context(nursery.fault_server(transport, **options))

        yield start
