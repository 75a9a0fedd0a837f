"""The checks of `plait doctor`: pure functions of what was seen of each server.

To add a check of a server, write a function of an `Examined`, and add it to `CHECKS`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal

from plait._support.exception_groups import one_line
from plait._support.redact import looks_secret
from plait._support.suggestions import did_you_mean
from plait._support.threads import import_once, in_thread
from plait.cli.advice import advice_for, target_of
from plait.cli.terminal import and_list, in_background, share_label, some_of, tokens_label
from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.deferral import tokens_of
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.lock import (
    LockedServer,
    identity_of,
    read_lockfile,
    server_drift,
)
from plait.client.catalog.names import collisions, with_public_names
from plait.client.catalog.overrides import apply_override, override_for, override_problems
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema
from plait.client.config.oauth_settings import OAuth
from plait.client.config.policy import Policy
from plait.client.config.read import ClientConfig
from plait.client.config.servers import (
    HttpServer,
    RemoteOptions,
    ServerConfig,
    SseServer,
    StdioServer,
)
from plait.client.config.urls import is_private, public_url
from plait.client.connections.status import ServerStatus
from plait.client.options import call_settings_from, catalog_options_from, lock_mode, lockfile_path
from plait.client.toolbox import Toolbox
from plait.client.transports.process import descendants_of
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    ConnectTimeoutError,
    PlaitError,
    Problem,
    ProtocolError,
)
from plait.html.pieces import count_label, seconds_label
from plait.models.schemas.describe import (
    Note,
    NoteKind,
)
from plait.models.schemas.for_provider import PROFILES, Profile, schema_for_provider

if TYPE_CHECKING:
    from plait.cli.logins import LoginStatus, SignInProbe

Level = Literal["ok", "warn", "error"]

_SLOW_CONNECT_SECONDS = 5.0
_SLOW_ROUND_TRIP_SECONDS = 1.0
"""A slower ping delays every call noticeably."""

_MODERN = "2026-07-28"
"""The first protocol version without a handshake; versions compare as text."""

MAX_REPAIR_FINDINGS = 3
"""More notes than these are merged into one finding."""

_LEFT_OUT = re.compile(r"\btool .+ was left out: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One case of a finding."""

    text: str
    tool: str | None = None
    """The tool, as `server/tool`."""
    name: str | None = None
    """The public name of the tool, if the finding is about names."""
    profiles: tuple[str, ...] = ()
    """The affected profiles, if the finding is about schemas."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check, with how to fix it."""

    server: str | None
    """The server; `None` for the whole configuration."""
    level: Level
    code: str
    """A stable short name of the kind of finding: `refused`, `stdout_noise`."""
    message: str
    fix: str | None = None
    details: tuple[Detail, ...] = ()
    """Every case, if the message has only a count and an example."""

    def to_dict(self) -> dict[str, object]:
        """Return the finding as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The examined facts of one server."""

    config: ServerConfig
    status: ServerStatus
    round_trips: Sequence[float] = ()
    """In seconds."""
    error: PlaitError | None = None
    """The error that ended the examination, if any."""
    auth: AuthSeen | None = None
    launch: Launch | None = None
    """What a launcher such as npx did; `None` if the server is started otherwise."""
    listed: tuple[Tool, ...] | None = None
    """The unfiltered tools of the server; `None` if listing failed."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.status.name

    def finding(
        self, level: Level, code: str, message: str, fix: str | None = None, *details: Detail
    ) -> Finding:
        """Make a finding about this server."""
        return Finding(self.name, level, code, message, fix, details)


def check_reach(examined: Examined) -> Iterator[Finding]:
    """Report that the server is ready, or why not."""
    status = examined.status
    if status.state == "ready" and examined.error is None:
        era = "modern" if (status.protocol_version or "") >= _MODERN else "legacy"
        took = "" if _is_slow(status) else f" in {seconds_label(status.connect_seconds)}"
        protocol = f"protocol {status.protocol_version or 'unknown'} ({era})"
        yield examined.finding("ok", "ready", f"connected{took}, {protocol}")
        return
    error = examined.error or status.error
    if error is None:
        yield examined.finding("error", "not_ready", status.last_error or f"is {status.state}")
        return
    advice = advice_for(error, examined.config)
    launch = examined.launch
    if launch is None or not isinstance(error, ConnectTimeoutError):
        yield examined.finding("error", advice.code, error.message, advice.fix)
    elif launch.started_seconds is None:
        message = f"{error.message}: {launch.program} was still downloading or installing it"
        command = target_of(examined.config)
        fix = f'run it once in a terminal: {command}, or raise "connect_timeout"'
        yield examined.finding("error", "downloading", message, fix)
    else:
        started = seconds_label(launch.started_seconds)
        message = f"{error.message}: {launch.program} had started it after {started}, "
        message += "but the server itself did not answer the handshake"
        yield examined.finding("error", advice.code, message, advice.fix)


def check_connect_time(examined: Examined) -> Iterator[Finding]:
    """Warn about a server that is slow to start."""
    if examined.status.state != "ready" or not _is_slow(examined.status):
        return
    legacy = (examined.status.protocol_version or _MODERN) < _MODERN
    launch = examined.launch
    half = 0.0 if launch is None else launch.watched_seconds / 2
    if launch is not None and (launch.started_seconds is None or launch.started_seconds > half):
        fix = f"install the server and start it directly: {launch.program} checks for updates"
    elif legacy and examined.config.protocol == "auto":
        fix = 'skip the probe for the newer protocol: "protocol": "legacy"'
    else:
        fix = "check what the server does before it responds"
    message = f"took {seconds_label(examined.status.connect_seconds)} to connect"
    if launch is not None and launch.started_seconds is not None:
        rest = launch.watched_seconds - launch.started_seconds
        message += f": {seconds_label(launch.started_seconds)} until {launch.program} had started "
        message += f"it (download, install), {seconds_label(rest)} for the server's own start"
    yield examined.finding("warn", "slow_connect", message, fix)


def _is_slow(status: ServerStatus) -> bool:
    return (status.connect_seconds or 0) > _SLOW_CONNECT_SECONDS


def check_latency(examined: Examined) -> Iterator[Finding]:
    """Report the median of the measured round trips."""
    if not examined.round_trips:
        return
    median = statistics.median(examined.round_trips)
    trips = count_label(len(examined.round_trips), "round trip")
    message = f"responds in {seconds_label(median)} (median of {trips})"
    if median > _SLOW_ROUND_TRIP_SECONDS:
        fix = "every call takes at least this long: check the network and the load of the host"
        yield examined.finding("warn", "slow_answers", message, fix)
    else:
        yield examined.finding("ok", "latency", message)


def check_transport(examined: Examined) -> Iterator[Finding]:
    """Warn about an HTTP server that supports only the older SSE transport."""
    if isinstance(examined.config, HttpServer) and examined.status.transport == "sse":
        message = "supports only the older SSE transport, detected after a failed attempt"
        yield examined.finding("warn", "sse_only", message, 'skip that attempt: "type": "sse"')


def check_tools(examined: Examined) -> Iterator[Finding]:
    """Warn about a server without tools."""
    if examined.status.state == "ready" and examined.status.tool_count == 0:
        fix = 'check "include" and "exclude", and its version'
        yield examined.finding("warn", "no_tools", "has no tools", fix)


def check_stdout(examined: Examined) -> Iterator[Finding]:
    """Warn about a process that writes other output to the protocol stream."""
    if examined.status.noise_lines:
        lines = count_label(examined.status.noise_lines, "line")
        message = f"wrote {lines} to stdout outside the protocol"
        fix = "write logs and banners to stderr: stdout is for the protocol"
        yield examined.finding("warn", "stdout_noise", message, fix)


def check_repaired(examined: Examined) -> Iterator[Finding]:
    """Report invalid tools that were left out, and other violations of the protocol."""
    notes = list(dict.fromkeys(examined.status.repaired))
    left_out = [note for note in notes if _LEFT_OUT.search(note)]
    repaired = [note for note in notes if note not in left_out]
    fix = "update the server, or report it to its authors"
    if left_out:
        message = f"{count_label(len(left_out), 'tool')} skipped: {_some(left_out)}"
        yield examined.finding("warn", "left_out", message, fix, *_details(left_out))
    if len(repaired) > MAX_REPAIR_FINDINGS:
        message = f"repaired: {_some(repaired)}"
        yield examined.finding("warn", "repaired", message, fix, *_details(repaired))
    else:
        for note in repaired:
            yield examined.finding("warn", "repaired", f"repaired: {note}", fix)


def _details(notes: Sequence[str]) -> list[Detail]:
    return [Detail(text=note) for note in notes]


def _some(notes: Sequence[str]) -> str:
    return notes[0] if len(notes) == 1 else f"{notes[0]} (and {len(notes) - 1} more)"


def check_hidden(examined: Examined) -> Iterator[Finding]:
    """Report tools with hidden characters in their texts."""
    details = [
        Detail(tool=tool.full_name, text=note)
        for tool in examined.listed or ()
        for note in sanitize_tool(tool)[1]
    ]
    if details:
        names = list(dict.fromkeys(str(detail.tool) for detail in details))
        message = f"hidden characters in the texts of {_some(names)}"
        fix = "plait lock shows them; models get the texts without them"
        yield examined.finding("warn", "hidden_characters", message, fix, *details)


def check_stderr(examined: Examined) -> Iterator[Finding]:
    """Report the last line on stderr, unless an error quotes it already."""
    tail = [line.strip() for line in examined.status.stderr_tail if line.strip()]
    if tail and tail[-1] not in str(examined.error or examined.status.error or ""):
        yield examined.finding("ok", "stderr", f"last on stderr: {tail[-1]}")


CHECKS: tuple[Callable[[Examined], Iterable[Finding]], ...] = (
    check_reach,
    check_connect_time,
    check_latency,
    check_transport,
    check_tools,
    check_stdout,
    check_repaired,
    check_hidden,
    check_stderr,
)
"""Every check of one server, in the order in which the findings are shown."""


def findings_for(examined: Examined) -> list[Finding]:
    """Run every check on one server."""
    return [finding for check in CHECKS for finding in check(examined)]


def findings_from_problems(
    problems: Iterable[Problem], level: Level, servers: Sequence[str] = ()
) -> Iterator[Finding]:
    """Convert problems of a configuration to findings about their servers."""
    for problem in problems:
        message = f"{problem.path}: {problem.message}" if problem.path else problem.message
        # The server is the longest name that follows the name of the section in the path.
        rest = problem.path.partition(".")[2]
        found = [one for one in servers if rest == one or rest.startswith((f"{one}.", f"{one}["))]
        server = max(found, key=len, default=None)
        yield Finding(server, level, problem.code, message, problem.suggestion)


def findings_from_config_error(error: ConfigError, server: str | None = None) -> list[Finding]:
    """Convert a configuration error to findings about a server, or the whole configuration."""
    if not error.problems:
        return [Finding(server, "error", "config", error.message)]
    findings = findings_from_problems(error.problems, "error")
    return [replace(finding, server=server) for finding in findings]


MIN_SECRET_CHARACTERS = 6
"""Shorter values occur in files for other reasons."""

_LITTLE_SECONDS = 3600.0
"""Warn this long before the end of a login that cannot be renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSeen:
    """The login of a server, without secrets."""

    at: float
    """The time of the examination, in seconds since 1970."""
    login: LoginStatus | None = None
    facts: SignInProbe | None = None
    """The metadata of the server and its authorization server; `None` if not queried."""
    store_failure: str | None = None
    open_file: str | None = None
    """The file of the login, if other users can read it."""
    plain_secrets: tuple[str, ...] = ()
    """Settings with a secret in the configuration file."""


