"""The HTTP headers of a server."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import cast

from plait.client.config.secrets import secrets_in_headers
from plait.client.config.servers import RemoteOptions
from plait.client.transports.wire import Wire


async def headers_of(server: RemoteOptions, wire: Wire) -> dict[str, str]:
    """Return the headers as they are now; a function is asked, and what it says is hidden."""
    given = server.headers
    if not callable(given):
        return dict(given)
    made = given()
    if inspect.isawaitable(made):
        made = await made
    headers = dict(cast("Mapping[str, str]", made))
    wire.hide(secrets_in_headers(headers))
    return headers
