"""The pages of servers show status, tools and notifications, and call tools if that is allowed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

from plait.client.config.read import read_config
from plait.errors import ProtocolError
from plait.testing import eventually
from plait.viewer.app import ViewerOptions
from plait.viewer.connected import CheckFinding, ConnectedServers
from tests.integration.viewer.conftest import viewing
from tests.nursery import entry

pytestmark = pytest.mark.anyio

SHOP = str(Path(__file__).parents[1] / "cli" / "shop_server.py")
SECRET = "s3cr3t-value-of-the-shop"
ORDER = "/servers/shop/call/order"


class Amount(BaseModel):
    count: int


def _shop(paid: list[int]) -> MCPServer:
    server = MCPServer("shop", version="1.2")

    @server.tool(description="<b>Add</b> two numbers.")
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool(annotations=types.ToolAnnotations(destructive_hint=True))
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}, password={SECRET}"

    @server.tool()
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, 3, f"one of three, password={SECRET}")
        return "<script>alert(1)</script>"

    @server.tool()
    def logo() -> Image:
        return Image(data=b"\x89PNG", format="png")

    @server.tool()
    async def order(ctx: Context) -> str:
        answer = await ctx.elicit("<b>How many</b> apples?", Amount)
        return f"{answer.action}: {answer.data.count if answer.action == 'accept' else 0} apples"

    @server.resource("shop://notes", mime_type="text/plain")
    def notes() -> str:
        return f"<i>closed</i> on Monday, password={SECRET}"

    @server.resource("shop://item/{number}")
    def item(number: str) -> str:
        return f"item {number}"

    @server.prompt(description="Summarize a text.")
    def summarize(text: str) -> str:
        return f"Summarize: {text}"

    return server


def _connected(paid: list[int], *, allow_calls: bool = True, **options: Any) -> ConnectedServers:
    config = read_config({"servers": {"shop": _shop(paid)}, **options})
    return ConnectedServers(config, allow_calls=allow_calls)


async def _listed(servers: ConnectedServers) -> None:
    await eventually(lambda: "shop" in servers.tools, timeout_seconds=30)


async def test_a_tool_is_called_with_what_its_form_sends() -> None:
    paid: list[int] = []
    servers = _connected(paid)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        listed = (await client.get("/servers")).text
        page = (await client.get("/servers/shop")).text
        sums = (await client.post("/servers/shop/call/add", json={"a": "40", "b": "2"})).text
        wrong = (await client.post("/servers/shop/call/add", json={"a": "x"})).text
        lacking = (await client.post("/servers/shop/call/add", json={})).text
        slow = (await client.post("/servers/shop/call/slow", json={})).text
        logo = (await client.post("/servers/shop/call/logo", json={})).text
        unknown = await client.post("/servers/shop/call/nothing", json={})
        garbage = await client.post("/servers/shop/call/add", content="[1]")
        feed = (await client.get("/servers/shop")).text

    assert "1 of 1 server ready" in listed
    assert "&lt;b&gt;Add&lt;/b&gt; two numbers." in page
    assert 'data-call="/servers/shop/call/add"' in page
    assert "42" in sums
    assert "is not JSON" in wrong
    assert "warning" in lacking
    assert "&lt;script&gt;" in slow
    assert '<img src="data:image/png;base64,iVBORw==' in logo
    assert "slow: 1 of 3 one of three" in feed
    assert SECRET not in feed
    assert unknown.status_code == garbage.status_code == 404


async def test_an_elicitation_of_a_call_is_answered_on_the_page() -> None:
    servers = _connected([])
    async with viewing(ViewerOptions(servers=servers)) as client, asyncio.TaskGroup() as tasks:
        await _listed(servers)
        called = [tasks.create_task(client.post(ORDER, json={})) for _ in range(2)]
        pages: list[str] = []
        for action, entered in (("", {"count": "x"}), ("", {"count": "3"}), ("/decline", {})):
            await eventually(lambda: bool(servers.questions.of("shop")), timeout_seconds=30)
            pages.append((await client.get("/servers/shop")).text)
            (question, *_) = servers.questions.of("shop")
            elsewhere = await client.post(f"/servers/bank/answer/{question.key}", json=entered)
            assert elsewhere.status_code == 404
            address = f"/servers/shop/answer/{question.key}"
            pages.append((await client.post(address + action, json=entered)).text)
            if entered == {"count": "3"}:
                await eventually(lambda: any(one.done() for one in called), timeout_seconds=30)
        late = await client.post(address, json={"count": "4"})
        after = (await client.get("/servers/shop")).text

    assert "&lt;b&gt;How many&lt;/b&gt; apples?" in pages[0]
    assert "is not JSON" in pages[1]
    results = " ".join(one.result().text for one in called)
    assert "accept: 3 apples" in results
    assert "decline: 0 apples" in results
    assert late.status_code == 404
    assert "shop asks" not in after


async def test_resources_are_read_and_prompts_filled_in() -> None:
    servers = _connected([])
    async with viewing(ViewerOptions(servers=servers)) as client:
        await eventually(lambda: "shop" in servers.offers, timeout_seconds=30)
        page = (await client.get("/servers/shop")).text
        read = (await client.post("/servers/shop/read?uri=shop://notes", json={})).text
        item = {"uri": "shop://item/7"}
        filled = (await client.post("/servers/shop/read?uri=shop://item/x", json=item)).text
        missing = (await client.post("/servers/shop/read?uri=shop://none", json={})).text
        prompt = (await client.post("/servers/shop/prompt/summarize", json={"text": "a"})).text
        servers.allow_calls = False
        refused = await client.post("/servers/shop/read?uri=shop://notes", json={})

    assert "2 resources" in page
    assert "summarize</b><code>(text)" in page
    assert "&lt;i&gt;closed&lt;/i&gt; on Monday" in read
    assert SECRET not in read
    assert "item 7" in filled
    assert "warning" in missing
    assert "Summarize: a" in prompt
    assert refused.status_code == 403


async def test_without_permission_nothing_is_called_or_restarted() -> None:
    paid: list[int] = []
    servers = _connected(paid, allow_calls=False)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        page = (await client.get("/servers/shop")).text
        called = await client.post("/servers/shop/call/pay", json={"amount": "5"})
        restarted = await client.post("/servers/shop/restart", json={})

    assert "data-call" not in page
    assert "Restart" not in page
    assert called.status_code == restarted.status_code == 403
    assert paid == []


async def test_without_permission_servers_cannot_ask_the_person_anything() -> None:
    servers = _connected([], allow_calls=False)
    async with servers.running():
        await _listed(servers)
        call = asyncio.ensure_future(servers.box.call("shop", "order", {}))
        await eventually(lambda: call.done() or bool(servers.questions.of("shop")))
        waiting = servers.questions.of("shop")
        call.cancel()
        (outcome,) = await asyncio.gather(call, return_exceptions=True)

    assert waiting == []
    assert isinstance(outcome, ProtocolError)


async def test_calls_follow_the_policy_and_an_approval_is_for_these_arguments_only() -> None:
    paid: list[int] = []
    rules = [{"tool": "shop/slow", "do": "deny"}, {"tool": "shop/add", "do": "allow"}]
    policy = {"rules": rules, "default": "ask"}
    servers = _connected(paid, policy=policy)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        page = (await client.get("/servers/shop")).text
        denied = await client.post("/servers/shop/call/slow", json={})
        asked = (await client.post("/servers/shop/call/pay", json={"amount": "5"})).text
        proof = re.search(r'data-approve="(\w+)"', asked)
        assert proof is not None
        other = {"amount": "500", "approve": proof[1]}
        changed = (await client.post("/servers/shop/call/pay", json=other)).text
        assert paid == []
        same = {"amount": "5", "approve": proof[1]}
        done = (await client.post("/servers/shop/call/pay", json=same)).text

    assert "call/slow" not in page
    assert denied.status_code == 404
    assert "requires approval" in asked
    assert "requires approval" in changed
    assert paid == [5]
    assert "paid 5" in done
    assert SECRET not in done  # redacted, as in traces


async def test_findings_of_the_check_are_shown() -> None:
    async def check() -> Sequence[CheckFinding]:
        return [CheckFinding(level="error", server="shop", message="<i>bad</i>", fix="mend it")]

    servers = _connected([])
    servers.check = check
    async with viewing(ViewerOptions(servers=servers)) as client:
        found = (await client.post("/servers/check", json={})).text
        page = (await client.get("/servers")).text

    assert "&lt;i&gt;bad&lt;/i&gt;" in found
    assert "fix: mend it" in found
    assert "mend it" in page


async def test_a_killed_server_returns_and_the_page_changes() -> None:
    config = read_config({"servers": {"shop": entry(SHOP)}})
    servers = ConnectedServers(config)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        before = servers.status["shop"]
        tag = (await client.get("/servers")).headers["etag"]
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)

        async def is_back() -> bool:
            now = servers.status["shop"]
            return now.state == "ready" and now.sessions > before.sessions

        await eventually(is_back, timeout_seconds=30)
        after = await client.get("/servers", headers={"If-None-Match": tag})
        detail = (await client.get("/servers/shop")).text

    assert after.status_code == 200
    assert ">lost<" in detail
    assert ">opened<" in detail
