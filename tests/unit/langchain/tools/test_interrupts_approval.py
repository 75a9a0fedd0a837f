"""Approvals, sign-ins and questions of one call: no answer is taken for that of another."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypedDict

import mcp_types as types
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from plait.client.calls.approval import PolicyCheck
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Policy
from plait.client.connections.credentials import CallerCredentials
from plait.errors import AuthRequiredError, InputNeededError
from plait.langchain.tools.caller import Caller
from plait.langchain.tools.content import ToolOutput
from plait.langchain.tools.interceptors import Handler, MCPToolCallRequest
from plait.langchain.tools.runner import (
    Invocation,
    RunnerSettings,
    ToolRunner,
)

pytestmark = pytest.mark.anyio

THREAD: Any = {"configurable": {"thread_id": "1"}}
ANSWER = {"responses": {"q": {"action": "accept", "content": {"text": "blue"}}}}
APPROVE = {"decision": "approve"}
REJECT = {"decision": "reject"}


class Server(Caller):
    """A caller whose policy asks, and whose server may want a login before or after that."""

    def __init__(self) -> None:
        self.gate = PolicyCheck(Policy(default="ask"))
        self.listed = True
        self.signed_in = True
        self.asks = False
        self.stands_in = False
        self.made: list[dict[str, Any]] = []

    async def execute(self, call: ToolCall) -> ToolResult:
        if self.stands_in:
            call = replace(call, server="backup", instead_of=call.server)
        if not self.listed:
            raise AuthRequiredError("no login to list its tools with", server="shop")
        call = await self.gate.permit(call, None)
        if not self.signed_in:
            raise AuthRequiredError("no login", server="shop")
        if self.asks and call.input_answers is None:
            params = types.ElicitRequestFormParams(message="?", requested_schema={"type": "object"})
            raise InputNeededError(requests={"q": types.ElicitRequest(params=params)})
        self.made.append(dict(call.arguments))
        result = types.CallToolResult(content=[types.TextContent(text="done")])
        return ToolResult.from_mcp(call.server, call.tool, result, attempts=1, notes=(), seconds=0)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        raise NotImplementedError

    def run_blocking(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> Any:
        raise NotImplementedError


class State(TypedDict, total=False):
    said: str
    is_error: bool


def graph_of(server: Server, **settings: Any) -> Any:
    runner = ToolRunner(server, RunnerSettings(**settings))
    tool = Tool(server="shop", wire_name="paint", name="paint", input_schema={"type": "object"})

    async def node(state: State, config: RunnableConfig) -> State:
        del state
        use = Invocation(arguments={"colour": "red"}, tool_call_id="call_1")
        answer = await runner.run(tool, use, config)
        assert isinstance(answer, ToolOutput)
        return {"said": str(answer.content), "is_error": answer.is_error}

    builder: Any = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())


def kinds_of(state: Any) -> list[str]:
    return [one.value["type"] for one in state.get("__interrupt__", ())]


async def resumed(graph: Any, answer: Any) -> Any:
    return await graph.ainvoke(Command(resume=answer), THREAD)


@pytest.mark.parametrize(
    "yes", [True, APPROVE, {"type": "approve"}, {"decisions": [{"type": "approve"}]}]
)
async def test_a_call_waits_for_its_approval_and_is_made_once(yes: Any) -> None:
    server = Server()
    graph = graph_of(server)

    paused = await graph.ainvoke({}, THREAD)
    assert server.made == []
    done = await resumed(graph, yes)

    assert paused["__interrupt__"][0].value == {
        "type": "mcp_approval",
        "server_name": "shop",
        "tool_name": "paint",
        "tool_call_id": "call_1",
        "arguments": {"colour": "red"},
        "annotations": {},
        "reason": "the default of the policy, as no rule fits",
        "allowed_decisions": ["approve", "edit", "reject"],
    }
    assert (done["said"], done["is_error"]) == ("done", False)
    assert server.made == [{"colour": "red"}]


@pytest.mark.parametrize("no", [False, REJECT, {"decisions": [{"type": "reject"}]}])
async def test_a_call_that_is_rejected_is_not_made(no: Any) -> None:
    server = Server()
    graph = graph_of(server)

    await graph.ainvoke({}, THREAD)
    done = await resumed(graph, no)

    assert done["is_error"]
    assert "the user did not approve this call" in done["said"]
    assert server.made == []


async def test_the_model_reads_why_a_call_was_rejected() -> None:
    graph = graph_of(Server())

    await graph.ainvoke({}, THREAD)
    done = await resumed(graph, {**REJECT, "message": "red is for exits"})

    assert "did not approve this call: red is for exits" in done["said"]


@pytest.mark.parametrize(
    "edit",
    [
        {"decision": "edit", "args": {"colour": "blue"}},
        {"type": "edit", "edited_action": {"name": "paint", "args": {"colour": "blue"}}},
    ],
)
async def test_a_person_may_change_the_arguments(edit: Any) -> None:
    server = Server()
    graph = graph_of(server)

    await graph.ainvoke({}, THREAD)
    await resumed(graph, edit)

    assert server.made == [{"colour": "blue"}]


@pytest.mark.parametrize("unclear", ["yes", 1, [], {"decision": "edit"}, {"decision": "maybe"}])
async def test_who_answers_unclearly_is_asked_again(unclear: Any) -> None:
    server = Server()
    graph = graph_of(server)

    await graph.ainvoke({}, THREAD)
    again = await resumed(graph, unclear)
    assert kinds_of(again) == ["mcp_approval"]
    assert "resume with" in again["__interrupt__"][0].value["problem"]
    assert server.made == []
    await resumed(graph, APPROVE)

    assert server.made == [{"colour": "red"}]


@pytest.mark.parametrize("yes", [True, APPROVE])
async def test_a_login_and_a_question_may_follow_the_approval(yes: Any) -> None:
    server = Server()
    server.signed_in, server.asks = False, True
    graph = graph_of(server)

    assert kinds_of(await graph.ainvoke({}, THREAD)) == ["mcp_approval"]
    assert kinds_of(await resumed(graph, yes)) == ["mcp_auth"]
    server.signed_in = True
    assert kinds_of(await resumed(graph, True)) == ["mcp_elicitation"]
    assert server.made == []
    done = await resumed(graph, ANSWER)

    assert done["said"] == "done"
    assert server.made == [{"colour": "red"}]


async def with_other_headers(request: MCPToolCallRequest, handler: Handler) -> Any:
    return await handler(request.override(headers={"x-user": "ann"}))


@pytest.mark.parametrize("way", ["backup", "headers"])
async def test_having_signed_in_is_never_taken_for_an_approval(way: str) -> None:
    server = Server()
    server.listed = False
    server.stands_in = way == "backup"
    graph = graph_of(server, interceptors=(with_other_headers,) if way == "headers" else ())

    assert kinds_of(await graph.ainvoke({}, THREAD)) == ["mcp_auth"]
    server.listed = True
    assert kinds_of(await resumed(graph, True)) == ["mcp_approval"]
    assert server.made == []
    done = await resumed(graph, REJECT)

    assert done["is_error"]
    assert server.made == []


async def test_an_answer_to_an_approval_that_is_not_asked_any_more_answers_nothing_else() -> None:
    server = Server()
    graph = graph_of(server)

    await graph.ainvoke({}, THREAD)
    server.gate, server.asks = PolicyCheck(), True
    assert kinds_of(await resumed(graph, APPROVE)) == ["mcp_elicitation"]
    done = await resumed(graph, ANSWER)

    assert done["said"] == "done"
    assert len(server.made) == 1


async def test_a_callback_decides_before_the_graph_is_paused() -> None:
    asked: list[str] = []

    async def on_approval(request: Any) -> bool | None:
        asked.append(request.where)
        return True if len(asked) == 1 else None

    server = Server()
    graph = graph_of(server, on_approval=on_approval)

    assert (await graph.ainvoke({}, THREAD))["said"] == "done"
    paused = await graph.ainvoke({}, {"configurable": {"thread_id": "2"}})

    assert kinds_of(paused) == ["mcp_approval"]
    assert asked == ["shop/paint"] * 2
    assert len(server.made) == 1


async def test_a_callback_is_asked_once_for_a_call_that_comes_back_with_a_question() -> None:
    asked: list[str] = []

    def on_approval(request: Any) -> bool:
        asked.append(request.where)
        return True

    server = Server()
    server.asks = True
    graph = graph_of(server, on_approval=on_approval)
    await graph.ainvoke({}, THREAD)
    asked.clear()
    await resumed(graph, ANSWER)

    assert asked == ["shop/paint"]
    assert len(server.made) == 1
