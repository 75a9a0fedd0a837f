"""Agents under a policy: what they see, whom they wait for, and what never reaches a server."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from plait import (
    MCPToolsMiddleware,
    MultiServerMCPClient,
    PermissionDeniedError,
    PlaitError,
    Policy,
    Toolbox,
)
from plait.client import ApprovalRequest, PolicyRule, ToolCall
from plait.testing import ScriptedChatModel, free_port, tool_call
from tests.integration.policy.conftest import Guarded
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

SAID: Any = {"messages": [{"role": "user", "content": "go"}]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ASK = Policy(default="ask")


def agent_of(tools: Any, *calls: Any, saver: Any = None) -> Any:
    return create_agent(ScriptedChatModel([list(calls), "done"]), tools, checkpointer=saver)


def answers_of(state: Any) -> list[tuple[str, str]]:
    return [(one.status, one.text) for one in state["messages"] if one.type == "tool"]


async def test_answers_to_calls_that_wait_together_are_not_swapped(guarded: Guarded) -> None:
    async with MultiServerMCPClient(guarded.with_policy(ASK)) as client:
        calls = [tool_call("files_touch", path=name) for name in ("a", "b", "c")]
        agent = agent_of(await client.get_tools(), *calls, saver=InMemorySaver())

        paused = await agent.ainvoke(SAID, THREAD)
        by_path = {one.value["arguments"]["path"]: one.id for one in paused["__interrupt__"]}
        answers = {
            by_path["c"]: {"decision": "edit", "args": {"path": "C"}},
            by_path["a"]: {"decision": "reject"},
        }
        still = await agent.ainvoke(Command(resume=answers), THREAD)
        assert [one.value["arguments"] for one in still["__interrupt__"]] == [{"path": "b"}]
        done = await agent.ainvoke(Command(resume=True), THREAD)

    assert sorted(guarded.ledger()) == ["touch C", "touch b"]
    assert [status for status, _ in answers_of(done)] == ["error", "success", "success"]


def test_blocking_agents_wait_too(guarded: Guarded) -> None:
    with MultiServerMCPClient(guarded.with_policy(ASK)) as client:
        call = tool_call("files_touch", path="a")
        agent = agent_of(client.get_tools_blocking(), call, saver=InMemorySaver())

        paused = agent.invoke(SAID, THREAD)
        assert guarded.ledger() == []
        agent.invoke(Command(resume=True), THREAD)

    assert paused["__interrupt__"][0].value["type"] == "mcp_approval"
    assert guarded.ledger() == ["touch a"]


async def test_a_server_may_ask_after_the_approval_and_the_call_is_made_once(
    guarded: Guarded,
) -> None:
    config = {"shop": {"url": guarded.url, "protocol": "legacy"}}
    answer = await approved_and_answered(config, tool_call("order", item="tea"))

    assert answer == ("success", "ok order tea 5")
    assert guarded.ledger() == ["order tea 5"]


async def test_a_server_of_the_modern_era_may_ask_after_the_approval_too() -> None:
    with fault_server() as server:
        call = tool_call("ask", question="how many?")
        answer = await approved_and_answered({"shop": {"url": server.url}}, call)

    assert answer == ("success", "how many? 5")


async def approved_and_answered(config: Any, call: Any) -> tuple[str, str]:
    async with MultiServerMCPClient(config, policy={"default": "ask"}) as client:
        agent = agent_of(await client.get_tools(), call, saver=InMemorySaver())
        paused = await agent.ainvoke(SAID, THREAD)
        assert paused["__interrupt__"][0].value["type"] == "mcp_approval"
        asked = await agent.ainvoke(Command(resume={"decision": "approve"}), THREAD)
        (request,) = asked["__interrupt__"][0].value["requests"]
        reply = {"action": "accept", "content": {"text": "5"}}
        resume = {"responses": {request["key"]: reply}}
        (answer,) = answers_of(await agent.ainvoke(Command(resume=resume), THREAD))
        return answer


async def test_where_nobody_can_be_asked_the_call_is_refused_and_says_why(guarded: Guarded) -> None:
    async with MultiServerMCPClient(guarded.with_policy(ASK)) as client:
        tools = await client.get_tools()
        state = await agent_of(tools, tool_call("files_touch", path="a")).ainvoke(SAID)

    ((status, text),) = answers_of(state)
    assert status == "error"
    assert "no one can be asked" in text
    assert guarded.ledger() == []


async def test_denied_tools_are_not_offered_and_cannot_be_called_by_name(guarded: Guarded) -> None:
    rules = [{"tool": "files/write", "when": {"path": "/etc/*"}, "do": "deny"}]
    rules += [{"tool": ["pay", "erase_all"], "do": "deny"}, {"tool": "order", "do": "ask"}]
    policy = {"default": "allow", "rules": rules}
    async with MultiServerMCPClient(
        {"files": {"url": guarded.url}}, policy=policy, exclude=["touch"]
    ) as client:
        tools = await client.get_tools()
        turns: Any = [[tool_call("pay", amount=1), tool_call("erase_all")], "done"]
        middleware = MCPToolsMiddleware(client)
        model = ScriptedChatModel(turns)
        state = await create_agent(model, [], middleware=[middleware]).ainvoke(SAID)
    async with Toolbox({"files": {"url": guarded.url}}, policy=policy, exclude=["touch"]) as box:
        for name in ("pay", "erase_all", "touch"):
            with pytest.raises(PermissionDeniedError):
                await box.call("files", name, {"amount": 1})

    assert sorted(tool.name for tool in tools) == ["order", "read", "write"]
    assert [status for status, _ in answers_of(state)] == ["error", "error"]
    assert guarded.ledger() == []


async def test_a_name_that_no_list_has_is_judged_too(guarded: Guarded) -> None:
    policy = Policy(rules=[PolicyRule("allow", annotation="read-only")], default="deny")
    async with Toolbox({"files": {"url": guarded.url}}, policy=policy) as box:
        with pytest.raises(PermissionDeniedError, match="the default of the policy"):
            await box.call("files", "secret")


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_backup_is_held_to_its_own_rules(guarded: Guarded, verdict: Any) -> None:
    asked: list[tuple[str, str | None]] = []

    def on_approval(request: ApprovalRequest) -> bool:
        asked.append((request.server, request.instead_of))
        return True

    down = {"url": f"http://127.0.0.1:{free_port()}/mcp", "reconnect": {"max_attempts": 1}}
    policy = Policy(rules=[PolicyRule(verdict, server="backup")], default="allow")
    async with Toolbox(
        {"main": down, "backup": {"url": guarded.url}},
        fallbacks={"main": "backup"},
        policy=policy,
        on_approval=on_approval,
    ) as box:
        call = ToolCall(server="main", tool="touch", arguments={"path": "a"})
        if verdict == "deny":
            with pytest.raises(PlaitError):
                await box.calls.execute(call)
        else:
            await box.calls.execute(call)

    assert guarded.ledger() == ([] if verdict == "deny" else ["touch a"])
    assert asked == ([] if verdict == "deny" else [("backup", "main")])


async def test_reading_resources_by_tool_is_held_to_the_policy(guarded: Guarded) -> None:
    servers = {name: {"url": guarded.url} for name in ("files", "bank", "desk")}
    rules = [
        PolicyRule("deny", server="bank"),
        PolicyRule("deny", tool="read_resource", when={"uri": "notes://two*"}),
        PolicyRule("ask", tool="desk/read_resource"),
    ]
    asked: list[str] = []

    def on_approval(request: ApprovalRequest) -> bool:
        asked.append(request.where)
        return False

    async with MultiServerMCPClient(
        servers,
        policy=Policy(rules=rules, default="allow"),
        on_approval=on_approval,
        resources_as_tools=True,
    ) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        read, listed = tools["read_resource"], tools["list_resources"]
        uses = [
            {"server": server, "uri": uri}
            for server in servers
            for uri in ("notes://one", "notes://two")
        ]
        answers = [await read.ainvoke({**_use("read_resource"), "args": one}) for one in uses]
        everything = await listed.ainvoke({})

    statuses = {
        (use["server"], use["uri"]): one.status for use, one in zip(uses, answers, strict=True)
    }
    assert [key for key, status in statuses.items() if status == "success"] == [
        ("files", "notes://one")
    ]
    assert asked == ["desk/read_resource"]
    assert guarded.ledger() == ["resource one"]
    assert "bank" not in everything


async def test_an_edit_of_what_is_read_is_checked_against_schema_and_rules(
    guarded: Guarded,
) -> None:
    edits: list[Any] = [{"uri": 5}, {"uri": "notes://one"}]

    def on_approval(request: ApprovalRequest) -> Any:
        del request
        return {"decision": "edit", "args": edits.pop(0)}

    rules = [PolicyRule("deny", tool="read_resource", when={"uri": "notes://one"})]
    async with MultiServerMCPClient(
        {"files": {"url": guarded.url}},
        policy=Policy(rules=rules, default="ask"),
        on_approval=on_approval,
        resources_as_tools=True,
    ) as client:
        (read,) = [tool for tool in await client.get_tools() if tool.name == "read_resource"]
        arguments = {"server": "files", "uri": "notes://x"}
        call = {**_use("read_resource"), "args": arguments}
        answers = [await read.ainvoke(call) for _ in range(2)]

    errors = [one.artifact["error"]["error"] for one in answers]
    assert errors == ["InvalidArgumentsError", "PermissionDeniedError"]
    assert guarded.ledger() == []


def _use(name: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": "1", "name": name}


def counting_server(made: list[Any]) -> MCPServer:
    server = MCPServer("counting", log_level="ERROR")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def look(path: str, token: str = "") -> str:
        made.append((path, token))
        return path

    return server


async def test_what_overrides_hide_is_not_shown_and_is_kept_in_an_edit() -> None:
    made: list[Any] = []
    shown: list[Any] = []

    def on_approval(request: ApprovalRequest) -> Any:
        shown.append((dict(request.arguments), dict(request.annotations)))
        return {"decision": "edit", "args": {"path": "b", "token": "mine"}}

    async with Toolbox(
        {"in": counting_server(made)},
        policy=ASK,
        on_approval=on_approval,
        tool_overrides={"look": {"arguments": {"token": {"value": "s3cret"}}}},
    ) as box:
        await box.call("in", "look", {"path": "a"})

    assert shown == [({"path": "a"}, {"read_only_hint": True})]
    assert made == [("b", "s3cret")]


async def test_an_edit_is_checked_against_schema_and_rules() -> None:
    made: list[Any] = []
    edits: list[Any] = [{"path": ["no"]}, {"path": "/etc/x"}, {"path": "/home/x"}]

    def on_approval(request: ApprovalRequest) -> Any:
        del request
        return {"decision": "edit", "args": edits.pop(0)}

    policy = Policy(rules=[PolicyRule("deny", tool="look", when={"path": "/etc/*"})])
    async with Toolbox(
        {"in": counting_server(made)}, policy=policy, on_approval=on_approval
    ) as box:
        for error in ("InvalidArgumentsError", "PermissionDeniedError"):
            with pytest.raises(PlaitError) as raised:
                await box.call("in", "look", {"path": "a"})
            assert type(raised.value).__name__ == error
        await box.call("in", "look", {"path": "a"})

    assert made == [("/home/x", "")]


async def test_an_edit_that_repair_turns_into_a_denied_call_is_not_made() -> None:
    made: list[Any] = []
    server = MCPServer("paths", log_level="ERROR")

    @server.tool()
    def remove(paths: list[str]) -> str:
        made.append(paths)
        return "removed"

    # As the string that it is, it fits no rule; repair reads it as the list that the schema wants.
    edits = ['["/etc/passwd"]', '["/tmp/x"]']

    def on_approval(request: ApprovalRequest) -> Any:
        del request
        return {"decision": "edit", "args": {"paths": edits.pop(0)}}

    policy = Policy(rules=[PolicyRule("deny", tool="remove", when={"paths": "/etc/*"})])
    async with Toolbox({"in": server}, policy=policy, on_approval=on_approval) as box:
        with pytest.raises(PermissionDeniedError):
            await box.call("in", "remove", {"paths": ["/tmp/a"]})
        await box.call("in", "remove", {"paths": ["/tmp/a"]})

    assert made == [["/tmp/x"]]


async def test_a_kept_result_is_asked_about_like_a_call() -> None:
    made: list[Any] = []
    answers = [True, False]

    async with Toolbox(
        {"in": counting_server(made)},
        policy=ASK,
        on_approval=lambda _: answers.pop(0),
        result_cache=True,
    ) as box:
        await box.call("in", "look", {"path": "a"})
        with pytest.raises(PermissionDeniedError):
            await box.call("in", "look", {"path": "a"})

    assert made == [("a", "")]


async def test_overrides_of_annotations_count_for_the_policy() -> None:
    policy = Policy(rules=[PolicyRule("allow", annotation="read-only")], default="deny")
    hints = {"look": {"annotations": {"read_only": False}}}
    async with Toolbox({"in": counting_server([])}, policy=policy, tool_overrides=hints) as box:
        decision = await box.decide("in", "look", {"path": "a"})

    assert (decision.verdict, decision.rule) == ("deny", None)


async def test_a_callback_that_answers_unclearly_is_a_mistake_of_the_program() -> None:
    async with Toolbox({"in": counting_server([])}, policy=ASK, on_approval=lambda _: "yes") as box:
        with pytest.raises(PlaitError, match="on_approval must return"):
            await box.call("in", "look", {"path": "a"})
