"""Give AI agents their MCP tools, and never drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait._version import __version__

if TYPE_CHECKING:
    from plait.catalog.tool import Tool as Tool
    from plait.config.read import ClientConfig as ClientConfig
    from plait.config.read import read_config as read_config
    from plait.config.servers import HttpServer as HttpServer
    from plait.config.servers import InProcessServer as InProcessServer
    from plait.config.servers import ServerConfig as ServerConfig
    from plait.config.servers import SseServer as SseServer
    from plait.config.servers import StdioServer as StdioServer
    from plait.config.servers import WebSocketServer as WebSocketServer
    from plait.connections.status import ServerStatus as ServerStatus
    from plait.connections.status import Status as Status
    from plait.errors import AuthRequiredError as AuthRequiredError
    from plait.errors import BlockingCallError as BlockingCallError
    from plait.errors import CallTimeoutError as CallTimeoutError
    from plait.errors import CircuitOpenError as CircuitOpenError
    from plait.errors import ClientClosedError as ClientClosedError
    from plait.errors import ConfigError as ConfigError
    from plait.errors import ConnectError as ConnectError
    from plait.errors import ConnectionLostError as ConnectionLostError
    from plait.errors import ConnectTimeoutError as ConnectTimeoutError
    from plait.errors import ContentError as ContentError
    from plait.errors import DomainError as DomainError
    from plait.errors import EndpointNotFoundError as EndpointNotFoundError
    from plait.errors import ForbiddenError as ForbiddenError
    from plait.errors import HttpError as HttpError
    from plait.errors import ListTimeoutError as ListTimeoutError
    from plait.errors import MCPClientError as MCPClientError
    from plait.errors import OutcomeUnknownError as OutcomeUnknownError
    from plait.errors import PermissionDeniedError as PermissionDeniedError
    from plait.errors import PlaitError as PlaitError
    from plait.errors import Problem as Problem
    from plait.errors import ProtocolError as ProtocolError
    from plait.errors import RateLimitedError as RateLimitedError
    from plait.errors import ResourceNotFoundError as ResourceNotFoundError
    from plait.errors import RunDeadlineError as RunDeadlineError
    from plait.errors import SendError as SendError
    from plait.errors import ServerError as ServerError
    from plait.errors import ToolFailedError as ToolFailedError
    from plait.errors import ToolNotFoundError as ToolNotFoundError
    from plait.errors import TransportError as TransportError
    from plait.errors import UnknownServerError as UnknownServerError
    from plait.execution.classify import classify_error as classify_error
    from plait.execution.classify import should_retry as should_retry
    from plait.execution.outcome import ToolResult as ToolResult
    from plait.execution.toolbox import Toolbox as Toolbox

_MODULES = {
    "plait.catalog.tool": ("Tool",),
    "plait.config.read": ("ClientConfig", "read_config"),
    "plait.config.servers": (
        "HttpServer",
        "InProcessServer",
        "ServerConfig",
        "SseServer",
        "StdioServer",
        "WebSocketServer",
    ),
    "plait.connections.status": ("ServerStatus", "Status"),
    "plait.errors": (
        "AuthRequiredError",
        "BlockingCallError",
        "CallTimeoutError",
        "CircuitOpenError",
        "ClientClosedError",
        "ConfigError",
        "ConnectError",
        "ConnectTimeoutError",
        "ConnectionLostError",
        "ContentError",
        "DomainError",
        "EndpointNotFoundError",
        "ForbiddenError",
        "HttpError",
        "ListTimeoutError",
        "MCPClientError",
        "OutcomeUnknownError",
        "PermissionDeniedError",
        "PlaitError",
        "Problem",
        "ProtocolError",
        "RateLimitedError",
        "ResourceNotFoundError",
        "RunDeadlineError",
        "SendError",
        "ServerError",
        "ToolFailedError",
        "ToolNotFoundError",
        "TransportError",
        "UnknownServerError",
    ),
    "plait.execution.classify": ("classify_error", "should_retry"),
    "plait.execution.outcome": ("ToolResult",),
    "plait.execution.toolbox": ("Toolbox",),
}
"""Where each public name lives; it is imported when it is first asked for."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
