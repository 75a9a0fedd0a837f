"""Findings of `plait doctor`: each check is a pure function of what was examined.

To add a check, write a function of an `Examined`, and add it to `CHECKS`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from plait.cli.advice import advice_for, target_of
from plait.cli.terminal import count_label, seconds_label
from plait.client.catalog.listing import sanitize_tool
from plait.client.config.servers import HttpServer, ServerConfig
from plait.errors import ConfigError, ConnectTimeoutError, PlaitError, Problem

if TYPE_CHECKING:
    from plait.cli.doctor.auth import AuthSeen
    from plait.cli.doctor.launch import Launch
    from plait.client.catalog.tool import Tool
    from plait.client.connections.status import ServerStatus

Level = Literal["ok", "warn", "error"]

_SLOW_CONNECT_SECONDS = 5.0
_SLOW_ROUND_TRIP_SECONDS = 1.0
"""A slower ping delays every call noticeably."""

_MODERN = "2026-07-28"
"""The first protocol version without a handshake; versions compare as text."""

_MOST_REPAIRED = 3
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
    if launch is not None and _is_mostly_download(launch):
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


def _is_mostly_download(launch: Launch) -> bool:
    started = launch.started_seconds
    return started is None or started > launch.watched_seconds / 2


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
    if len(repaired) > _MOST_REPAIRED:
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
        server = _server_in(problem.path, servers)
        yield Finding(server, level, problem.code, message, problem.suggestion)


def findings_from_config_error(error: ConfigError, server: str | None = None) -> list[Finding]:
    """Convert a configuration error to findings about a server, or the whole configuration."""
    if not error.problems:
        return [Finding(server, "error", "config", error.message)]
    findings = findings_from_problems(error.problems, "error")
    return [replace(finding, server=server) for finding in findings]


def _server_in(path: str, servers: Sequence[str]) -> str | None:
    """Return the longest server name that follows the section name in the path."""
    _, _, rest = path.partition(".")
    named = [name for name in servers if rest == name or rest.startswith((f"{name}.", f"{name}["))]
    return max(named, key=len, default=None)
