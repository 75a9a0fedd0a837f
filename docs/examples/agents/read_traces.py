from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, Call, Say, server_stdio_config
from plait.traces import ToolReturned, Turn, read_trace

SCRIPT = [Say("I add.", calls=(Call("add_numbers", {"a": 20, "b": 22}),)), Say("It is 42.")]

with AnthropicServer(SCRIPT) as api:
    agent = get_agent(
        ModelConfig(
            id="answering",
            interface="claude_tool",
            model_name="claude-haiku-5-5",
            anthropic_base_url=api.url,
            anthropic_api_key="any",  # pyright: ignore[reportArgumentType]
        )
    )
    agent.run(
        [Message.user("What is 20 + 22?")],
        mcp_servers={"calculator": server_stdio_config()},
        config=AgentConfig(trace="run.jsonl"),
    )

trace = read_trace("run.jsonl")
print(trace.status, f"after {trace.turns} turns:", trace.final_response)
for event in trace.events:
    match event:
        case Turn():
            calls = [call.name for call in event.message.tool_calls]
            print(f"turn {event.number}: {event.message.text}", calls)
        case ToolReturned():
            print(f"  {event.server}/{event.tool} answered {event.content!r}")
        case _:
            pass
