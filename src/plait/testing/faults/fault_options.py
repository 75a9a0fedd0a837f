"""The options of the fault server, as keywords, flags and settings, and its state."""

from __future__ import annotations

import argparse
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from plait.testing.state import StateDir, append_line

Transport = Literal["stdio", "http", "sse", "websocket"]

NoiseKind = Literal["banner", "crlf", "bom", "half", "split", "utf8", "biglines"]
"""What the server writes to its stdout before, around or inside its answers."""

Moment = Literal["initialize", "list", "call", "all"]
"""Which requests are answered with the HTTP status."""

DieBy = Literal["kill", "drop"]
"""Whether a dying tool kills the process, or only cuts the connection."""

_ALWAYS: Final = math.inf


class FaultOptions(TypedDict, total=False):
    """The faults of a fault server; each is the field of the same name in `Settings`."""

    host: str
    port: int
    stateless: bool
    json_response: bool
    legacy_only: bool
    modern_only: bool
    state_dir: str | Path
    sessions_log: str | Path
    noise: Sequence[NoiseKind]
    stderr_line: str | Sequence[str]
    exit_after: int
    exit_code: int
    die_by: DieBy
    hang_handshake: bool
    slow_start: float
    http_status: int | str
    http_status_on: Moment
    http_body: str
    retry_after: int | str
    www_authenticate: str
    cut_sse: bool | int
    delay: float


