"""The HTTP headers of a server."""

from __future__ import annotations

from plait.config.servers import RemoteOptions


def fixed_headers(server: RemoteOptions) -> dict[str, str]:
    """Return the headers that do not depend on a run."""
    return {} if callable(server.headers) else dict(server.headers)