async def look_at_auth(
    name: str, server: ServerConfig, error: PlaitError | None, written: str
) -> AuthSeen | None:
    """Examine the login of a server and, if it needs one, its authorization server.

    `error` is the connection error, and `written` the text of the configuration.
    """
    import_once("plait.cli.logins")  # connections are imported in threads
    from plait.cli.logins import login_file, login_status, probe_sign_in

    if not isinstance(server, RemoteOptions):
        return None
    login, failure, open_file = None, None, None
    try:
        login = await login_status(name, server)
        file = login_file(server)
        is_there = os.name != "nt" and file is not None and file.exists()
        if file is not None and is_there and file.stat().st_mode & 0o077:
            open_file = str(file)
    except ConfigError as unreadable:
        failure = unreadable.message
    facts = None
    needs_login = isinstance(server.auth, OAuth) or isinstance(error, AuthRequiredError)
    if needs_login and isinstance(server, HttpServer | SseServer):
        facts = await probe_sign_in(name, server)
    return AuthSeen(
        at=time.time(),
        login=login,
        facts=facts,
        store_failure=failure,
        open_file=open_file,
        plain_secrets=plain_secrets(server, written),
    )


def plain_secrets(server: RemoteOptions, written: str) -> tuple[str, ...]:
    """Return the settings of a server whose secret is in the text of the configuration."""
    settings: dict[str, str | None] = {}
    for name, value in () if callable(server.headers) else server.headers.items():
        if looks_secret(name):
            settings[f"headers.{name}"] = value
    if isinstance(server.auth, OAuth):
        settings["auth.client_secret"] = server.auth.client_secret
        settings["auth.private_key"] = server.auth.private_key
    found: list[str] = []
    for name, value in settings.items():
        # "Bearer abc": search for the key; a multi-line key is escaped in JSON: search for a line.
        longest = max((value or "").split(), key=len, default="")
        if len(longest) >= MIN_SECRET_CHARACTERS and longest in written:
            found.append(name)
    return tuple(found)


