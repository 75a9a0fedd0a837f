"""A search in place of all tools, for clients whose context is small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plait._support.suggestions import nearest
from plait.client.catalog.deferral import ToolIndex, definition_text
from plait.client.catalog.tool import Tool

SEARCH_TOOLS: Final = "search_tools"
CALL_TOOL: Final = "call_tool"

MAX_FOUND_TOOLS: Final = 5
"""Enough to choose from; their schemas stay in the conversation."""
MAX_NAMED_SERVERS: Final = 12
"""In the description of the search, which a model reads in every turn."""


class ToolSearch:
    """Finds tools by what they do, among those that the servers have listed."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], servers: Iterable[str]) -> None:
        tools = [Tool.from_row("", dict(row), may_mirror=False) for row in rows]
        self._index = ToolIndex(tools)
        self._names = [tool.name for tool in tools]
        self._servers = list(servers)

    def rows(self) -> list[dict[str, Any]]:
        """Return the two tools that a client gets."""
        return [
            {
                "name": SEARCH_TOOLS,
                "description": f"There are {len(self._names)} tools, of: {self._named_servers()}. "
                f"Finds them by what they do, for {CALL_TOOL}.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "What you want to do"}
                    },
                    "required": ["query"],
                },
                "annotations": {"readOnlyHint": True, "openWorldHint": False},
            },
            {
                "name": CALL_TOOL,
                "description": f"Calls a tool that {SEARCH_TOOLS} has found.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "The name of the tool"},
                        "arguments": {
                            "type": "object",
                            "description": "What its parameters ask for",
                        },
                    },
                    "required": ["name"],
                },
            },
        ]

    def find(self, query: str) -> str:
        """Return the definitions of the tools that fit best, one a line."""
        matches = self._index.search(query, MAX_FOUND_TOOLS)
        return "\n".join(definition_text(match.tool) for match in matches) or (
            f"No tool fits. Try other words; there are tools of: {self._named_servers()}"
        )

    def advice_about(self, name: str) -> str | None:
        """Say what to do about a name that no tool has; `None` if one has it."""
        if name in self._names:
            return None
        meant = nearest(name, self._names)
        hint = f"did you mean {meant!r}?" if meant else f"search with {SEARCH_TOOLS}"
        return f"there is no tool {name!r}: {hint}"

    def _named_servers(self) -> str:
        more = ", …" if len(self._servers) > MAX_NAMED_SERVERS else ""
        return ", ".join(self._servers[:MAX_NAMED_SERVERS]) + more
