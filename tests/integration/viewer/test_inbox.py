"""Questions of other processes are answered in the inbox of a viewer, by the same user only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp_types import ElicitRequestFormParams

from plait._support import demo_server
from plait.agents.config import ModelConfig
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.config.read import read_config
from plait.client.inbox import Inbox as Asker
from plait.client.inbox import inbox_folder, viewer_sockets, with_originals
from plait.client.toolbox import Toolbox
from plait.testing import eventually
from plait.traces.events import ApprovalDecided
from plait.traces.file import read_traces
from plait.viewer.app import ViewerOptions
from plait.viewer.connected import ConnectedServers
from plait.viewer.demo import ShoppingAgent
from plait.viewer.inbox import Inbox
from tests.integration.viewer.conftest import viewing

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-value-of-the-shop"
PAY = ApprovalRequest(
    server="bank", tool="pay", arguments={"amount": 5, "note": f"with {SECRET}"}, reason="money"
)


@asynccontextmanager
async def _inbox(*, watched: bool = True) -> AsyncGenerator[tuple[httpx.AsyncClient, Inbox]]:
    """Serve an inbox, at which somebody looks unless that is not `watched`."""
    servers = ConnectedServers(read_config({"servers": {"none": {"command": "no-such-program"}}}))
    async with viewing(ViewerOptions(servers=servers)) as client, servers.inbox.listening():
        if watched:
            await client.get("/inbox/questions")
        yield client, servers.inbox


async def _answer(client: httpx.AsyncClient, inbox: Inbox, **entered: str) -> str:
    """Answer the one question that waits, and return its card."""
    await eventually(lambda: len(inbox.questions) == 1, timeout_seconds=30)
    card = (await client.get("/inbox/questions")).text
    sent = {"question": inbox.questions[0].key, **entered}
    assert (await client.post("/inbox/answer", json=sent)).status_code == 200
    return card


async def test_a_call_is_approved_for_once_then_for_the_session_and_denied_with_a_reason() -> None:
    asker, other = Asker("plait: buy tea", [SECRET]), Asker("another")
    shown = json.dumps({"amount": 5, "note": "with ***"})
    async with _inbox() as (client, inbox):
        found: list[Approval | None] = []
        cards: list[str] = []
        for action in ("approve", "session"):
            asked = asyncio.ensure_future(asker.approve(PAY))
            cards.append(await _answer(client, inbox, action=action, arguments=shown))
            found.append(await asked)
        found.append(await asker.approve(PAY))  # nobody is asked
        asked = asyncio.ensure_future(other.approve(PAY))
        await _answer(client, inbox, action="deny", why="too dear")
        found.append(await asked)

    assert [one and (one.decision, one.by) for one in found] == [
        ("approve", "person"),
        ("approve", "person"),
        ("approve", "person"),
        ("reject", "person"),
    ]
    assert found[-1] is not None
    assert found[-1].message == "too dear"
    assert "plait: buy tea" in cards[0]
    assert "bank/pay" in cards[0]
    assert SECRET not in cards[0]


async def test_edited_arguments_keep_the_secrets_that_were_not_shown() -> None:
    async with _inbox() as (client, inbox):
        asked = asyncio.ensure_future(Asker("plait", [SECRET]).approve(PAY))
        edited = json.dumps({"amount": 6, "note": "with ***"})
        await _answer(client, inbox, action="approve", arguments=edited)
        approval = await asked

    assert approval == Approval("edit", {"amount": 6, "note": f"with {SECRET}"}, by="person")
    nested: dict[str, Any] = {"a": {"b": SECRET, "c": 1}}
    assert with_originals(["***", 2], ["***", 1], ["secret", 1]) == ["secret", 2]
    assert with_originals({"a": {"b": "***", "c": 2}}, {"a": {"b": "***", "c": 1}}, nested) == {
        "a": {"b": SECRET, "c": 2}
    }


async def test_a_question_of_a_server_is_answered_by_its_form_or_declined() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    params = ElicitRequestFormParams(message="<b>Which</b> size?", requested_schema=schema)
    async with _inbox() as (client, inbox):
        asker = Asker("plait")
        asked = asyncio.ensure_future(asker.elicit("shop", params))
        card = await _answer(client, inbox, **{"action": "accept", "field.size": "7"})
        accepted = await asked
        asked = asyncio.ensure_future(asker.elicit("shop", params))
        await _answer(client, inbox, action="decline")
        declined = await asked

    assert "&lt;b&gt;Which&lt;/b&gt; size?" in card
    assert accepted is not None
    assert (accepted.action, accepted.content) == ("accept", {"size": 7})
    assert declined is not None
    assert declined.action == "decline"


async def test_an_answer_that_the_server_does_not_want_is_not_sent_and_defaults_are() -> None:
    properties = {
        "count": {"type": "integer", "maximum": 9},
        "sort": {"type": "array", "items": {"enum": ["mild", "hot"]}, "minItems": 1},
        "note": {"type": "string", "default": "none"},
    }
    schema = {"type": "object", "properties": properties, "required": ["count", "sort"]}
    params = ElicitRequestFormParams(message="Tea?", requested_schema=schema)
    async with _inbox() as (client, inbox):
        asked = asyncio.ensure_future(Asker("plait").elicit("shop", params))
        await eventually(lambda: len(inbox.questions) == 1, timeout_seconds=30)
        target = {"question": inbox.questions[0].key, "action": "accept"}
        refused = [
            (await client.post("/inbox/answer", json={**target, **fields})).text
            for fields in ({}, {"field.count": "10", "field.sort": "hot"}, {"field.count": "x"})
        ]
        assert len(inbox.questions) == 1
        await _answer(client, inbox, **target, **{"field.count": "3", "field.sort": "mild\nhot"})
        answer = await asked

    assert all("warning" in one for one in refused)
    assert "missing required argument: count" in refused[0]
    assert answer is not None
    assert answer.content == {"count": 3, "sort": ["mild", "hot"], "note": "none"}


async def test_a_question_ends_with_the_process_that_asked_it() -> None:
    async with _inbox() as (_, inbox):
        asked = asyncio.ensure_future(Asker("plait").approve(PAY))
        await eventually(lambda: len(inbox.questions) == 1, timeout_seconds=30)
        asked.cancel()
        await eventually(lambda: inbox.questions == [], timeout_seconds=30)


async def test_nobody_is_asked_where_nobody_looks_unless_the_question_is_patient() -> None:
    async with _inbox(watched=False) as (client, inbox):
        assert await Asker("plait").approve(PAY) is None
        asked = asyncio.ensure_future(Asker("plait").approve(PAY, patient=True))
        await _answer(client, inbox, action="deny")
        assert (await asked) is not None


async def test_a_viewer_that_has_ended_or_was_killed_answers_nothing() -> None:
    async with _inbox():
        (socket,) = viewer_sockets()
    assert viewer_sockets() == []
    server = await asyncio.start_unix_server(lambda *_: None, socket)  # pyright: ignore[reportUnknownLambdaType]
    server.close()
    await server.wait_closed()
    socket.touch() if not socket.exists() else None

    assert await Asker("plait").approve(PAY) is None
    assert viewer_sockets() == []


async def test_a_folder_that_others_may_enter_is_not_used() -> None:
    folder = inbox_folder()
    assert folder is not None
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    try:
        async with _inbox():
            assert viewer_sockets() == []
            assert list(folder.glob("*.sock")) == []
    finally:
        folder.chmod(0o700)


async def test_garbage_on_the_socket_is_no_question() -> None:
    async with _inbox() as (_, inbox):
        for line in (b"\n", b"[]\n", b"{}\n", b'{"kind": "approval"}\n', b"\xff\n"):
            reader, writer = await asyncio.open_unix_connection(viewer_sockets()[0])
            writer.write(line)
            assert await reader.read() == b""
            writer.close()
        assert inbox.questions == []


def _shops(folder: Path) -> dict[str, Any]:
    """Return the servers of the demonstration, with a policy by which a payment needs a person."""
    command = ["-I", "-S", demo_server.__file__]
    servers = {
        name: {"command": sys.executable, "args": [*command, name, str(folder)]}
        for name in ("shop", "clock", "notes", "bank")
    }
    rules = [{"tool": "bank/pay", "do": "ask"}]
    return {"mcpServers": servers, "policy": {"rules": rules, "default": "allow"}}


async def test_a_recorded_run_of_a_program_is_answered(tmp_path: Path) -> None:
    agent = ShoppingAgent(ModelConfig(id="a", model_name="a", model_provider="scripted"))
    trace = tmp_path / "run.jsonl"
    async with _inbox() as (client, inbox):
        config = read_config(_shops(tmp_path / "shop"))
        run = asyncio.ensure_future(agent.arun("Please buy tea", None, config, {"trace": trace}))
        card = await _answer(client, inbox, action="approve", arguments='{"amount": 4.0}')
        result = await run

    assert "Please buy tea" in card
    assert "is paid" in result.final_response
    decided = [one for one in read_traces(trace)[0].events if isinstance(one, ApprovalDecided)]
    assert [(one.decision, one.by) for one in decided] == [("approve", "person")]


async def test_a_call_through_serve_is_answered_for_a_client_that_cannot_be_asked(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(_shops(tmp_path / "shop")))
    serve = ["-m", "plait.cli", "serve", "--config", str(path)]
    through = Toolbox({"plait": {"command": sys.executable, "args": serve}})
    async with _inbox() as (client, inbox), through as box:
        (pay,) = [one for one in await box.tools() if one.wire_name.endswith("pay")]
        call = asyncio.ensure_future(box.call("plait", pay.wire_name, {"amount": 3}))
        card = await _answer(client, inbox, action="approve", arguments='{"amount": 3}')
        paid = await call
        call = asyncio.ensure_future(box.call("plait", pay.wire_name, {"amount": 4}))
        await _answer(client, inbox, action="deny", why="too dear")
        denied = await call

    assert "plait serve" in card
    assert paid.text == "paid 3"
    assert "too dear" in denied.text
    assert denied.is_error
