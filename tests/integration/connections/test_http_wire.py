"""Requests over HTTP have the same outcome with httpx2 as without, and reuse connections."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitResult

from plait import (
    AuthRequiredError,
    ConnectError,
    ForbiddenError,
    OutcomeUnknownError,
    PlaitError,
    RateLimitedError,
    ServerError,
    Toolbox,
)
from plait.errors import EndpointNotFoundError, HttpError, ProtocolError
from tests.servers.scripted_http import (
    HANDSHAKE,
    MODERN,
    SESSION,
    Reply,
    ScriptedHttp,
    scripted_http,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.usefixtures("posted_by")]

in_pool = pytest.mark.parametrize("posted_by", ["pool"], indirect=True)
"""For what only concerns requests through the pool of plain connections."""

Json = dict[str, Any]
ERAS = ["modern", "legacy"]
RETRY_ONCE = {"reconnect": {"max_attempts": 1}}


_options: Json = {}


@pytest.fixture(params=["pool", "httpx2"])
def posted_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Post requests through the pool of plain connections, then through httpx2."""
    if request.param == "httpx2":
        monkeypatch.setitem(_options, "http_client_factory", httpx2.AsyncClient)
    return request.param


def box_for(server: ScriptedHttp, **options: Any) -> Toolbox:
    return Toolbox({"server": {"url": server.url, **_options, **options}})


async def work(box: Toolbox, **options: Any) -> str:
    return (await box.call("server", "work", options.pop("arguments", {}), **options)).text


def as_json(reply: Reply, text: str = "done") -> None:
    reply.json(reply.response(text))


def as_events(reply: Reply, text: str = "done") -> None:
    reply.start_events()
    reply.event(reply.response(text))
    reply.end()


FORMS = {"json": as_json, "events": as_events}


async def done(reply: Reply) -> None:
    as_json(reply)


def resuming(server: ScriptedHttp, answer: Callable[[], Json]) -> list[str]:
    """Have the server answer in resumed streams; return the ids after which they begin."""
    resumed: list[str] = []

    async def get(reply: Reply) -> None:
        last = reply.seen.headers.get("last-event-id")
        if last is None:
            reply.status(405)
            return
        assert reply.seen.headers["mcp-session-id"] == SESSION
        resumed.append(last.encode("latin-1").decode())
        reply.start_events()
        reply.event(answer(), event_id="e2")
        reply.end()

    server.on_get = get
    return resumed


def methods_of(server: ScriptedHttp) -> list[str | None]:
    return [seen.method for seen in server.seen]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("form", FORMS)
async def test_calls_one_after_the_other_share_a_connection(era: str, form: str) -> None:
    async def answer(reply: Reply) -> None:
        FORMS[form](reply)

    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        for _ in range(5):
            assert await work(box) == "done"

        assert len({seen.connection for seen in server.calls()}) <= 2


@pytest.mark.parametrize("era", ERAS)
async def test_the_headers_of_the_session_the_tool_and_the_configuration_are_sent(era: str) -> None:
    headers = {"X-Team": "blue", "User-Agent": "mine", "Accept": "text/plain"}
    async with scripted_http(done, era=era) as server, box_for(server, headers=headers) as box:
        await work(box)
        (call,) = server.calls()

    assert call.path == "/mcp"
    sent = {name: call.headers.get(name) for name in ("host", "x-team", "user-agent", "accept")}
    assert sent == {
        "host": server.url.split("/")[2],
        "x-team": "blue",
        "user-agent": "mine",
        "accept": "application/json, text/event-stream",
    }
    assert call.headers["content-type"] == "application/json"
    assert call.headers.get("mcp-session-id") == (SESSION if era == "legacy" else None)
    assert call.headers["mcp-protocol-version"] == (HANDSHAKE if era == "legacy" else MODERN)
    assert call.headers.get("mcp-name") == ("work" if era == "modern" else None)


@in_pool
async def test_only_the_plain_case_leaves_httpx2() -> None:
    async with scripted_http(done) as server:
        for options, encoding in (
            ({}, "identity"),
            ({"headers": lambda: {"X-Team": "blue"}}, "gzip"),
            ({"auth": httpx2.Auth()}, "gzip"),
            ({"httpx_client_factory": httpx2.AsyncClient}, "gzip"),
        ):
            async with box_for(server, **options) as box:
                await work(box)
            assert server.calls()[-1].headers["accept-encoding"].startswith(encoding), options


