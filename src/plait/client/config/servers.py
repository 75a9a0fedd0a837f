"""The servers a client talks to, as typed and validated values."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from plait._support.durations import check_counts, check_durations, is_finite_number
from plait._support.redact import Redactor
from plait.client.config.budgets import DEFAULT_LIMITS, Deferral, IncomingLimits, ResultBudget
from plait.client.config.oauth_settings import person_seconds
from plait.client.config.raw_value import Key, KeyTable, RawValue, read_table
from plait.client.config.urls import public_url
from plait.client.config.value_types import read_bool, read_count, read_delay, read_seconds
from plait.errors import ConfigError

Protocol = Literal["auto", "legacy", "2026-07-28"]
"""The protocol era: detect it, use the `initialize` handshake, or the modern protocol."""

TransportName = Literal["stdio", "http", "sse", "websocket", "in-process"]

Headers = Mapping[str, str] | Callable[..., Any]
"""Fixed headers, or a function that returns them for a run."""

_CONNECT_SECONDS = 20.0
"""The timeout for opening a session, unless set."""
_ATTEMPTS = 3
"""Attempts of one request, where a policy has no number."""
_chance = random.Random()  # independent of the seed that a program sets


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """How often, and after which delays, a lost connection is opened again."""

    enabled: bool = True
    """If false, a failed connection stays failed."""
    max_attempts: int | None = None
    """Attempts per outage while callers wait, after which calls fail at once; `None` lets each
    caller wait as long as it has time."""
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 60.0
    """The longest pause between two attempts."""
    jitter: float = 0.3
    """The random share of each delay, from 0 to 1."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_durations(self, "first_delay_seconds", "longest_delay_seconds", may_be_zero=True)
        check_counts(self, "max_attempts")
        if not is_finite_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise ConfigError("jitter: expected a number from 0 to 1")

    def delay_seconds(self, doublings: int, draw: Callable[[], float] = _chance.random) -> float:
        """Return the delay after this many doublings; `draw` returns a number in [0, 1)."""
        delay = self.first_delay_seconds * 2 ** min(max(doublings, 0), 32)
        return min(self.longest_delay_seconds, delay) * (1 - self.jitter * draw())

    def delays(self, draw: Callable[[], float] = _chance.random) -> Iterator[float]:
        """Yield the pause before each further attempt of one outage."""
        for retry in range((self.max_attempts or _ATTEMPTS) - 1):
            yield self.delay_seconds(retry, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds."""

    connect_seconds: float | None = None
    """Until a session is usable, including retries; `None` is 20 s, and for a call that waits 30 s
    or its own time, if that is longer."""
    list_seconds: float = 30.0
    read_seconds: float = 30.0
    close_seconds: float = 10.0
    call_seconds: float | None = None
    """One tool call; `None` uses the client's default, then 60 s."""
    tool_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Per tool, by wire name or glob; the most specific wins over `call_seconds`."""
    longest_call_seconds: float | None = None
    """The cap on a call that progress extends; `None` is ten times its timeout."""

    def __post_init__(self) -> None:
        """Validate the durations, and store them in seconds."""
        check_durations(self, *(item.name for item in fields(self)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerOptions:
    """Options of every kind of server."""

    transport: ClassVar[TransportName]
    durations: ClassVar[tuple[str, ...]] = ("idle_seconds",)
    """The fields that are durations."""
    required: bool = False
    """Whether a client without this server must fail."""
    protocol: Protocol = "auto"
    timeouts: Timeouts = field(default_factory=Timeouts)
    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)
    idle_seconds: float | None = None
    """Close the session after this long without a call; it is opened again on the next."""
    max_concurrency: int | None = None
    """Calls in flight at once; `None` is no limit."""
    scope: Literal["client", "thread"] = "client"
    sharing: Literal["client", "all"] = "client"
    """Whether the clients of `plait serve` have sessions of their own, or one for all of them."""
    """Who shares a session: everyone with the same credentials, or only one conversation."""
    include: Sequence[str] | None = None
    """Tools to offer, by wire name or glob; `None` is all of them, an empty list none."""
    exclude: Sequence[str] = ()
    output_handling: str | Mapping[str, str] | None = None
    sampling: bool | None = None
    """Whether the server may use the client's model; `None` leaves it to the client's list."""
    trust_instructions: bool = False
    """Whether the server's instructions may be added to the prompts of agents."""
    result_budget: ResultBudget | None = None
    """Maximum size of results; `None` uses the client's setting."""
    defer: Deferral | None = None
    """Which tools are deferred; `None` uses the client's setting."""
    limits: IncomingLimits | None = None
    """What the server may send; `None` uses the client's setting."""
    client_options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """Further keyword arguments for the MCP SDK's client (`session_kwargs` of other adapters)."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that came from variables whose name looks secret; they are never shown."""
    templates: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """The strings with variables that its settings were read from, by what they became."""
    source: str | None = None
    """The file this server was read from."""
    problem: ConfigError | None = field(default=None, repr=False)
    """Why the server cannot be used, though others can: a variable is not set."""

    @property
    def incoming(self) -> IncomingLimits:
        """What the server may send."""
        return self.limits or DEFAULT_LIMITS

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_durations(self, *self.durations)
        check_counts(self, "max_concurrency")

    def __repr__(self) -> str:
        """Show what is set, without arguments, headers and environment."""
        shown = [
            f"{item.name}={value!r}"
            for item in fields(self)
            if item.repr
            and (value := getattr(self, item.name))
            != (item.default if item.default_factory is MISSING else item.default_factory())
        ]
        return f"{type(self).__name__}({', '.join([*self._address(), *shown])})"

    def _address(self) -> tuple[str, ...]:
        """Show the server's address without secrets."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StdioServer(ServerOptions):
    """A program on this machine that speaks MCP on its standard input and output."""

    transport = "stdio"
    command: str = field(repr=False)
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] | Callable[..., Any] = field(default_factory=dict[str, str], repr=False)
    """Variables, or a function of the run that returns them."""
    inherit_env: bool | Sequence[str] = False
    """Variables passed on besides the usual ones: names, or `True` for all of them."""
    cwd: str | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "replace"
    stderr: Literal["pipe", "inherit", "ignore", "overlapped"] = "pipe"
    """Where the child's standard error goes; with `pipe` its last lines are kept for errors."""

    @property
    def fixed_env(self) -> Mapping[str, str]:
        """The variables that are the same for every run."""
        return {} if callable(self.env) else self.env

    def _address(self) -> tuple[str, ...]:
        # A whole command line may have been written here by mistake, with its arguments.
        return (f"command={Redactor()(self.command.partition(' -')[0])!r}",)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteOptions(ServerOptions):
    """Options of every server with a URL."""

    url: str = field(repr=False)
    headers: Headers = field(default_factory=dict[str, str], repr=False)
    auth: Any = field(default=None, repr=False)
    """An `httpx2.Auth`, `OAuth` settings, or an OAuth provider object."""

    def _address(self) -> tuple[str, ...]:
        return (f"url={public_url(self.url)!r}",)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExchangeOptions(RemoteOptions):
    """Options of every server that is reached by HTTP exchanges."""

    durations: ClassVar[tuple[str, ...]] = (
        "idle_seconds",
        "exchange_seconds",
        "stream_read_seconds",
    )
    exchange_seconds: float = 30.0
    """One HTTP exchange: connecting, sending, and getting the first byte of a plain answer."""
    stream_read_seconds: float = 300.0
    """Silence allowed on an event stream."""
    max_sse_event_size: int | None = None
    """The largest event; `None` is the limit of a message."""
    http_client_factory: Callable[..., Any] | None = field(default=None, repr=False)
    idle_seconds: float | None = 300.0

    @property
    def most_event_bytes(self) -> int:
        """The largest event of a stream."""
        return self.max_sse_event_size or self.incoming.message_bytes


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpServer(ExchangeOptions):
    """A server on Streamable HTTP, with automatic fallback to the older SSE transport."""

    transport = "http"
    automatic_sse_fallback: bool = True
    terminate_on_close: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SseServer(ExchangeOptions):
    """A server on the older HTTP+SSE transport."""

    transport = "sse"
    exchange_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebSocketServer(RemoteOptions):
    """A server on a WebSocket."""

    transport = "websocket"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InProcessServer(ServerOptions):
    """An MCP server object in this process."""

    transport = "in-process"
    server: Any = field(repr=False)
    """An `MCPServer` or `Server` of MCP SDK 2.x, or a `FastMCP` or `Server` of SDK 1.x."""


RemoteServer = HttpServer | SseServer | WebSocketServer
"""Any server with a URL."""

ServerConfig = StdioServer | HttpServer | SseServer | WebSocketServer | InProcessServer
"""Any configured server."""


def connect_seconds_of(server: ServerConfig) -> float:
    """Return the timeout for opening a session, including time for a person to sign in."""
    auth = server.auth if isinstance(server, RemoteOptions) else None
    return (server.timeouts.connect_seconds or _CONNECT_SECONDS) + person_seconds(auth)


def server_with_defaults(server: ServerConfig, options: Mapping[str, Any]) -> ServerConfig:
    """Return the server with the client's options; the server's own settings win."""
    changes: dict[str, Any] = {}
    if timeouts := options.get("tool_timeouts"):
        own = server.timeouts.tool_seconds  # the first pattern that matches counts
        common = {name: seconds for name, seconds in timeouts.items() if name not in own}
        changes["timeouts"] = replace(server.timeouts, tool_seconds={**own, **common})
    if (on_error := options.get("on_connection_error")) in {"throw", "ignore"}:
        changes["required"] = on_error == "throw"
    if server.limits is None and (limits := options.get("limits")) is not None:
        changes["limits"] = limits
    return replace(server, **changes) if changes else server


def _read_attempts(raw: RawValue) -> int:
    if raw.value == 0 and raw.value is not False:
        raw.reject("bad_number", "must be at least 1", 'to switch it off: "enabled": false')
    return read_count(raw)


def _read_fraction(raw: RawValue) -> float:
    value = raw.scalar()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raw.reject_type("a number from 0 to 1")
    if not 0 <= value <= 1:
        raw.reject("bad_number", "must be from 0 to 1")
    return float(value)


RECONNECT_KEYS = KeyTable(
    keys=(
        Key("enabled", read_bool),
        Key("max_attempts", _read_attempts),
        Key("delay", read_delay, "first_delay_seconds"),
        Key("delay_ms", read_delay, "first_delay_seconds", unit="milliseconds"),
        Key("max_delay", read_seconds, "longest_delay_seconds"),
        Key("max_delay_ms", read_seconds, "longest_delay_seconds", unit="milliseconds"),
        Key("jitter", _read_fraction),
    ),
    noun="reconnect",
)


def read_reconnect(raw: RawValue) -> ReconnectPolicy:
    """Read how a lost connection is restored: an object, or just true or false."""
    if isinstance(raw.value, ReconnectPolicy):
        return raw.value
    if isinstance(raw.value, bool):
        return ReconnectPolicy(enabled=raw.value)
    expected = 'an object with "enabled", "max_attempts", "delay"'
    values: dict[str, Any] = read_table(raw, RECONNECT_KEYS, expected)
    fixed = {"delayMs", "delay_ms"} & {spelling for spelling, _ in raw.entries()}
    if fixed and "longest_delay_seconds" not in values:
        # As in the JavaScript adapter, the delay is always the same, unless it has a maximum.
        values = {"jitter": 0.0, "longest_delay_seconds": 0.0, **values}
    policy = ReconnectPolicy(**values)
    longest = max(policy.first_delay_seconds, policy.longest_delay_seconds)
    return replace(policy, longest_delay_seconds=longest)
