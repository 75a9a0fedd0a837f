from plait import AgentConfig, AgentResult, Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, Call, Say, server_stdio_config
from plait.traces import hash_question

QUESTION = "What is 20 + 22?"
SCRIPT = [Say("I add.", calls=(Call("add_numbers", {"a": 20, "b": 22}),)), Say("It is 42.")]
SERVERS = {"calculator": server_stdio_config()}


def show(engine: str, result: AgentResult) -> None:
    texts = [message.text or message.tool_results[0].content for message in result.trace_messages]
    print(f"{engine}:", " | ".join(texts), f"({result.turns} turns)")


for engine in ("langchain", "claude_tool", "claude_agent_sdk"):
    with AnthropicServer(SCRIPT) as api:  # stands in for Anthropic
        agent = get_agent(
            ModelConfig(
                id="answering",
                interface=engine,
                model_provider="anthropic",
                model_name="claude-haiku-5-5",
                anthropic_base_url=api.url,  # without it: ANTHROPIC_API_KEY
            )
        )
        config = AgentConfig(max_turns=5, timeout=120, trace=f"{engine}.jsonl")
        show(engine, agent.run([Message.user(QUESTION)], None, SERVERS, config))

replay = get_agent(ModelConfig(interface="manual", manual_traces="claude_tool.jsonl"))
config = AgentConfig(question_hash=hash_question(QUESTION))
show("manual", replay.run([Message.user(QUESTION)], config=config))