def check_auth(examined: Examined) -> Iterator[Finding]:
    """Check the login and the credentials of a server."""
    auth, server = examined.auth, examined.config
    if auth is None or not isinstance(server, RemoteOptions):
        return
    error = examined.error or examined.status.error
    refused = error is not None and error.kind == "auth"
    if auth.store_failure is not None:
        fix = "repair or remove it, and sign in again"
        yield examined.finding("error", "login_unreadable", auth.store_failure, fix)
    if auth.login is not None:
        # A connection error reports the same in more detail.
        findings = login_findings(auth.login, auth.at)
        yield from (each for each in findings if not (refused and each.level == "error"))
    if auth.open_file is not None:
        fix = f"chmod 600 {shlex.quote(auth.open_file)}"
        yield examined.finding("warn", "login_file_open", "other users can read the login", fix)
    if auth.facts is not None:
        yield from _sign_in_findings(examined, server, auth.facts)
    # Credentials in plain text, in the file or on the network.
    for setting in auth.plain_secrets:
        variable = f"{examined.name}_TOKEN".upper().replace("-", "_")
        fix = f"replace it with ${{{variable}}}, and set that variable"
        text = f"{setting} is in plain text in the configuration file"
        yield examined.finding("warn", "plain_secret", text, fix)
    if server.auth is None and not server.headers:
        return
    issuer = server.auth.issuer if isinstance(server.auth, OAuth) else None
    for address in (server.url, issuer):
        if address and not is_private(address):
            text = f"credentials are sent unencrypted to {public_url(address)}"
            yield examined.finding("warn", "plain_http", text, "use https")


