from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.client import ApprovalRequest
from plait.testing import AnthropicServer, Call, Say, server_stdio_config

SCRIPT = [
    Say(
        "I add.",
        calls=(
            Call("mcp__calculator__add_numbers", {"a": 20, "b": 22}),
            Call("mcp__calculator__add_numbers", {"a": 1, "b": 1}),
        ),
    ),
    Say("It is 42."),
]

POLICY = {"rules": [{"tool": "add_numbers", "when": {"a": "20"}, "do": "allow"}], "default": "ask"}


def ask(request: ApprovalRequest) -> bool:
    print("May it?", request.where, dict(request.arguments))
    return False


with AnthropicServer(SCRIPT) as api:  # without it: ANTHROPIC_API_KEY, and the name of a model
    model = ModelConfig(
        id="claude",
        model_name="claude-test",
        interface="claude_agent_sdk",
        anthropic_base_url=api.url,
    )
    result = get_agent(model).run(
        [Message.user("What is 20 + 22?")],
        mcp_servers={"calculator": server_stdio_config()},
        config=AgentConfig(max_turns=5, tool_options={"policy": POLICY, "on_approval": ask}),
    )

for message in result.trace_messages:
    print(message.role, message.text or [answer.content for answer in message.tool_results])
print(result.turns, "turns,", result.usage.total_tokens == api.spent.total_tokens)
