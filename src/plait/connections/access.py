"""Credentials beside those of the configuration: whoever has others gets sessions of their own."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plait.config.servers import Headers, RemoteServer

_SALT = secrets.token_bytes(16)
"""Keys of different processes cannot be compared, so that a leaked one tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Headers and authentication for some calls; they go on top of the server's own."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, headers: Mapping[str, Any] | None = None, auth: Any = None) -> Access | None:
        """Make one, or `None` where nothing is given."""
        if not headers and auth is None:
            return None
        return cls(headers={name: str(value) for name, value in (headers or {}).items()}, auth=auth)

    @property
    def key(self) -> str:
        """A name for these credentials from which they cannot be learned."""
        told = json.dumps(sorted((name.lower(), text) for name, text in self.headers.items()))
        digest = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), key=_SALT, digest_size=16)
        digest.update(b"" if self.auth is None else str(id(self.auth)).encode())
        return digest.hexdigest()

    def applied_to(self, server: RemoteServer) -> RemoteServer:
        """Return the server with these credentials."""
        auth = server.auth if self.auth is None else self.auth
        return replace(server, headers=_joined(server.headers, self.headers), auth=auth)


def _joined(own: Headers, more: Mapping[str, str]) -> Headers:
    if not callable(own):
        return _merged(own, more)

    async def joined() -> Mapping[str, str]:
        made: Any = own()
        if inspect.isawaitable(made):
            made = await made
        return _merged(dict(made), more)

    return joined


def _merged(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: text for name, text in own.items() if name.lower() not in replaced} | dict(more)
