"""One policy file, ten calls: allowed, asked and denied as written, whoever makes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from click.testing import CliRunner
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from plait import MultiServerMCPClient, PermissionDeniedError, Toolbox
from plait.cli import main
from plait.cli.exits import Exit
from plait.client import ApprovalRequest, ServerHandle
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.policy.conftest import ALLOWED, ASKED, CALLS, DENIED, Guarded, lines

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

SAID: Any = {"messages": [{"role": "user", "content": "go"}]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize("approved", [True, False])
async def test_a_toolbox_makes_the_calls_that_are_allowed_or_approved(
    guarded: Guarded, approved: bool
) -> None:
    asked: list[tuple[str, str, Any]] = []
    refused: list[tuple[str, str, Any]] = []

    async def on_approval(request: ApprovalRequest) -> bool:
        await asyncio.sleep(0)
        asked.append((request.server, request.tool, dict(request.arguments)))
        return approved

    async with Toolbox(guarded.config, on_approval=on_approval) as box:
        for server, tool, arguments in CALLS:
            try:
                await box.call(server, tool, arguments)
            except PermissionDeniedError:
                refused.append((server, tool, arguments))

    assert asked == ASKED
    assert refused == [*([] if approved else ASKED), *DENIED]
    assert guarded.ledger() == lines([*ALLOWED, *(ASKED if approved else [])])


async def test_the_handle_of_a_server_is_held_to_the_policy_too(guarded: Guarded) -> None:
    refused: list[str] = []
    async with Toolbox(guarded.config, on_approval=lambda _: True) as box:
        for server, tool, arguments in CALLS:
            try:
                await ServerHandle(box, server).call_tool(tool, arguments)
            except PermissionDeniedError as error:
                refused.append(str(error))

    assert len(refused) == len(DENIED)
    assert "rule 3 of policy.json (server bank, not read-only): it moves money" in refused[2]
    assert guarded.ledger() == lines([*ALLOWED, *ASKED])


async def test_an_agent_is_paused_for_what_is_asked_and_told_what_is_denied(
    guarded: Guarded,
) -> None:
    async with MultiServerMCPClient(guarded.config) as client:
        calls = [tool_call(f"{server}_{tool}", **args) for server, tool, args in CALLS]
        model = ScriptedChatModel([calls, "done"])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())

        paused = await agent.ainvoke(SAID, THREAD)
        before = sorted(guarded.ledger())
        values = [one.value for one in paused["__interrupt__"]]
        yes = {one.id: {"decision": "approve"} for one in paused["__interrupt__"]}
        done = await agent.ainvoke(Command(resume=yes), THREAD)

    asked = [(one["server_name"], one["tool_name"], one["arguments"]) for one in values]
    assert sorted(asked, key=str) == sorted(ASKED, key=str)
    assert before == sorted(lines(ALLOWED))
    assert sorted(guarded.ledger()) == sorted(lines([*ALLOWED, *ASKED]))
    answers = {one.tool_call_id: one for one in done["messages"] if one.type == "tool"}
    statuses = [answers[call["id"]].status for call in calls]
    assert statuses == ["success"] * len([*ALLOWED, *ASKED]) + ["error"] * len(DENIED)
    assert "denied by rule 1 of policy.json" in answers[calls[6]["id"]].content
    assert done["messages"][-1].content == "done"


def test_the_command_line_calls_what_is_allowed_or_approved(guarded: Guarded) -> None:
    config = str(guarded.write())

    def call(server: str, tool: str, arguments: dict[str, Any], *flags: str) -> Any:
        pairs = [f"{name}={value}" for name, value in arguments.items()]
        return CliRunner().invoke(main, ["call", "-qc", config, server, tool, *pairs, *flags])

    for one in ALLOWED:
        assert call(*one).exit_code == 0
    for one in ASKED:
        refused = call(*one)
        assert refused.exit_code == Exit.CONFIG
        assert "approve with --yes" in refused.stderr
    assert guarded.ledger() == lines(ALLOWED)
    for one in ASKED:
        assert call(*one, "--yes").exit_code == 0
    for one in DENIED:
        denied = call(*one, "--yes")
        assert denied.exit_code == Exit.CONFIG
        assert "denied by rule" in denied.stderr
    assert guarded.ledger() == lines([*ALLOWED, *ASKED])
