"""The size of the tools in a model's context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from plait.cli.doctor.findings import Finding
from plait.cli.doctor.survey import Survey
from plait.cli.terminal import and_list, count_label, share_label, tokens_label
from plait.client.catalog.deferral import tokens_of
from plait.client.catalog.schemas import Profile

MANY_TOKENS = 20_000
"""A tenth of the context of most models, sent with every request."""

MANY_TOOLS = 60
"""With more tools, models choose worse, and some providers refuse."""

_LARGEST = 3


@dataclass(frozen=True, slots=True)
class ToolCost:
    """The tokens of one tool."""

    server: str
    tool: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of every offered tool."""

    tools: tuple[ToolCost, ...]
    backups: frozenset[str] = frozenset()
    """Servers whose tools are offered only as a fallback."""

    profile: Profile | None = None

    @property
    def together(self) -> tuple[ToolCost, ...]:
        """The tools sent with every request."""
        return tuple(tool for tool in self.tools if tool.server not in self.backups)

    @property
    def tokens(self) -> int:
        """The tokens of every request."""
        return sum(tool.tokens for tool in self.together)

    @property
    def largest(self) -> list[ToolCost]:
        """The largest tools."""
        return sorted(self.together, key=lambda tool: -tool.tokens)[:_LARGEST]

    def tokens_by_server(self) -> Counter[str]:
        """Sum up the tokens of each server, including backups."""
        sums: Counter[str] = Counter()
        for tool in self.tools:
            sums[tool.server] += tool.tokens
        return sums

    def tools_by_server(self) -> Counter[str]:
        """Count the tools of each server, including backups."""
        return Counter(tool.server for tool in self.tools)

    def to_dict(self) -> dict[str, object]:
        """Return the cost as JSON."""
        tools = self.tools_by_server()
        return {
            "tools": len(self.together),
            "tokens": self.tokens,
            "profile": self.profile or "default",
            "servers": {
                server: {"tools": tools[server], "tokens": tokens, "backup": server in self.backups}
                for server, tokens in self.tokens_by_server().items()
            },
            "largest": [asdict(tool) for tool in self.largest],
        }


def cost_of(survey: Survey) -> Cost:
    """Estimate the tokens of the offered tools."""
    return Cost(
        tuple(
            ToolCost(tool.server, tool.wire_name, tokens_of(tool, survey.profile))
            for tools in survey.offered.values()
            for tool in tools
        ),
        survey.catalog_options.unlisted & survey.offered.keys(),
        survey.profile,
    )


def check_server_cost(server: str, survey: Survey, cost: Cost) -> Iterator[Finding]:
    """Report the number of offered tools of a server, and their tokens."""
    listed, offered = len(survey.listed[server]), len(survey.offered[server])
    if not listed:
        return
    if not offered:
        message = f"none of its {count_label(listed, 'tool')} is offered"
        fix = 'check "include" and "exclude"'
        yield Finding(server, "warn", "none_offered", message, fix)
        return
    message = (
        f"offers {share_label(offered, listed, 'tool')}, "
        f"{tokens_label(cost.tokens_by_server()[server])}"
    )
    if server in cost.backups:
        message += ", only as a backup"
    yield Finding(server, "ok", "tokens", message)


def check_cost(cost: Cost) -> Iterator[Finding]:
    """Report the tokens of all tools, and warn about many."""
    if not cost.together:
        return
    largest = and_list([f"{tool.server}/{tool.tool} {tool.tokens:,}" for tool in cost.largest])
    message = (
        f"{count_label(len(cost.together), 'tool')}, {tokens_label(cost.tokens)} "
        f"in every request; largest: {largest}"
    )
    if cost.tokens <= MANY_TOKENS and len(cost.together) <= MANY_TOOLS:
        yield Finding(None, "ok", "total_tokens", message)
        return
    offered = {tool.server for tool in cost.together}
    sums = cost.tokens_by_server()
    server = max(sorted(offered), key=lambda name: sums[name])
    tools = count_label(cost.tools_by_server()[server], "tool")
    fix = (
        f'offer fewer tools with "include", "exclude" or "defer"; '
        f"start with {server}: {tools}, {tokens_label(sums[server])}"
    )
    yield Finding(None, "warn", "many_tokens", message, fix)
