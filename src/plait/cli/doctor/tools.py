"""The tools that a client offers: checks of its options, and of sizes, names and schemas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final

from plait._support.exception_groups import one_line
from plait._support.suggestions import did_you_mean
from plait.cli.doctor.findings import Detail, Examined, Finding, Level, findings_from_config_error
from plait.cli.terminal import and_list, count_label, share_label, some_of, tokens_label
from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.deferral import tokens_of
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.names import collisions, with_public_names
from plait.client.catalog.overrides import apply_override, override_for, override_problems
from plait.client.catalog.schemas import PROFILES, Profile, schema_for_provider
from plait.client.catalog.schemas.describe import Note, NoteKind
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema
from plait.client.config.policy import Policy
from plait.client.config.read import ClientConfig
from plait.client.config.servers import ServerConfig
from plait.client.options import call_settings_from, catalog_options_from
from plait.errors import ConfigError

ByServer = Mapping[str, tuple[Tool, ...]]
"""Tools by server, in the order of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The tools of a configuration, as listed by its servers, and as offered by the client."""

    servers: Mapping[str, ServerConfig]
    known: frozenset[str]
    """All servers of the configuration, examined or not."""
    disabled: tuple[str, ...]
    options: Mapping[str, Any]
    """The valid options of the client."""
    catalog_options: CatalogOptions
    listed: ByServer
    offered: ByServer
    refusals: tuple[Finding, ...]
    """Findings about invalid options."""

    @property
    def profile(self) -> Profile | None:
        """The provider profile of the client, if set."""
        return self.options.get("profile")

    @property
    def together(self) -> list[Tool]:
        """The offered tools of all servers, without those of backups."""
        servers = self.catalog_options.listed_servers(self.offered)
        return [tool for name in servers for tool in self.offered[name]]

    def covers(self, servers: Iterable[str]) -> bool:
        """Return whether the tools of all these servers are known."""
        return set(servers) <= set(self.listed)


def survey_of(
    config: ClientConfig, examined: Iterable[Examined], known: Iterable[str] | None = None
) -> Survey:
    """Apply the options of a client to the listed tools, and collect findings about the options.

    `known` are the servers of the configuration, if only some were examined.
    """
    options: dict[str, Any] = {}
    refusals: list[Finding] = []
    for name, value in config.options.items():
        try:
            catalog_options_from({name: value})
            call_settings_from({name: value})
        except ConfigError as error:
            refusals += findings_from_config_error(error)
        else:
            options[name] = value
    catalog_options = catalog_options_from(options)
    listed = {server.name: server.listed for server in examined if server.listed is not None}
    offered: dict[str, list[Tool]] = {}
    for name, tools in listed.items():
        tool_filter = ToolFilter()
        try:
            tool_filter = catalog_options.filter_for(config.servers[name])
        except ConfigError as error:
            refusals += findings_from_config_error(error, name)
        offered[name] = []
        for tool in filter(tool_filter.offers, tools):
            shown = sanitize_tool(tool)[0] if catalog_options.sanitize else tool
            override = override_for(catalog_options.overrides, shown)
            try:
                offered[name].append(apply_override(shown, override) if override else shown)
            except ConfigError as error:
                refusals += findings_from_config_error(error, name)
                offered[name].append(shown)
    # Public names: backups are named separately. A forbidden collision is reported by another
    # check; here it is resolved.
    policy = replace(catalog_options.names, on_collision="prefix")
    together = catalog_options.listed_servers(offered)
    shared = with_public_names([tool for name in together for tool in offered[name]], policy)
    return Survey(
        servers=config.servers,
        known=frozenset(config.servers if known is None else known),
        disabled=config.disabled,
        options=options,
        catalog_options=catalog_options,
        listed=listed,
        offered={
            name: tuple(tool for tool in shared if tool.server == name)
            if name in together
            else tuple(with_public_names(alone, policy))
            for name, alone in offered.items()
        },
        refusals=tuple(refusals),
    )


def check_options(survey: Survey) -> Iterator[Finding]:
    """Check the filters, overrides and fallbacks of a client."""
    yield from survey.refusals
    yield from _client_filters(survey)
    for name, tools in survey.listed.items():
        yield from _filters(name, "include", survey.servers[name].include, tools)
        yield from _filters(name, "exclude", survey.servers[name].exclude, tools)
    yield from _overrides(survey)
    yield from _fallbacks(survey)


def _client_filters(survey: Survey) -> Iterator[Finding]:
    """Check the filters of the client, as far as all their tools are known."""
    wire_names = {tool.wire_name for tools in survey.listed.values() for tool in tools}
    for setting in ("include", "exclude"):
        patterns = survey.options.get(setting)
        servers = sorted(survey.known)
        if setting == "include":
            # It does not apply to a server with its own.
            own = {name for name, server in survey.servers.items() if server.include is not None}
            servers = [name for name in servers if name not in own]
        if survey.covers(servers):
            tools = [tool for name in servers for tool in survey.listed[name]]
            yield from _filters(None, setting, patterns, tools)
        # Names such as `server/tool` with an unknown server.
        for name in _texts(patterns):
            server, slash, _ = name.partition("/")
            is_glob = bool(set(name) & set("*?["))
            if slash and not is_glob and name not in wire_names and server not in survey.known:
                guess = did_you_mean(server, sorted(survey.known)) or "correct or remove it"
                yield _unknown(None, setting, name, f"there is no server {server}: {guess}")


def _filters(
    server: str | None, setting: str, patterns: Any, tools: Iterable[Tool]
) -> Iterator[Finding]:
    # Unknown names of an `exclude` are found by including them, too.
    tool_filter = ToolFilter.of(include=_texts(patterns))
    for name, meant in tool_filter.unknown_names(tools):
        yield _unknown(server, setting, name, f'did you mean "{meant}"?' if meant else None)


def _unknown(server: str | None, setting: str, name: str, guess: str | None) -> Finding:
    message = f'"{setting}" names {name}, but there is no such tool'
    fix = guess or "correct or remove it; plait tools lists the names"
    return Finding(server, "warn", f"unknown_{setting}", message, fix)


def _texts(patterns: Any) -> list[str]:
    """Keep the patterns that are names or globs: no functions, no regular expressions."""
    names = [item for item in patterns or () if isinstance(item, str)]
    return [name for name in names if not name.startswith(("re:", "@"))]


def _overrides(survey: Survey) -> Iterator[Finding]:
    tools = [tool for listed in survey.listed.values() for tool in listed]
    for key in survey.catalog_options.overrides:
        known = survey.covers(survey.known) or key.partition("/")[0] in survey.listed
        if known and not any(tool.is_called(key) for tool in tools):
            names = [tool.full_name if "/" in key else tool.wire_name for tool in tools]
            yield _unknown(None, "tool_overrides", key, did_you_mean(key, names))
    for name, offered in survey.offered.items():
        problems = [
            Detail(tool=tool.full_name, text=problem)
            for tool in offered
            if tool.override is not None
            for problem in override_problems(tool, tool.override)
        ]
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            message = f"{problems[0].tool}: {problems[0].text}{more}"
            fix = 'correct "tool_overrides"'
            yield Finding(name, "warn", "override_problem", message, fix, tuple(problems))


def _fallbacks(survey: Survey) -> Iterator[Finding]:
    fallbacks: Mapping[str, str] = survey.options.get("fallbacks") or {}
    wrong: list[tuple[str, str]] = []
    for name in dict.fromkeys(chain.from_iterable(fallbacks.items())):
        if name in survey.disabled and name not in survey.known:
            wrong.append((f"the server {name} is disabled", "enable or remove it"))
        elif name not in survey.known:
            guess = did_you_mean(name, sorted(survey.known)) or "correct or remove it"
            wrong.append((f"there is no server {name}", guess))
    for server, backup in fallbacks.items():
        if server == backup:
            wrong.append((f"{server} cannot be its own fallback", "name another server"))
    for message, fix in wrong:
        yield Finding(None, "error", "fallback", f'"fallbacks": {message}', fix)
    for server, backup in fallbacks.items():
        if server == backup or not survey.covers({server, backup}):
            continue
        others = {tool.wire_name for tool in survey.offered[backup]}
        missing = [tool for tool in survey.offered[server] if tool.wire_name not in others]
        if missing:
            names = some_of([tool.wire_name for tool in missing])
            share = f"{len(missing)} of {count_label(len(survey.offered[server]), 'tool')}"
            message = f'"fallbacks": {backup} lacks {share} of {server}: {names}'
            fix = "calls of these tools fail with the server; use a backup that has them"
            text = f"{backup} has no such tool"
            details = tuple(Detail(tool=tool.full_name, text=text) for tool in missing)
            yield Finding(None, "warn", "fallback_gap", message, fix, details)


def check_policy(survey: Survey) -> Iterator[Finding]:
    """Find policy rules that match nothing, if the tools of all servers are known."""
    policy = survey.options.get("policy")
    if not isinstance(policy, Policy) or not survey.covers(survey.known):
        return
    tools = [tool for listed in survey.offered.values() for tool in listed]
    fix = "correct, move or remove it; plait policy check shows the verdicts"
    for number, problem in policy.idle_rules(tools):
        message = f"rule {number} of {policy.title} ({policy.rules[number - 1]}): {problem}"
        yield Finding(None, "warn", "policy_rule", message, fix)


MANY_TOKENS = 20_000
"""A tenth of the context of most models, sent with every request."""

MANY_TOOLS = 60
"""With more tools, models choose worse, and some providers refuse."""

MAX_NAMED_TOOLS = 3
"""The largest tools that a finding names; the JSON has the same."""
MAX_EXAMPLE_CHARACTERS = 100
"""A longer note would hide the finding that it is an example of."""


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

    def sizes(self, server: str) -> list[int]:
        """Return the tokens of each tool of a server."""
        return [tool.tokens for tool in self.tools if tool.server == server]

    def to_dict(self) -> dict[str, object]:
        """Return the cost as JSON."""
        sizes = {tool.server: self.sizes(tool.server) for tool in self.tools}
        return {
            "tools": len(self.together),
            "tokens": self.tokens,
            "profile": self.profile or "default",
            "servers": {
                server: {"tools": len(each), "tokens": sum(each), "backup": server in self.backups}
                for server, each in sizes.items()
            },
            "largest": [asdict(tool) for tool in self.together[:MAX_NAMED_TOOLS]],
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
        message = f"offers {tools}, {tokens_label(sum(cost.sizes(server)))}{backup}"
        yield Finding(server, "ok", "tokens", message)


def check_cost(cost: Cost) -> Iterator[Finding]:
    """Report the tokens of all tools, and warn about many."""
    together = cost.together
    if not together:
        return
    largest = [f"{tool.server}/{tool.tool} {tool.tokens:,}" for tool in together[:MAX_NAMED_TOOLS]]
    message = (
        f"{count_label(len(together), 'tool')}, {tokens_label(cost.tokens)} "
        f"in every request; largest: {and_list(largest)}"
    )
    if cost.tokens <= MANY_TOKENS and len(together) <= MANY_TOOLS:
        yield Finding(None, "ok", "total_tokens", message)
        return
    server = max(sorted({tool.server for tool in together}), key=lambda name: sum(cost.sizes(name)))
    sizes = cost.sizes(server)
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
    """Report the names that several tools of the same servers claim."""
    names = survey.catalog_options.names
    is_refused = names.on_collision == "error"
    who, example = and_list(servers), clashes[0][0]
    if len(servers) == 1:
        more = f" (and {len(clashes) - 1} more such names)" if len(clashes) > 1 else ""
        claim = f"{who} has several tools with the name {example}{more}"
    elif len(clashes) > 1:
        claim = f"{who} share {len(clashes)} tool names, such as {example}"
    else:
        claim = f"{who} {'both' if len(servers) == 2 else 'all'} have a tool {example}"
    fix = 'rename one in "tool_overrides", or exclude one with "exclude"'
    if not names.separator:
        prefix = "prefix every tool with its server"
        goal = prefix if is_refused else "use the same form for all names"
        fix = f'{goal}: "prefix_tool_name_with_server_name": true; or {fix}'
    tools = [(name, tool) for name, several in clashes for tool in several]
    if is_refused:
        message = f'{claim}: "on_collision" forbids that'
        wishes = [(tool.full_name, f"wants the name {name}") for name, tool in tools]
        details = tuple(Detail(tool=name, text=wish) for name, wish in wishes)
        return Finding(None, "error", "collision", message, fix, details)
    message = f"{claim}: they become {some_of([tool.name for tool in clashes[0][1]])}"
    return Finding(
        None, "warn", "collision", message, fix, tuple(_becomes(tool) for _, tool in tools)
    )


def _becomes(tool: Tool) -> Detail:
    return Detail(tool=tool.full_name, name=tool.name, text=f"becomes {tool.name}")


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
    "patterns": Report("ok", "patterns that only the server checks"),
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
    validator = validator_for_schema(tool.input_schema)
    if validator.broken is not None and not any(note.kind == "invalid" for note in found):
        yield "invalid", Detail(tool=tool.full_name, text=validator.broken, profiles=PROFILES)
    for pattern in validator.unchecked:
        yield "patterns", Detail(tool=tool.full_name, text=pattern, profiles=PROFILES)


def _summary(says: str, details: Sequence[Detail]) -> str:
    named = {profile for one in details for profile in one.profiles}
    profiles = [profile for profile in PROFILES if profile in named]
    readers = "" if len(profiles) == len(PROFILES) else f" for {and_list(profiles)}"
    first = details[0]
    tool = (first.tool or "").partition("/")[2]
    note = first.text.removeprefix("(root): ")
    example = f"{tool} ({one_line(note, MAX_EXAMPLE_CHARACTERS)})"
    tools = len({one.tool for one in details})
    which = example if tools == 1 else f"{count_label(tools, 'tool')}, such as {example}"
    return f"{says}{readers}: {which}"