def login_findings(login: LoginStatus, now: float) -> Iterator[Finding]:
    """Check the state of a login."""
    fix = f"plait auth login {login.server}"
    ends_at = None if login.renewable else login.expires_at
    if login.grant == "client_credentials":
        return
    if not login.signed_in:
        yield Finding(login.server, "error", "not_signed_in", "not signed in", fix)
    elif ends_at is not None and ends_at <= now:
        yield Finding(login.server, "error", "login_over", "the login has expired", fix)
    elif ends_at is not None and ends_at - now < _LITTLE_SECONDS:
        minutes = int((ends_at - now) // 60)
        text = f"the login expires in {minutes} min, and cannot be renewed automatically"
        yield Finding(login.server, "warn", "login_ends", text, fix)
    else:
        scopes = f" with {' '.join(login.scopes)}" if login.scopes else ""
        yield Finding(login.server, "ok", "signed_in", f"signed in{scopes}")


def _sign_in_findings(
    examined: Examined, server: RemoteOptions, facts: SignInProbe
) -> Iterator[Finding]:
    """Compare the OAuth metadata with the configuration and the login."""
    if not isinstance(server.auth, OAuth):
        if facts.issuer is not None:
            text = f"supports OAuth sign-in at {public_url(facts.issuer)}"
            fix = f'set "auth": "oauth", then: plait auth login {examined.name}'
            yield examined.finding("warn", "oauth_offered", text, fix)
        return
    if facts.asks is False:
        fix = 'the setting "auth" can be removed'
        yield examined.finding("ok", "no_login_needed", "needs no login", fix)
    if not facts.asks:
        return
    from plait.client.transports.auth.discovery import covers

    login = examined.auth.login if examined.auth is not None else None
    if login is not None and login.signed_in and login.scopes:
        scopes = dict.fromkeys((*server.auth.scopes, *facts.scopes))
        if missing := [scope for scope in scopes if scope not in login.scopes]:
            fix = f"plait auth login {examined.name} --scope {shlex.quote(' '.join(missing))}"
            if login.grant == "client_credentials":
                fix = "grant them to the client"
            text = f"the login lacks {' '.join(missing)}"
            yield examined.finding("warn", "scopes_missing", text, fix)
    if facts.resource is not None and not covers(facts.resource, server.url):
        text = f"its resource is {public_url(facts.resource)}, so no login is valid for this URL"
        fix = f'use that as "url", or correct the server ({public_url(server.url)})'
        yield examined.finding("error", "resource_mismatch", text, fix)
    yield from _issuer_findings(examined, server.auth, facts)


def _issuer_findings(examined: Examined, settings: OAuth, facts: SignInProbe) -> Iterator[Finding]:
    from plait.client.transports.auth.discovery import is_same_issuer

    login = examined.auth.login if examined.auth is not None else None
    signed_in = login is not None and login.signed_in
    if facts.failure is not None:
        level: Level = "warn" if signed_in else "error"
        fix = "check the authorization server: it is needed to sign in and to renew logins"
        yield examined.finding(level, "authorization_server", facts.failure, fix)
    named = facts.authorization_servers or ((facts.issuer,) if facts.issuer else ())
    if settings.issuer and named and not any(is_same_issuer(settings.issuer, one) for one in named):
        others = ", ".join(map(public_url, named))
        text = f"its issuer is {others}, but issuer is set to {public_url(settings.issuer)}"
        yield examined.finding("error", "issuer_mismatch", text, 'correct "issuer", or remove it')
    server, issuer = facts.authorization_server, facts.issuer
    if server and issuer and not is_same_issuer(server, issuer):
        text = f"the authorization server {public_url(server)} has the issuer {public_url(issuer)}"
        fix = "correct its configuration; logins with another issuer are refused"
        yield examined.finding("error", "issuer_mismatch", text, fix)
    granted_by = login.issuer if login is not None else None
    if granted_by and named and not any(is_same_issuer(granted_by, one) for one in named):
        text = f"the login is from {public_url(granted_by)}, which the server no longer uses"
        fix = f"plait auth login {examined.name}"
        yield examined.finding("warn", "login_of_another", text, fix)
    if facts.issuer is not None and not facts.pkce and settings.grant == "authorization_code":
        text = "the authorization server does not declare PKCE with S256"
        yield examined.finding("warn", "no_pkce", text, "contact its operators: MCP requires it")


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


_ROUND_TRIPS = 5
"""Enough for a median that one outlier does not move."""


async def examine_servers(config: ClientConfig, box: Toolbox) -> list[Examined]:
    """List the tools of every server, measure a few round trips, and look at its login."""
    written = _written(config.source)

    async def examine(name: str, server: ServerConfig) -> Examined:
        listed, round_trips, error = None, (), None
        launch = Launch.for_server(server)
        watching = None if launch is None else launch.watch(lambda: box.status()[name])
        try:
            async with nullcontext() if watching is None else in_background(watching):
                tools = tuple(await box.tools(name))
            with suppress(ProtocolError):  # a server that refuses pings still has its tools
                round_trips = [await box.ping(name) for _ in range(_ROUND_TRIPS)]
            listed = tools
        except PlaitError as failure:
            error = failure
        auth = await look_at_auth(name, server, error, written)
        return Examined(
            config=server,
            status=box.status()[name],
            listed=listed,
            round_trips=round_trips,
            error=error,
            auth=auth,
            launch=launch,
        )

    return await asyncio.gather(*(examine(*item) for item in config.servers.items()))


def _written(source: str | None) -> str:
    """Return the text of the configuration, to find secrets in it."""
    with suppress(OSError, ValueError):
        return Path(source).read_text(encoding="utf-8") if source is not None else ""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about a configuration, its servers, and their tools."""

    examined: Sequence[Examined] = ()
    configuration: Sequence[Finding] = ()
    servers: Mapping[str, Sequence[Finding]] = field(default_factory=dict[str, Sequence[Finding]])
    together: Sequence[Finding] = ()
    """Findings about the tools of all servers."""
    cost: Cost | None = None

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        by_server = [finding for findings in self.servers.values() for finding in findings]
        return [*self.configuration, *by_server, *self.together]

    def to_dict(self) -> dict[str, object]:
        """Return the diagnosis as JSON."""
        return {
            "ok": all(finding.level != "error" for finding in self.findings),
            "servers": [
                {**one.status.to_dict(), "round_trips_seconds": list(one.round_trips)}
                for one in self.examined
            ],
            "tokens": None if self.cost is None else self.cost.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def diagnose(
    config: ClientConfig,
    examined: Sequence[Examined],
    known: Iterable[str] | None = None,
    more: Sequence[Finding] = (),
) -> Diagnosis:
    """Run all checks, and add `more` findings about the configuration.

    `known` are the servers of the configuration, if only some were examined.
    """
    survey = survey_of(config, examined, known)
    cost = cost_of(survey)
    about = [
        *findings_from_problems(config.warnings, "warn", list(config.servers)),
        *check_options(survey),
        *more,
        *check_policy(survey),
    ]
    by_server: dict[str, list[Finding]] = {}
    for server in examined:
        name = server.name
        found = [finding for finding in about if finding.server == name]
        found += [*findings_for(server), *check_auth(server)]
        if name in survey.listed:
            found += check_server_cost(name, survey, cost)
            found += check_schemas(name, survey.offered[name])
        by_server[name] = found
    return Diagnosis(
        examined=examined,
        configuration=[finding for finding in about if finding.server not in config.servers],
        servers=by_server,
        together=[*check_names(survey), *check_cost(cost)],
        cost=cost,
    )


def lock_findings(config: ClientConfig, examined: Sequence[Examined]) -> Sequence[Finding]:
    """Compare the listed tools with the lockfile, if there is one."""
    path = lockfile_path(config.options, config.source)
    if not path.exists() and lock_mode(config.options) != "block":
        return []
    try:
        lockfile = read_lockfile(path)
        found: list[Finding] = []
        for server in examined:
            if server.listed is None:
                continue
            identity = identity_of(server.config, server.status.server_info, path.parent)
            now = LockedServer.of(identity, server.listed)
            drift = server_drift(server.name, lockfile.servers.get(server.name), now)
            if drift:
                changes = some_of([change.headline for change in drift])
                message = f"differs from the lockfile: {changes}"
                fix = f"show the changes: plait lock --check {server.name}"
                details = [Detail(text=one.text, tool=one.tool and one.where) for one in drift]
                found.append(server.finding("warn", "drift", message, fix, *details))
            else:
                verb = "matches" if len(server.listed) == 1 else "match"
                tools = count_label(len(server.listed), "tool")
                found.append(server.finding("ok", "locked", f"{tools} {verb} the lockfile"))
    except ConfigError as error:
        return findings_from_config_error(error)
    return found


LAUNCHERS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx"})
"""Programs that install a server, and then start it as a child process."""

_LAUNCHER_SCRIPTS = frozenset({"npx-cli", "npm-cli"})
"""What Node runs as npx and npm, before they change the title of their process."""

_SAMPLE_SECONDS = 0.05
_SURELY_STARTED_SECONDS = 1.0
"""A child that lives as long is the server; launchers have helpers that end at once."""


class Launch:
    """Watches the process of a launcher while its server is being connected."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.watched_seconds = 0.0
        """How long the process was watched, until the server was ready or failed."""
        self.started_seconds: float | None = None
        """When the launcher had started the server; `None` if it had not."""

    @classmethod
    def for_server(cls, server: ServerConfig) -> Launch | None:
        """Watch a server that a launcher starts; `None` for others, and where there is no /proc."""
        if not isinstance(server, StdioServer) or not Path("/proc/self/task").exists():
            return None
        program = PurePath(server.command).name.removesuffix(".exe").removesuffix(".cmd")
        return cls(program) if program in LAUNCHERS else None

    async def watch(self, status: Callable[[], ServerStatus]) -> None:
        """Look at the processes it starts until the server is ready, or has failed."""
        began = time.monotonic()
        while (now := status()).state in {"idle", "connecting"}:
            self.watched_seconds = time.monotonic() - began
            if now.pid is not None:
                self._note(await in_thread(_has_started_server, now.pid))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _note(self, has_server: bool) -> None:
        started = self.started_seconds
        if started is not None and self.watched_seconds - started >= _SURELY_STARTED_SECONDS:
            return
        if not has_server:
            self.started_seconds = None
        elif started is None:
            self.started_seconds = self.watched_seconds


def _has_started_server(pid: int) -> bool:
    """Whether a descendant is no launcher: `npx` may be a script that starts the real one."""
    return not all(map(_is_launcher, descendants_of(pid)))


def _is_launcher(pid: int) -> bool:
    """Whether a process is a launcher, runs one as a script, or has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").split()
    except OSError:
        return True
    programs = {PurePath(word).stem for word in words[:2]}
    return not programs or not programs.isdisjoint(LAUNCHERS | _LAUNCHER_SCRIPTS)
