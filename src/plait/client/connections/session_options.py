"""What a session is opened with: its options, and what earlier sessions learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from plait._support import mcp_types as types
from plait._version import __version__
from plait.client.protocol.inbound import Callbacks

if TYPE_CHECKING:
    from mcp_types import Implementation, LoggingLevel

    from plait.client.config.servers import ServerConfig
    from plait.client.protocol.inbound import (
        IncomingMessage,
        OnElicitation,
        OnLog,
        OnMessage,
        OnRoots,
        OnSampling,
    )
    from plait.client.transports.tape import Tape


@dataclass(slots=True)
class ServerMemory:
    """What earlier sessions learned about a server."""

    era: Literal["legacy", "modern"] | None = None
    changed_era: bool = False
    """Whether the other era was tried, because servers could not send requests in the first."""
    over_sse: bool = False
    ignored_probe: bool = False
    """Whether the last era probe got no answer."""

    def transport(self, server: ServerConfig) -> str:
        """Return the name of the transport that is in use."""
        return "sse" if self.over_sse else server.transport


@dataclass(slots=True)
class SessionOptions:
    """Client info, log level and callbacks of a session."""

    client_info: Implementation | None = None
    """What the client declares itself to be; by default plait."""
    log_level: LoggingLevel | None = None
    on_message: OnMessage | None = None
    on_notification: Callable[[str, object], None] | None = None
    """Gets method and params of notifications that the SDK does not dispatch."""
    on_log: OnLog | None = None
    on_elicitation: OnElicitation | None = None
    on_sampling: OnSampling | None = None
    sampling_tools: bool = False
    """Whether servers may pass tools in sampling requests."""
    on_roots: OnRoots | None = None
    answers: bool = False
    """Whether the program answers elicitation or sampling requests itself."""
    tape: Tape | None = None
    """Where the traffic of all sessions is recorded, or played."""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    def prefers_handshake(self, own: Mapping[str, Any]) -> bool:
        """Return whether servers should be able to send requests during a call.

        That takes a back channel, which the modern era does not have.
        """
        return self.answers or bool(own.keys() & {"elicitation_callback", "sampling_callback"})

    def callbacks(self, own: Mapping[str, Any]) -> Callbacks:
        """Return what a session declares, and who answers it; the server's `own` options win."""
        options = self.client_arguments(own)
        info: Implementation = options["client_info"]
        sampling: types.SamplingCapability | None = options["sampling_capabilities"]
        dumped = {} if sampling is None else sampling.model_dump(by_alias=True, exclude_none=True)
        return Callbacks(
            client_info=info.model_dump(by_alias=True, mode="json", exclude_none=True),
            on_elicitation=options["elicitation_callback"],
            on_sampling=options["sampling_callback"],
            sampling=dumped,
            on_roots=options["list_roots_callback"],
            on_log=options["logging_callback"],
            on_message=options["message_handler"],
            on_raw=self.on_notification,
            log_level=options["log_level"],
            timeout_seconds=options.get("read_timeout_seconds"),
        )

    def client_arguments(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the SDK's client; the server's `own` options win."""
        options = {
            "client_info": self.client_info or _plait(),
            "log_level": self.log_level,
            "message_handler": self.on_message,
            "logging_callback": self.on_log,
            "elicitation_callback": self.on_elicitation,
            "sampling_callback": self.on_sampling,
            "sampling_capabilities": _sampling_with_tools() if self.sampling_tools else None,
            "list_roots_callback": self.on_roots,
            # The catalog caches for all sessions; a second cache below it could only be stale.
            "cache": None,
            **self.extra,
            **own,
        }
        own_handler: OnMessage | None = own.get("message_handler")
        if own_handler is not None and self.on_message is not None:
            options["message_handler"] = _both(self.on_message, own_handler)
        return options


def _both(first: OnMessage, second: OnMessage) -> OnMessage:
    async def handle(message: IncomingMessage) -> None:
        await first(message)
        await second(message)

    return handle


def _plait() -> types.Implementation:
    return types.Implementation(name="plait", version=__version__)


def _sampling_with_tools() -> types.SamplingCapability:
    return types.SamplingCapability(tools=types.SamplingToolsCapability())
