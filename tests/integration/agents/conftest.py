"""Stand-ins for the APIs of providers, one for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plait.testing import AnthropicServer, OpenAIServer
from tests.integration.agents.agent_suite import KEY


@pytest.fixture(scope="module")
def anthropic() -> Iterator[AnthropicServer]:
    """Anthropic's, which takes turns of a script for every request."""
    with AnthropicServer(key=KEY, only_with_tools=False) as server:
        yield server


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAIServer]:
    """OpenAI's."""
    with OpenAIServer(key=KEY) as server:
        yield server


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> AnthropicServer | OpenAIServer:
    """Each of them, without a script."""
    server: AnthropicServer | OpenAIServer = request.getfixturevalue(request.param)
    server.play(None)
    return server
