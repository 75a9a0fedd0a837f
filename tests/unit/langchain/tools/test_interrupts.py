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
from plait.client.protocol.repair import repair_result
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    ForbiddenError,
    InputNeededError,
    PlaitError,
)
from plait.langchain.tools.caller import Caller
from plait.langchain.tools.content import ToolOutput
from plait.langchain.tools.graph_task import Kind, Question, answers_of, shown_value
from plait.langchain.tools.interceptors import Handler, MCPToolCallRequest
from plait.langchain.tools.runner import Invocation, RunnerSettings, ToolRunner

pytestmark = pytest.mark.anyio

THREAD: Any = {"configurable": {"thread_id": "1"}}
ANSWER = {"responses": {"q": {"action": "accept", "content": {"text": "blue"}}}}
YES = {"decision": "approve"}
NO = {"decision": "reject"}
RETRY = {"action": "retry"}
APPROVAL, AUTH, ASKED = ["mcp_approval"], ["mcp_auth"], ["mcp_elicitation"]


class Server(Caller):
    """A caller whose policy may ask, and whose server may want a login or an answer."""

    def __init__(self, *, approval: bool = True, signed_in: bool = True, asks: bool = False):
        self.gate = PolicyCheck(Policy(default="ask") if approval else None)
        self.refusal: PlaitError = AuthRequiredError("no login", server="shop")
        self.signed_in, self.asks = signed_in, asks
        self.listed, self.stands_in = True, False
        self.made: list[dict[str, Any]] = []
        self.answers = ""
        self.reads: list[tuple[str, CallerCredentials | None]] = []
        self.content: list[Any] = [{"type": "text", "text": "done"}]
        params = types.ElicitRequestFormParams(message="?", requested_schema={"type": "object"})
        self.requests: dict[str, Any] = {"q": types.ElicitRequest(params=params)}

    async def execute(self, call: ToolCall) -> ToolResult:
        if self.stands_in:
            call = replace(call, server="backup", instead_of=call.server)
        if not self.listed:
            raise AuthRequiredError("no login to list its tools with", server="shop")
        call = await self.gate.permit(call, None)
        if not self.signed_in:
            raise self.refusal
        if self.asks and call.input_answers is None:
            raise InputNeededError(requests=self.requests)
        if call.input_answers is not None:
            self.answers = str(call.input_answers.responses["q"])
        self.made.append(dict(call.arguments))
        repaired = repair_result("tools/call", {"content": self.content}, "2025-11-25")
        result = types.CallToolResult.model_validate(repaired.result)
        return ToolResult.from_mcp(call.server, call.tool, result, attempts=1, notes=(), seconds=0)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        self.reads.append((server, access))
        contents = types.TextResourceContents(uri=uri, text="inside")
        return types.ReadResourceResult(contents=[contents])

    def run_blocking(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> Any:
        raise NotImplementedError


class State(TypedDict, total=False):
    said: str
    is_error: bool


class Graph:
    """A graph with one call of a tool."""

    def __init__(self, server: Server, **settings: Any) -> None:
        self.arguments = {"colour": "red"}
        runner = ToolRunner(server, RunnerSettings(**settings))
        tool = Tool(server="shop", wire_name="paint", name="paint", input_schema={"type": "object"})

        async def node(state: State, config: RunnableConfig) -> State:
            use = Invocation(arguments=self.arguments, tool_call_id="call_1")
            output = await runner.run(tool, use, config)
            assert isinstance(output, ToolOutput)
            return {"said": str(output.content), "is_error": output.is_error}

        builder: Any = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        self._graph = builder.compile(checkpointer=InMemorySaver())
        self.value: Any = None
        """The value of the last interrupt."""

    async def start(self, thread: Any = THREAD) -> Any:
        return self._seen(await self._graph.ainvoke({}, thread))

    async def resume(self, answer: Any) -> Any:
        return self._seen(await self._graph.ainvoke(Command(resume=answer), THREAD))

    def _seen(self, state: Any) -> Any:
        values = [one.value for one in state.get("__interrupt__", ())]
        self.value = values[0] if values else None
        return [value["type"] for value in values] or state


@pytest.mark.parametrize(
    "yes", [True, YES, {"type": "approve"}, {"decisions": [{"type": "approve"}]}]
)
async def test_a_call_waits_for_its_approval_and_is_made_once(yes: Any) -> None:
    server = Server()
    graph = Graph(server)

    assert await graph.start() == APPROVAL
    assert graph.value == {
        "type": "mcp_approval",
        "server_name": "shop",
        "tool_name": "paint",
        "tool_call_id": "call_1",
        "arguments": {"colour": "red"},
        "annotations": {},
        "reason": "the default of the policy, as no rule fits",
        "allowed_decisions": ["approve", "edit", "reject"],
    }
    assert server.made == []
    assert await graph.resume(yes) == {"said": "done", "is_error": False}
    assert server.made == [{"colour": "red"}]


@pytest.mark.parametrize(
    ("answer", "text", "made"),
    [
        (False, "this call was not approved", []),
        (NO, "this call was not approved", []),
        ({"decisions": [{"type": "reject"}]}, "this call was not approved", []),
        ({**NO, "message": "red is for exits"}, "this call was not approved: red is for exits", []),
        ({"decision": "edit", "args": {"colour": "blue"}}, "done", [{"colour": "blue"}]),
        (
            {"type": "edit", "edited_action": {"name": "paint", "args": {"colour": "blue"}}},
            "done",
            [{"colour": "blue"}],
        ),
    ],
)
async def test_a_person_may_reject_a_call_or_change_it(answer: Any, text: str, made: Any) -> None:
    server = Server()
    graph = Graph(server)

    await graph.start()
    done = await graph.resume(answer)

    assert text in done["said"]
    assert done["is_error"] is not bool(made)
    assert server.made == made


@pytest.mark.parametrize("unclear", ["yes", 1, [], {"decision": "edit"}, {"decision": "maybe"}])
async def test_who_answers_unclearly_is_asked_again(unclear: Any) -> None:
    server = Server()
    graph = Graph(server)

    await graph.start()
    assert await graph.resume(unclear) == APPROVAL
    assert "resume with" in graph.value["problem"]
    assert server.made == []
    await graph.resume(YES)

    assert server.made == [{"colour": "red"}]


async def test_an_approval_is_one_of_the_call_as_it_was_shown() -> None:
    server = Server()
    graph = Graph(server)

    await graph.start()
    graph.arguments = {"colour": "black"}
    assert await graph.resume(YES) == APPROVAL
    assert "changed after it was approved" in graph.value["problem"]
    assert server.made == []
    await graph.resume(YES)

    assert server.made == [{"colour": "black"}]


Step = tuple[Any, dict[str, Any], list[str]]
"""An answer, what changes before it, and what is asked then; nothing at the end."""

ORDERS: dict[str, tuple[Server, list[str], list[Step]]] = {
    "a login and a question after the approval": (
        Server(signed_in=False, asks=True),
        APPROVAL,
        [(YES, {}, AUTH), (True, {"signed_in": True}, ASKED), (ANSWER, {}, [])],
    ),
    "the same, approved in one word": (
        Server(signed_in=False, asks=True),
        APPROVAL,
        [(True, {}, AUTH), (True, {"signed_in": True}, ASKED), (ANSWER, {}, [])],
    ),
    "a question instead of an approval that is not asked any more": (
        Server(),
        APPROVAL,
        [(YES, {"gate": PolicyCheck(), "asks": True}, ASKED), (ANSWER, {}, [])],
    ),
    "a question after a sign-in": (
        Server(approval=False, signed_in=False, asks=True),
        AUTH,
        [(RETRY, {"signed_in": True}, ASKED), (ANSWER, {}, [])],
    ),
    "a sign-in after a question": (
        Server(approval=False, asks=True),
        ASKED,
        [(ANSWER, {"signed_in": False}, AUTH), (True, {"signed_in": True}, [])],
    ),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_each_question_gets_its_own_answer_in_any_order(order: str) -> None:
    server, first, steps = ORDERS[order]
    graph = Graph(server)

    assert await graph.start() == first
    for answer, changes, asked in steps:
        assert server.made == []
        vars(server).update(changes)
        state = await graph.resume(answer)
        assert state == asked or (not asked and state["said"] == "done")

    assert server.made == [{"colour": "red"}]
    assert "blue" in server.answers


async def with_other_headers(request: MCPToolCallRequest, handler: Handler) -> Any:
    return await handler(request.override(headers={"x-user": "ann"}))


@pytest.mark.parametrize("way", ["backup", "headers"])
async def test_having_signed_in_is_never_taken_for_an_approval(way: str) -> None:
    server = Server()
    server.listed, server.stands_in = False, way == "backup"
    graph = Graph(server, interceptors=(with_other_headers,) if way == "headers" else ())

    assert await graph.start() == AUTH
    server.listed = True
    assert await graph.resume(True) == APPROVAL
    assert graph.value.get("instead_of") == ("shop" if way == "backup" else None)
    assert (await graph.resume(NO))["is_error"]
    assert server.made == []


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_callback_decides_before_the_graph_is_paused(comes_back: bool) -> None:
    asked: list[str] = []

    async def on_approval(request: Any) -> bool | None:
        asked.append(request.where)
        return True if comes_back or len(asked) == 1 else None

    server = Server(asks=comes_back)
    graph = Graph(server, on_approval=on_approval)
    first = await graph.start()
    if comes_back:  # with a question; it is asked once in each run
        assert first == ASKED
        asked.clear()
        await graph.resume(ANSWER)
        assert asked == ["shop/paint"]
    else:
        assert first["said"] == "done"
        assert await graph.start({"configurable": {"thread_id": "2"}}) == APPROVAL
        assert asked == ["shop/paint"] * 2
    assert len(server.made) == 1


@pytest.mark.parametrize("no", [False, {"action": "cancel"}, {"action": "decline"}])
async def test_what_was_declined_is_not_done_by_whoever_has_signed_in_meanwhile(no: Any) -> None:
    server = Server(approval=False, signed_in=False)
    graph = Graph(server)

    assert await graph.start() == AUTH
    server.signed_in = True
    assert (await graph.resume(no))["is_error"]
    assert server.made == []


@pytest.mark.parametrize("scopes", [("write",), ()])
async def test_a_refusal_pauses_only_where_other_scopes_would_help(scopes: Any) -> None:
    server = Server(approval=False, signed_in=False)
    server.refusal = ForbiddenError("no", server="shop", status=403)
    server.refusal.scopes = scopes

    state = await Graph(server).start()

    assert state == AUTH if scopes else state["is_error"]


async def test_what_no_person_can_answer_is_named_and_pauses_nothing() -> None:
    server = Server(approval=False, asks=True)
    server.requests["folders"] = types.ListRootsRequest()

    with pytest.raises(ConfigError, match=r"shop/paint: .* the server asks for folders"):
        await Graph(server).start()


BAD_ANSWERS: list[tuple[Any, str]] = [
    ("blue", "resume with"),
    ({"responses": {}}, "no answer to q"),
    ({"responses": {"q": {"action": "maybe"}}}, "accept, decline or cancel"),
]


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS)
async def test_an_answer_that_answers_nothing_says_what_to_resume_with(answer: Any, text: str):
    server = Server(approval=False, asks=True)
    graph = Graph(server)
    await graph.start()

    with pytest.raises(PlaitError, match=text):
        await graph.resume(answer)
    assert server.made == []


CREDENTIALS = CallerCredentials.of({"Authorization": "Bearer for-main"})


@pytest.mark.parametrize(
    ("stands_in", "reads"), [(False, ("shop", CREDENTIALS)), (True, ("backup", None))]
)
async def test_a_resource_is_read_with_the_credentials_of_its_own_server(
    stands_in: bool, reads: Any
) -> None:
    server = Server(approval=False)
    server.stands_in = stands_in
    server.content = [{"type": "resource", "resource": {"uri": "docs://a"}}]
    runner = ToolRunner(server, RunnerSettings(), access=CREDENTIALS)

    tool = Tool(server="shop", wire_name="search", name="search")
    output = await runner.run(tool, Invocation(arguments={}), {})

    assert isinstance(output, ToolOutput)
    assert output.content == "Resource: docs://a (6 B)"
    assert server.reads == [reads]


def question(kind: Kind, call_id: str | None = None) -> Question:
    value: dict[str, Any] = {"type": kind}
    if kind == "elicitation":
        value["requests"] = [{"key": "q"}]
    call = f"pay {call_id}"
    return Question(call=call, call_id=call_id, kind=kind, value=value, facts="", more=None)


TWO = [question("approval", "a"), question("approval", "b")]
MIXED = [question("approval", "a"), question("sign-in", "b"), question("elicitation", "c")]
SAID = {"responses": {"q": {"action": "accept"}}}


@pytest.mark.parametrize(
    ("questions", "answer", "given"),
    [
        (TWO, {"a": YES, "b": NO}, [YES, NO]),
        (TWO, {"b": NO}, [None, NO]),
        (TWO, [YES, NO], [YES, NO]),
        (TWO, {"decisions": [YES, NO]}, [YES, NO]),
        (TWO, {"answers": [YES, NO]}, [YES, NO]),
        (TWO, [YES], [None, None]),
        (TWO, YES, [YES, YES]),
        (TWO, False, [False, False]),
        (TWO, {"decision": "edit", "args": {"amount": 1}}, [None, None]),
        (TWO, "yes", [None, None]),
        (MIXED, {"a": YES, "b": RETRY, "c": SAID}, [YES, RETRY, SAID]),
        (MIXED, True, [None, True, None]),
        (MIXED, YES, [YES, None, None]),
        (MIXED, RETRY, [None, RETRY, None]),
        (MIXED, SAID, [None, None, SAID]),
        (MIXED, {"responses": {"another": {}}}, [None, None, None]),
        (TWO[:1], YES, [YES]),
        (TWO[:1], {"a": YES}, [YES]),
        (TWO[:1], "unclear", ["unclear"]),
        ([question("approval")], {None: YES}, [{None: YES}]),
    ],
)
def test_each_of_several_questions_gets_its_answer_or_none(
    questions: list[Question], answer: Any, given: list[Any]
) -> None:
    assert answers_of(answer, questions) == given


def test_one_question_is_shown_as_it_is_and_several_as_a_list() -> None:
    requests = [{"type": "approval", "tool_call_id": name} for name in ("a", "b")]

    assert shown_value(TWO[:1]) == {"type": "approval"}
    assert shown_value(TWO) == {"type": "mcp_requests", "requests": requests}
