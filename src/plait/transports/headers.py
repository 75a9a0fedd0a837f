"""The HTTP headers of a server."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import cast

from plait.config.servers import RemoteOptions


async def headers_of(server: RemoteOptions) -> dict[str, str]:
    """Return the headers for a new session; a function is asked for them each time."""
    given = server.headers
    made = given() if callable(given) else given
    if inspect.isawaitable(made):
        made = await made
    return dict(cast("Mapping[str, str]", made))
