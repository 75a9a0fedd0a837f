"""The servers of a client: how each described itself, and its status, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from plait._support import mcp_types as types

if TYPE_CHECKING:
    from mcp_types import Implementation, ServerCapabilities

    from plait.client.connections.states import Breaker, State
    from plait.client.protocol.session import McpSession
    from plait.errors import PlaitError


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's name, capabilities and instructions; empty before the first session.

    They are kept as the server sent them, because the types are slow to import.
    """

    self_description: Mapping[str, Any] | None = None
    """Name and version; optional for modern servers."""
    protocol_version: str | None = None
    declared: Mapping[str, Any] | None = None
    """The capabilities."""
    instructions: str | None = None

    @classmethod
    def of(cls, session: McpSession) -> Self:
        """Read them from an open session."""
        return cls(
            session.identity, session.protocol_version, session.capabilities, session.instructions
        )

    @property
    def server_info(self) -> Implementation | None:
        """Name and version; optional for modern servers."""
        if self.self_description is None:
            return None
        return types.Implementation.model_validate(self.self_description, by_name=False)

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server declared itself capable of."""
        if self.declared is None:
            return None
        return types.ServerCapabilities.model_validate(self.declared, by_name=False)

    @property
    def name(self) -> str | None:
        """The server's own name."""
        return (self.self_description or {}).get("name")

    @property
    def title(self) -> str | None:
        """The server's display name."""
        return (self.self_description or {}).get("title")

    @property
    def version(self) -> str | None:
        """The version of the server."""
        return (self.self_description or {}).get("version")

    @property
    def identity(self) -> Mapping[str, str] | None:
        """Name and version as plain data."""
        sent = self.self_description
        return None if sent is None else {"name": sent["name"], "version": sent["version"]}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a connection."""

    at: datetime
    server: str
    kind: str
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Describe the event as plain data."""
        return {**asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status of one server."""

    name: str
    transport: str
    state: State
    since: datetime
    required: bool = False
    breaker: Breaker = "closed"
    protocol_version: str | None = None
    server_info: Mapping[str, str] | None = None
    tool_count: int | None = None
    tools_outdated: bool = False
    """Whether the tools on offer are those of an earlier list, as it cannot be listed now."""
    error: PlaitError | None = field(default=None, repr=False)
    """Why the last attempt to open a session failed; `None` once one is open."""
    refused_users: int = 0
    """Users whose own credentials the server refuses; `error` has the last such refusal."""
    next_try_seconds: float | None = None
    pid: int | None = None
    sessions: int = 0
    """Sessions opened so far; more than one means that the connection was reopened."""
    in_flight: int = 0
    connect_seconds: float | None = None
    """How long the last session took to open."""
    repaired: tuple[str, ...] = ()
    """What was repaired in the server's answers."""
    noise_lines: int = 0
    stderr_tail: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_failing(self) -> bool:
        """Whether the server cannot be used now."""
        return self.error is not None and self.state not in {"ready", "idle"}

    @property
    def last_error(self) -> str | None:
        """The text of `error`."""
        return None if self.error is None else str(self.error)

    @property
    def usable(self) -> bool:
        """Whether a call would be tried now."""
        return self.state not in {"failed", "closed"} and self.breaker == "closed"

    @property
    def needs_auth(self) -> bool:
        """Whether the server asks for credentials."""
        return self.error is not None and self.error.kind == "auth" and self.state != "ready"

    def to_dict(self) -> dict[str, Any]:
        """Describe the server as plain data."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            **values,
            "since": self.since.isoformat(),
            "server_info": None if self.server_info is None else dict(self.server_info),
            "last_error": self.last_error,
            "error": None if self.error is None else self.error.to_dict(),
            "needs_auth": self.needs_auth,
            "repaired": list(self.repaired),
            "stderr_tail": list(self.stderr_tail),
        }


@dataclass(frozen=True, slots=True)
class UserStatus:
    """The status of one user's connection to a server."""

    status: ServerStatus
    has_own_credentials: bool
    """Whether the user has credentials that a server may refuse."""
    answered_at: float
    """When the server last answered the user, on the monotonic clock."""
    refused_at: float
    """When an attempt of the user to open a session last failed."""

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the credentials of the user."""
        error = self.status.error
        is_about_credentials = error is not None and error.kind == "auth"
        return self.has_own_credentials and is_about_credentials and self.status.state != "ready"


_STATES_BY_WEIGHT: tuple[State, ...] = (
    "closed",
    "idle",
    "connecting",
    "ready",
    "lost",
    "waiting",
    "failed",
)
"""Of several connections, the one whose state comes last stands for the server."""


def with_users(shared: ServerStatus, users: Sequence[UserStatus]) -> ServerStatus:
    """Describe a server by its shared connection and those of its users.

    An outage shows in any of them: the worst state counts, with its error. What an earlier failure
    says is over once the server has answered another user. A refusal of a user's own credentials
    is no failure of the server, which would let anybody with a wrong token stop a service that
    is restarted when it is not healthy.
    """
    if not users:
        return shared
    answered_at = max(user.answered_at for user in users)
    refused = [user for user in users if user.is_refused]
    others = [user for user in users if not user.is_refused]
    counting = [
        user.status
        for user in others
        if not user.status.is_failing or user.refused_at > answered_at
    ]

    def weight(status: ServerStatus) -> tuple[bool, int, datetime]:
        return status.is_failing, _STATES_BY_WEIGHT.index(status.state), status.since

    main = max([shared, *counting], key=weight)
    error = main.error
    if refused and main.state in {"ready", "idle"}:
        error = max(refused, key=lambda user: user.refused_at).status.error
    everybody = [shared, *(user.status for user in users)]
    tool_counts = [one.tool_count for one in everybody if one.tool_count is not None]
    return replace(
        main,
        error=error,
        refused_users=len(refused),
        tool_count=max(tool_counts, default=None),
        tools_outdated=any(one.tools_outdated for one in everybody),
        in_flight=sum(one.in_flight for one in everybody),
    )


@dataclass(frozen=True, slots=True)
class Status:
    """All servers of a client, and their recent events."""

    servers: Mapping[str, ServerStatus]
    events: tuple[Event, ...] = ()

    def __getitem__(self, name: str) -> ServerStatus:
        return self.servers[name]

    @property
    def failures(self) -> Mapping[str, PlaitError]:
        """The servers that cannot be used now, with their errors."""
        return {
            name: server.error
            for name, server in self.servers.items()
            if server.error is not None and server.is_failing
        }

    @property
    def summary(self) -> str:
        """One line: the number of servers by state, and the reasons for failures."""
        counts = Counter(server.state for server in self.servers.values())
        states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        why = "; ".join(str(error) for error in self.failures.values())
        total = len(self.servers)
        head = f"{total} server{'' if total == 1 else 's'}{': ' if states else ''}{states}"
        return f"{head} ({why})" if why else head

    def to_dict(self) -> dict[str, Any]:
        """Describe everything as plain data."""
        return {
            "servers": {name: server.to_dict() for name, server in self.servers.items()},
            "events": [event.to_dict() for event in self.events],
            "summary": self.summary,
        }
