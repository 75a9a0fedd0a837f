from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, Call, Say, server_stdio_config

SCRIPT = [
    Say(
        "I add.",
        calls=(
            Call("add_numbers", {"a": 20, "b": 22}),
            Call("add_numbers", {"a": "twenty", "b": 1}),
        ),
    ),
    Say("It is 42.", usage={"input_tokens": 90, "output_tokens": 6, "cache_read_tokens": 800}),
]

with AnthropicServer(SCRIPT) as api:  # without it: ANTHROPIC_API_KEY, and the name of a model
    model = ModelConfig(
        id="claude",
        interface="claude_tool",
        model_name="claude-haiku-5-5",
        anthropic_base_url=api.url,
    )
    result = get_agent(model).run(
        [Message.user("What is 20 + 22?")],
        mcp_servers={"calculator": server_stdio_config()},
        config=AgentConfig(system_prompt="Use the tools.", max_turns=5),
    )

first, second = api.bodies
marked = [
    one.get("name") or one["text"]
    for key in ("tools", "system")
    for one in first[key]
    if "cache_control" in one
]
print("kept in the cache up to:", marked)
for block in second["messages"][-1]["content"]:
    print("sent back:", "error" if block.get("is_error") else block["content"])
print(result.final_response, result.usage.cache_read_tokens, "tokens came from the cache")
