"""Stand-ins for the APIs of providers, one for the tests of a file."""

from __future__ import annotations

import pytest

from plait.testing import AnthropicServer, OpenAIServer


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> AnthropicServer | OpenAIServer:
    """Each of them, without a script."""
    server: AnthropicServer | OpenAIServer = request.getfixturevalue(request.param)
    server.play(None)
    return server
