"""The options of the fault server: as keyword arguments, as command line, as parsed settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict, cast, get_args

Transport = Literal["stdio", "http", "sse", "websocket"]

NoiseKind = Literal["banner", "crlf", "bom", "half", "split", "utf8", "biglines"]
"""What the server writes to its stdout beside, around or inside its answers."""

Moment = Literal["initialize", "list", "call", "all"]
"""Which requests an HTTP status is the answer to."""

DieBy = Literal["kill", "drop"]
"""Whether a dying tool takes the process with it, or only cuts the connection."""


class FaultOptions(TypedDict, total=False):
    """What can be asked of the fault server; each is the flag of the same name."""

    host: str
    port: int
    stateless: bool
    """Keep no HTTP sessions (legacy era)."""
    json_response: bool
    """Answer HTTP requests with JSON instead of SSE."""
    legacy_only: bool
    """Speak only the handshake era: `server/discover` is an unknown method."""
    modern_only: bool
    """Speak only 2026-07-28: `initialize` is refused."""
    state_dir: str | Path
    """Where the ledger and the counters live, across restarts."""
    sessions_log: str | Path
    """Where each handshake leaves a line; `sessions` in the state folder unless given."""
    noise: Sequence[NoiseKind]
    """Noise on stdout (stdio only)."""
    stderr_line: str | Sequence[str]
    """Lines to write to stderr at the start."""
    exit_after: int
    """Exit after this many answered tool calls; 0 exits before the handshake."""
    exit_code: int
    """Exit code of `exit_after` (1 unless given) and of tools that die (else SIGKILL)."""
    die_by: DieBy
    hang_handshake: bool
    """Accept everything and answer nothing."""
    slow_start: float
    """Seconds before the server listens or reads."""
    http_status: int | str
    """Answer HTTP requests with this status: `503`, or `503:2` for the first two only."""
    http_status_on: Moment
    http_body: str
    """The body that comes with the status."""
    retry_after: int | str
    www_authenticate: str
    cut_sse: bool | int
    """Cut the connection in the middle of the answer of a tool call; a number: so many times."""
    delay: float
    """Seconds before every request is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one run, parsed and checked."""

    transport: Transport
    host: str
    port: int
    stateless: bool
    json_response: bool
    legacy_only: bool
    modern_only: bool
    state_dir: Path | None
    sessions_log: Path | None
    noise: frozenset[NoiseKind]
    stderr_lines: tuple[str, ...]
    exit_after: int | None
    exit_code: int | None
    die_by: DieBy
    hang_handshake: bool
    slow_start: float
    http_status: int | None
    http_status_times: int | None
    """How many requests get the status; `None` for all of them."""
    http_status_on: Moment
    http_body: str
    retry_after: str | None
    www_authenticate: str | None
    cut_sse_times: int | None
    """How many calls are cut; `None` for all of them."""
    delay: float
    until_stdin_closes: bool


def flags_from_options(options: FaultOptions) -> list[str]:
    """Write options as command line flags."""
    given: Mapping[str, object] = {**options}
    flags: list[str] = []
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        elif isinstance(value, str | int | float | Path):
            flags.append(f"{flag}={value}")
        else:
            several = [str(one) for one in cast("Sequence[object]", value)]
            flags.extend(
                f"{flag}={one}" for one in ([",".join(several)] if name == "noise" else several)
            )
    return flags


def parse(argv: Sequence[str] | None = None) -> Settings:
    """Read the command line; a mistake in it ends the program with a sentence."""
    parser = _parser()
    given = parser.parse_args(argv)
    noise = _noise(parser, given.noise)
    if noise and given.transport != "stdio":
        parser.error("--noise is written to stdout, so it needs --transport stdio")
    if given.legacy_only and given.modern_only:
        parser.error("--legacy-only and --modern-only exclude each other")
    status, times = _status(parser, given.http_status)
    sessions_log: Path | None = given.sessions_log
    if sessions_log is None and given.state_dir is not None:
        sessions_log = given.state_dir / "sessions"
    return Settings(
        transport=given.transport,
        host=given.host,
        port=given.port,
        stateless=given.stateless,
        json_response=given.json_response,
        legacy_only=given.legacy_only,
        modern_only=given.modern_only,
        state_dir=given.state_dir,
        sessions_log=sessions_log,
        noise=noise,
        stderr_lines=tuple(given.stderr_line),
        exit_after=given.exit_after,
        exit_code=given.exit_code,
        die_by=given.die_by,
        hang_handshake=given.hang_handshake,
        slow_start=given.slow_start,
        http_status=status,
        http_status_times=times,
        http_status_on=given.http_status_on,
        http_body=given.http_body,
        retry_after=given.retry_after,
        www_authenticate=given.www_authenticate,
        cut_sse_times=None if given.cut_sse < 0 else given.cut_sse,
        delay=given.delay,
        until_stdin_closes=given.until_stdin_closes,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait.testing.faults",
        description="An MCP server that fails on demand, for tests of MCP clients.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--transport", choices=get_args(Transport), default="stdio")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0 picks a free one")
    add("--stateless", action="store_true", help="keep no HTTP sessions")
    add("--json-response", action="store_true", help="answer HTTP with JSON instead of SSE")
    add("--legacy-only", action="store_true", help="server/discover is an unknown method")
    add("--modern-only", action="store_true", help="initialize is refused")
    add("--state-dir", type=Path, help="where the ledger and the counters live")
    add("--sessions-log", type=Path, help="file that gets a line per handshake")
    add("--noise", default="", help="comma-separated: " + ", ".join(get_args(NoiseKind)))
    add("--stderr-line", action="append", default=[], help="line for stderr; may be repeated")
    add("--exit-after", type=int, metavar="N", help="exit after N answered calls; 0: at once")
    add("--exit-code", type=int, metavar="CODE", help="how to exit (default 1)")
    add("--die-by", choices=get_args(DieBy), default="kill", help="what tools that die do")
    add("--hang-handshake", action="store_true", help="accept everything, answer nothing")
    add("--slow-start", type=float, default=0, metavar="SECONDS")
    add("--http-status", metavar="CODE[:TIMES]", help="answer with this HTTP status")
    add("--http-status-on", choices=get_args(Moment), default="all")
    add("--http-body", default="the fault server refuses", help="body that comes with the status")
    add("--retry-after", help="value of the Retry-After header beside the status")
    add("--www-authenticate", help="value of the WWW-Authenticate header beside the status")
    add(
        "--cut-sse",
        type=int,
        nargs="?",
        const=-1,
        default=0,
        metavar="TIMES",
        help="cut the connection in the middle of the answer of a tool call",
    )
    add("--delay", type=float, default=0, metavar="SECONDS", help="before every request")
    add("--until-stdin-closes", action="store_true", help="end when standard input ends")
    return parser


def _noise(parser: argparse.ArgumentParser, text: str) -> frozenset[NoiseKind]:
    known: tuple[NoiseKind, ...] = get_args(NoiseKind)
    wanted = {kind for kind in text.split(",") if kind}
    if unknown := wanted - {*known}:
        parser.error(f"unknown noise {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return frozenset(kind for kind in known if kind in wanted)


def _status(parser: argparse.ArgumentParser, text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    code, _, times = text.partition(":")
    if not code.isdigit() or (times and not times.isdigit()):
        parser.error(f"--http-status takes CODE or CODE:TIMES, not {text!r}")
    return int(code), int(times) if times else None