@in_pool
@pytest.mark.parametrize(
    ("no_proxy", "encoding"), [("", None), ("127.0.0.1", "identity"), ("*", "identity")]
)
async def test_a_proxy_is_used_unless_the_environment_excludes_the_host(
    no_proxy: str, encoding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_http(done) as server:
        # The scripted server is its own proxy: it serves absolute URLs as well.
        proxy = server.url.removesuffix("/mcp")
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", no_proxy)
        async with box_for(server) as box:
            await work(box)
        (call,) = server.calls()

    if encoding is None:
        assert call.path == server.url
        assert "gzip" in call.headers["accept-encoding"]
    else:
        assert call.path == "/mcp"
        assert call.headers["accept-encoding"] == encoding


def failing(status: int, headers: Json | None = None, body: bytes = b"") -> Any:
    async def answer(reply: Reply) -> None:
        reply.status(status, headers, body)

    return answer


def raw(data: bytes, *, cut: bool = False) -> Any:
    async def answer(reply: Reply) -> None:
        reply.send(data)
        if cut:
            await reply.writer.drain()
            reply.cut()

    return answer


def _as_gzip(compress: Callable[[bytes], bytes]) -> Any:
    async def answer(reply: Reply) -> None:
        reply.status(200, _GZIP, compress(json.dumps(reply.response()).encode()))

    return answer


_JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
_JSON_TYPE = {"Content-Type": "application/json"}
_OTHER = b'{"jsonrpc":"2.0","id":987654321,"result":{"content":[],"resultType":"complete"}}'
_NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
_REFUSAL = json.dumps(
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "bad params"}}
).encode()

_EVENTS_TYPE = {"Content-Type": "text/event-stream"}
_GZIP = {**_JSON_TYPE, "Content-Encoding": "gzip"}

REFUSED: dict[str, tuple[Any, type[PlaitError], int | None]] = {
    "401": (failing(401, {"WWW-Authenticate": "Bearer"}), AuthRequiredError, 401),
    "403": (failing(403), ForbiddenError, 403),
    "404": (failing(404), EndpointNotFoundError, 404),
    "413": (failing(413), HttpError, 413),
    "429": (failing(429, {"Retry-After": "999"}), RateLimitedError, 429),
    "500": (failing(500, {}, b"oh no"), ServerError, 500),
    "503": (failing(503, {"Retry-After": "999"}), ServerError, 503),
    "400 with an error of JSON-RPC": (failing(400, _JSON_TYPE, _REFUSAL), ProtocolError, 400),
    "304": (failing(304), HttpError, 304),
    "303": (failing(303, {"Location": "/mcp"}), HttpError, 303),
    "another origin": (failing(307, {"Location": "http://localhost:1/x"}), HttpError, 307),
    "redirects forever": (failing(307, {"Location": "/mcp"}), HttpError, 307),
    "an error without an id": (failing(200, _JSON_TYPE, _REFUSAL), ProtocolError, None),
    "a refusal without its body": (
        raw(b"HTTP/1.1 403 No\r\nContent-Length: 99\r\n\r\nno", cut=True),
        ForbiddenError,
        403,
    ),
}
LOST: dict[str, Any] = {
    "202": failing(202),
    "204": failing(204),
    "html": failing(200, {"Content-Type": "text/html"}, b"<p>"),
    "no JSON": failing(200, _JSON_TYPE, b"{"),
    "no JSON-RPC": failing(200, _JSON_TYPE, b"[]"),
    "another id": failing(200, _JSON_TYPE, _OTHER),
    "a notification": failing(200, _JSON_TYPE, _NOTIFICATION),
    "no event that is JSON": failing(200, _EVENTS_TYPE, b"data: {broken\n\n"),
    "a truncated body": raw(_JSON_HEAD + b'99\r\n\r\n{"x', cut=True),
    "no HTTP": raw(b"hello\r\n\r\n"),
    "a huge head": raw(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n"),
    "a cut connection": raw(b"", cut=True),
    "gzip that is cut off": _as_gzip(lambda body: gzip.compress(body)[:-4]),
    "gzip with much behind it": _as_gzip(lambda body: gzip.compress(body) + b"x" * 200_000),
    "an unknown encoding": failing(200, _GZIP, b"oops"),
}
FAULTS = {**REFUSED, **{name: (fault, OutcomeUnknownError, None) for name, fault in LOST.items()}}


@pytest.mark.parametrize(
    ("fault", "era"),
    # A 404 in the handshake era means a lost session, which is opened again.
    [(fault, era) for fault in FAULTS for era in ERAS if (fault, era) != ("404", "legacy")],
)
async def test_a_fault_has_the_same_error_however_requests_are_posted(era: str, fault: str) -> None:
    answer, kind, status = FAULTS[fault]
    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        await box.tools()
        with pytest.raises(PlaitError) as caught:
            await work(box)

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.tool) == (status, "work")
    if fault in {"429", "503"}:
        assert caught.value.retry_after == 999
    if fault == "202":
        assert "202 Accepted" in str(caught.value)
    posts = 6 if fault == "redirects forever" else 1
    assert len(server.calls()) == posts


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_within_the_origin_keeps_the_request(status: int) -> None:
    async def answer(reply: Reply) -> None:
        if reply.seen.path == "/mcp":
            reply.status(status, {"Location": "/other?x=1"}, b"moved")
        else:
            as_json(reply, reply.seen.path)

    async with scripted_http(answer) as server, box_for(server) as box:
        assert await work(box, arguments={"a": 1}) == "/other?x=1"
        first, second = server.calls()

    assert first.message == second.message
    kept = {"mcp-protocol-version", "mcp-name", "content-type", "host"}
    assert {name: first.headers[name] for name in kept} == {
        name: second.headers[name] for name in kept
    }


