"""The identity of a server: the same on every machine, and without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import assert_never

from plait._support.redact import Redactor
from plait.client.catalog.lock.entries import Identity
from plait.client.config.secrets import secret_values
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ServerConfig,
    SseServer,
    StdioServer,
    WebSocketServer,
    transport_of,
)
from plait.client.config.urls import public_url


def identity_of(server: ServerConfig, declared: Mapping[str, str] | None, folder: Path) -> Identity:
    """Describe the identity of a server; paths are relative to the folder, or to the home.

    `declared` is the name and the version that the server reports.
    """
    about = declared or {}
    return Identity(
        name=about.get("name"),
        version=about.get("version"),
        transport=transport_of(server),
        target=_target(server, folder.resolve()),
    )


def _target(server: ServerConfig, folder: Path) -> str:
    match server:
        case StdioServer():
            redact = Redactor(secret_values(server))
            program = PurePath(server.command).name
            words = [program, *(_portable(argument, folder) for argument in server.args)]
            return redact(" ".join(words))
        case HttpServer() | SseServer() | WebSocketServer():
            return public_url(server.url)
        case InProcessServer():
            return ""
        case _:
            assert_never(server)


def _portable(argument: str, folder: Path) -> str:
    for place, short in ((folder, "."), (Path.home(), "~")):
        whole = str(place)
        if argument == whole or argument.startswith(f"{whole}/"):
            return short + argument.removeprefix(whole)
    return argument
