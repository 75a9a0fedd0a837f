"""What the tests with real processes and sockets share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from typing import Unpack

import pytest

from plait.testing import AnthropicServer, FaultOptions, OpenAIServer, ServerProcess
from plait.testing.faults.fault_options import Transport
from plait.testing.fixtures import StartFaultServer
from tests import nursery
from tests.integration.canaries.mirror import Mirror
from tests.servers import KEY


@pytest.fixture
def fault_server() -> Generator[StartFaultServer]:
    """Give the function of the fixture of this name, with servers that start at once."""
    with ExitStack() as stack:

        def start(transport: Transport = "http", **options: Unpack[FaultOptions]) -> ServerProcess:
            return stack.enter_context(nursery.fault_server(transport, **options))

        yield start


@pytest.fixture
def mirror() -> Generator[Mirror]:
    """Run a server that tells back what it hears."""
    with Mirror() as server:
        yield server


@pytest.fixture(scope="module")
def anthropic() -> Generator[AnthropicServer]:
    """Stand in for Anthropic, which takes turns of a script for every request."""
    with AnthropicServer(key=KEY, only_with_tools=False) as server:
        yield server


@pytest.fixture(scope="module")
def openai() -> Generator[OpenAIServer]:
    """Stand in for OpenAI."""
    with OpenAIServer(key=KEY) as server:
        yield server
