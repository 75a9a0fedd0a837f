"""The names under which a client sees what the servers offer, and the way back to the servers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plait.client.catalog.names import MAX_NAME_CHARS, legal_name

Naming = Literal["server", "plain"]
"""`server__tool`, or the servers' own names."""

SEPARATOR = "__"
_HASH_CHARS = 8
_OTHERS = "plait://"
"""Begins the URI of a resource whose own URI another server has too."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that a server offers, by the server's own name."""

    server: str
    name: str


def public_name(target: Target, naming: Naming = "server", chosen: str | None = None) -> str:
    """Return the name for clients; it does not depend on what else is offered."""
    if naming == "plain":
        return chosen or target.name
    return legal_name(chosen or f"{target.server}{SEPARATOR}{target.name}")


def with_public_names(
    found: Iterable[tuple[Target, str | None]], naming: Naming
) -> dict[str, Target]:
    """Name what servers offer, each with the name that the user chose for it, if any.

    Names that two of them would have get a hash of the server and its own name.
    """
    listed = dict(found)
    names = {target: public_name(target, naming, chosen) for target, chosen in listed.items()}
    times = Counter(names.values())
    return {
        name if times[name] == 1 else _marked(name, target): target
        for target, name in names.items()
    }


def _marked(name: str, target: Target) -> str:
    identity = f"{target.server}/{target.name}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(identity).hexdigest()[:_HASH_CHARS]
    return f"{name[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{digest}"


def guessed_target(name: str, servers: Iterable[str], naming: Naming) -> Target | None:
    """Return what a name stands for whose server has not listed anything yet."""
    known = list(servers)
    if naming == "plain":
        return Target(known[0], name) if len(known) == 1 else None
    # The longest server wins: one server's name may begin with that of another.
    for server in sorted(known, key=len, reverse=True):
        prefix = legal_name(f"{server}{SEPARATOR}")
        if name.startswith(prefix) and len(name) < MAX_NAME_CHARS:
            return Target(server, name.removeprefix(prefix))
    return None


def with_public_uris(
    lists: Mapping[str, Iterable[Mapping[str, Any]]], field: str
) -> list[dict[str, Any]]:
    """Return the resources of all servers, each under a URI of its own.

    A URI that an earlier server has too names its server: `plait://server/` and the URI.
    """
    rows: list[dict[str, Any]] = []
    taken: set[str] = set()
    for server, listed in lists.items():
        for row in listed:
            uri = str(row.get(field))
            public = uri if uri not in taken else public_uri(server, uri)
            taken.add(public)
            rows.append({**row, field: public})
    return rows


def public_uri(server: str, uri: str) -> str:
    """Return the URI of a server's resource that names the server."""
    return f"{_OTHERS}{server}/{uri}"


def named_server(uri: str, servers: Iterable[str]) -> Target | None:
    """Return the server and its own URI, if the URI names its server."""
    for server in servers:
        prefix = public_uri(server, "")
        if uri.startswith(prefix):
            return Target(server, uri.removeprefix(prefix))
    return None
