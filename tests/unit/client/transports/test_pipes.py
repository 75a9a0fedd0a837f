"""Lines are split in linear time, and a pipe never carries half a message by accident."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Generator, Iterable
from contextlib import contextmanager

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plait.client.transports.pipes import LineProtocol, LineSplitter, PipeReader, PipeWriter

pytestmark = pytest.mark.anyio


async def _lines_of(chunks: Iterable[bytes]) -> list[bytes]:
    reader = LineProtocol()
    for chunk in chunks:
        reader.data_received(chunk)
    reader.connection_lost(None)
    lines: list[bytes] = []
    while (line := await reader.next_line()) is not None:
        lines.append(line)
    assert await reader.next_line() is None
    return lines


def _run_lines(chunks: Iterable[bytes]) -> list[bytes]:
    return asyncio.run(_lines_of(chunks))


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=20) | st.sampled_from([b"\n", b"\r\n", b"a\nb"])))
@example([b"a", b"\n", b"b"])
@example([b"\n"])
@example([b"a\n"])
def test_however_the_bytes_arrive_the_lines_are_the_same(chunks: list[bytes]) -> None:
    *lines, last = b"".join(chunks).split(b"\n")

    assert _run_lines(chunks) == [*lines, *([last] if last else [])]


async def test_a_last_line_without_a_newline_is_a_line() -> None:
    assert await _lines_of([b"one\ntw", b"o"]) == [b"one", b"two"]


async def test_nothing_at_all_is_no_line() -> None:
    assert await _lines_of([]) == []


async def test_a_long_line_in_small_chunks_takes_time_in_proportion() -> None:
    async def seconds_for(chunks: int) -> float:
        began = time.perf_counter()
        lines = await _lines_of([b"x" * 1024] * chunks + [b"\n"])
        assert len(lines[0]) == 1024 * chunks
        return time.perf_counter() - began

    small = min([await seconds_for(2_000) for _ in range(3)])

    assert await seconds_for(20_000) < 30 * small + 2


def test_a_long_line_in_reads_of_two_bytes_takes_memory_in_proportion() -> None:
    line = b"xy" * 200_000
    splitter = LineSplitter()
    tracemalloc.start()
    try:
        for at in range(0, len(line), 2):
            assert splitter.feed(line[at : at + 2]) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert splitter.feed(b"\n") == [line]
    assert peak < 3 * len(line)


def test_the_beginning_of_a_line_that_is_too_long_is_kept_however_it_arrives() -> None:
    found: list[tuple[bytes, bytes]] = []
    splitter = LineSplitter(100, lambda first, last: found.append((first, last)))
    for _ in range(100):
        assert splitter.feed(b"xy") == []

    assert splitter.feed(b"!\nnext\n") == [b"next"]
    assert found == [(b"xy" * 50, b"!")]


async def test_a_line_is_taken_at_once_only_if_everything_before_it_was_read() -> None:
    reader = LineProtocol()
    taken: list[bytes] = []

    def take(line: bytes) -> bool:
        taken.append(line)
        return line.startswith(b"mine")

    reader.take = take
    reader.data_received(b"mine 1\n")
    assert await reader.next_line() == b"mine 1"  # nobody was waiting yet

    waiting = asyncio.ensure_future(reader.next_line())
    await asyncio.sleep(0)
    reader.data_received(b"mine 2\nother\nmine 3\n")

    assert await waiting == b"other"
    assert taken == [b"mine 2", b"other"]
    assert await reader.next_line() == b"mine 3"


async def test_reading_pauses_while_too_much_waits() -> None:
    with _pipe() as (read, write):
        reader = LineProtocol()
        transport = PipeReader(read, reader)
        writer = PipeWriter(write)
        line = b"x" * 65_535
        sending = asyncio.ensure_future(writer.send((line + b"\n") * 100))
        await asyncio.sleep(0.2)
        assert not sending.done()
        for _ in range(100):
            assert await reader.next_line() == line
        await sending
        writer.close()
        transport.close()


async def test_a_pipe_is_read_to_its_end_and_not_after_closing() -> None:
    with _pipe() as (read, write), _pipe() as (other_read, other_write):
        lines, closed = LineProtocol(), LineProtocol()
        PipeReader(read, lines)
        PipeReader(other_read, closed).close()
        os.write(write, b"one\ntwo\n")
        os.write(other_write, b"late\n")
        os.close(write)

        assert await lines.next_line() == b"one"
        assert await lines.next_line() == b"two"
        assert await lines.next_line() is None
        assert await closed.next_line() is None
        assert os.read(other_read, 100) == b"late\n"


@contextmanager
def _pipe() -> Generator[tuple[int, int]]:
    read, write = os.pipe()
    try:
        yield read, write
    finally:
        for end in (read, write):
            with contextlib.suppress(OSError):
                os.close(end)


def _capacity(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) if sys.platform.startswith("linux") else 65536


async def _drain(fd: int, count: int) -> bytes:
    """Read exactly this many bytes, letting the loop write in between."""
    os.set_blocking(fd, False)
    data = b""
    with anyio.fail_after(5):
        while len(data) < count:
            try:
                data += os.read(fd, count - len(data))
            except BlockingIOError:
                await asyncio.sleep(0)
    return data


async def test_a_small_message_is_written_at_once() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)

        assert await writer.send(b"hello\n") == 6
        assert await writer.send(b"again\n") == 12

        assert os.read(read, 100) == b"hello\nagain\n"
        writer.close()


async def test_a_message_larger_than_the_pipe_waits_for_its_reader() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        message = bytes(range(256)) * 4096

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.send, message)
            assert await _drain(read, len(message)) == message

        assert writer.reached_bytes() == len(message)
        writer.close()


async def test_messages_of_many_senders_do_not_mix() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        lines = [bytes([65 + index]) * 50_000 + b"\n" for index in range(8)]

        sending = [asyncio.create_task(writer.send(line)) for line in lines]
        data = await _drain(read, sum(map(len, lines)))
        await asyncio.gather(*sending)

        assert sorted(data.splitlines(keepends=True)) == lines
        writer.close()


async def test_a_cancelled_sender_leaves_no_half_message_behind() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        big = b"a" * (3 * _capacity(write)) + b"\n"
        sending = asyncio.create_task(writer.send(big))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        after = asyncio.create_task(writer.send(b"next\n"))
        data = await _drain(read, len(big) + 5)
        await after

        assert data == big + b"next\n"
        writer.close()


async def test_what_nobody_can_read_any_more_counts_as_never_read() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        first = await writer.send(b"first\n")
        second = await writer.send(b"second\n")
        os.read(read, first)

        os.close(read)

        assert first <= writer.reached_bytes() < second
        writer.close()
        assert writer.reached_bytes() == first


async def test_what_a_reader_may_still_read_counts_as_read() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        end = await writer.send(b"pay\n")
        stopped = os.dup(read)  # of a process that is stopped, or of a child of the reader
        os.close(read)
        try:
            assert writer.reached_bytes() == end

            writer.close()
            os.close(write)

            assert os.read(stopped, 100) == b"pay\n"
            assert writer.reached_bytes() == end
        finally:
            os.close(stopped)


async def test_a_line_that_lacks_only_its_newline_counts_as_sent() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        line = b"a" * _capacity(write) + b"\n"
        sending = asyncio.create_task(writer.send(line))
        await asyncio.sleep(0)

        os.close(read)

        with anyio.fail_after(5):
            assert await sending == len(line)
        writer.close()


async def test_bytes_still_queued_do_not_count_as_read() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        big = b"a" * (2 * _capacity(write))
        sending = asyncio.create_task(writer.send(big))
        await asyncio.sleep(0)
        os.read(read, 100)

        assert writer.reached_bytes() < len(big)

        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        writer.close()


async def test_a_reader_that_is_gone_breaks_the_pipe() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        os.close(read)

        for _ in range(2):
            with pytest.raises(anyio.BrokenResourceError):
                await writer.send(b"hello\n")
        writer.close()


async def test_a_reader_that_goes_away_during_a_long_write_breaks_the_pipe() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        sending = asyncio.create_task(writer.send(b"a" * (2 * _capacity(write))))
        await asyncio.sleep(0)

        os.close(read)

        with pytest.raises(anyio.BrokenResourceError), anyio.fail_after(5):
            await sending
        writer.close()


async def test_closing_ends_those_who_wait_and_those_who_come_later() -> None:
    with _pipe() as (_read, write):
        writer = PipeWriter(write)
        waiting = asyncio.create_task(writer.send(b"a" * (2 * _capacity(write))))
        await asyncio.sleep(0)

        writer.close()
        writer.close()

        with pytest.raises(anyio.ClosedResourceError), anyio.fail_after(5):
            await waiting
        with pytest.raises(anyio.ClosedResourceError):
            await writer.send(b"late\n")


async def test_closing_leaves_the_file_descriptor_to_its_owner() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        writer.close()

        assert os.write(write, b"still open") == 10
        assert os.read(read, 100) == b"still open"


async def test_messages_posted_in_one_turn_of_the_loop_arrive_in_order() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)

        ends = [writer.post(b"%d\n" % number, is_alone=number == 0) for number in range(5)]
        assert os.read(read, 100) == b"0\n"  # it does not wait for others
        await asyncio.sleep(0)

        assert os.read(read, 100) == b"1\n2\n3\n4\n"
        assert ends == [2, 4, 6, 8, 10]
        assert writer.reached_bytes() == 10
        writer.close()


async def test_the_reader_gets_the_first_of_many_posted_messages_early() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)

        for number in range(20):
            writer.post(b"%02d\n" % number)
        early = os.read(read, 100)
        await asyncio.sleep(0)

        assert len(early) == 16 * 3
        assert early + os.read(read, 100) == b"".join(b"%02d\n" % number for number in range(20))
        writer.close()


async def test_a_message_of_another_thread_does_not_overtake_posted_ones() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        writer.post(b"first\n")
        writer.post(b"second\n")
        await asyncio.to_thread(writer.post, b"third\n")
        await asyncio.sleep(0)

        assert await _drain(read, 19) == b"first\nsecond\nthird\n"
        writer.close()


async def test_posted_messages_wait_for_a_full_pipe() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        messages = [bytes([65 + index]) * _capacity(write) + b"\n" for index in range(4)]
        for message in messages:
            writer.post(message)

        assert await _drain(read, sum(map(len, messages))) == b"".join(messages)
        writer.close()


async def test_posted_messages_that_a_broken_pipe_did_not_take_are_reported() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        reported: list[int] = []
        writer.on_broken = reported.append
        first = writer.post(b"first\n", is_alone=True)
        writer.post(b"second\n")
        os.close(read)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert reported == [first]
        with pytest.raises(anyio.BrokenResourceError):
            writer.post(b"third\n")
        writer.close()


async def test_nothing_is_posted_to_a_reader_that_is_about_to_end() -> None:
    with _pipe() as (read, write):
        writer = PipeWriter(write)
        reported: list[int] = []
        writer.on_broken = reported.append
        writer.post(b"queued\n")  # and written at the end of the turn
        writer.is_doomed = lambda: True

        with pytest.raises(anyio.BrokenResourceError):
            writer.post(b"alone\n", is_alone=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert reported == [0]
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 100)
        writer.close()


async def test_what_another_thread_has_written_counts_as_soon_as_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, go_on = threading.Event(), threading.Event()
    write = os.write

    def preempted(fd: int, data: bytes) -> int:
        """Write, and be held up before the caller learns of it."""
        taken = write(fd, data)
        written.set()
        assert go_on.wait(5)
        return taken

    read_end, write_end = os.pipe()
    try:
        writer = PipeWriter(write_end)
        monkeypatch.setattr(os, "write", preempted)
        sending = asyncio.create_task(asyncio.to_thread(writer.write, b"0123456789"))
        assert await asyncio.to_thread(written.wait, 5)
        assert os.read(read_end, 100) == b"0123456789"
        counting = asyncio.create_task(asyncio.to_thread(writer.reached_bytes))
        await asyncio.wait([counting], timeout=0.1)
        go_on.set()

        assert await sending == 10
        assert await counting == 10
        writer.close()
    finally:
        os.close(read_end)
        os.close(write_end)


async def test_what_was_posted_before_the_pipe_refused_is_never_written() -> None:
    read_end, write_end = os.pipe()
    try:
        writer = PipeWriter(write_end)
        unwritten: list[int] = []
        writer.on_broken = unwritten.append
        end = writer.post(b"pay\n")
        writer.refuse()
        await anyio.wait_all_tasks_blocked()

        assert end > unwritten[0] == 0
        assert writer.reached_bytes() == 0
        os.set_blocking(read_end, False)
        with pytest.raises(BlockingIOError):
            os.read(read_end, 100)
        writer.close()
    finally:
        os.close(read_end)
        os.close(write_end)
