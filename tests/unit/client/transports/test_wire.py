"""What is noted of a session's wire: its requests, how it ends, and what is not MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from plait._support.redact import Redactor
from plait.client.protocol.exchange import (
    Exchange,
    HttpReply,
    PendingRequest,
    as_current,
    collect,
    current_exchange,
    watched_exchanges,
)
from plait.client.transports.wire import Wire, receiving

pytestmark = pytest.mark.anyio

CANARY = "c4n4ry-Zx81-qqq"


def _request(number: int = 1) -> Exchange:
    return Exchange("tools/call", number, "2025-11-25")


@contextmanager
def _sending(exchange: Exchange) -> Generator[None]:
    collect(exchange)
    with as_current(exchange):
        yield


def _wire(ends: list[str] | None = None) -> Wire:
    told = ends if ends is not None else []
    return Wire("files", Redactor([CANARY]), lambda: told.append("ended"))


def _reply(status: int = 503) -> HttpReply:
    return HttpReply(status, None, None, "", error_code=None, had_session=False)


def test_whoever_watches_sees_requests_in_order() -> None:
    first, second = _request(1), _request(2)

    with watched_exchanges() as seen:
        for exchange in (first, second):
            with _sending(exchange):
                assert current_exchange() is exchange

    assert seen.all == [first, second]
    assert seen.last is second
    assert current_exchange() is None


def test_nothing_is_seen_after_watching_ends() -> None:
    with watched_exchanges() as seen:
        pass
    with _sending(_request()):
        pass

    assert seen.all == []
    assert seen.last is None
    assert not seen.may_have_run()


async def test_tasks_started_while_watching_are_watched_and_others_are_not() -> None:
    async def send(number: int) -> None:
        with _sending(_request(number)):
            await asyncio.sleep(0)

    outsider = asyncio.create_task(send(99))
    with watched_exchanges() as seen:
        await asyncio.gather(send(1), send(2))
    await outsider

    assert sorted(str(exchange.request_id) for exchange in seen.all) == ["1", "2"]


async def test_two_watchers_see_only_their_own() -> None:
    async def watch(number: int) -> list[object]:
        with watched_exchanges() as seen:
            for _ in range(3):
                with _sending(_request(number)):
                    await asyncio.sleep(0)
        return [exchange.request_id for exchange in seen.all]

    assert await asyncio.gather(watch(1), watch(2)) == [[1, 1, 1], [2, 2, 2]]


def test_a_request_may_have_run_once_it_was_written_and_not_refused() -> None:
    exchange = _request()
    with watched_exchanges() as seen, _sending(exchange):
        assert not seen.may_have_run()
        exchange.written = True
        assert seen.may_have_run()
        exchange.reply = _reply()
        assert not seen.may_have_run()


def test_only_the_last_request_decides_whether_something_may_have_run() -> None:
    first, second = _request(1), _request(2)
    first.written = True
    with watched_exchanges() as seen:
        for exchange in (first, second):
            with _sending(exchange):
                pass

    assert not seen.may_have_run()


def test_notes_of_all_requests_are_joined() -> None:
    with watched_exchanges() as seen:
        for number in (1, 2):
            exchange = _request(number)
            exchange.notes = (f"note {number}",)
            with _sending(exchange):
                pass

    assert seen.notes == ("note 1", "note 2")


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


def test_last_words_skip_empty_lines_and_hide_secrets() -> None:
    wire = _wire()
    assert wire.last_stderr_line() is None

    lines = ["starting", f"bad key {CANARY}", "", "   "]
    wire.read_stderr = lambda: [line.encode() for line in lines]

    assert wire.last_stderr_line() == "bad key ***"


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


def test_last_words_are_one_line_of_at_most_200_characters() -> None:
    wire = _wire()

    wire.read_stderr = lambda: [b"word\t" * 500]

    assert len(wire.last_stderr_line() or "") == 200


ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


async def _receive(wire: Wire, *lines: bytes) -> None:
    for line in lines:
        await wire.receive(line)


async def test_answers_are_found_and_noisy_lines_counted() -> None:
    wire = _wire()
    for line in (ANSWER, b"banner " + ANSWER, ANSWER + b" and more"):
        wire.requests[1] = request = PendingRequest("ping", 1, "2025-11-25")
        await _receive(wire, b"", line)
        assert request.answered
    await _receive(wire, b"hello")

    assert wire.noise_lines == 3


async def test_noise_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await _receive(_wire(), b"one", b"two", b"three")

    (record,) = caplog.records
    assert "(one)" in record.getMessage()


async def test_a_long_secret_in_noise_is_not_shown_in_part(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "eyJ" + "x" * 900
    wire = Wire("files", Redactor([secret]), lambda: None)

    with caplog.at_level(logging.WARNING):
        await _receive(wire, f"got {secret} at last".encode())

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