async def test_a_forgotten_session_is_replaced_once_for_all_calls() -> None:
    known = SESSION

    async def answer(reply: Reply) -> None:
        if reply.seen.headers["mcp-session-id"] == known:
            as_json(reply)
        else:
            reply.status(404)

    async with scripted_http(answer, era="legacy") as server, box_for(server) as box:
        for _ in range(2):
            assert await work(box) == "done"
        known = "session-2"
        server.handshake_headers["Mcp-Session-Id"] = known
        assert await asyncio.gather(*(work(box) for _ in range(10))) == ["done"] * 10
        assert methods_of(server).count("initialize") == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_is_gone_did_not_get_the_request(era: str) -> None:
    async with scripted_http(done, era=era) as server:
        box = await box_for(server, **RETRY_ONCE).__aenter__()
        await box.tools()
    try:
        with pytest.raises(PlaitError) as caught:
            await work(box)
        assert not isinstance(caught.value, OutcomeUnknownError)
    finally:
        await box.__aexit__(None, None, None)


@pytest.mark.parametrize("form", FORMS)
async def test_64_calls_at_once_get_their_own_answers(form: str) -> None:
    together = asyncio.Event()

    async def answer(reply: Reply) -> None:
        if len(server.calls()) == 64:
            together.set()
        await together.wait()
        FORMS[form](reply, reply.seen.message["params"]["arguments"]["n"])

    async with scripted_http(answer) as server, box_for(server) as box:
        await box.tools()
        texts = await asyncio.gather(
            *(work(box, arguments={"n": str(number)}) for number in range(64))
        )
        assert texts == [str(number) for number in range(64)]


@pytest.mark.parametrize("form", FORMS)
async def test_20_megabytes_arrive_whole_in_both_directions(form: str) -> None:
    async def answer(reply: Reply) -> None:
        FORMS[form](reply, reply.seen.message["params"]["arguments"]["text"])

    text = "0123456789" * 2_000_000
    async with scripted_http(answer) as server, box_for(server) as box:
        assert await work(box, arguments={"text": text}) == text


@pytest.mark.parametrize(
    "compress",
    [
        gzip.compress,
        lambda body: gzip.compress(body[:9]) + gzip.compress(b"") + gzip.compress(body[9:]),
        lambda body: gzip.compress(body) + b"\r\n",
    ],
    ids=["one member", "three members", "a line end behind it"],
)
async def test_an_encoded_answer_is_decoded(compress: Callable[[bytes], bytes]) -> None:
    async with scripted_http(_as_gzip(compress)) as server, box_for(server) as box:
        assert await work(box) == "done"


@in_pool
async def test_the_events_of_an_encoded_stream_keep_their_order() -> None:
    async def answer(reply: Reply) -> None:
        token = reply.seen.message["params"]["_meta"]["progressToken"]

        def progress(number: int, text: str = "") -> bytes:
            params = {"progressToken": token, "progress": number, "message": text}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            return f"data: {json.dumps(message)}\n\n".encode()

        # What follows the first event is decompressed while that is parsed in a thread.
        numbers = range(1, 1500)
        events = progress(0, "x" * 2_000_000) + b"".join(map(progress, numbers))
        fields = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
        last = f"data: {json.dumps(reply.response())}\n\n".encode()
        reply.status(200, fields, gzip.compress(events + last))

    steps: list[float] = []
    async with scripted_http(answer) as server, box_for(server) as box:
        assert await work(box, on_progress=lambda step, *_: steps.append(step)) == "done"
    assert steps == [*range(1500)]


