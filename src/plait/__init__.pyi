from plait.agents.config import AgentConfig as AgentConfig
from plait.agents.config import ModelConfig as ModelConfig
from plait.agents.port import AgentResult as AgentResult
from plait.agents.program_tools import StaticTool as StaticTool
from plait.agents.registry import get_agent as get_agent
from plait.client.calls.outcome import ToolResult as ToolResult
from plait.client.calls.tool_call import CallbackContext as CallbackContext
from plait.client.config.oauth_settings import OAuth as OAuth
from plait.client.config.policy import Policy as Policy
from plait.client.config.read import read_config as read_config
from plait.client.toolbox import Toolbox as Toolbox
from plait.errors import AgentError as AgentError
from plait.errors import AuthRequiredError as AuthRequiredError
from plait.errors import BlockingCallError as BlockingCallError
from plait.errors import BudgetExceededError as BudgetExceededError
from plait.errors import CallTimeoutError as CallTimeoutError
from plait.errors import ClientClosedError as ClientClosedError
from plait.errors import ConfigError as ConfigError
from plait.errors import ConnectError as ConnectError
from plait.errors import ConnectionLostError as ConnectionLostError
from plait.errors import ConnectTimeoutError as ConnectTimeoutError
from plait.errors import DomainError as DomainError
from plait.errors import ForbiddenError as ForbiddenError
from plait.errors import GatewayError as GatewayError
from plait.errors import InvalidArgumentsError as InvalidArgumentsError
from plait.errors import MCPClientError as MCPClientError
from plait.errors import OutcomeUnknownError as OutcomeUnknownError
from plait.errors import PermissionDeniedError as PermissionDeniedError
from plait.errors import PlaitError as PlaitError
from plait.errors import ProtocolError as ProtocolError
from plait.errors import RateLimitedError as RateLimitedError
from plait.errors import ReasoningError as ReasoningError
from plait.errors import ResourceNotFoundError as ResourceNotFoundError
from plait.errors import ServerError as ServerError
from plait.errors import ToolFailedError as ToolFailedError
from plait.errors import ToolNotFoundError as ToolNotFoundError
from plait.errors import TransportError as TransportError
from plait.errors import UnknownServerError as UnknownServerError
from plait.langchain.client.client import MultiServerMCPClient as MultiServerMCPClient
from plait.langchain.client.loading import (
    convert_mcp_tool_to_langchain_tool as convert_mcp_tool_to_langchain_tool,
)
from plait.langchain.client.loading import load_mcp_server_info as load_mcp_server_info
from plait.langchain.client.loading import load_mcp_tools as load_mcp_tools
from plait.langchain.client.middleware import MCPToolsMiddleware as MCPToolsMiddleware
from plait.langchain.client.resources import (
    convert_mcp_prompt_message_to_langchain_message as convert_mcp_prompt_message_to_langchain_message,
)
from plait.langchain.client.resources import (
    convert_mcp_resource_to_langchain_blob as convert_mcp_resource_to_langchain_blob,
)
from plait.langchain.client.resources import get_mcp_resource as get_mcp_resource
from plait.langchain.client.resources import load_mcp_prompt as load_mcp_prompt
from plait.langchain.client.resources import load_mcp_resources as load_mcp_resources
from plait.langchain.client.sessions import create_session as create_session
from plait.langchain.client.settings import Connection as Connection
from plait.langchain.client.settings import McpHttpClientFactory as McpHttpClientFactory
from plait.langchain.client.settings import SSEConnection as SSEConnection
from plait.langchain.client.settings import StdioConnection as StdioConnection
from plait.langchain.client.settings import StreamableHttpConnection as StreamableHttpConnection
from plait.langchain.client.settings import WebsocketConnection as WebsocketConnection
from plait.langchain.client.to_fastmcp import to_fastmcp as to_fastmcp
from plait.langchain.tools.callbacks import Callbacks as Callbacks
from plait.langchain.tools.callbacks import ElicitationCallback as ElicitationCallback
from plait.langchain.tools.callbacks import LoggingMessageCallback as LoggingMessageCallback
from plait.langchain.tools.callbacks import ProgressCallback as ProgressCallback
from plait.langchain.tools.interceptors import MCPToolCallRequest as MCPToolCallRequest
from plait.langchain.tools.interceptors import MCPToolCallResult as MCPToolCallResult
from plait.langchain.tools.interceptors import ToolCallInterceptor as ToolCallInterceptor
from plait.langchain.tools.tool import MCPToolArtifact as MCPToolArtifact
from plait.traces.messages.message import Message as Message

__version__: str
