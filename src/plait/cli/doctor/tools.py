"""Checks of the offered tools: their size and names, and what providers lose of their schemas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from plait._support.exception_groups import one_line
from plait.cli.doctor.findings import Detail, Finding, Level
from plait.cli.doctor.survey import Survey
from plait.cli.terminal import and_list, count_label, share_label, some_of, tokens_label
from plait.client.catalog.deferral import tokens_of
from plait.client.catalog.names import collisions
from plait.client.catalog.schemas import PROFILES, Profile, schema_for_provider
from plait.client.catalog.schemas.provider_schema import Note, NoteKind
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema

MANY_TOKENS = 20_000
"""A tenth of the context of most models, sent with every request."""

MANY_TOOLS = 60
"""With more tools, models choose worse, and some providers refuse."""

_LARGEST = 3
_LONGEST_EXAMPLE = 100


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
    backups: frozenset[str]
    """Servers whose tools are offered only as a fallback."""

    profile: Profile | None

    @property
    def together(self) -> list[ToolCost]:
        """The tools sent with every request, the largest first."""
        together = [tool for tool in self.tools if tool.server not in self.backups]
        return sorted(together, key=lambda tool: -tool.tokens)

    @property
    def tokens(self) -> int:
        """The tokens of every request."""
        return sum(tool.tokens for tool in self.together)

    def of(self, server: str) -> list[int]:
        """Return the tokens of each tool of a server."""
        return [tool.tokens for tool in self.tools if tool.server == server]

    def to_dict(self) -> dict[str, object]:
        """Return the cost as JSON."""
        sizes = {tool.server: self.of(tool.server) for tool in self.tools}
        return {
            "tools": len(self.together),
            "tokens": self.tokens,
            "profile": self.profile or "default",
            "servers": {
                server: {"tools": len(each), "tokens": sum(each), "backup": server in self.backups}
                for server, each in sizes.items()
            },
            "largest": [asdict(tool) for tool in self.together[:_LARGEST]],
        }


def cost_of(survey: Survey) -> Cost:
    """Estimate the tokens of the offered tools."""
    tools = [
        ToolCost(tool.server, tool.wire_name, tokens_of(tool, survey.profile))
        for tools in survey.offered.values()
        for tool in tools
    ]
    backups = survey.catalog_options.unlisted & survey.offered.keys()
    return Cost(tuple(tools), backups, survey.profile)


def check_server_cost(server: str, survey: Survey, cost: Cost) -> Iterator[Finding]:
    """Report the number of offered tools of a server, and their tokens."""
    listed, offered = len(survey.listed[server]), len(survey.offered[server])
    if listed and not offered:
        message = f"none of its {count_label(listed, 'tool')} is offered"
        yield Finding(server, "warn", "none_offered", message, 'check "include" and "exclude"')
    elif listed:
        tools = share_label(offered, listed, "tool")
        backup = ", only as a backup" if server in cost.backups else ""
        message = f"offers {tools}, {tokens_label(sum(cost.of(server)))}{backup}"
        yield Finding(server, "ok", "tokens", message)


def check_cost(cost: Cost) -> Iterator[Finding]:
    """Report the tokens of all tools, and warn about many."""
    together = cost.together
    if not together:
        return
    largest = [f"{tool.server}/{tool.tool} {tool.tokens:,}" for tool in together[:_LARGEST]]
    message = (
        f"{count_label(len(together), 'tool')}, {tokens_label(cost.tokens)} "
        f"in every request; largest: {and_list(largest)}"
    )
    if cost.tokens <= MANY_TOKENS and len(together) <= MANY_TOOLS:
        yield Finding(None, "ok", "total_tokens", message)
        return
    server = max(sorted({tool.server for tool in together}), key=lambda name: sum(cost.of(name)))
    sizes = cost.of(server)
    fix = (
        f'offer fewer tools with "include", "exclude" or "defer"; '
        f"start with {server}: {count_label(len(sizes), 'tool')}, {tokens_label(sum(sizes))}"
    )
    yield Finding(None, "warn", "many_tokens", message, fix)


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
        yield Finding(None, "ok", "names", "no tool names conflict")
    clashing = {tool.full_name for claimants in clashes.values() for tool in claimants}
    others = [tool for tool in tools if tool.full_name not in clashing]
    if renamed := [tool for tool in others if not tool.name.endswith(_own_name(tool))]:
        changes = [f"{_own_name(tool)} → {tool.name}" for tool in renamed]
        message = f"{count_label(len(renamed), 'name')} changed for models: {some_of(changes)}"
        yield Finding(None, "ok", "renamed", message, details=tuple(map(_becomes, renamed)))


def _collision(servers: Sequence[str], clashes: Sequence[Clash], survey: Survey) -> Finding:
    refused = survey.catalog_options.names.on_collision == "error"
    claim = _claim(servers, [name for name, _ in clashes])
    fix = _advice(survey, refused=refused)
    tools = [(name, tool) for name, several in clashes for tool in several]
    if refused:
        message = f'{claim}: "on_collision" forbids that'
        wishes = [(tool.full_name, f"wants the name {name}") for name, tool in tools]
        details = tuple(Detail(tool=name, text=wish) for name, wish in wishes)
        return Finding(None, "error", "collision", message, fix, details)
    message = f"{claim}: they become {some_of([tool.name for tool in clashes[0][1]])}"
    details = tuple(_becomes(tool) for _, tool in tools)
    return Finding(None, "warn", "collision", message, fix, details)


def _becomes(tool: Tool) -> Detail:
    return Detail(tool=tool.full_name, name=tool.name, text=f"becomes {tool.name}")


def _claim(servers: Sequence[str], names: Sequence[str]) -> str:
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


def _own_name(tool: Tool) -> str:
    override_name = tool.override.name if tool.override is not None else None
    return tool.wire_name if override_name is None else override_name


@dataclass(frozen=True, slots=True)
class Report:
    """How notes of one kind are reported."""

    level: Level
    says: str
    fix: str | None = None


_OTHER_SCHEMA = 'update the server, or give the tool another "input_schema" in "tool_overrides"'
_OTHER_NAME = 'give the argument another "name" in "tool_overrides"'
_SMALLER = 'hide arguments in "tool_overrides", or exclude the tool with "exclude"'

REPORTS: Final[Mapping[NoteKind, Report]] = {
    "invalid": Report("warn", "broken schemas", _OTHER_SCHEMA),
    "refs": Report("warn", "external references, which are never fetched", _OTHER_SCHEMA),
    "names": Report("warn", "argument names that may be refused", _OTHER_NAME),
    "size": Report("warn", "large schemas that may be refused", _SMALLER),
    "recursion": Report("ok", "recursive or very deep types, cut off"),
    "alternatives": Report("ok", "alternatives described in words"),
    "limits": Report("ok", "limits described in words"),
    "json_text": Report("ok", "open objects passed as JSON strings"),
    "closed": Report("ok", "only listed properties"),
    "keywords": Report("ok", "unknown keywords left out"),
}
"""The report of every kind of note, in the order of the findings."""


def check_schemas(server: str, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Report what each provider loses of the schemas, one finding per kind of loss."""
    if not tools:
        return
    cases: defaultdict[NoteKind, list[Detail]] = defaultdict(list)
    for tool in tools:
        for kind, detail in _cases(tool):
            cases[kind].append(detail)
    unlike = {profile for details in cases.values() for one in details for profile in one.profiles}
    if fitting := [profile for profile in PROFILES if profile not in unlike]:
        readers = and_list(fitting) if unlike else "every provider"
        yield Finding(server, "ok", "schemas", f"schemas fit {readers} without loss")
    for kind, report in REPORTS.items():
        if details := cases.get(kind):
            found = (report.level, f"schema_{kind}", _summary(report.says, details), report.fix)
            yield Finding(server, *found, tuple(details))


