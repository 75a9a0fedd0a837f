"""Give AI agents their MCP tools, and never drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait._version import __version__

if TYPE_CHECKING:
    from plait.adapters.langchain.callbacks import Callbacks as Callbacks
    from plait.adapters.langchain.callbacks import ElicitationCallback as ElicitationCallback
    from plait.adapters.langchain.callbacks import LoggingMessageCallback as LoggingMessageCallback
    from plait.adapters.langchain.callbacks import ProgressCallback as ProgressCallback
    from plait.adapters.langchain.client import MultiServerMCPClient as MultiServerMCPClient
    from plait.adapters.langchain.connections import Connection as Connection
    from plait.adapters.langchain.connections import McpHttpClientFactory as McpHttpClientFactory
    from plait.adapters.langchain.connections import SSEConnection as SSEConnection
    from plait.adapters.langchain.connections import StdioConnection as StdioConnection
    from plait.adapters.langchain.connections import (
        StreamableHttpConnection as StreamableHttpConnection,
    )
    from plait.adapters.langchain.connections import WebsocketConnection as WebsocketConnection
    from plait.adapters.langchain.content import map_content as map_content
    from plait.adapters.langchain.content import map_content_item as map_content_item
    from plait.adapters.langchain.execute import execute_tool as execute_tool
    from plait.adapters.langchain.execute import execute_tool_blocking as execute_tool_blocking
    from plait.adapters.langchain.failures import ToolFailedException as ToolFailedException
    from plait.adapters.langchain.interceptors import MCPToolCallRequest as MCPToolCallRequest
    from plait.adapters.langchain.interceptors import MCPToolCallResult as MCPToolCallResult
    from plait.adapters.langchain.interceptors import ToolCallEnd as ToolCallEnd
    from plait.adapters.langchain.interceptors import ToolCallInterceptor as ToolCallInterceptor
    from plait.adapters.langchain.loading import (
        convert_mcp_tool_to_langchain_tool as convert_mcp_tool_to_langchain_tool,
    )
    from plait.adapters.langchain.loading import load_mcp_server_info as load_mcp_server_info
    from plait.adapters.langchain.loading import load_mcp_tools as load_mcp_tools
    from plait.adapters.langchain.mcp_blocks import mcp_content_from as mcp_content_from
    from plait.adapters.langchain.middleware import MCPToolsMiddleware as MCPToolsMiddleware
    from plait.adapters.langchain.prompts import (
        convert_mcp_prompt_message_to_langchain_message as convert_mcp_prompt_message_to_langchain_message,  # noqa: E501
    )
    from plait.adapters.langchain.prompts import load_mcp_prompt as load_mcp_prompt
    from plait.adapters.langchain.resources import (
        convert_mcp_resource_to_langchain_blob as convert_mcp_resource_to_langchain_blob,
    )
    from plait.adapters.langchain.resources import get_mcp_resource as get_mcp_resource
    from plait.adapters.langchain.resources import load_mcp_resources as load_mcp_resources
    from plait.adapters.langchain.serving import to_fastmcp as to_fastmcp
    from plait.adapters.langchain.sessions import create_session as create_session
    from plait.adapters.langchain.spec import AgentSpec as AgentSpec
    from plait.adapters.langchain.spec import create_agent as create_agent
    from plait.adapters.langchain.tools import MCPTool as MCPTool
    from plait.adapters.langchain.tools import MCPToolArtifact as MCPToolArtifact
    from plait.catalog.filters import ToolFilter as ToolFilter
    from plait.catalog.lock.changes import Change as Change
    from plait.catalog.lock.drift import Drift as Drift
    from plait.catalog.lock.guard import LockReport as LockReport
    from plait.catalog.overrides import ArgumentOverride as ArgumentOverride
    from plait.catalog.overrides import ToolOverride as ToolOverride
    from plait.catalog.schemas import PROFILES as PROFILES
    from plait.catalog.schemas import Parameter as Parameter
    from plait.catalog.schemas import Profile as Profile
    from plait.catalog.schemas import convert_input_schema as convert_input_schema
    from plait.catalog.schemas import inline_refs as inline_refs
    from plait.catalog.schemas import parameters_from_schema as parameters_from_schema
    from plait.catalog.schemas import schema_from_parameters as schema_from_parameters
    from plait.catalog.schemas import shape_schema as shape_schema
    from plait.catalog.schemas import to_json_schema as to_json_schema
    from plait.catalog.tool import Tool as Tool
    from plait.config.budgets import CallBudget as CallBudget
    from plait.config.budgets import Limit as Limit
    from plait.config.budgets import ResultBudget as ResultBudget
    from plait.config.deferral import Deferral as Deferral
    from plait.config.oauth import OAuth as OAuth
    from plait.config.policy import Policy as Policy
    from plait.config.policy import PolicyDecision as PolicyDecision
    from plait.config.policy import PolicyRule as PolicyRule
    from plait.config.policy_file import read_policy as read_policy
    from plait.config.read import ClientConfig as ClientConfig
    from plait.config.read import read_config as read_config
    from plait.config.servers import HttpServer as HttpServer
    from plait.config.servers import InProcessServer as InProcessServer
    from plait.config.servers import ServerConfig as ServerConfig
    from plait.config.servers import SseServer as SseServer
    from plait.config.servers import StdioServer as StdioServer
    from plait.config.servers import WebSocketServer as WebSocketServer
    from plait.connections.facts import ServerFacts as ServerFacts
    from plait.connections.status import ServerStatus as ServerStatus
    from plait.connections.status import Status as Status
    from plait.errors import AuthRequiredError as AuthRequiredError
    from plait.errors import BackendError as BackendError
    from plait.errors import BlockingCallError as BlockingCallError
    from plait.errors import BudgetExceededError as BudgetExceededError
    from plait.errors import CallTimeoutError as CallTimeoutError
    from plait.errors import ChatHistoryError as ChatHistoryError
    from plait.errors import CircuitOpenError as CircuitOpenError
    from plait.errors import ClientClosedError as ClientClosedError
    from plait.errors import ConfigError as ConfigError
    from plait.errors import ConnectError as ConnectError
    from plait.errors import ConnectionLostError as ConnectionLostError
    from plait.errors import ConnectTimeoutError as ConnectTimeoutError
    from plait.errors import ContentError as ContentError
    from plait.errors import DiscoveryError as DiscoveryError
    from plait.errors import DomainError as DomainError
    from plait.errors import EndpointNotFoundError as EndpointNotFoundError
    from plait.errors import ForbiddenError as ForbiddenError
    from plait.errors import GatewayError as GatewayError
    from plait.errors import HostHasNoModelError as HostHasNoModelError
    from plait.errors import HttpError as HttpError
    from plait.errors import InputNeededError as InputNeededError
    from plait.errors import InputRefusedError as InputRefusedError
    from plait.errors import InvalidArgumentsError as InvalidArgumentsError
    from plait.errors import ListTimeoutError as ListTimeoutError
    from plait.errors import ManifestError as ManifestError
    from plait.errors import MCPClientError as MCPClientError
    from plait.errors import OutboxError as OutboxError
    from plait.errors import OutcomeUnknownError as OutcomeUnknownError
    from plait.errors import PermissionDeniedError as PermissionDeniedError
    from plait.errors import PlaitError as PlaitError
    from plait.errors import Problem as Problem
    from plait.errors import ProtocolError as ProtocolError
    from plait.errors import RateLimitedError as RateLimitedError
    from plait.errors import ReasoningError as ReasoningError
    from plait.errors import RefusedError as RefusedError
    from plait.errors import ReplyError as ReplyError
    from plait.errors import ResourceNotFoundError as ResourceNotFoundError
    from plait.errors import ResultExpiredError as ResultExpiredError
    from plait.errors import RunDeadlineError as RunDeadlineError
    from plait.errors import SendError as SendError
    from plait.errors import ServerError as ServerError
    from plait.errors import TokenError as TokenError
    from plait.errors import ToolFailedError as ToolFailedError
    from plait.errors import ToolNotFoundError as ToolNotFoundError
    from plait.errors import TransportError as TransportError
    from plait.errors import UnknownServerError as UnknownServerError
    from plait.execution.approval import Approval as Approval
    from plait.execution.approval import ApprovalRequest as ApprovalRequest
    from plait.execution.call import ToolCall as ToolCall
    from plait.execution.call import run_deadline as run_deadline
    from plait.execution.call_budget import run_budget as run_budget
    from plait.execution.callbacks import CallbackContext as CallbackContext
    from plait.execution.classify import classify_error as classify_error
    from plait.execution.classify import should_retry as should_retry
    from plait.execution.handle import ServerHandle as ServerHandle
    from plait.execution.outcome import ToolResult as ToolResult
    from plait.execution.result_cache import ResultCaching as ResultCaching
    from plait.execution.sampling import Sampling as Sampling
    from plait.execution.toolbox import Toolbox as Toolbox
    from plait.execution.watching import ResourceUpdate as ResourceUpdate
    from plait.execution.watching import ResourceWatch as ResourceWatch
    from plait.gateway.configuration import GatewayOptions as GatewayOptions
    from plait.gateway.configuration import (
        McpToolServerConfigurationService as McpToolServerConfigurationService,
    )
    from plait.gateway.entries import McpServerConfig as McpServerConfig
    from plait.gateway.entries import ServerList as ServerList
    from plait.gateway.entries import Skipped as Skipped
    from plait.gateway.headers import ToolOptions as ToolOptions
    from plait.gateway.history import ChatHistoryMessage as ChatHistoryMessage
    from plait.gateway.middleware import GatewayToolsMiddleware as GatewayToolsMiddleware
    from plait.gateway.outbox import Outbox as Outbox
    from plait.gateway.port import Authorization as Authorization
    from plait.gateway.port import TurnContext as TurnContext
    from plait.gateway.registration import McpToolRegistrationService as McpToolRegistrationService
    from plait.gateway.registration import Registration as Registration
    from plait.gateway.result import OperationError as OperationError
    from plait.gateway.result import OperationResult as OperationResult
    from plait.transports.auth.login import finish_sign_in as finish_sign_in
    from plait.transports.auth.stores.file import FileTokenStore as FileTokenStore
    from plait.transports.auth.stores.keyring import KeyringTokenStore as KeyringTokenStore
    from plait.transports.auth.stores.memory import MemoryTokenStore as MemoryTokenStore
    from plait.transports.auth.stores.port import TokenStore as TokenStore

_MODULES = {
    "plait.adapters.langchain.callbacks": (
        "Callbacks",
        "ElicitationCallback",
        "LoggingMessageCallback",
        "ProgressCallback",
    ),
    "plait.adapters.langchain.client": ("MultiServerMCPClient",),
    "plait.adapters.langchain.connections": (
        "Connection",
        "McpHttpClientFactory",
        "SSEConnection",
        "StdioConnection",
        "StreamableHttpConnection",
        "WebsocketConnection",
    ),
    "plait.adapters.langchain.content": ("map_content", "map_content_item"),
    "plait.adapters.langchain.execute": ("execute_tool", "execute_tool_blocking"),
    "plait.adapters.langchain.failures": ("ToolFailedException",),
    "plait.adapters.langchain.interceptors": (
        "MCPToolCallRequest",
        "MCPToolCallResult",
        "ToolCallEnd",
        "ToolCallInterceptor",
    ),
    "plait.adapters.langchain.loading": (
        "convert_mcp_tool_to_langchain_tool",
        "load_mcp_server_info",
        "load_mcp_tools",
    ),
    "plait.adapters.langchain.mcp_blocks": ("mcp_content_from",),
    "plait.adapters.langchain.middleware": ("MCPToolsMiddleware",),
    "plait.adapters.langchain.prompts": (
        "convert_mcp_prompt_message_to_langchain_message",
        "load_mcp_prompt",
    ),
    "plait.adapters.langchain.resources": (
        "convert_mcp_resource_to_langchain_blob",
        "get_mcp_resource",
        "load_mcp_resources",
    ),
    "plait.adapters.langchain.serving": ("to_fastmcp",),
    "plait.adapters.langchain.sessions": ("create_session",),
    "plait.adapters.langchain.spec": ("AgentSpec", "create_agent"),
    "plait.adapters.langchain.tools": ("MCPTool", "MCPToolArtifact"),
    "plait.catalog.filters": ("ToolFilter",),
    "plait.catalog.lock.changes": ("Change",),
    "plait.catalog.lock.drift": ("Drift",),
    "plait.catalog.lock.guard": ("LockReport",),
    "plait.catalog.overrides": ("ArgumentOverride", "ToolOverride"),
    "plait.catalog.schemas": (
        "PROFILES",
        "Parameter",
        "Profile",
        "convert_input_schema",
        "inline_refs",
        "parameters_from_schema",
        "schema_from_parameters",
        "shape_schema",
        "to_json_schema",
    ),
    "plait.catalog.tool": ("Tool",),
    "plait.config.budgets": ("CallBudget", "Limit", "ResultBudget"),
    "plait.config.deferral": ("Deferral",),
    "plait.config.oauth": ("OAuth",),
    "plait.config.policy": ("Policy", "PolicyDecision", "PolicyRule"),
    "plait.config.policy_file": ("read_policy",),
    "plait.config.read": ("ClientConfig", "read_config"),
    "plait.config.servers": (
        "HttpServer",
        "InProcessServer",
        "ServerConfig",
        "SseServer",
        "StdioServer",
        "WebSocketServer",
    ),
    "plait.connections.facts": ("ServerFacts",),
    "plait.connections.status": ("ServerStatus", "Status"),
    "plait.errors": (
        "TokenError",
        "OutboxError",
        "ManifestError",
        "GatewayError",
        "DiscoveryError",
        "ChatHistoryError",
        "AuthRequiredError",
        "BackendError",
        "BlockingCallError",
        "BudgetExceededError",
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
        "HostHasNoModelError",
        "HttpError",
        "InputNeededError",
        "InputRefusedError",
        "InvalidArgumentsError",
        "ListTimeoutError",
        "MCPClientError",
        "OutcomeUnknownError",
        "PermissionDeniedError",
        "PlaitError",
        "Problem",
        "ProtocolError",
        "RateLimitedError",
        "ReasoningError",
        "RefusedError",
        "ReplyError",
        "ResourceNotFoundError",
        "ResultExpiredError",
        "RunDeadlineError",
        "SendError",
        "ServerError",
        "ToolFailedError",
        "ToolNotFoundError",
        "TransportError",
        "UnknownServerError",
    ),
    "plait.execution.approval": ("Approval", "ApprovalRequest"),
    "plait.execution.call": ("ToolCall", "run_deadline"),
    "plait.execution.call_budget": ("run_budget",),
    "plait.execution.callbacks": ("CallbackContext",),
    "plait.execution.classify": ("classify_error", "should_retry"),
    "plait.execution.handle": ("ServerHandle",),
    "plait.execution.outcome": ("ToolResult",),
    "plait.execution.result_cache": ("ResultCaching",),
    "plait.execution.sampling": ("Sampling",),
    "plait.execution.toolbox": ("Toolbox",),
    "plait.execution.watching": ("ResourceUpdate", "ResourceWatch"),
    "plait.gateway.configuration": ("GatewayOptions", "McpToolServerConfigurationService"),
    "plait.gateway.entries": ("McpServerConfig", "ServerList", "Skipped"),
    "plait.gateway.headers": ("ToolOptions",),
    "plait.gateway.history": ("ChatHistoryMessage",),
    "plait.gateway.middleware": ("GatewayToolsMiddleware",),
    "plait.gateway.outbox": ("Outbox",),
    "plait.gateway.port": ("Authorization", "TurnContext"),
    "plait.gateway.registration": ("McpToolRegistrationService", "Registration"),
    "plait.gateway.result": ("OperationError", "OperationResult"),
    "plait.transports.auth.login": ("finish_sign_in",),
    "plait.transports.auth.stores.file": ("FileTokenStore",),
    "plait.transports.auth.stores.keyring": ("KeyringTokenStore",),
    "plait.transports.auth.stores.memory": ("MemoryTokenStore",),
    "plait.transports.auth.stores.port": ("TokenStore",),
}
"""Where each public name lives; it is imported when it is first asked for."""

_NEED_LANGCHAIN = ("plait.adapters.langchain", "plait.gateway")
"""What cannot be imported without LangChain."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    try:
        value: object = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if module.startswith(_NEED_LANGCHAIN) and error.name != module:
            hint = "pip install 'plait[langchain]'"
            text = f"plait.{name} needs {error.name}, which is not installed: {hint}"
            raise ImportError(text, name=error.name) from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
