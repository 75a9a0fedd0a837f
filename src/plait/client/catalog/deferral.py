"""Deciding which tools are shown to a model, and which are deferred to a search."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.schemas import Profile, schema_for_provider
from plait.client.catalog.search import ToolIndex
from plait.client.catalog.tool import Tool
from plait.client.config.budgets import Deferral
from plait.client.config.servers import ServerConfig

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""

_BYTES_PER_TOKEN: Final = 4
"""Roughly the ratio for English and JSON with the tokenizers of large providers."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for every four bytes of UTF-8, rounded up."""
    # A server may send half a surrogate pair, which plain UTF-8 rejects.
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def tokens_of(
    tool: Tool, profile: Profile | None = None, counter: TokenCounter | None = None
) -> int:
    """Count the tokens of a tool's definition in every request; `counter` replaces the estimate."""
    return (counter or estimate_tokens)(definition_text(tool, profile))


def definition_text(tool: Tool, profile: Profile | None = None) -> str:
    """Write the definition of a tool that a model gets, as compact JSON."""
    definition = {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "parameters": schema_for_provider(tool.input_schema, profile).schema,
    }
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class Split:
    """The tools of one list, in their order."""

    shown: tuple[Tool, ...]
    deferred: tuple[Tool, ...] = ()


class DeferralPlan:
    """Splits tools by the deferral settings of a client and its servers; those of a server win."""

    def __init__(
        self,
        common: Deferral | None,
        servers: Mapping[str, ServerConfig],
        *,
        counter: TokenCounter | None = None,
    ) -> None:
        """Use the client's setting, and the servers, which may change."""
        self._common = common
        self._servers = servers
        self._counter = counter
        self._tokens: dict[str, tuple[Tool, int]] = {}
        self._index: ToolIndex | None = None

    @property
    def is_set(self) -> bool:
        """Whether any tool may be deferred."""
        own = (server.defer for server in self._servers.values())
        return any(one is not None and not one.is_off for one in (self._common, *own))

    @property
    def is_native(self) -> bool:
        """Whether to use the tool search of the model's provider."""
        return self._common is not None and self._common.native

    def split(self, tools: Iterable[Tool]) -> Split:
        """Split tools into shown and deferred ones."""
        listed = tuple(tools)
        if not self.is_set:
            return Split(listed)
        deferred: set[str] = set()
        # About these their own servers decide, whatever the limit of tokens.
        by_servers: set[str] = set()
        for tool in listed:
            server = self._servers.get(tool.server)
            own = None if server is None else server.defer
            deferral = own or self._common
            if deferral is not None and ToolFilter.of(include=deferral.tools).offers(tool):
                deferred.add(tool.full_name)
            if own is not None:
                by_servers.add(tool.full_name)
        limit = self._common.over_tokens if self._common is not None else None
        if limit is not None:
            shown = (tool for tool in listed if tool.full_name not in deferred & by_servers)
            if sum(map(self._tokens_of, shown)) <= limit:
                deferred &= by_servers
        return Split(
            tuple(tool for tool in listed if tool.full_name not in deferred),
            tuple(tool for tool in listed if tool.full_name in deferred),
        )

    def index(self, tools: Sequence[Tool]) -> ToolIndex:
        """Return a search index of these tools; the last one is reused while they stay the same."""
        known = () if self._index is None else self._index.tools
        is_same = len(known) == len(tools) and all(map(_same_tool, known, tools))
        if self._index is None or not is_same:
            self._index = ToolIndex(tools)
        return self._index

    def _tokens_of(self, tool: Tool) -> int:
        """Count the tokens of a tool, cached while the tool stays the same."""
        before = self._tokens.get(tool.full_name)
        if before is not None and _same_tool(before[0], tool):
            return before[1]
        tokens = tokens_of(tool, counter=self._counter)
        self._tokens[tool.full_name] = (tool, tokens)
        return tokens


def _same_tool(one: Tool, other: Tool) -> bool:
    same_names = one.full_name == other.full_name and one.name == other.name
    same_texts = one.title == other.title and one.description == other.description
    return same_names and same_texts and one.input_schema is other.input_schema
