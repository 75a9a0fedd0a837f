"""Findings of `plait doctor`: each check is a pure function of what was examined.

To add a check, write a function of an `Examined`, and add it to `CHECKS`.
"""

from __future__ import annotations

import os
import re
import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from plait._support.redact import looks_secret
from plait._support.threads import import_once
from plait.cli.advice import advice_for, target_of
from plait.cli.terminal import count_label, seconds_label
from plait.client.catalog.listing import sanitize_tool
from plait.client.config.oauth import OAuth
from plait.client.config.servers import HttpServer, RemoteOptions, ServerConfig, SseServer
from plait.client.config.urls import is_private, public_url
from plait.errors import AuthRequiredError, ConfigError, ConnectTimeoutError, PlaitError, Problem

if TYPE_CHECKING:
    from plait.cli.doctor.diagnosis import Launch
    from plait.client.catalog.tool import Tool
    from plait.client.connections.status import ServerStatus
    from plait.client.transports.auth.login import LoginStatus, SignInProbe

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
    import_once("plait.client.transports.auth.login")  # connections are imported in threads
    from plait.client.transports.auth.login import login_file, login_status, probe_sign_in

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
