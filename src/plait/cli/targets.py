"""What a configured server points at, written without its secrets."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from plait._support.redact import HIDDEN, Redactor
from plait.client.config.secrets import secret_values
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url


def target_of(server: ServerConfig) -> str:
    """Return the command line or the URL of a server, fit to be shown to anybody."""
    redact = Redactor(secret_values(server))
    match server:
        case StdioServer():
            words = [redact(word) for word in (server.command, *server.args)]
            return " ".join(word if HIDDEN in word else shlex.quote(word) for word in words)
        case RemoteOptions():
            return redact(public_url(server.url))
        case _:
            return "in this process"


def address_of(server: ServerConfig) -> str | None:
    """Return `host:port` of a server with a URL."""
    if not isinstance(server, RemoteOptions):
        return None
    parts = urlsplit(server.url)
    usual = 443 if parts.scheme in {"https", "wss"} else 80
    try:
        port = parts.port or usual
    except ValueError:
        port = usual
    return f"{parts.hostname}:{port}"
