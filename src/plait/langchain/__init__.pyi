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
from plait.langchain.client.settings import LangChainOptions as LangChainOptions
from plait.langchain.client.settings import McpHttpClientFactory as McpHttpClientFactory
from plait.langchain.client.settings import SSEConnection as SSEConnection
from plait.langchain.client.settings import StdioConnection as StdioConnection
from plait.langchain.client.settings import StreamableHttpConnection as StreamableHttpConnection
from plait.langchain.client.settings import WebsocketConnection as WebsocketConnection
from plait.langchain.client.spec import AgentSpec as AgentSpec
from plait.langchain.client.spec import create_agent as create_agent
from plait.langchain.client.to_fastmcp import to_fastmcp as to_fastmcp
from plait.langchain.client.tool_list import execute_tool as execute_tool
from plait.langchain.client.tool_list import execute_tool_blocking as execute_tool_blocking
from plait.langchain.tools.blocks import mcp_content_from as mcp_content_from
from plait.langchain.tools.callbacks import CallbackContext as CallbackContext
from plait.langchain.tools.callbacks import Callbacks as Callbacks
from plait.langchain.tools.callbacks import ElicitationCallback as ElicitationCallback
from plait.langchain.tools.callbacks import LoggingMessageCallback as LoggingMessageCallback
from plait.langchain.tools.callbacks import ProgressCallback as ProgressCallback
from plait.langchain.tools.content import ToolFailedException as ToolFailedException
from plait.langchain.tools.content import map_content as map_content
from plait.langchain.tools.content import map_content_item as map_content_item
from plait.langchain.tools.interceptors import MCPToolCallRequest as MCPToolCallRequest
from plait.langchain.tools.interceptors import MCPToolCallResult as MCPToolCallResult
from plait.langchain.tools.interceptors import ToolCallEnd as ToolCallEnd
from plait.langchain.tools.interceptors import ToolCallInterceptor as ToolCallInterceptor
from plait.langchain.tools.tool import MCPTool as MCPTool
from plait.langchain.tools.tool import MCPToolArtifact as MCPToolArtifact
