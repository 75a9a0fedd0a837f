"""The pages of servers show status, tools and notifications, and call tools if that is allowed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from mcp import types
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

from plait.client.config.read import read_config
from plait.client.toolbox import Toolbox
from plait.errors import ProtocolError
from plait.testing import eventually
from plait.viewer.app import ViewerOptions
from plait.viewer.connected import CheckFinding, ConnectedServers
from plait.viewer.forms import field_key
from tests.integration.viewer.conftest import viewing
from tests.nursery import entry
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = pytest.mark.anyio

SHOP = str(Path(__file__).parents[1] / "cli" / "shop_server.py")
SECRET = "s3cr3t-value-of-the-shop"


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


async def call(
    client: httpx.AsyncClient, tool: str, fields: dict[str, str], **more: str
) -> httpx.Response:
    """Send what the form of a tool of the shop sends."""
    entered = {field_key(name): value for name, value in fields.items()}
    target = {"server": "shop", "tool": tool}
    return await client.post("/servers/call", json={**target, **entered, **more})


class Forms(HTMLParser):
    """The forms of a page: where each is sent, and what is sent with it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, dict[str, str], list[str]]] = {}
        """Address, target and names of fields, by the id of the part that holds the form."""
        self._part = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read a tag of the page."""
        given = {name: value or "" for name, value in attrs}
        self._part = given.get("id", self._part)
        if tag == "form" and "data-call" in given:
            target = json.loads(given.get("data-target", "{}"))
            self.found[self._part] = (given["data-call"], target, [])
        elif "name" in given and self._part in self.found:
            self.found[self._part][2].append(given["name"])

    async def send(self, client: httpx.AsyncClient, part: str, **fields: str) -> httpx.Response:
        """Fill in the fields of a form by the ends of their names, and send it as browsers do."""
        address, target, names = self.found[part]
        entered = dict.fromkeys(names, "")
        for name, value in fields.items():
            (key,) = [one for one in names if one.endswith(name)]
            entered[key] = value
        url = urljoin("http://127.0.0.1:7411/servers/shop", address)
        return await client.post(url, json={**target, **entered})


async def _listed(servers: ConnectedServers) -> None:
    await eventually(lambda: "shop" in servers.tools, timeout_seconds=30)


async def test_a_tool_is_called_with_what_its_form_sends() -> None:
    paid: list[int] = []
    servers = _connected(paid)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        listed = (await client.get("/servers")).text
        page = (await client.get("/servers/shop")).text
        sums = (await call(client, "add", {"a": "40", "b": "2"})).text
        wrong = (await call(client, "add", {"a": "x"})).text
        lacking = (await call(client, "add", {})).text
        slow = (await call(client, "slow", {})).text
        logo = (await call(client, "logo", {})).text
        unknown = await call(client, "nothing", {})
        garbage = await client.post("/servers/call", content="[1]")
        nowhere = await client.get("/servers/nowhere")
        feed = (await client.get("/servers/shop")).text

    assert "1 of 1 server ready" in listed
    assert "&lt;b&gt;Add&lt;/b&gt; two numbers." in page
    assert 'data-call="/servers/call"' in page
    assert "42" in sums
    assert "is not JSON" in wrong
    assert "warning" in lacking
    assert "&lt;script&gt;" in slow
    assert '<img src="data:image/png;base64,iVBORw==' in logo
    assert "slow: 1 of 3 one of three" in feed
    assert SECRET not in feed
    assert unknown.status_code == garbage.status_code == nowhere.status_code == 404


NAMES = ["../../bank/call/pay", "/servers/bank/call/pay", "//evil.example/", "pay?x#y", "\u202epay"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_button_calls_the_tool_or_prompt_of_its_own_server_whatever_that_is_called(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    paid: list[int] = []
    caplog.set_level("CRITICAL", "mcp")  # it warns about such names
    hostile = MCPServer("shop")
    hostile.add_tool(lambda amount: f"shop got {amount}", name=name)
    hostile.prompt(name=name)(lambda amount: f"shop says {amount}")
    config = read_config({"servers": {"shop": hostile, "bank": _shop(paid)}})
    servers = ConnectedServers(config, allow_calls=True)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await eventually(lambda: {"shop", "bank"} <= {*servers.offers}, timeout_seconds=30)
        forms = Forms((await client.get("/servers/shop")).text)
        called, prompted = [
            (await forms.send(client, part, amount="5")).text for part in sorted(forms.found)[::-1]
        ]

    assert paid == []
    assert "shop got 5" in called
    assert "shop says 5" in prompted


async def test_arguments_may_have_the_names_that_requests_use_themselves() -> None:
    echo = MCPServer("shop")

    @echo.tool(name="echo")
    def _(approve: str, arguments: str, server: str, tool: str) -> str:
        return "-".join((approve, arguments, server, tool))

    config = read_config({"servers": {"shop": echo}})
    servers = ConnectedServers(config, allow_calls=True)
    values = {"approve": "a", "arguments": "b", "server": "c", "tool": "d"}
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        called = (await call(client, "echo", values)).text

    assert "a-b-c-d" in called


async def test_a_server_that_refuses_pings_and_prompts_still_has_its_tools_listed() -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response())

    async with scripted_http(answer, era="legacy") as server:
        server.handshake_fields = {"capabilities": {"tools": {}, "prompts": {}}}
        config = read_config({"servers": {"shop": {"type": "http", "url": server.url}}})
        servers = ConnectedServers(config, allow_calls=True)
        async with viewing(ViewerOptions(servers=servers)) as client:
            await _listed(servers)
            page = (await client.get("/servers/shop")).text

    assert "tool-work" in page


async def test_an_elicitation_of_a_call_is_answered_on_the_page() -> None:
    servers = _connected([])
    async with viewing(ViewerOptions(servers=servers)) as client, asyncio.TaskGroup() as tasks:
        await _listed(servers)
        called = [tasks.create_task(call(client, "order", {})) for _ in range(2)]
        pages: list[str] = []
        answer: dict[str, str] = {}
        count = field_key("count")
        answers = ("accept", {count: "x"}), ("accept", {count: "3"}), ("decline", {})
        for action, entered in answers:
            await eventually(lambda: bool(servers.inbox.questions), timeout_seconds=30)
            pages.append((await client.get("/inbox/questions")).text)
            (question, *_) = servers.inbox.questions
            answer = {"question": question.key, "action": action, **entered}
            twice = [client.post("/inbox/answer", json=answer) for _ in range(2)]
            answered = await asyncio.gather(*twice)
            pages.append(answered[0].text)
            if "x" not in entered.values():
                assert sorted(one.status_code for one in answered) == [200, 404]
            if "3" in answer.values():
                await eventually(lambda: any(one.done() for one in called), timeout_seconds=30)
        late = await client.post("/inbox/answer", json={**answer, count: "4"})
        after = (await client.get("/inbox/questions")).text

    assert "&lt;b&gt;How many&lt;/b&gt; apples?" in pages[0]
    assert "is not JSON" in pages[1]
    results = " ".join(one.result().text for one in called)
    assert "accept: 3 apples" in results
    assert "decline: 0 apples" in results
    assert late.status_code == 404
    assert "shop asks" not in after


async def test_a_call_that_ends_with_the_viewer_says_so() -> None:
    servers = _connected([])
    async with viewing(ViewerOptions(servers=servers)) as client, asyncio.TaskGroup() as tasks:
        await _listed(servers)
        called = tasks.create_task(call(client, "order", {}))
        await eventually(lambda: bool(servers.inbox.questions), timeout_seconds=30)
        servers.end_requests()

    assert called.result().status_code == 503
    assert "It was cancelled." in called.result().text


async def test_resources_are_read_and_prompts_filled_in() -> None:
    servers = _connected([])
    async with viewing(ViewerOptions(servers=servers)) as client:
        await eventually(lambda: "shop" in servers.offers, timeout_seconds=30)
        page = (await client.get("/servers/shop")).text
        forms = Forms(page)
        read = (await forms.send(client, "resource-shop://notes")).text
        template = "resource-shop://item/{number}"
        filled = (await forms.send(client, template, uri="shop://item/7")).text
        none = {"server": "shop", "uri": "shop://none"}
        missing = (await client.post("/servers/read", json=none)).text
        prompt = (await forms.send(client, "prompt-summarize", text="a")).text
        whole = (await forms.send(client, "prompt-summarize", arguments='{"text": 7}')).text
        unknown = await client.post("/servers/prompt", json={"server": "shop", "prompt": "x"})
        servers.allow_calls = False
        refused = await forms.send(client, "resource-shop://notes")

    assert "2 resources" in page
    assert "summarize</b><code>(text)" in page
    assert "&lt;i&gt;closed&lt;/i&gt; on Monday" in read
    assert SECRET not in read
    assert "item 7" in filled
    assert "warning" in missing
    assert "Summarize: a" in prompt
    assert "Summarize: 7" in whole
    assert unknown.status_code == 404
    assert refused.status_code == 403


async def test_without_permission_nothing_is_called_or_restarted() -> None:
    paid: list[int] = []
    servers = _connected(paid, allow_calls=False)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        page = (await client.get("/servers/shop")).text
        called = await call(client, "pay", {"amount": "5"})
        killed, restarted = [
            await client.post(f"/servers/{action}", json={"server": "shop"})
            for action in ("kill", "restart")
        ]

    assert "data-call" not in page
    assert "Restart" not in page
    assert called.status_code == killed.status_code == restarted.status_code == 403
    assert paid == []


async def test_without_permission_servers_cannot_ask_the_person_anything() -> None:
    servers = _connected([], allow_calls=False)
    async with servers.running():
        await _listed(servers)
        call = asyncio.ensure_future(servers.box.call("shop", "order", {}))
        await eventually(lambda: call.done() or bool(servers.inbox.questions))
        waiting = servers.inbox.questions
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
        denied = await call(client, "slow", {})
        asked = (await call(client, "pay", {"amount": "5"})).text
        proof = re.search(r'data-approve="(\w+)"', asked)
        assert proof is not None
        changed = (await call(client, "pay", {"amount": "500"}, approve=proof[1])).text
        assert paid == []
        done = (await call(client, "pay", {"amount": "5"}, approve=proof[1])).text

    assert "tool-slow" not in page
    assert denied.status_code == 404
    assert "requires approval" in asked
    assert "requires approval" in changed
    assert paid == [5]
    assert "paid 5" in done
    assert SECRET not in done  # redacted, as in traces


async def test_a_program_that_is_missing_is_not_said_to_be_connected() -> None:
    config = read_config({"servers": {"shop": {"command": "no-such-program"}}})
    servers = ConnectedServers(config)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await eventually(lambda: servers.status["shop"].state == "waiting", timeout_seconds=30)
        pages = [(await client.get(path)).text for path in ("/servers", "/servers/shop")]

    for page in pages:
        status = page.partition('id="status"')[2].partition('id="feed"')[0]
        assert "failed, tried again" in status
        assert "not found on PATH" in status
        assert "connected in" not in status
        assert not re.search(r"\d m?s<", status)


@pytest.mark.parametrize("allow_calls", [True, False])
async def test_a_page_says_why_a_server_is_of_another_era_than_elsewhere(
    allow_calls: bool,
) -> None:
    servers = _connected([], allow_calls=allow_calls)
    async with viewing(ViewerOptions(servers=servers)) as client:
        await _listed(servers)
        pages = [(await client.get(path)).text for path in ("/servers", "/servers/shop")]
    async with Toolbox(servers.config) as elsewhere:
        await elsewhere.ready()
        version = elsewhere.status()["shop"].protocol_version

    for page in pages:
        assert (str(version) in page) is not allow_calls
        assert ("both eras of the protocol" in page) is allow_calls


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
