from collections.abc import Mapping, Sequence

from plait import (
    AgentConfig,
    AgentResult,
    BaseAgent,
    MCPServerConfig,
    Message,
    ModelConfig,
    RunObserver,
    StaticTool,
    ToolUseContent,
    get_agent,
    hash_question,
    recorder_for,
    redactor_for,
    result_from_trace,
    text_from_mcp,
    toolbox_for,
)
from plait.testing import server_stdio_config

QUESTION = "20 + 22"


class AddingAgent(BaseAgent):
    """An engine without a model: it has the first tool add up the numbers of the question."""

    def __init__(self, model_config: ModelConfig) -> None:
        self._model = model_config

    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        observer = RunObserver()
        toolbox = toolbox_for(self._model, mcp_servers, observers=[observer])
        if toolbox is None or tools:
            raise ValueError("this engine needs a server, and takes no other tools")
        redact = redactor_for(self._model, toolbox)
        with recorder_for(config or AgentConfig(), redact) as recorder:
            async with toolbox:
                observer.watch(toolbox, recorder)  # tells of repeated calls and healed servers
                (tool,) = await toolbox.tools()
                recorder.run_started(messages, interface="adding", tools=[tool.full_name])

                a, b = map(int, messages[-1].text.split(" + "))
                call = ToolUseContent("call-1", tool.name, {"a": a, "b": b})
                recorder.turn(Message.assistant("I add.", [call]))

                server, name = tool.server, tool.wire_name
                recorder.tool_called(call.id, call.name, call.input, server=server, tool=name)
                result = await toolbox.call(server, name, call.input)
                answer = text_from_mcp(result.content, result.structured_content)
                recorder.tool_returned(call.id, answer, is_error=result.is_error)

                recorder.turn(Message.assistant(f"It is {answer}."))
            return result_from_trace(recorder.ended())


agent = AddingAgent(ModelConfig(id="adder", model_name="none", mcp_tool_filter=["add_numbers"]))
servers = {"calculator": server_stdio_config()}
result = agent.run([Message.user(QUESTION)], None, servers, AgentConfig(trace="run.jsonl"))
print(result.raw_trace)

replayed = get_agent(ModelConfig(interface="manual", manual_traces="run.jsonl")).run(
    [Message.user(QUESTION)], config=AgentConfig(question_hash=hash_question(QUESTION))
)
print("\nThe replay is the same:", replayed == result)
