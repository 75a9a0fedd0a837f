"""Sign-ins and questions of one call, in whatever order they come."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypedDict

import mcp_types as types
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.connections.credentials import CallerCredentials
from plait.errors import AuthRequiredError, ForbiddenError, InputNeededError, PlaitError
from plait.langchain.tools.caller import Caller
from plait.langchain.tools.content import ToolOutput
from plait.langchain.tools.runner import (
    Invocation,
    RunnerSettings,
    ToolRunner,
)

pytestmark = pytest.mark.anyio

THREAD: Any = {"configurable": {"thread_id": "1"}}
RETRY = {"action": "retry"}
ANSWER = {"responses": {"q": {"action": "accept", "content": {"text": "blue"}}}}


class Server(Caller):
    """A caller whose server asks for a login, a question, or both."""

    def __init__(self) -> None:
        self.signed_in = True
        self.asks = False
        self.refusal: PlaitError = AuthRequiredError("no login", server="shop")
        self.made = 0

    async def execute(self, call: ToolCall) -> ToolResult:
        if not self.signed_in:
            raise self.refusal
        if self.asks and call.input_answers is None:
            params = types.ElicitRequestFormParams(message="?", requested_schema={"type": "object"})
            raise InputNeededError(requests={"q": types.ElicitRequest(params=params)})
        self.made += 1
        text = str(call.input_answers.responses["q"]) if call.input_answers is not None else "done"
        result = types.CallToolResult(content=[types.TextContent(text=text)])
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


def graph_of(server: Server) -> Any:
    runner = ToolRunner(server, RunnerSettings())
    tool = Tool(server="shop", wire_name="paint", name="paint", input_schema={"type": "object"})

    async def node(state: State, config: RunnableConfig) -> State:
        del state
        answer = await runner.run(tool, Invocation(arguments={}), config)
        assert isinstance(answer, ToolOutput)
        return {"said": str(answer.content), "is_error": answer.is_error}

    builder: Any = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())


def kinds_of(state: Any) -> list[str]:
    return [one.value["type"] for one in state.get("__interrupt__", ())]


async def test_a_question_that_follows_a_sign_in_gets_its_own_answer() -> None:
    server = Server()
    server.signed_in, server.asks = False, True
    graph = graph_of(server)

    assert kinds_of(await graph.ainvoke({}, THREAD)) == ["mcp_auth"]
    server.signed_in = True
    assert kinds_of(await graph.ainvoke(Command(resume=RETRY), THREAD)) == ["mcp_elicitation"]
    done = await graph.ainvoke(Command(resume=ANSWER), THREAD)

    assert "blue" in done["said"]
    assert server.made == 1


async def test_a_sign_in_that_follows_a_question_gets_its_own_answer() -> None:
    server = Server()
    server.asks = True
    graph = graph_of(server)

    assert kinds_of(await graph.ainvoke({}, THREAD)) == ["mcp_elicitation"]
    server.signed_in = False
    assert kinds_of(await graph.ainvoke(Command(resume=ANSWER), THREAD)) == ["mcp_auth"]
    server.signed_in = True
    done = await graph.ainvoke(Command(resume=True), THREAD)

    assert "blue" in done["said"]
    assert server.made == 1


async def test_what_was_declined_is_not_done_by_whoever_has_signed_in_meanwhile() -> None:
    server = Server()
    server.signed_in = False
    graph = graph_of(server)

    await graph.ainvoke({}, THREAD)
    server.signed_in = True
    done = await graph.ainvoke(Command(resume={"action": "cancel"}), THREAD)

    assert done["is_error"]
    assert server.made == 0


@pytest.mark.parametrize(("scopes", "pauses"), [(("write",), True), ((), False)])
async def test_a_refusal_pauses_only_where_other_scopes_would_help(
    scopes: tuple[str, ...], pauses: bool
) -> None:
    server = Server()
    server.signed_in = False
    server.refusal = ForbiddenError("no", server="shop", status=403)
    server.refusal.scopes = scopes

    state = await graph_of(server).ainvoke({}, THREAD)

    assert (kinds_of(state) == ["mcp_auth"]) is pauses
    assert state.get("is_error", False) is not pauses
