"""The options of a client applied to the listed tools, and checks for options that match none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from plait._support.suggestions import did_you_mean
from plait.cli.doctor.findings import Detail, Examined, Finding, findings_from_config_error
from plait.cli.terminal import count_label, some_of
from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.names import with_public_names
from plait.client.catalog.overrides import apply_override, override_for, override_problems
from plait.client.catalog.schemas import Profile
from plait.client.catalog.tool import Tool
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
    options, refusals = _usable(config.options)
    catalog_options = catalog_options_from(options)
    listed = {server.name: server.listed for server in examined if server.listed is not None}
    offered_by_server: dict[str, tuple[Tool, ...]] = {}
    for name, tools in listed.items():
        tool_filter = ToolFilter()
        try:
            tool_filter = catalog_options.filter_for(config.servers[name])
        except ConfigError as error:
            refusals += findings_from_config_error(error, name)
        offered = filter(tool_filter.offers, tools)
        offered_by_server[name] = tuple(
            _changed(tool, catalog_options, refusals) for tool in offered
        )
    return Survey(
        servers=config.servers,
        known=frozenset(config.servers if known is None else known),
        disabled=config.disabled,
        options=options,
        catalog_options=catalog_options,
        listed=listed,
        offered=_named(offered_by_server, catalog_options),
        refusals=tuple(refusals),
    )


def _usable(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """Keep the valid options, and return findings about the others."""
    kept: dict[str, Any] = {}
    refusals: list[Finding] = []
    for name, value in options.items():
        try:
            catalog_options_from({name: value})
            call_settings_from({name: value})
        except ConfigError as error:
            refusals += findings_from_config_error(error)
        else:
            kept[name] = value
    return kept, refusals


def _changed(tool: Tool, catalog_options: CatalogOptions, refusals: list[Finding]) -> Tool:
    if catalog_options.sanitize:
        tool, _ = sanitize_tool(tool)
    override = override_for(catalog_options.overrides, tool)
    if override is None:
        return tool
    try:
        return apply_override(tool, override)
    except ConfigError as error:
        refusals += findings_from_config_error(error, tool.server)
        return tool


def _named(offered_by_server: ByServer, catalog_options: CatalogOptions) -> ByServer:
    """Set the public names; backups are named separately."""
    # A forbidden collision is reported by another check; here it is resolved.
    policy = replace(catalog_options.names, on_collision="prefix")
    together = catalog_options.listed_servers(offered_by_server)
    tools = [tool for name in together for tool in offered_by_server[name]]
    named = with_public_names(tools, policy)
    return {
        name: tuple(tool for tool in named if tool.server == name)
        if name in together
        else tuple(with_public_names(alone, policy))
        for name, alone in offered_by_server.items()
    }


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
    """Check the filters of the client, if all their tools are known."""
    # The client's `include` does not apply to a server with its own.
    applies_to = {
        "include": [name for name in sorted(survey.known) if not _has_own_include(survey, name)],
        "exclude": sorted(survey.known),
    }
    for setting, servers in applies_to.items():
        patterns = survey.options.get(setting)
        if survey.covers(servers):
            tools = [tool for name in servers for tool in survey.listed[name]]
            yield from _filters(None, setting, patterns, tools)
        yield from _strangers(setting, patterns, survey)


def _has_own_include(survey: Survey, name: str) -> bool:
    return name in survey.servers and survey.servers[name].include is not None


def _filters(
    server: str | None, setting: str, patterns: Any, tools: Iterable[Tool]
) -> Iterator[Finding]:
    # Unknown names of an `exclude` are found by including them, too.
    tool_filter = ToolFilter.of(include=_texts(patterns))
    for name, meant in tool_filter.unknown_names(tools):
        yield _unknown(server, setting, name, f'did you mean "{meant}"?' if meant else None)


def _strangers(setting: str, patterns: Any, survey: Survey) -> Iterator[Finding]:
    """Find names such as `server/tool` with an unknown server."""
    names = {tool.wire_name for tools in survey.listed.values() for tool in tools}
    for name in _texts(patterns):
        server, slash, _ = name.partition("/")
        if (
            slash
            and name not in names
            and not set(name) & set("*?[")
            and server not in survey.known
        ):
            guess = did_you_mean(server, sorted(survey.known)) or "correct or remove it"
            yield _unknown(None, setting, name, f"there is no server {server}: {guess}")


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
    for name in dict.fromkeys(chain.from_iterable(fallbacks.items())):
        if name not in survey.known:
            yield _bad_fallback(*_missing_server(name, survey))
    for server, backup in fallbacks.items():
        if server == backup:
            yield _bad_fallback(f"{server} cannot be its own fallback", "name another server")
        elif survey.covers({server, backup}):
            yield from _gaps(server, backup, survey)


def _missing_server(name: str, survey: Survey) -> tuple[str, str]:
    if name in survey.disabled:
        return f"the server {name} is disabled", "enable or remove it"
    guess = did_you_mean(name, sorted(survey.known)) or "correct or remove it"
    return f"there is no server {name}", guess


def _bad_fallback(message: str, fix: str) -> Finding:
    return Finding(None, "error", "fallback", f'"fallbacks": {message}', fix)


def _gaps(server: str, backup: str, survey: Survey) -> Iterator[Finding]:
    """Find the tools that a backup does not have."""
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
