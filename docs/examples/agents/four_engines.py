from plait import AgentConfig, Message, ModelConfig, get_agent, hash_question
from plait.testing import AnthropicServer, Call, Say, server_stdio_config

QUESTION = "What is 20 + 22?"
SCRIPT = [Say("I add.", calls=(Call("add_numbers", {"a": 20, "b": 22}),)), Say("It is 42.")]
SERVERS = {"calculator": server_stdio_config()}

for interface in ("langchain", "claude_tool", "claude_agent_sdk"):
    with AnthropicServer(SCRIPT) as api:  # stands in for Anthropic
        agent = get_agent(
            ModelConfig(
                id="answering",
                interface=interface,
                model_provider="anthropic",
                model_name="claude-haiku-5-5",
                anthropic_base_url=api.url,  # without these two: ANTHROPIC_API_KEY
                anthropic_api_key="any",  # pyright: ignore[reportArgumentType]
            )
        )
        config = AgentConfig(max_turns=5, timeout=120, trace=f"{interface}.jsonl")
        result = agent.run([Message.user(QUESTION)], None, SERVERS, config)
    said = [message.text or message.tool_results[0].content for message in result.trace_messages]
    print(f"{interface}:", *said, sep=" | ")

replay = get_agent(ModelConfig(interface="manual", manual_traces="claude_tool.jsonl"))
result = replay.run([], config=AgentConfig(question_hash=hash_question(QUESTION)))
print("manual:", result.final_response, f"{result.turns} turns, limit: {result.limit_reached}")
