"""Only this launch, this host and this origin reach the pages of the viewer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from plait.cli.commands.view import view
from plait.viewer.app import ViewerOptions, guarded_app
from plait.viewer.guard import Guard

pytestmark = pytest.mark.anyio

HOME = "http://127.0.0.1:7411"
SIGNED = {"X-Plait-View": "1"}
PROTECTION = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    return guarded_app(ViewerOptions(paths=[tmp_path], names=["viewer.test"]), port=7411)


def browser(guard: Guard, base: str = HOME) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=base)


async def sign_in(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/sign-in", content=token, headers=SIGNED)


async def test_without_the_token_there_is_only_the_way_to_sign_in(guard: Guard) -> None:
    async with browser(guard) as client:
        for path in ("/", "/runs", "/servers", "/thinking", "/reports", "/compare?a=x&b=y"):
            reply = await client.get(path)
            assert reply.status_code == 401, path
            assert "needs its token" in reply.text
        client.cookies.set("plait-view-7411", "guessed")
        assert (await client.get("/runs")).status_code == 401
        assert (await sign_in(client, "guessed")).status_code == 403
        assert (await client.get("/assets/viewer.js")).status_code == 200


async def test_only_this_machine_is_served_by_default() -> None:
    options = {option.name: option.default for option in view.params}
    assert options["host"] == ViewerOptions().host == "127.0.0.1"


async def test_the_token_opens_the_pages_and_its_cookie_is_for_this_site_only(guard: Guard) -> None:
    async with browser(guard) as client:
        reply = await sign_in(client, guard.token)

        assert reply.status_code == 204
        cookie = reply.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/runs")).status_code == 200


async def test_the_token_of_a_command_line_works_once(guard: Guard) -> None:
    ticket = guard.take_ticket()
    async with browser(guard) as client:
        assert (await sign_in(client, ticket)).status_code == 204
    async with browser(guard) as other:
        assert (await sign_in(other, ticket)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example:7411", "127.0.0.1", "127.0.0.1:80", ""])
async def test_a_request_under_another_name_is_refused(guard: Guard, host: str) -> None:
    async with browser(guard) as client:
        await sign_in(client, guard.token)

        assert (await client.get("/runs", headers={"Host": host})).status_code == 421


async def test_of_two_hosts_or_origins_none_counts(guard: Guard) -> None:
    async with browser(guard) as client:
        await sign_in(client, guard.token)
        own, other = ("Host", "127.0.0.1:7411"), ("Host", "evil.example:7411")
        for headers in ([own, other], [other, own]):
            assert (await client.get("/runs", headers=headers)).status_code == 421
        mine, foreign = ("Origin", HOME), ("Origin", "http://evil.example")
        for headers in ([mine, foreign], [foreign, mine]):
            assert (await client.get("/runs", headers=headers)).status_code == 403


async def test_a_web_socket_is_refused_before_the_pages_see_it() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await Guard(app, hosts=["127.0.0.1"], port=7411)({"type": "websocket"}, receive, send)

    assert seen == []
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_a_name_that_was_allowed_is_served(guard: Guard) -> None:
    async with browser(guard, "http://viewer.test:7411") as client:
        await sign_in(client, guard.token)

        assert (await client.get("/runs")).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8000"])
async def test_a_request_of_another_site_is_refused(guard: Guard, origin: str) -> None:
    async with browser(guard) as client:
        await sign_in(client, guard.token)

        assert (await client.get("/runs", headers={"Origin": origin})).status_code == 403
        posted = await client.post("/servers/check", headers={"Origin": origin, **SIGNED})
        assert posted.status_code == 403


async def test_what_changes_something_needs_a_header_of_its_own(guard: Guard) -> None:
    async with browser(guard) as client:
        await sign_in(client, guard.token)

        assert (await client.post("/servers/check", content="{}")).status_code == 403
        assert (await client.post("/sign-in", content=guard.token)).status_code == 403
        large = await client.post("/servers/check", content=b"x" * 1_000_001, headers=SIGNED)
        assert large.status_code == 413

        async def endless() -> AsyncIterator[bytes]:
            yield b"x"

        unknown = await client.post("/servers/check", content=endless(), headers=SIGNED)
        assert unknown.status_code == 413  # its length is not known


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused_before_anything_else_is_read(
    guard: Guard, method: str
) -> None:
    async with browser(guard) as client:
        reply = await client.request(method, "/sign-in", content=guard.token)

    assert reply.status_code == 405
    assert "set-cookie" not in reply.headers


async def test_every_answer_forbids_foreign_code_and_frames(guard: Guard) -> None:
    async with browser(guard) as client:
        answers = [await client.get("/runs"), await client.get("/assets/plait.js")]
        await sign_in(client, guard.token)
        answers += [await client.get("/runs"), await client.get("/nowhere")]

    for reply in answers:
        assert {name: reply.headers[name] for name in PROTECTION} == PROTECTION


async def test_pages_contain_no_script_and_no_style_of_their_own(guard: Guard) -> None:
    async with browser(guard) as client:
        await sign_in(client, guard.token)
        for path in ("/runs", "/servers", "/thinking", "/reports", "/nowhere"):
            text = (await client.get(path)).text
            assert "<script>" not in text
            assert "<style" not in text
            assert " style=" not in text
            assert "http://" not in text
            assert "https://" not in text
