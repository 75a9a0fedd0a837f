"""What `plait doctor` finds: each check is a pure function from what was seen to findings.

To add a check, write a function that takes an `Examined` and put it into `CHECKS`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from plait.cli.advice import advice_for
from plait.cli.terminal import count_label, seconds_label
from plait.client.catalog.sanitize_tools import sanitize_tool
from plait.client.config.servers import HttpServer, ServerConfig, StdioServer
from plait.errors import ConfigError, PlaitError, Problem

if TYPE_CHECKING:
    from plait.cli.doctor.auth import AuthSeen
    from plait.client.catalog.tool import Tool
    from plait.client.connections.status import ServerStatus

Level = Literal["ok", "warn", "error"]

_SLOW_CONNECT_SECONDS = 5.0

_SLOW_ROUND_TRIP_SECONDS = 1.0
"""A server that needs this long to answer nothing makes every call feel broken."""

_MODERN = "2026-07-28"
"""The first protocol version without a handshake; versions compare as text."""

_MOST_MENDED = 3
"""More notes than these are put into one finding."""

_LEFT_OUT = re.compile(r"\btool .+ was left out: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One case of what a finding says about several."""

    text: str

    tool: str | None = None
    """The tool it is about, as `server/tool`."""

    name: str | None = None
    """What the model calls the tool, where the finding is about names."""

    profiles: tuple[str, ...] = ()
    """The profiles it is true for, where the finding is about schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing worth knowing about a server, with what to do about it."""

    server: str | None
    """The server it is about; `None` for the configuration as a whole."""

    level: Level

    code: str
    """A stable short name of the kind of finding: `refused`, `stdout_noise`."""

    message: str

    fix: str | None = None

    details: tuple[Detail, ...] = ()
    """Every case, where the message gives only a number and an example."""

    def to_dict(self) -> dict[str, object]:
        """Describe the finding as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Everything that was seen of one server."""

    config: ServerConfig

    status: ServerStatus

    round_trips: Sequence[float] = ()
    """Seconds of each round trip that was measured."""

    error: PlaitError | None = None
    """What ended the measuring, when something did."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.status.name

    auth: AuthSeen | None = None
    """How one signs in to it, where it has an address."""

    listed: tuple[Tool, ...] | None = None
    """The tools as the server lists them, whatever the client wants; `None` if it did not."""

    def finding(
        self,
        level: Level,
        code: str,
        message: str,
        fix: str | None = None,
        details: Iterable[Detail] = (),
    ) -> Finding:
        """Make a finding about this server."""
        return Finding(
            server=self.name,
            level=level,
            code=code,
            message=message,
            fix=fix,
            details=tuple(details),
        )


def check_reach(seen: Examined) -> Iterator[Finding]:
    """Say that the server is ready, or why it is not."""
    status = seen.status
    if status.state == "ready" and seen.error is None:
        era = "modern" if (status.protocol_version or "") >= _MODERN else "legacy"
        took = "" if _is_slow(status) else f" in {seconds_label(status.connect_seconds)}"
        protocol = f"protocol {status.protocol_version or 'unknown'} ({era})"
        yield seen.finding("ok", "ready", f"connected{took}, {protocol}")
        return
    error = seen.error or status.error
    if error is None:
        yield seen.finding("error", "not_ready", status.last_error or f"is {status.state}")
        return
    advice = advice_for(error, seen.config)
    yield seen.finding("error", advice.code, error.message, advice.fix)


def check_connect_time(seen: Examined) -> Iterator[Finding]:
    """Warn about a server that is slow to start."""
    if seen.status.state != "ready" or not _is_slow(seen.status):
        return
    legacy = (seen.status.protocol_version or _MODERN) < _MODERN
    if legacy and seen.config.protocol == "auto":
        fix = 'skip the probe for the newer protocol: "protocol": "legacy"'
    elif isinstance(seen.config, StdioServer) and seen.config.command in {"npx", "uvx", "bunx"}:
        fix = f"install the server and start it directly: {seen.config.command} checks for updates"
    else:
        fix = "look at what the server does before it answers"
    seconds = seconds_label(seen.status.connect_seconds)
    yield seen.finding("warn", "slow_connect", f"took {seconds} to connect", fix)


def _is_slow(status: ServerStatus) -> bool:
    return (status.connect_seconds or 0) > _SLOW_CONNECT_SECONDS


def check_latency(seen: Examined) -> Iterator[Finding]:
    """Report the median of the measured round trips."""
    if not seen.round_trips:
        return
    median = statistics.median(seen.round_trips)
    message = (
        f"answers in {seconds_label(median)} "
        f"(median of {count_label(len(seen.round_trips), 'round trip')})"
    )
    if median > _SLOW_ROUND_TRIP_SECONDS:
        yield seen.finding(
            "warn", "slow_answers", message, "every call waits this long: is the host far or busy?"
        )
    else:
        yield seen.finding("ok", "latency", message)


def check_transport(seen: Examined) -> Iterator[Finding]:
    """Warn when an HTTP server turned out to speak only the older SSE transport."""
    if isinstance(seen.config, HttpServer) and seen.status.transport == "sse":
        yield seen.finding(
            "warn",
            "sse_only",
            "speaks only the older SSE transport, found after a failed try",
            'save the try: "type": "sse"',
        )


def check_tools(seen: Examined) -> Iterator[Finding]:
    """Warn about a server that is ready and offers no tool."""
    if seen.status.state == "ready" and seen.status.tool_count == 0:
        yield seen.finding(
            "warn", "no_tools", "offers no tools", 'check "include" and "exclude", and its version'
        )


def check_stdout(seen: Examined) -> Iterator[Finding]:
    """Warn about a child that prints other things on the stream of the protocol."""
    if seen.status.noise_lines:
        yield seen.finding(
            "warn",
            "stdout_noise",
            f"wrote {count_label(seen.status.noise_lines, 'line')} to stdout outside the protocol",
            "print logs and banners to stderr: stdout belongs to the protocol",
        )


def check_left_out(seen: Examined) -> Iterator[Finding]:
    """Name the tools that cannot be used, because what the server says of them is wrong."""
    notes = [note for note in dict.fromkeys(seen.status.repaired) if _LEFT_OUT.search(note)]
    if notes:
        yield seen.finding(
            "warn",
            "left_out",
            f"{count_label(len(notes), 'tool')} left out: {_some(notes)}",
            "update the server, or report it to its authors",
            [Detail(text=note) for note in notes],
        )


def check_mended(seen: Examined) -> Iterator[Finding]:
    """Name the answers that broke the protocol and were repaired."""
    notes = [note for note in dict.fromkeys(seen.status.repaired) if not _LEFT_OUT.search(note)]
    fix = "update the server, or report it to its authors"
    if len(notes) > _MOST_MENDED:
        details = [Detail(text=note) for note in notes]
        yield seen.finding("warn", "repaired", f"repaired: {_some(notes)}", fix, details)
        return
    for note in notes:
        yield seen.finding("warn", "repaired", f"repaired: {note}", fix)


def _some(notes: Sequence[str]) -> str:
    return notes[0] if len(notes) == 1 else f"{notes[0]} (and {len(notes) - 1} more)"


def check_hidden(seen: Examined) -> Iterator[Finding]:
    """Name the tools whose texts hide something from whoever reads them."""
    details = [
        Detail(tool=tool.full_name, text=note)
        for tool in seen.listed or ()
        for note in sanitize_tool(tool)[1]
    ]
    if details:
        names = list(dict.fromkeys(str(detail.tool) for detail in details))
        yield seen.finding(
            "warn",
            "hidden_characters",
            f"hides characters in the texts of {_some(names)}",
            "read what it hides with plait lock; models get the texts without it",
            details,
        )


def check_stderr(seen: Examined) -> Iterator[Finding]:
    """Quote the end of what the child wrote on stderr, unless an error has quoted it already."""
    tail = [line.strip() for line in seen.status.stderr_tail if line.strip()]
    if tail and tail[-1] not in str(seen.error or seen.status.error or ""):
        yield seen.finding("ok", "stderr", f"last on stderr: {tail[-1]}")


Check = Callable[[Examined], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_reach,
    check_connect_time,
    check_latency,
    check_transport,
    check_tools,
    check_stdout,
    check_left_out,
    check_mended,
    check_hidden,
    check_stderr,
)
"""Every check of one server, in the order in which the findings are shown."""


def findings_for(seen: Examined, checks: Iterable[Check] = CHECKS) -> list[Finding]:
    """Run every check on one server."""
    return [finding for check in checks for finding in check(seen)]


def findings_from_problems(
    problems: Iterable[Problem], level: Level, servers: Iterable[str] = ()
) -> list[Finding]:
    """Turn what is wrong with a configuration into findings, each at the server it is about."""
    names = list(servers)
    return [
        Finding(
            server=_server_in(problem.path, names),
            level=level,
            code=problem.code,
            message=f"{problem.path}: {problem.message}" if problem.path else problem.message,
            fix=problem.suggestion,
        )
        for problem in problems
    ]


def findings_from_config_error(error: ConfigError) -> list[Finding]:
    """Turn a configuration that could not be read into findings."""
    if error.problems:
        return findings_from_problems(error.problems, "error")
    return [Finding(server=None, level="error", code="config", message=error.message)]


def _server_in(path: str, servers: Sequence[str]) -> str | None:
    """Return the longest server name that stands in the path right after the section's name."""
    _, _, rest = path.partition(".")
    named = [name for name in servers if rest == name or rest.startswith((f"{name}.", f"{name}["))]
    return max(named, key=len, default=None)


def worst_level(findings: Iterable[Finding]) -> Level:
    """Return the level of the worst finding; `ok` when there is none."""
    levels = {finding.level for finding in findings}
    return "error" if "error" in levels else "warn" if "warn" in levels else "ok"
