"""What the tools take of a model's context."""

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
"""A tenth of the context of most models, paid with every request."""

MANY_TOOLS = 60
"""With more to choose from, models choose worse, and some providers refuse."""

_LARGEST = 3


@dataclass(frozen=True, slots=True)
class ToolCost:
    """The tokens of one tool."""

    server: str
    tool: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of every tool that is offered."""

    tools: tuple[ToolCost, ...]
    backups: frozenset[str] = frozenset()
    """Servers whose tools are not offered unless they are asked for by name."""

    profile: Profile | None = None

    @property
    def together(self) -> tuple[ToolCost, ...]:
        """What is sent with every request."""
        return tuple(one for one in self.tools if one.server not in self.backups)

    @property
    def tokens(self) -> int:
        """The tokens of every request."""
        return sum(one.tokens for one in self.together)

    @property
    def largest(self) -> list[ToolCost]:
        """The tools that cost most."""
        return sorted(self.together, key=lambda one: -one.tokens)[:_LARGEST]

    def tokens_by_server(self) -> Counter[str]:
        """Add up the tokens of each server, backups too."""
        sums: Counter[str] = Counter()
        for one in self.tools:
            sums[one.server] += one.tokens
        return sums

    def tools_by_server(self) -> Counter[str]:
        """Count the tools of each server, backups too."""
        return Counter(one.server for one in self.tools)

    def to_dict(self) -> dict[str, object]:
        """Describe the cost as plain data."""
        tools = self.tools_by_server()
        return {
            "tools": len(self.together),
            "tokens": self.tokens,
            "profile": self.profile or "default",
            "servers": {
                server: {
                    "tools": tools[server],
                    "tokens": tokens,
                    "backup": server in self.backups,
                }
                for server, tokens in self.tokens_by_server().items()
            },
            "largest": [asdict(one) for one in self.largest],
        }


def cost_of(survey: Survey) -> Cost:
    """Estimate what the tools cost, each as the client hands it out."""
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
    """Say how many tools a server offers, and what they cost."""
    listed, offered = len(survey.listed[server]), len(survey.offered[server])
    if not listed:
        return
    if not offered:
        message = f"none of its {count_label(listed, 'tool')} is offered"
        fix = 'check "include" and "exclude"'
        yield Finding(server=server, level="warn", code="none_offered", message=message, fix=fix)
        return
    message = (
        f"offers {share_label(offered, listed, 'tool')}, "
        f"{tokens_label(cost.tokens_by_server()[server])}"
    )
    if server in cost.backups:
        message += ", only as a backup"
    yield Finding(server=server, level="ok", code="tokens", message=message)


def check_cost(cost: Cost) -> Iterator[Finding]:
    """Say what all tools cost together, and warn where that is a lot."""
    if not cost.together:
        return
    largest = and_list([f"{one.server}/{one.tool} {one.tokens:,}" for one in cost.largest])
    message = (
        f"{count_label(len(cost.together), 'tool')}, {tokens_label(cost.tokens)} "
        f"in every request; largest: {largest}"
    )
    if cost.tokens <= MANY_TOKENS and len(cost.together) <= MANY_TOOLS:
        yield Finding(server=None, level="ok", code="total_tokens", message=message)
        return
    offered = {one.server for one in cost.together}
    sums = cost.tokens_by_server()
    server = max(sorted(offered), key=lambda name: sums[name])
    tools = count_label(cost.tools_by_server()[server], "tool")
    fix = (
        f'offer only what is needed, with "include", "exclude" or "defer"; '
        f"start with {server}: {tools}, {tokens_label(sums[server])}"
    )
    yield Finding(server=None, level="warn", code="many_tokens", message=message, fix=fix)
