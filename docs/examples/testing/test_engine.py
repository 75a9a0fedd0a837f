"""Tests of an engine of one's own: a scripted model, servers that fail, and no network."""

from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from plait import AgentConfig, Message, ModelConfig, PlaitError
from plait.agents import AgentRun, LiveAgent, messages_from_langchain, messages_to_langchain
from plait.agents.live_agent import Ending
from plait.testing import ScriptedChatModel, fault_server, running, stdio_config, tool_call
from plait.traces import read_trace

ASK = [Message.user("Is the shop open?")]


class ChatAgent(LiveAgent):
    """The engine under test: it asks a chat model of LangChain, without a graph."""

    engine = "chat"

    def __init__(self, model: ScriptedChatModel) -> None:
        super().__init__(ModelConfig(id="clerk", model_name="scripted"))
        self._model = model

    async def drive(self, run: AgentRun) -> Ending:
        model = self._model.bind_tools([
            {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
            for tool in run.tools.values()
        ])  # fmt: skip
        messages = messages_to_langchain(run.messages)
        for _ in range(run.settings.max_turns):
            answer = await model.ainvoke(messages)
            run.recorder.turn(messages_from_langchain([answer])[0])
            messages.append(answer)
            if not answer.tool_calls:
                return "completed"
            for call in answer.tool_calls:
                result = await run.call(call["id"] or "", call["name"], call["args"])
                messages.append(ToolMessage(result.text, tool_call_id=call["id"]))
        return "limit"


def results_in(messages: list[Message]) -> list[tuple[str, bool]]:
    return [(each.content, each.is_error) for message in messages for each in message.tool_results]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_results_and_errors_of_tools_reach_the_model(transport: str) -> None:
    calls = [tool_call("echo", text="héllo 🧵"), tool_call("fail", text="no such thing")]
    model = ScriptedChatModel([calls, "It is."])

    with running(fault_server("http")) as (server,):
        shop = stdio_config() if transport == "stdio" else {"url": server.url}
        result = ChatAgent(model).run(ASK, mcp_servers={"shop": shop})

    error = "Error executing tool fail: no such thing"
    assert results_in(result.trace_messages) == [("héllo 🧵", False), (error, True)]
    assert [message.text for message in model.seen[1][-2:]] == ["héllo 🧵", error]
    assert (result.final_response, result.turns, result.status) == ("It is.", 2, "completed")


def test_a_server_that_is_killed_comes_back_unseen(tmp_path: Path) -> None:
    model = ScriptedChatModel([[tool_call("get_and_die", key="door")], "It is."])

    result = ChatAgent(model).run(ASK, mcp_servers={"shop": stdio_config(state_dir=tmp_path)})

    assert results_in(result.trace_messages) == [("value of door", False)]


def test_the_turn_limit_is_exact() -> None:
    model = ScriptedChatModel(lambda _: [tool_call("echo", text="again")])

    result = ChatAgent(model).run(
        ASK, mcp_servers={"shop": stdio_config()}, config=AgentConfig(max_turns=2)
    )

    assert (result.turns, result.limit_reached) == (2, True)
    assert results_in(result.trace_messages) == [("again", False)] * 2


def test_a_model_that_fails_leaves_a_trace_without_secrets(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    model = ScriptedChatModel([[tool_call("env", name="VAULT")], RuntimeError("overloaded")])
    shop = {**stdio_config(), "env": {"VAULT": "a-secret-of-the-shop"}}

    with pytest.raises(PlaitError, match="overloaded"):
        ChatAgent(model).run(ASK, mcp_servers={"shop": shop}, config=AgentConfig(trace=trace))

    assert (read_trace(trace).status, read_trace(trace).turns) == ("failed", 1)
    assert "a-secret-of-the-shop" not in trace.read_text()
