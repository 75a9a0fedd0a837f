"""What a worker needs to know about the contender it measures.

Modules of contenders import their library inside functions, so that the import can be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol


class Unsupported(Exception):  # noqa: N818 - not an error: the table shows a dash and this reason
    """The contender cannot do what the scenario asks for."""


@dataclass(frozen=True)
class Server:
    """How to reach a server: `command` with stdio, else `url`."""

    name: str
    transport: str
    era: str
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Server:
        """Read a server from a request."""
        fields: dict[str, Any] = {**data, "args": tuple(data.get("args", ()))}
        return cls(**fields)


class Connection(Protocol):
    """Open connections to servers, with their tools listed."""

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool as a user of the library does, and return the text of its result."""
        ...

    def tools(self) -> list[Any]:
        """Return the LangChain tools.

        Raises:
            Unsupported: The library makes no LangChain tools.
        """
        ...


class Peer(Protocol):
    """A contender."""

    packages: tuple[str, ...]
    """The packages whose versions are reported."""

    def load(self) -> object:
        """Import the library as its user does, and return what was imported."""
        ...

    def connect(self, servers: Sequence[Server]) -> AbstractAsyncContextManager[Connection]:
        """Connect and list the tools.

        Raises:
            Unsupported: The library does not speak the transport or protocol era.
        """
        ...


class ToolsConnection:
    """LangChain tools, called in the form an agent uses: a tool call that becomes a message."""

    def __init__(self, tools: Sequence[Any]) -> None:
        self._tools = list(tools)
        self._by_name: dict[str, Any] = {}

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        tool = self._by_name.get(name)
        if tool is None:
            tool = self._by_name[name] = find_tool(self._tools, name)
        message = await tool.ainvoke(tool_call(tool, arguments))
        return text_of(message.content)

    def tools(self) -> list[Any]:
        return self._tools


def find_tool(tools: Sequence[Any], name: str) -> Any:
    """Find a tool whose library may have put the name of the server before its own."""
    return next(tool for tool in tools if tool.name == name or tool.name.endswith("_" + name))


def tool_call(tool: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the tool call of a model."""
    return {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}


def text_of(content: Any) -> str:
    """Return the text of a message."""
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def require(servers: Sequence[Server], *, transports: set[str], eras: set[str]) -> None:
    """Refuse servers that the contender cannot talk to.

    Raises:
        Unsupported: With the reason.
    """
    for server in servers:
        if server.transport not in transports:
            raise Unsupported(f"has no {server.transport} transport")
        if server.era not in eras:
            raise Unsupported("speaks only the handshake of 2025-11-25")