@in_pool
async def test_an_answer_in_an_encoding_that_nobody_requested_names_it() -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response(), {"Content-Encoding": "br"})

    async with scripted_http(answer) as server, box_for(server) as box:
        with pytest.raises(OutcomeUnknownError, match="'br'"):
            await work(box)


@in_pool
@pytest.mark.parametrize("form", FORMS)
async def test_a_large_answer_is_recorded(form: str, tmp_path: Path) -> None:
    async def answer(reply: Reply) -> None:
        FORMS[form](reply, "x" * 2_000_000)

    async with scripted_http(answer) as server:
        config = {"server": {"url": server.url}}
        async with Toolbox(config, record=tmp_path / "tape.jsonl") as box:
            assert len(await work(box)) == 2_000_000


@pytest.mark.parametrize("when", ["handshake", "call"])
async def test_the_cookies_of_a_sticky_session_are_kept(when: str) -> None:
    async def answer(reply: Reply) -> None:
        cookie = {"Set-Cookie": "node=7"} if when == "call" else {}
        reply.json(reply.response(reply.seen.headers.get("cookie", "none")), cookie)

    async with scripted_http(answer) as server:
        if when == "handshake":
            server.handshake_headers["Set-Cookie"] = "node=7"
        async with box_for(server) as box:
            texts = [await work(box) for _ in range(3)]

    assert texts == (["none"] if when == "call" else ["node=7"]) + ["node=7"] * 2
    assert "gzip" in server.calls()[-1].headers["accept-encoding"]


async def test_a_cancelled_call_closes_its_response_in_the_modern_era() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def answer(reply: Reply) -> None:
        reply.start_events()
        started.set()
        while not reply.hung_up.is_set():
            reply.chunk(b": still working\n\n")
            await asyncio.sleep(0.05)
        ended.set()

    async with scripted_http(answer) as server, box_for(server) as box:
        await box.tools()
        call = asyncio.ensure_future(work(box))
        async with asyncio.timeout(5):
            await started.wait()
            call.cancel()
            await ended.wait()
        assert "notifications/cancelled" not in methods_of(server)


async def test_a_cancelled_call_is_announced_in_the_handshake_era() -> None:
    started = asyncio.Event()
    finish = asyncio.Event()

    async def answer(reply: Reply) -> None:
        started.set()
        await finish.wait()
        as_json(reply)

    def cancelled() -> list[Json]:
        wanted = "notifications/cancelled"
        return [seen.message for seen in server.seen if seen.method == wanted]

    async with scripted_http(answer, era="legacy") as server, box_for(server) as box:
        await box.tools()
        call = asyncio.ensure_future(work(box))
        await started.wait()
        call.cancel()
        await server.until(lambda: bool(cancelled()))
        (first,) = server.calls()
        assert cancelled()[0]["params"]["requestId"] == first.message["id"]
        notice = next(seen for seen in server.seen if seen.method == "notifications/cancelled")
        assert notice.headers["mcp-session-id"] == SESSION
        assert notice.headers["mcp-protocol-version"] == HANDSHAKE
        finish.set()
        assert await work(box) == "done"


async def test_a_silent_server_times_out_as_configured() -> None:
    async def answer(reply: Reply) -> None:
        await reply.hung_up.wait()

    async with scripted_http(answer) as server, box_for(server, sse_read_timeout=0.3) as box:
        await box.tools()
        with pytest.raises(OutcomeUnknownError, match="ReadTimeout"):
            await work(box)


@pytest.mark.parametrize("size", [1000, None])
async def test_an_event_may_have_the_configured_size(size: int | None) -> None:
    async def answer(reply: Reply) -> None:
        as_events(reply, "x" * 2000)

    async with scripted_http(answer) as server, box_for(server, max_sse_event_size=size) as box:
        if size is None:
            assert await work(box) == "x" * 2000
        else:
            with pytest.raises(PlaitError, match="exceeded the 1000 byte limit"):
                await work(box)


