"""What is noted of a session's wire: its requests, how it ends, and what is not MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from plait._support.redact import Redactor
from plait.client.protocol.exchange import (
    Exchanges,
    HttpReply,
    PendingRequest,
    as_current,
    collect,
    current_exchange,
)
from plait.client.transports.wire import Wire, receiving

pytestmark = pytest.mark.anyio

CANARY = "c4n4ry-Zx81-qqq"


def _request(number: int = 1, note: str = "") -> PendingRequest:
    return PendingRequest("tools/call", number, "2025-11-25", notes=(note,) if note else ())


@contextmanager
def _sending(exchange: PendingRequest) -> Generator[None]:
    collect(exchange)
    with as_current(exchange):
        yield


def _wire(ends: list[str] | None = None) -> Wire:
    told = ends if ends is not None else []
    return Wire("files", Redactor([CANARY]), lambda: told.append("ended"))


def test_whoever_watches_sees_requests_in_order_until_watching_ends() -> None:
    first, second = _request(1, "note 1"), _request(2, "note 2")

    with Exchanges() as seen:
        assert (seen.last, seen.may_have_run()) == (None, False)
        for exchange in (first, second):
            with _sending(exchange):
                assert current_exchange.get() is exchange
    with _sending(_request()):
        pass

    assert (seen.all, seen.last) == ([first, second], second)
    assert seen.notes == ("note 1", "note 2")
    assert current_exchange.get() is None


async def test_tasks_are_watched_by_who_started_them_only() -> None:
    async def send(number: int) -> None:
        for _ in range(3):
            with _sending(_request(number)):
                await asyncio.sleep(0)

    async def watch(number: int) -> list[object]:
        with Exchanges() as seen:
            await asyncio.gather(send(number), send(number + 1))
        return sorted((one.request_id for one in seen.all), key=str)

    outsider = asyncio.create_task(send(99))
    assert await asyncio.gather(watch(1), watch(5)) == [[1, 1, 1, 2, 2, 2], [5, 5, 5, 6, 6, 6]]
    await outsider


def test_the_last_request_may_have_run_once_it_was_written_and_not_refused() -> None:
    first, last = _request(1), _request(2)
    first.written = True
    with Exchanges() as seen:
        for exchange in (first, last):
            collect(exchange)
    assert not seen.may_have_run()
    last.written = True
    assert seen.may_have_run()
    last.reply = HttpReply(503, None, None, "", error_code=None, had_session=False)
    assert not seen.may_have_run()


def test_the_first_reason_for_an_end_stands_and_is_told_once() -> None:
    ends: list[str] = []
    wire = _wire(ends)
    assert not wire.ended

    wire.end("it died")
    wire.end("it was closed")

    assert wire.ended
    assert wire.end_reason == "it died"
    assert ends == ["ended"]


def test_how_a_wire_ended_is_told_by_its_process_first() -> None:
    wire = _wire()
    wire.end("the server closed the connection")
    assert wire.ending() == "the server closed the connection"

    wire.exit_code = 3
    assert wire.ending() == "the server exited (3)"
    wire.exit_code = -9
    assert wire.ending() == "the server was killed by signal 9"


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ([], None),
        (["starting", f"bad key {CANARY}", "", "   "], "bad key ***"),
        (["word\t" * 500], ("word " * 40)[:199] + "…"),
    ],
    ids=["nothing", "a secret", "one long line"],
)
def test_last_words_are_short_and_hide_secrets(lines: list[str], last: str | None) -> None:
    wire = _wire()
    wire.read_stderr = lambda: [line.encode() for line in lines]

    assert wire.last_stderr_line() == last


@pytest.mark.parametrize("before", range(3985, 4001, 3))
def test_a_secret_is_hidden_where_a_line_is_cut(before: int) -> None:
    line = "x" * before + CANARY

    shown = _wire().redacted_line(line.encode())

    assert len(shown) <= 4000
    assert CANARY[:3] not in shown


def test_only_the_last_50_lines_are_kept() -> None:
    wire = _wire()

    wire.read_stderr = lambda: [b"%d" % number for number in range(120)]

    assert wire.stderr_tail() == [str(number) for number in range(70, 120)]


ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


async def test_answers_are_found_and_noise_is_counted_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = _wire()
    with caplog.at_level(logging.WARNING):
        for line in (ANSWER, b"banner " + ANSWER, ANSWER + b" and more"):
            wire.requests[1] = request = PendingRequest("ping", 1, "2025-11-25")
            await wire.receive(b"")
            await wire.receive(line)
            assert request.answered
        await wire.receive(b"hello")

    assert wire.noise_lines == 3
    (record,) = caplog.records
    assert "(banner " in record.getMessage()


async def test_a_long_secret_in_noise_is_not_shown_in_part(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "eyJ" + "x" * 900
    wire = Wire("files", Redactor([secret]), lambda: None)

    with caplog.at_level(logging.WARNING):
        await wire.receive(f"got {secret} at last".encode())

    assert "xxx" not in caplog.text


async def test_a_message_that_cannot_be_handled_ends_the_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = Wire("shop", Redactor([CANARY]), lambda: None)
    request = wire.requests[1] = PendingRequest("tools/call", 1, "2025-11-25")

    async def work() -> None:
        raise RecursionError(CANARY)

    async with receiving(work, wire) as reading:
        await reading

    assert wire.ended
    assert request.fault is not None
    assert "could not be handled" in caplog.text
    assert CANARY not in caplog.text