def _split_noise(text: object) -> object:
    kinds = {kind for kind in str(text).split(",") if kind}
    known = get_args(NoiseKind)
    if unknown := kinds - {*known}:
        raise ValueError(f"unknown noise {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return kinds


def _split_status(text: object) -> object:
    code, _, times = str(text).partition(":")
    if not code.isdigit() or (times and not times.isdigit()):
        raise ValueError(f"--http-status takes CODE or CODE:TIMES, not {text!r}")
    return int(code), int(times) if times else _ALWAYS


_NOISE_HELP = f"noise on stdout (stdio only), comma-separated: {', '.join(get_args(NoiseKind))}"


class Settings(BaseModel, frozen=True):
    """The validated options of one process; each field is a flag of the command line."""

    transport: Transport = "stdio"
    host: str = "127.0.0.1"
    port: int = Field(0, description="0 picks a free one")
    stateless: bool = Field(False, description="keep no HTTP sessions (legacy era)")
    json_response: bool = Field(False, description="answer HTTP with JSON instead of SSE")
    legacy_only: bool = Field(False, description="server/discover is an unknown method")
    modern_only: bool = Field(False, description="initialize is refused")
    state_dir: Path | None = Field(None, description="folder of the ledger and the counters")
    sessions_log: Path | None = Field(
        None, description="file that gets a line per handshake; default: sessions in --state-dir"
    )
    noise: Annotated[frozenset[NoiseKind], BeforeValidator(_split_noise)] = Field(
        frozenset(), description=_NOISE_HELP
    )
    stderr_line: tuple[str, ...] = Field((), description="line for stderr; may be repeated")
    exit_after: int | None = Field(None, description="exit after N answered calls; 0: at once")
    exit_code: int | None = Field(
        None, description="of --exit-after (default 1) and of tools that die (default: SIGKILL)"
    )
    die_by: DieBy = Field("kill", description="what tools that die do")
    hang_handshake: bool = Field(False, description="accept everything, answer nothing")
    slow_start: float = Field(0, description="seconds before the server listens or reads")
    http_status: Annotated[tuple[int, float], BeforeValidator(_split_status)] | None = Field(
        None, description="answer with this HTTP status: CODE, or CODE:TIMES"
    )
    http_status_on: Moment = "all"
    http_body: str = Field("the fault server refuses", description="body sent with the status")
    retry_after: str | None = Field(None, description="Retry-After header sent with the status")
    www_authenticate: str | None = Field(
        None, description="WWW-Authenticate header sent with the status"
    )
    cut_sse: float = Field(
        0, description="cut the connection inside the answer of a tool call; a number: N times"
    )
    delay: float = Field(0, description="seconds before every request is served")
    until_stdin_closes: bool = Field(False, description="end when standard input ends")

    @property
    def sessions_file(self) -> Path | None:
        """The file that gets a line per handshake."""
        default = None if self.state_dir is None else self.state_dir / "sessions"
        return self.sessions_log or default

    @model_validator(mode="after")
    def _check_combinations(self) -> Settings:
        if self.noise and self.transport != "stdio":
            raise ValueError("--noise is written to stdout, so it needs --transport stdio")
        if self.legacy_only and self.modern_only:
            raise ValueError("--legacy-only and --modern-only exclude each other")
        return self


def flags_from_options(options: FaultOptions) -> list[str]:
    """Convert options to command line flags."""
    values: Mapping[str, object] = {**options}
    flags: list[str] = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        elif isinstance(value, str | int | float | Path):
            flags.append(f"{flag}={value}")
        else:
            items = [str(item) for item in cast("Sequence[object]", value)]
            items = [",".join(items)] if name == "noise" else items
            flags.extend(f"{flag}={item}" for item in items)
    return flags


def parse(argv: Sequence[str] | None = None) -> Settings:
    """Parse the command line; a mistake exits the program with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m plait.testing.faults",
        description="An MCP server that fails on demand, for tests of MCP clients.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for name, option in Settings.model_fields.items():
        options: dict[str, Any] = {"help": option.description}
        if option.annotation is bool:
            options["action"] = "store_true"
        elif get_origin(option.annotation) is Literal:
            options["choices"] = get_args(option.annotation)
        elif name == "stderr_line":
            options["action"] = "append"
        elif name == "cut_sse":
            options.update(nargs="?", const=_ALWAYS)
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    try:
        return Settings.model_validate(vars(parser.parse_args(argv)))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        texts: list[str] = []
        for fault in faults:
            flag = str(fault["loc"][0]).replace("_", "-") if fault["loc"] else ""
            reason = fault.get("ctx", {}).get("error")
            texts.append(str(reason or f"--{flag}: {fault['msg']}, not {fault['input']!r}"))
        parser.error("; ".join(texts))


@dataclass
class Run:
    """The running process; used in one event loop only."""

    settings: Settings
    counter: int = 0
    """Calls of `counter`."""
    calls: int = 0
    """Answered tool calls."""
    cancelled: int = 0
    """Cancelled calls of `hang`."""
    slow_now: int = 0
    slow_most: int = 0
    """Current and maximum concurrent calls of `slow`."""
    grown: int = 0
    """Tools added by `grow`."""
    followed: list[str] = field(default_factory=list[str])
    """The resources with subscriptions of legacy clients."""
    exit_due: bool = False
    """Whether the process exits after the pending answer is written."""
    cut: Callable[[], None] | None = None
    """Cuts every connection; `None` on stdio."""
    statuses: int = 0
    cuts: int = 0
    """HTTP statuses sent, and answers cut."""
    state: StateDir | None = field(init=False)
    """The durable state; `None` without a state folder."""

    def __post_init__(self) -> None:
        path = self.settings.state_dir
        self.state = None if path is None else StateDir(path)

    def log_start(self) -> None:
        """Record this start of the server, if there is a state folder."""
        if self.state is not None:
            self.state.path.mkdir(parents=True, exist_ok=True)
            self.state.append("starts", str(os.getpid()))

    def log_session(self, kind: str) -> None:
        """Write a line to the sessions log, if there is one."""
        if self.settings.sessions_file is not None:
            append_line(self.settings.sessions_file, f"{kind} {os.getpid()}")

    def count_call(self) -> None:
        """Count a tool call whose answer is about to be written."""
        self.calls += 1
        if self.calls == self.settings.exit_after:
            self.exit_due = True

    def wrote(self) -> None:
        """Exit if that is due; the transports call this after each message."""
        if self.exit_due:
            self.exit()

    def exit(self) -> None:
        """Exit immediately with the configured code."""
        code = self.settings.exit_code
        os._exit(1 if code is None else code)

    def die(self) -> None:
        """Die without an answer, as configured."""
        if self.settings.die_by == "drop" and self.cut is not None:
            self.cut()
        elif self.settings.exit_code is not None:
            self.exit()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
