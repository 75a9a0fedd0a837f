"""The test authorization server in a thread."""

from __future__ import annotations

from typing import Self

from plait._support.local_server import LocalServer
from plait.testing.oauth.app import build_app
from plait.testing.oauth.authority import Authority
from plait.testing.ports import bind


class OAuthServer(Authority):
    """An authorization server and a protected MCP server on one port of this machine.

    Entering its context starts it.
    """

    def __enter__(self) -> Self:
        listener = bind()
        self.issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.url = f"{self.issuer}/mcp"
        self.sse_url = f"{self.issuer}/sse"
        self._server = LocalServer(build_app(self))
        self._server.start(listener, name="the test authorization server")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()


oauth_server = OAuthServer