def _cases(tool: Tool) -> Iterator[tuple[NoteKind, Detail]]:
    """Collect the notes of all profiles; a note of several profiles is one case."""
    found: dict[Note, tuple[Profile, ...]] = {}
    for profile in PROFILES:
        for note in schema_for_provider(tool.input_schema, profile).notes:
            found[note] = (*found.get(note, ()), profile)
    for note, profiles in found.items():
        yield note.kind, Detail(tool=tool.full_name, text=note, profiles=profiles)
    broken = validator_for_schema(tool.input_schema).broken
    if broken is not None and not any(note.kind == "invalid" for note in found):
        yield "invalid", Detail(tool=tool.full_name, text=broken, profiles=PROFILES)


def _summary(says: str, details: Sequence[Detail]) -> str:
    named = {profile for one in details for profile in one.profiles}
    profiles = [profile for profile in PROFILES if profile in named]
    readers = "" if len(profiles) == len(PROFILES) else f" for {and_list(profiles)}"
    first = details[0]
    tool = (first.tool or "").partition("/")[2]
    note = first.text.removeprefix("(root): ")
    example = f"{tool} ({one_line(note, _LONGEST_EXAMPLE)})"
    tools = len({one.tool for one in details})
    which = example if tools == 1 else f"{count_label(tools, 'tool')}, such as {example}"
    return f"{says}{readers}: {which}"
