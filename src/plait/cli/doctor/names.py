"""Checks for conflicting names, and names that models do not accept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from plait.cli.doctor.findings import Detail, Finding
from plait.cli.doctor.survey import Survey
from plait.cli.terminal import and_list, count_label, some_of
from plait.client.catalog.names import collisions
from plait.client.catalog.tool import Tool

Clash = tuple[str, tuple[Tool, ...]]
"""A name, and the tools that claim it, with their public names."""


def check_names(survey: Survey) -> Iterator[Finding]:
    """Report name conflicts and changed names."""
    tools = survey.together
    clashes = collisions(tools, survey.catalog_options.names)
    by_servers: defaultdict[tuple[str, ...], list[Clash]] = defaultdict(list)
    for name, claimants in clashes.items():
        servers = tuple(dict.fromkeys(tool.server for tool in claimants))
        by_servers[servers].append((name, claimants))
    for servers, names in by_servers.items():
        yield _collision(servers, names, survey)
    if not clashes and len({tool.server for tool in tools}) > 1:
        message = "no tool names conflict"
        yield Finding(None, "ok", "names", message)
    clashing = {tool.full_name for claimants in clashes.values() for tool in claimants}
    renamed = [tool for tool in tools if tool.full_name not in clashing and _is_changed(tool)]
    if renamed:
        yield _renaming(renamed)


def _collision(servers: Sequence[str], clashes: Sequence[Clash], survey: Survey) -> Finding:
    refused = survey.catalog_options.names.on_collision == "error"
    _, claimants = clashes[0]
    claim = _claim(servers, [name for name, _ in clashes])
    fix = _advice(survey, refused=refused)
    tools = [(name, tool) for name, several in clashes for tool in several]
    if refused:
        details = [
            Detail(tool=tool.full_name, text=f"wants the name {name}") for name, tool in tools
        ]
        message = f'{claim}: "on_collision" forbids that'
        return Finding(None, "error", "collision", message, fix, tuple(details))
    message = f"{claim}: they become {some_of([tool.name for tool in claimants])}"
    details = tuple(_becomes(tool) for _, tool in tools)
    return Finding(None, "warn", "collision", message, fix, details)


def _becomes(tool: Tool) -> Detail:
    return Detail(tool=tool.full_name, name=tool.name, text=f"becomes {tool.name}")


def _claim(servers: Sequence[str], names: Sequence[str]) -> str:
    """Describe the claimants of the names, with an example."""
    who, example = and_list(servers), names[0]
    if len(servers) == 1:
        more = f" (and {len(names) - 1} more such names)" if len(names) > 1 else ""
        return f"{who} has several tools with the name {example}{more}"
    if len(names) > 1:
        return f"{who} share {len(names)} tool names, such as {example}"
    return f"{who} {'both' if len(servers) == 2 else 'all'} have a tool {example}"


def _advice(survey: Survey, *, refused: bool) -> str:
    others = 'rename one in "tool_overrides", or exclude one with "exclude"'
    if survey.catalog_options.names.separator:
        return others
    goal = "prefix every tool with its server" if refused else "use the same form for all names"
    return f'{goal}: "prefix_tool_name_with_server_name": true; or {others}'


def _is_changed(tool: Tool) -> bool:
    return not tool.name.endswith(_own_name(tool))


def _own_name(tool: Tool) -> str:
    override_name = tool.override.name if tool.override is not None else None
    return tool.wire_name if override_name is None else override_name


def _renaming(tools: Sequence[Tool]) -> Finding:
    changes = [f"{_own_name(tool)} → {tool.name}" for tool in tools]
    message = f"{count_label(len(tools), 'name')} changed for models: {some_of(changes)}"
    return Finding(None, "ok", "renamed", message, details=tuple(map(_becomes, tools)))
