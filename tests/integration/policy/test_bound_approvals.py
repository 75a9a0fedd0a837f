"""An approval in a graph is one of the call that was shown, not of what became of it meanwhile."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from mcp.server import MCPServer

from plait import InvalidArgumentsError, MultiServerMCPClient, Policy, Toolbox
from plait.client import ApprovalRequest
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.policy.conftest import Guarded
from tests.integration.policy.test_agents import SAID, THREAD, answers_of
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ASK = Policy(default="ask")


def shown(state: Any) -> list[dict[str, Any]]:
    return [one.value["arguments"] for one in state.get("__interrupt__", ())]


@pytest.mark.parametrize(
    ("answers", "made"),
    [
        ([True, True], ["touch b"]),
        ([True, False], []),
        ([{"decision": "edit", "args": {"path": "c"}}, True], ["touch b"]),
    ],
)
async def test_a_call_that_changed_while_the_graph_waited_is_shown_again(
    guarded: Guarded, answers: list[Any], made: list[str]
) -> None:
    paths = iter(["a"])

    async def change(request: Any, handler: Any) -> Any:
        return await handler(request.override(args={"path": next(paths, "b")}))

    async with MultiServerMCPClient(guarded.with_policy(ASK), tool_interceptors=[change]) as client:
        model = ScriptedChatModel([[tool_call("files_touch", path="x")], "done"])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())
        state = await agent.ainvoke(SAID, THREAD)
        assert shown(state) == [{"path": "a"}]
        for number, answer in enumerate(answers):
            state = await agent.ainvoke(Command(resume=answer), THREAD)
            if number == 0:
                assert shown(state) == [{"path": "b"}]
                assert "changed" in state["__interrupt__"][0].value["problem"]
                assert guarded.ledger() == []

    assert guarded.ledger() == made
    assert len(answers_of(state)) == 1


async def test_a_call_that_stays_the_same_is_asked_about_once(
    guarded: Guarded,
) -> None:
    async with MultiServerMCPClient(guarded.with_policy(ASK)) as client:
        calls = [tool_call("files_touch", path=name) for name in ("a", "b")]
        model = ScriptedChatModel([calls, "done"])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())
        state = await agent.ainvoke(SAID, THREAD)
        resume = {one.id: True for one in state["__interrupt__"]}
        state = await agent.ainvoke(Command(resume=resume), THREAD)

    assert sorted(guarded.ledger()) == ["touch a", "touch b"]
    assert "__interrupt__" not in state


class Done(TypedDict):
    done: bool


async def decided_paths(app: Any, answers: list[Any]) -> list[Any]:
    """Run a graph, answering each interrupt; return what was shown."""
    paths: list[Any] = []
    state = await app.ainvoke({"done": False}, THREAD)
    for answer in answers:
        paths += shown(state)
        state = await app.ainvoke(Command(resume=answer), THREAD)
    return [*paths, *shown(state)]


async def test_an_earlier_approval_of_a_task_is_none_of_a_call_that_changed(
    guarded: Guarded,
) -> None:
    """A node that makes two calls runs from its beginning after each answer."""
    firsts = iter(["a", "a", "changed", "again", "again"])

    async with MultiServerMCPClient(guarded.with_policy(ASK)) as client:
        (touch,) = await client.get_tools(include="files/touch")

        async def node(state: Done, config: RunnableConfig) -> Done:
            del state
            await touch.ainvoke({"path": next(firsts)}, config)
            await touch.ainvoke({"path": "b"}, config)
            return {"done": True}

        graph = StateGraph(Done)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        app: Any = graph.compile(checkpointer=InMemorySaver())
        paths = await decided_paths(app, [True] * 4)

    assert [one["path"] for one in paths] == ["a", "b", "changed", "again"]
    assert guarded.ledger() == ["touch a", "touch again", "touch b"]


async def test_an_answer_to_a_server_is_no_approval_of_a_call_that_changed() -> None:
    questions = iter(["a", "a"])

    async def change(request: Any, handler: Any) -> Any:
        return await handler(request.override(args={"question": next(questions, "changed")}))

    with fault_server() as server:
        async with MultiServerMCPClient(
            {"shop": {"url": server.url}}, policy=ASK, tool_interceptors=[change]
        ) as client:
            model = ScriptedChatModel([[tool_call("ask", question="x")], "done"])
            agent: Any = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())
            await agent.ainvoke(SAID, THREAD)
            state = await agent.ainvoke(Command(resume=True), THREAD)
            (request,) = state["__interrupt__"][0].value["requests"]
            reply = {request["key"]: {"action": "accept", "content": {"text": "5"}}}
            state = await agent.ainvoke(Command(resume={"responses": reply}), THREAD)

    assert shown(state) == [{"question": "changed"}]
    assert "changed" in state["__interrupt__"][0].value["problem"]


def removing_server(removed: list[list[str]]) -> MCPServer:
    server = MCPServer("disk", log_level="ERROR")

    @server.tool()
    def remove(paths: list[str]) -> str:
        removed.append(paths)
        return "removed"

    return server


@pytest.mark.parametrize("who", ["caller", "callback"])
async def test_what_is_sent_is_what_was_decided_about(who: str) -> None:
    removed: list[list[str]] = []
    arguments: dict[str, Any] = {"paths": ["/tmp/a"]}

    async def on_approval(request: ApprovalRequest) -> bool:
        assert request.arguments == {"paths": ["/tmp/a"]}
        if who == "callback":
            request.arguments["paths"].append("/etc")
        else:
            arguments["paths"] = ["/etc"]
        return True

    async with Toolbox(
        {"disk": removing_server(removed)}, policy=ASK, on_approval=on_approval
    ) as box:
        await box.call("disk", "remove", arguments)

    assert removed == [["/tmp/a"]]


async def test_an_interceptor_cannot_change_a_call_that_waits_for_its_approval() -> None:
    removed: list[list[str]] = []
    requests: list[Any] = []

    async def keep(request: Any, handler: Any) -> Any:
        requests.append(request)
        return await handler(request)

    async def on_approval(request: ApprovalRequest) -> bool:
        requests[0].args["paths"].append("/etc")
        requests[0].args["recursive"] = True
        return request.arguments == {"paths": ["/tmp/a"]}

    async with MultiServerMCPClient(
        {"disk": removing_server(removed)},
        policy=ASK,
        on_approval=on_approval,
        tool_interceptors=[keep],
    ) as client:
        (tool,) = await client.get_tools()
        await tool.ainvoke({"paths": ["/tmp/a"]})

    assert removed == [["/tmp/a"]]


async def test_arguments_that_are_too_deep_to_be_decided_about_are_not_sent() -> None:
    removed: list[list[str]] = []
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    async with Toolbox({"disk": removing_server(removed)}, policy=Policy(default="allow")) as box:
        with pytest.raises(InvalidArgumentsError):
            await box.call("disk", "remove", {"paths": deep})

    assert removed == []
