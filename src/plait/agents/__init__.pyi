from plait.agents.agent_run import AgentRun as AgentRun
from plait.agents.agent_run import RunTool as RunTool
from plait.agents.agent_run import ToolAnswer as ToolAnswer
from plait.agents.config import AgentConfig as AgentConfig
from plait.agents.config import AgentLimitConfig as AgentLimitConfig
from plait.agents.config import AgentMiddlewareConfig as AgentMiddlewareConfig
from plait.agents.config import CostOf as CostOf
from plait.agents.config import ModelConfig as ModelConfig
from plait.agents.config import ModelRetryConfig as ModelRetryConfig
from plait.agents.config import PriceTable as PriceTable
from plait.agents.config import PromptCachingConfig as PromptCachingConfig
from plait.agents.config import SummarizationConfig as SummarizationConfig
from plait.agents.config import ToolRetryConfig as ToolRetryConfig
from plait.agents.config import cost_function as cost_function
from plait.agents.engines.claude_agent_sdk.agent import (
    ClaudeSDKAgentAdapter as ClaudeSDKAgentAdapter,
)
from plait.agents.engines.claude_agent_sdk.messages import messages_from_sdk as messages_from_sdk
from plait.agents.engines.claude_agent_sdk.messages import (
    sdk_messages_to_raw_trace as sdk_messages_to_raw_trace,
)
from plait.agents.engines.claude_tool.agent import (
    ClaudeToolAgentAdapter as ClaudeToolAgentAdapter,
)
from plait.agents.engines.claude_tool.messages import (
    claude_tool_messages_to_raw_trace as claude_tool_messages_to_raw_trace,
)
from plait.agents.engines.claude_tool.messages import (
    convert_from_anthropic_message as convert_from_anthropic_message,
)
from plait.agents.engines.claude_tool.messages import convert_to_anthropic as convert_to_anthropic
from plait.agents.engines.claude_tool.wrapped import ToolResultCollector as ToolResultCollector
from plait.agents.engines.claude_tool.wrapped import ToolResultRecord as ToolResultRecord
from plait.agents.engines.claude_tool.wrapped import (
    apply_cache_control_to_tool as apply_cache_control_to_tool,
)
from plait.agents.engines.claude_tool.wrapped import wrap_mcp_tool as wrap_mcp_tool
from plait.agents.engines.claude_tool.wrapped import wrap_static_tool as wrap_static_tool
from plait.agents.engines.langchain.agent import LangChainAgent as LangChainAgent
from plait.agents.engines.langchain.chat_models import (
    init_chat_model_unified as init_chat_model_unified,
)
from plait.agents.engines.langchain.graph_tracer import GraphLimitError as GraphLimitError
from plait.agents.engines.langchain.graph_tracer import GraphTraceOptions as GraphTraceOptions
from plait.agents.engines.langchain.graph_tracer import GraphTracer as GraphTracer
from plait.agents.engines.langchain.graph_tracer import TraceMiddleware as TraceMiddleware
from plait.agents.engines.langchain.messages import (
    extract_partial_agent_state as extract_partial_agent_state,
)
from plait.agents.engines.langchain.messages import (
    harmonize_agent_response as harmonize_agent_response,
)
from plait.agents.engines.langchain.messages import (
    messages_from_langchain as messages_from_langchain,
)
from plait.agents.engines.langchain.messages import messages_to_langchain as messages_to_langchain
from plait.agents.engines.langchain.middleware import (
    build_agent_middleware as build_agent_middleware,
)
from plait.agents.engines.manual.agent import ManualTraces as ManualTraces
from plait.agents.live_agent import LiveAgent as LiveAgent
from plait.agents.live_agent import RunObserver as RunObserver
from plait.agents.live_agent import recorder_for as recorder_for
from plait.agents.live_agent import redactor_for as redactor_for
from plait.agents.live_agent import toolbox_for as toolbox_for
from plait.agents.parser import AgentParser as AgentParser
from plait.agents.parser import ParsePortResult as ParsePortResult
from plait.agents.parser import ParserPort as ParserPort
from plait.agents.parser import get_parser as get_parser
from plait.agents.port import AgentCapabilities as AgentCapabilities
from plait.agents.port import AgentPort as AgentPort
from plait.agents.port import AgentResult as AgentResult
from plait.agents.port import BaseAgent as BaseAgent
from plait.agents.port import BatchOutcome as BatchOutcome
from plait.agents.port import BatchTask as BatchTask
from plait.agents.port import result_from_trace as result_from_trace
from plait.agents.port import run_batch as run_batch
from plait.agents.program_tools import StaticTool as StaticTool
from plait.agents.program_tools import ToolLike as ToolLike
from plait.agents.registry import EngineAvailability as EngineAvailability
from plait.agents.registry import EngineRegistry as EngineRegistry
from plait.agents.registry import EngineSpec as EngineSpec
from plait.agents.registry import close_all_agents as close_all_agents
from plait.agents.registry import get_agent as get_agent
from plait.agents.servers import MCPHttpServerConfig as MCPHttpServerConfig
from plait.agents.servers import MCPServerConfig as MCPServerConfig
from plait.agents.servers import MCPStdioServerConfig as MCPStdioServerConfig
from plait.agents.servers import afetch_tool_descriptions as afetch_tool_descriptions
from plait.agents.servers import (
    apply_tool_description_overrides as apply_tool_description_overrides,
)
from plait.agents.servers import cleanup_mcp_client as cleanup_mcp_client
from plait.agents.servers import connect_all_mcp_servers as connect_all_mcp_servers
from plait.agents.servers import connect_mcp_session as connect_mcp_session
from plait.agents.servers import convert_and_validate_mcp_config as convert_and_validate_mcp_config
from plait.agents.servers import convert_mcp_config as convert_mcp_config
from plait.agents.servers import fetch_tool_descriptions as fetch_tool_descriptions
from plait.agents.servers import get_all_mcp_tools as get_all_mcp_tools
from plait.agents.servers import validate_mcp_config as validate_mcp_config
