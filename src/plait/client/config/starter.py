"""Creating an mcp.json: a first one, or one from the servers of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plait._support.redact import looks_secret
from plait.client.config.editors import RawServer
from plait.client.config.raw_value import as_mapping

_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedServers:
    """The result of adding servers to others."""

    servers: dict[str, RawServer] = field(repr=False)
    added: tuple[str, ...] = ()
    """The new names, in order."""

    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """New names of added servers whose name was taken or not allowed, by old name."""

    skipped: tuple[str, ...] = ()
    """Servers that were already there, identically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftedSecret:
    """A literal secret that was replaced by a variable."""

    server: str
    path: str
    """Where it was, such as `env.GITHUB_TOKEN`."""

    variable: str
    """The environment variable that must now hold it."""


def starter_config() -> dict[str, object]:
    """Return a first configuration: the files beside it, and the time."""
    return {
        "mcpServers": {
            "files": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}"],
            },
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
        }
    }


def merge_servers(
    existing: Mapping[str, RawServer], new: Mapping[str, RawServer], *, label: str = ""
) -> MergedServers:
    """Add servers to others without ever replacing one.

    A server whose name is taken gets a new name, with `label` if there is one (`files-cursor`),
    else with a number.
    """
    servers = dict(existing)
    added: list[str] = []
    renamed: dict[str, str] = {}
    skipped: list[str] = []
    for name, server in new.items():
        allowed = name.replace("/", "-").strip() or "server"
        if servers.get(allowed) == server:
            skipped.append(name)
            continue
        free = _free_name(allowed, label, servers)
        servers[free] = server
        added.append(free)
        if free != name:
            renamed[name] = free
    return MergedServers(
        servers=servers, added=tuple(added), renamed=renamed, skipped=tuple(skipped)
    )


def to_mcp_json(
    servers: Mapping[str, RawServer], *, inputs: Sequence[Mapping[str, object]] = ()
) -> str:
    """Write servers as the text of an mcp.json; write it with mode 0600 if it holds secrets."""
    document: dict[str, object] = {"mcpServers": dict(servers)}
    if inputs:
        document["inputs"] = list(inputs)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def lift_secrets(
    servers: Mapping[str, RawServer],
) -> tuple[dict[str, RawServer], tuple[LiftedSecret, ...]]:
    """Replace literal secrets in `env` and `headers` by variables, and list those to set.

    The same secret under the same name shares one variable; values with variables stay.
    """
    lifter = _Lifter()
    lifted = {name: lifter.lift(name, server) for name, server in servers.items()}
    return lifted, tuple(lifter.notes)


class _Lifter:
    """Assigns variable names, one per secret."""

    def __init__(self) -> None:
        self.notes: list[LiftedSecret] = []
        self._values: dict[str, str] = {}

    def lift(self, server: str, entry: RawServer) -> RawServer:
        """Return the server with its secrets replaced."""
        result = dict(entry)
        for part in ("env", "headers"):
            values = as_mapping(entry.get(part))
            if values is not None:
                result[part] = {
                    str(key): self._replace(server, part, str(key), value)
                    for key, value in values.items()
                }
        return result

    def _replace(self, server: str, part: str, key: str, value: object) -> object:
        if not isinstance(value, str) or not value or "${" in value or not looks_secret(key):
            return value
        scheme = _SCHEME.match(value)
        prefix = scheme[0] if scheme else ""
        variable = self._variable(server, part, key, value[len(prefix) :])
        self.notes.append(LiftedSecret(server=server, path=f"{part}.{key}", variable=variable))
        return f"{prefix}${{{variable}}}"

    def _variable(self, server: str, part: str, key: str, secret: str) -> str:
        own = _variable_name(f"{server}_{key}")
        preferred = [_variable_name(key)] if part == "env" else []
        for name in (*preferred, own, *(f"{own}_{count}" for count in range(2, 100))):
            if self._values.setdefault(name, secret) == secret:
                return name
        raise AssertionError("unreachable: no server has a hundred secrets of one name")


def _free_name(name: str, label: str, taken: Mapping[str, object]) -> str:
    if name not in taken:
        return name
    base = f"{name}-{label}" if label else name
    if base not in taken:
        return base
    count = 2
    while f"{base}-{count}" in taken:
        count += 1
    return f"{base}-{count}"


def _variable_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if name[:1].isalpha() else f"MCP_{name}"
