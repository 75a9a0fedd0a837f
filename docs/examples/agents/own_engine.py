from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.agents import AgentRun, LiveAgent
from plait.agents.live_agent import Ending
from plait.testing import server_stdio_config
from plait.traces import ToolUseContent, hash_question

QUESTION = "20 + 22"


class AddingAgent(LiveAgent):
    """An engine without a model: it has the first tool add up the numbers of the question."""

    engine = "adding"

    async def drive(self, run: AgentRun) -> Ending:
        tool = next(iter(run.tools.values()))
        a, b = map(int, run.messages[-1].text.split(" + "))
        call = ToolUseContent("call-1", tool.name, {"a": a, "b": b})
        run.recorder.turn(Message.assistant("I add.", [call]))

        answer = await run.call(call.id, call.name, call.input)

        run.recorder.turn(Message.assistant(f"It is {answer.text}."))
        return "completed"


agent = AddingAgent(ModelConfig(id="adder", model_name="none", mcp_tool_filter=["add_numbers"]))
servers = {"calculator": server_stdio_config()}
result = agent.run([Message.user(QUESTION)], None, servers, AgentConfig(trace="run.jsonl"))
print(result.raw_trace)

replayed = get_agent(ModelConfig(interface="manual", manual_traces="run.jsonl")).run(
    [Message.user(QUESTION)], config=AgentConfig(question_hash=hash_question(QUESTION))
)
print("\nThe replay is the same:", replayed == result)