@pytest.mark.parametrize("era", ERAS)
async def test_events_that_cannot_be_read_do_not_discard_the_answer_behind_them(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        for broken in ("{broken", "[1, 2]", '{"jsonrpc": "2.0", "id": '):
            reply.event(broken)
        reply.event(reply.response())
        reply.end()

    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        for _ in range(5):
            assert await work(box) == "done"
        assert box.status()["server"].noise_lines == 15

    shown = [record for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}]
    assert len(shown) == 1
    assert shown[0].exc_info is None


@pytest.mark.parametrize("era", ERAS)
async def test_a_read_whose_answer_cannot_be_read_is_repeated(era: str) -> None:
    calls = 0

    async def answer(reply: Reply) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            reply.status(200, _JSON_TYPE, b"{")
        else:
            as_json(reply)

    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        server.annotations = {"readOnlyHint": True}
        result = await box.call("server", "work")

        assert (result.text, result.attempts) == ("done", 2)
        assert box.status()["server"].sessions == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("era", ERAS)
async def test_no_caller_gets_the_answer_to_the_question_of_another(era: str, form: str) -> None:
    asked: dict[str, Reply] = {}
    both_asked = asyncio.Event()

    async def answer(reply: Reply) -> None:
        name = reply.seen.message["params"]["arguments"]["name"]
        asked[name] = reply
        if len(asked) == 2:
            both_asked.set()
        await both_asked.wait()
        (other,) = asked.keys() - {name}
        message = asked[other].response(f"mail for {other}")
        if form == "json":
            reply.json(message)
            return
        reply.start_events()
        reply.event(message, event_id="e1")
        reply.end()

    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        await box.tools()
        calls = (work(box, arguments={"name": name}) for name in ("ann", "bob"))
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, OutcomeUnknownError)
            assert "belongs to another request" in str(outcome)


@pytest.mark.parametrize("era", ERAS)
async def test_the_answer_behind_one_to_another_question_is_found(era: str) -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        reply.event({**reply.response("other"), "id": 987654321})
        reply.event({**reply.response(), "id": str(reply.seen.message["id"])})
        reply.end()

    async with scripted_http(answer, era=era) as server, box_for(server) as box:
        assert await work(box) == "done"


async def test_an_error_without_an_id_in_a_stream_answers_its_request() -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        reply.event(_REFUSAL.decode())
        reply.end()

    async with scripted_http(answer) as server, box_for(server) as box:
        with pytest.raises(ProtocolError, match="bad params"):
            await work(box)


async def test_progress_before_a_response_is_reported_in_order() -> None:
    async def answer(reply: Reply) -> None:
        token = reply.seen.message["params"]["_meta"]["progressToken"]
        reply.start_events()
        for number in range(3):
            params = {"progressToken": token, "progress": number}
            reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        reply.event(reply.response())
        reply.end()

    async with scripted_http(answer) as server, box_for(server) as box:
        await box.tools()
        steps: list[list[float]] = [[] for _ in range(8)]

        await asyncio.gather(
            *(work(box, on_progress=lambda step, *_, own=own: own.append(step)) for own in steps)
        )
        assert steps == [[0, 1, 2]] * 8


