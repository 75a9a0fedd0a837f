from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.agents import AgentLimitConfig, AgentMiddlewareConfig
from plait.testing import Call, OpenAIServer, Say, server_stdio_config

SCRIPT = [
    Say(
        "I add.",
        calls=(
            Call("add_numbers", {"a": 20, "b": 22}),
            Call("add_numbers", {"a": 1, "b": 1}),
        ),
    ),
    Say("It is 42."),
]

with OpenAIServer(SCRIPT) as api:  # or Ollama, vLLM, llama.cpp, OpenRouter …
    model = ModelConfig(
        id="endpoint",
        interface="openai_endpoint",
        model_name="test-model",
        endpoint_base_url=api.base_url,
        mcp_tool_filter=["add_numbers"],
        agent_middleware=AgentMiddlewareConfig(limits=AgentLimitConfig(tool_call_limit=1)),
    )
    result = get_agent(model).run(
        [Message.user("What is 20 + 22?")],
        mcp_servers={"calculator": server_stdio_config()},
        config=AgentConfig(system_prompt="Use the tools.", max_turns=5),
    )

for message in result.trace_messages:
    print(message.role, message.text or [answer.content for answer in message.tool_results])
print([tool["function"]["name"] for tool in api.bodies[0]["tools"]], result.actual_model)
