"""Requests: which attempts are repeated, after which pause, and how they end."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from plait._support.http_requests import HttpReply, send_request, with_retries
from plait.errors import BackendError, PlaitError
from tests.clock import FakeClock


def _error(text: str = "busy", **options: Any) -> BackendError:
    settings: dict[str, Any] = {"retry": "always", **options}
    return BackendError(text, **settings)


def _counted(error: PlaitError, attempts: int) -> PlaitError:
    return BackendError(f"{error.message}, {attempts} times")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("errors", "delays", "options", "outcome", "pauses"),
    [
        pytest.param(
            [_error()] * 2, [1, 2, 4], {}, "answer", [1, 2], id="repeated after the policy's pauses"
        ),
        pytest.param(
            [_error()] * 3, [1, 2], {}, "busy, 3 times", [1, 2], id="the last error has the number"
        ),
        pytest.param(
            [_error("refused", retry="never", retry_after=1)],
            [1, 2],
            {},
            "refused",
            [],
            id="an error that a retry cannot change is raised at once",
        ),
        pytest.param(
            [_error(retry_after=seconds) for seconds in (0.5, 60, 61)],
            [2, 2, 2],
            {"max_retry_after_seconds": 60},
            "busy, 3 times",
            [0.5, 60],
            id="the server decides about the pause but not about a long one",
        ),
        pytest.param(
            [_error()] * 3,
            [1, 2, 4],
            {"deadline": 3},
            "busy, 2 times",
            [1],
            id="no attempt starts after the deadline",
        ),
    ],
)
async def test_attempts_are_repeated(
    errors: list[BackendError],
    delays: list[float],
    options: dict[str, Any],
    outcome: str,
    pauses: list[float],
) -> None:
    clock, left = FakeClock(), iter(errors)

    async def attempt() -> str:
        for error in left:
            raise error
        return "answer"

    asked = with_retries(attempt, delays=delays, clock=clock, give_up=_counted, **options)
    if outcome == "answer":
        assert await asked == outcome
    else:
        with pytest.raises(BackendError) as raised:
            await asked
        assert raised.value.message == outcome
        assert (raised.value is errors[0]) is (len(errors) == 1)
    assert clock.pauses == pauses


def test_a_reply_has_an_object_only_if_it_is_one() -> None:
    assert HttpReply(200, b'{"a": 1}').json_object() == {"a": 1}
    assert HttpReply(200, b"[1]").json_object() is None
    assert HttpReply(200, b"\xff{").json_object() is None
    assert HttpReply(200, b"[" * 100_000).json_object() is None
    assert HttpReply(200, b"a\xffb").text == "a\ufffdb"
    assert [HttpReply(status, b"").is_success for status in (199, 200, 299, 300)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.anyio
async def test_the_timeout_of_a_client_does_not_end_a_request_early() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx2.AsyncClient(timeout=0.05, trust_env=False) as client:
        reply = await send_request(client, "GET", f"http://127.0.0.1:{port}/", timeout_seconds=30)

    assert reply.status == 200
