"""Give AI agents their MCP tools, and never drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait._front_door import MODULES as _MODULES
from plait._version import __version__

if TYPE_CHECKING:
    from plait.agents.agent_run import AgentRun as AgentRun
    from plait.agents.base_agent import BaseAgent as BaseAgent
    from plait.agents.config import AgentConfig as AgentConfig
    from plait.agents.engines.claude_agent_sdk.messages import (
        messages_from_sdk as messages_from_sdk,
    )
    from plait.agents.engines.claude_agent_sdk.messages import (
        sdk_messages_to_raw_trace as sdk_messages_to_raw_trace,
    )
    from plait.agents.engines.claude_tool.messages import (
        claude_tool_messages_to_raw_trace as claude_tool_messages_to_raw_trace,
    )
    from plait.agents.engines.langchain.agent import LangChainAgent as LangChainAgent
    from plait.agents.engines.langchain.messages import (
        messages_from_langchain as messages_from_langchain,
    )
    from plait.agents.engines.langchain.messages import (
        messages_to_langchain as messages_to_langchain,
    )
    from plait.agents.engines.langchain.middleware import (
        build_agent_middleware as build_agent_middleware,
    )
    from plait.agents.engines.langchain.partial_state import (
        extract_partial_agent_state as extract_partial_agent_state,
    )
    from plait.agents.engines.langchain.partial_state import (
        harmonize_agent_response as harmonize_agent_response,
    )
    from plait.agents.engines.manual.traces import ManualTraces as ManualTraces
    from plait.agents.factory import cleanup_all_adapters as cleanup_all_adapters
    from plait.agents.factory import get_agent as get_agent
    from plait.agents.live_agent import LiveAgent as LiveAgent
    from plait.agents.middleware_config import AgentLimitConfig as AgentLimitConfig
    from plait.agents.middleware_config import AgentMiddlewareConfig as AgentMiddlewareConfig
    from plait.agents.middleware_config import ModelRetryConfig as ModelRetryConfig
    from plait.agents.middleware_config import PromptCachingConfig as PromptCachingConfig
    from plait.agents.middleware_config import SummarizationConfig as SummarizationConfig
    from plait.agents.middleware_config import ToolRetryConfig as ToolRetryConfig
    from plait.agents.model_config import ModelConfig as ModelConfig
    from plait.agents.port import AgentPort as AgentPort
    from plait.agents.port import PortCapabilities as PortCapabilities
    from plait.agents.recording import RunObserver as RunObserver
    from plait.agents.recording import recorder_for as recorder_for
    from plait.agents.registry import AdapterAvailability as AdapterAvailability
    from plait.agents.registry import AdapterRegistry as AdapterRegistry
    from plait.agents.registry import AdapterSpec as AdapterSpec
    from plait.agents.result import AgentResult as AgentResult
    from plait.agents.result import result_from_trace as result_from_trace
    from plait.agents.run_tools import RunTool as RunTool
    from plait.agents.run_tools import ToolAnswer as ToolAnswer
    from plait.agents.server_tools import afetch_tool_descriptions as afetch_tool_descriptions
    from plait.agents.server_tools import (
        apply_tool_description_overrides as apply_tool_description_overrides,
    )
    from plait.agents.server_tools import connect_all_mcp_servers as connect_all_mcp_servers
    from plait.agents.server_tools import fetch_tool_descriptions as fetch_tool_descriptions
    from plait.agents.server_tools import get_all_mcp_tools as get_all_mcp_tools
    from plait.agents.servers import MCPHttpServerConfig as MCPHttpServerConfig
    from plait.agents.servers import MCPServerConfig as MCPServerConfig
    from plait.agents.servers import MCPStdioServerConfig as MCPStdioServerConfig
    from plait.agents.servers import (
        convert_and_validate_mcp_config as convert_and_validate_mcp_config,
    )
    from plait.agents.servers import convert_mcp_config as convert_mcp_config
    from plait.agents.servers import validate_mcp_config as validate_mcp_config
    from plait.agents.static_tool import StaticTool as StaticTool
    from plait.agents.toolbox import redactor_for as redactor_for
    from plait.agents.toolbox import toolbox_for as toolbox_for
    from plait.client.calls.approval import Approval as Approval
    from plait.client.calls.approval import ApprovalRequest as ApprovalRequest
    from plait.client.calls.call import ToolCall as ToolCall
    from plait.client.calls.call import run_deadline as run_deadline
    from plait.client.calls.call_budget import run_budget as run_budget
    from plait.client.calls.callbacks import CallbackContext as CallbackContext
    from plait.client.calls.classify import classify_error as classify_error
    from plait.client.calls.classify import should_retry as should_retry
    from plait.client.calls.outcome import ToolResult as ToolResult
    from plait.client.calls.result_cache import ResultCaching as ResultCaching
    from plait.client.calls.sampling import Sampling as Sampling
    from plait.client.catalog.filters import ToolFilter as ToolFilter
    from plait.client.catalog.lock.changes import Change as Change
    from plait.client.catalog.lock.drift import Drift as Drift
    from plait.client.catalog.lock.guard import LockReport as LockReport
    from plait.client.catalog.overrides import ArgumentOverride as ArgumentOverride
    from plait.client.catalog.overrides import ToolOverride as ToolOverride
    from plait.client.catalog.schemas import PROFILES as PROFILES
    from plait.client.catalog.schemas import Parameter as Parameter
    from plait.client.catalog.schemas import Profile as Profile
    from plait.client.catalog.schemas import convert_input_schema as convert_input_schema
    from plait.client.catalog.schemas import inline_refs as inline_refs
    from plait.client.catalog.schemas import parameters_from_schema as parameters_from_schema
    from plait.client.catalog.schemas import schema_from_parameters as schema_from_parameters
    from plait.client.catalog.schemas import shape_schema as shape_schema
    from plait.client.catalog.schemas import to_json_schema as to_json_schema
    from plait.client.catalog.tool import Tool as Tool
    from plait.client.config.budgets import CallBudget as CallBudget
    from plait.client.config.budgets import Limit as Limit
    from plait.client.config.budgets import ResultBudget as ResultBudget
    from plait.client.config.deferral import Deferral as Deferral
    from plait.client.config.oauth import OAuth as OAuth
    from plait.client.config.policy import Policy as Policy
    from plait.client.config.policy import PolicyDecision as PolicyDecision
    from plait.client.config.policy import PolicyRule as PolicyRule
    from plait.client.config.policy_file import read_policy as read_policy
    from plait.client.config.read import ClientConfig as ClientConfig
    from plait.client.config.read import read_config as read_config
    from plait.client.config.servers import HttpServer as HttpServer
    from plait.client.config.servers import InProcessServer as InProcessServer
    from plait.client.config.servers import ServerConfig as ServerConfig
    from plait.client.config.servers import SseServer as SseServer
    from plait.client.config.servers import StdioServer as StdioServer
    from plait.client.config.servers import WebSocketServer as WebSocketServer
    from plait.client.connections.server_info import ServerFacts as ServerFacts
    from plait.client.connections.status import ServerStatus as ServerStatus
    from plait.client.connections.status import Status as Status
    from plait.client.resource_watch import ResourceUpdate as ResourceUpdate
    from plait.client.resource_watch import ResourceWatch as ResourceWatch
    from plait.client.server_handle import ServerHandle as ServerHandle
    from plait.client.toolbox import Toolbox as Toolbox
    from plait.client.transports.auth.login import finish_sign_in as finish_sign_in
    from plait.client.transports.auth.stores.file import FileTokenStore as FileTokenStore
    from plait.client.transports.auth.stores.keyring import KeyringTokenStore as KeyringTokenStore
    from plait.client.transports.auth.stores.memory import MemoryTokenStore as MemoryTokenStore
    from plait.client.transports.auth.stores.port import TokenStore as TokenStore
    from plait.errors import AdapterUnavailableError as AdapterUnavailableError
    from plait.errors import AgentError as AgentError
    from plait.errors import AgentExecutionError as AgentExecutionError
    from plait.errors import AgentResponseError as AgentResponseError
    from plait.errors import AgentTimeoutError as AgentTimeoutError
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
    from plait.errors import ManualInterfaceError as ManualInterfaceError
    from plait.errors import ManualTraceError as ManualTraceError
    from plait.errors import ManualTraceNotFoundError as ManualTraceNotFoundError
    from plait.errors import MCPClientError as MCPClientError
    from plait.errors import McpClientError as McpClientError
    from plait.errors import McpConfigValidationError as McpConfigValidationError
    from plait.errors import McpError as McpError
    from plait.errors import McpTimeoutError as McpTimeoutError
    from plait.errors import OutboxError as OutboxError
    from plait.errors import OutcomeUnknownError as OutcomeUnknownError
    from plait.errors import ParseError as ParseError
    from plait.errors import PermissionDeniedError as PermissionDeniedError
    from plait.errors import PlaitError as PlaitError
    from plait.errors import PortError as PortError
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
    from plait.errors import TraceFormatError as TraceFormatError
    from plait.errors import TransportError as TransportError
    from plait.errors import UnknownServerError as UnknownServerError
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
    from plait.langchain.client.client import MultiServerMCPClient as MultiServerMCPClient
    from plait.langchain.client.connections import Connection as Connection
    from plait.langchain.client.connections import McpHttpClientFactory as McpHttpClientFactory
    from plait.langchain.client.connections import SSEConnection as SSEConnection
    from plait.langchain.client.connections import StdioConnection as StdioConnection
    from plait.langchain.client.connections import (
        StreamableHttpConnection as StreamableHttpConnection,
    )
    from plait.langchain.client.connections import WebsocketConnection as WebsocketConnection
    from plait.langchain.client.execute import execute_tool as execute_tool
    from plait.langchain.client.execute import execute_tool_blocking as execute_tool_blocking
    from plait.langchain.client.loading import (
        convert_mcp_tool_to_langchain_tool as convert_mcp_tool_to_langchain_tool,
    )
    from plait.langchain.client.loading import load_mcp_server_info as load_mcp_server_info
    from plait.langchain.client.loading import load_mcp_tools as load_mcp_tools
    from plait.langchain.client.middleware import MCPToolsMiddleware as MCPToolsMiddleware
    from plait.langchain.client.prompts import (
        convert_mcp_prompt_message_to_langchain_message as convert_mcp_prompt_message_to_langchain_message,  # noqa: E501
    )
    from plait.langchain.client.prompts import load_mcp_prompt as load_mcp_prompt
    from plait.langchain.client.resources import (
        convert_mcp_resource_to_langchain_blob as convert_mcp_resource_to_langchain_blob,
    )
    from plait.langchain.client.resources import get_mcp_resource as get_mcp_resource
    from plait.langchain.client.resources import load_mcp_resources as load_mcp_resources
    from plait.langchain.client.sessions import create_session as create_session
    from plait.langchain.client.spec import AgentSpec as AgentSpec
    from plait.langchain.client.spec import create_agent as create_agent
    from plait.langchain.client.to_fastmcp import to_fastmcp as to_fastmcp
    from plait.langchain.tools.callbacks import Callbacks as Callbacks
    from plait.langchain.tools.callbacks import ElicitationCallback as ElicitationCallback
    from plait.langchain.tools.callbacks import LoggingMessageCallback as LoggingMessageCallback
    from plait.langchain.tools.callbacks import ProgressCallback as ProgressCallback
    from plait.langchain.tools.content import map_content as map_content
    from plait.langchain.tools.content import map_content_item as map_content_item
    from plait.langchain.tools.failures import ToolFailedException as ToolFailedException
    from plait.langchain.tools.interceptors import MCPToolCallRequest as MCPToolCallRequest
    from plait.langchain.tools.interceptors import MCPToolCallResult as MCPToolCallResult
    from plait.langchain.tools.interceptors import ToolCallEnd as ToolCallEnd
    from plait.langchain.tools.interceptors import ToolCallInterceptor as ToolCallInterceptor
    from plait.langchain.tools.mcp_blocks import mcp_content_from as mcp_content_from
    from plait.langchain.tools.tool import MCPTool as MCPTool
    from plait.langchain.tools.tool import MCPToolArtifact as MCPToolArtifact
    from plait.traces.compare import differences as differences
    from plait.traces.events import Elicited as Elicited
    from plait.traces.events import Healed as Healed
    from plait.traces.events import Retried as Retried
    from plait.traces.events import RunEnded as RunEnded
    from plait.traces.events import RunFailed as RunFailed
    from plait.traces.events import RunStarted as RunStarted
    from plait.traces.events import ToolCalled as ToolCalled
    from plait.traces.events import ToolReturned as ToolReturned
    from plait.traces.events import TraceEvent as TraceEvent
    from plait.traces.events import Turn as Turn
    from plait.traces.file import TraceFile as TraceFile
    from plait.traces.final_message import extract_final_ai_message as extract_final_ai_message
    from plait.traces.final_message import prepare_evaluation_input as prepare_evaluation_input
    from plait.traces.markdown import trace_to_markdown as trace_to_markdown
    from plait.traces.messages.content import Content as Content
    from plait.traces.messages.content import ContentType as ContentType
    from plait.traces.messages.content import TextContent as TextContent
    from plait.traces.messages.content import ThinkingContent as ThinkingContent
    from plait.traces.messages.content import ToolResultContent as ToolResultContent
    from plait.traces.messages.content import ToolUseContent as ToolUseContent
    from plait.traces.messages.from_mcp import text_from_mcp as text_from_mcp
    from plait.traces.messages.lists import extract_system_prompt as extract_system_prompt
    from plait.traces.messages.lists import messages_from_json as messages_from_json
    from plait.traces.messages.lists import messages_to_json as messages_to_json
    from plait.traces.messages.lists import to_prompt_string as to_prompt_string
    from plait.traces.messages.message import Message as Message
    from plait.traces.messages.message import Role as Role
    from plait.traces.messages.usage import UsageMetadata as UsageMetadata
    from plait.traces.metrics import AgentMetrics as AgentMetrics
    from plait.traces.metrics import extract_agent_metrics as extract_agent_metrics
    from plait.traces.raw import TraceFormatConfig as TraceFormatConfig
    from plait.traces.raw import messages_to_raw_trace as messages_to_raw_trace
    from plait.traces.read import read_trace as read_trace
    from plait.traces.read import read_traces as read_traces
    from plait.traces.recorder import Recorder as Recorder
    from plait.traces.recorder import hash_question as hash_question
    from plait.traces.trace import Trace as Trace


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
        if module.startswith("plait.langchain") and error.name != module:
            hint = "pip install 'plait[langchain]'"
            text = f"plait.{name} needs {error.name}, which is not installed: {hint}"
            raise ImportError(text, name=error.name) from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