async def test_a_question_on_the_stream_of_a_call_is_answered_by_that_call() -> None:
    answers: dict[str, asyncio.Future[Json]] = {}

    async def answer(reply: Reply) -> None:
        name = reply.seen.message["params"]["arguments"]["name"]
        answers[name] = asyncio.get_running_loop().create_future()
        if len(answers) == 8:
            together.set()
        await together.wait()
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"mode": "form", "message": name, "requestedSchema": schema}
        reply.start_events()
        reply.event(
            {"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params}
        )
        answered = await answers[name]
        reply.event(reply.response(answered["result"]["content"]["name"]))
        reply.end()

    async def refuse(context: object, params: object) -> ElicitResult:
        del context, params
        return ElicitResult(action="decline")

    def heard() -> None:
        for seen in server.seen:
            future = answers.get(str(seen.message.get("id")))
            if "result" in seen.message and future is not None and not future.done():
                future.set_result(seen.message)

    together = asyncio.Event()
    async with scripted_http(answer, era="legacy") as server:
        server.on_request = heard
        config = {"server": {"url": server.url}}
        async with Toolbox(config, on_elicitation=lambda _: refuse) as box:
            await box.tools()

            async def call(name: str) -> str:
                async def on_elicitation(context: object, params: Any) -> ElicitResult:
                    del context
                    assert params.message == name
                    return ElicitResult(action="accept", content={"name": name})

                return await work(box, arguments={"name": name}, on_elicitation=on_elicitation)

            names = [f"call {number}" for number in range(8)]
            assert await asyncio.gather(*map(call, names)) == names


@pytest.mark.parametrize(
    ("event_id", "text", "cuts"),
    [("e1", "resumed", False), ("e1", "x" * 2_000_000, True), ("\u00e9 \u2603", "resumed", False)],
    ids=["ended", "cut before a large answer", "an id that is not ASCII"],
)
async def test_a_stream_that_ends_after_an_event_with_an_id_is_resumed(
    event_id: str, text: str, cuts: bool
) -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        reply.event("", event_id=event_id, retry=10)
        lost.append(reply.response(text))
        await reply.writer.drain()
        reply.cut() if cuts else reply.end()

    lost: list[Json] = []
    async with scripted_http(answer, era="legacy") as server:
        resumed = resuming(server, lambda: lost[-1])
        async with box_for(server) as box:
            for _ in range(2):
                assert await work(box, timeout_seconds=5) == text
    assert len(server.calls()) == 2
    assert resumed == [event_id] * 2


@in_pool
async def test_headers_that_cannot_be_made_for_a_resumption_lose_the_answer() -> None:
    is_cut = False

    async def answer(reply: Reply) -> None:
        nonlocal is_cut
        reply.start_events()
        reply.event("", event_id="e1", retry=10)
        is_cut = True
        reply.end()

    def headers() -> dict[str, str]:
        if is_cut:
            raise RuntimeError("no token")
        return {}

    async with (
        scripted_http(answer, era="legacy") as server,
        box_for(server, headers=headers) as box,
    ):
        with pytest.raises(OutcomeUnknownError, match="no token"):
            await work(box, timeout_seconds=5)


async def test_an_answer_to_another_question_in_a_resumed_stream_is_not_taken() -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        reply.event("", event_id="e1", retry=10)
        reply.end()

    async with scripted_http(answer, era="legacy") as server:
        resuming(server, lambda: json.loads(_OTHER))
        async with box_for(server) as box:
            with pytest.raises(OutcomeUnknownError, match="belongs to another request"):
                await work(box, timeout_seconds=5)


async def test_a_session_id_that_cannot_be_sent_is_named_in_the_error() -> None:
    async with scripted_http(done, era="legacy") as server:
        server.handshake_headers["Mcp-Session-Id"] = "\u00e9"
        async with box_for(server, protocol="legacy", **RETRY_ONCE) as box:
            with pytest.raises(ConnectError, match="session id"):
                await work(box)


async def test_a_cookie_that_is_not_ascii_is_sent_back_or_left_out() -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response(), {"Set-Cookie": "node=\u00e9"})

    async with scripted_http(answer) as server, box_for(server) as box:
        assert [await work(box) for _ in range(3)] == ["done"] * 3


@pytest.mark.parametrize("event_id", [None, "e1"])
async def test_a_stream_that_cannot_be_resumed_loses_the_answer(event_id: str | None) -> None:
    async def answer(reply: Reply) -> None:
        if len(server.calls()) > 1:
            as_json(reply)
            return
        reply.start_events()
        reply.event("", event_id=event_id, retry=10)
        await reply.writer.drain()
        reply.cut()

    async with scripted_http(answer, era="legacy") as server, box_for(server) as box:
        with pytest.raises(OutcomeUnknownError, match="SSE stream ended"):
            await work(box)
        assert await work(box) == "done"
        # The session goes on.
        assert methods_of(server).count("initialize") == 1


@in_pool
@pytest.mark.parametrize("answers", [True, False])
async def test_requests_wait_for_the_stream_of_notifications_but_not_for_long(
    answers: bool,
) -> None:
    stream_is_open = asyncio.Event()

    async def get(reply: Reply) -> None:
        await asyncio.sleep(0.1)
        if answers:
            stream_is_open.set()
            reply.start_events()
        await reply.hung_up.wait()

    async def answer(reply: Reply) -> None:
        as_json(reply, str(stream_is_open.is_set()))

    async with scripted_http(answer, era="legacy") as server:
        server.on_get = get
        async with box_for(server, terminate_on_close=False) as box:
            assert await work(box) == str(answers)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_both_kinds_of_addresses_work(host: str) -> None:
    try:
        running = scripted_http(done, host=host)
        async with running as server, box_for(server) as box:
            assert await work(box) == "done"
    except OSError:
        pytest.skip("this machine has no IPv6")
