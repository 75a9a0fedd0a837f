"""The HTTP headers of a server."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import cast

from plait.config.servers import RemoteOptions


async def headers_of(server: RemoteOptions) -> dict[str, str]:
    """Return the headers as they are now; a function is asked for them."""
    given = server.headers
    made = given() if callable(given) else given
    if inspect.isawaitable(made):
        made = await made
    return dict(cast("Mapping[str, str]", made))
