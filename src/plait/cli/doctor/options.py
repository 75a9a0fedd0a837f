"""Checks for options that match none of the tools and servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from plait._support.suggestions import did_you_mean
from plait.cli.doctor.findings import Detail, Finding
from plait.cli.doctor.survey import Survey
from plait.cli.terminal import count_label, some_of
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.overrides import override_problems
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Policy

_SPECIAL_PATTERNS = ("re:", "@")


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
        if slash and name not in names and not _is_glob(name) and server not in survey.known:
            guess = did_you_mean(server, sorted(survey.known)) or "correct or remove it"
            yield _unknown(None, setting, name, f"there is no server {server}: {guess}")


def _unknown(server: str | None, setting: str, name: str, guess: str | None) -> Finding:
    message = f'"{setting}" names {name}, but there is no such tool'
    fix = guess or "correct or remove it; plait tools lists the names"
    return Finding(server, "warn", f"unknown_{setting}", message, fix)


def _texts(patterns: Any) -> list[str]:
    """Keep the patterns that are names or globs: no functions, no regular expressions."""
    items: Iterable[object] = patterns or ()
    return [
        item for item in items if isinstance(item, str) and not item.startswith(_SPECIAL_PATTERNS)
    ]


def _is_glob(name: str) -> bool:
    return any(character in name for character in "*?[")


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
    text = f'"fallbacks": {message}'
    return Finding(None, "error", "fallback", text, fix)


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
