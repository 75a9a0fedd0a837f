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
from collections.abc import AsyncGenerator, Iterable

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
@example([b"one\ntw", b"o"])
@example([])
def test_however_the_bytes_arrive_the_lines_are_the_same(chunks: list[bytes]) -> None:
    *lines, last = b"".join(chunks).split(b"\n")

    assert _run_lines(chunks) == [*lines, *([last] if last else [])]


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


async def test_reading_pauses_while_too_much_waits(pipe: Pipe) -> None:
    reader = LineProtocol()
    transport = PipeReader(pipe.read_end, reader)
    line = b"x" * 65_535
    sending = asyncio.ensure_future(pipe.writer.send((line + b"\n") * 100))
    await asyncio.sleep(0.2)
    assert not sending.done()
    for _ in range(100):
        assert await reader.next_line() == line
    await sending
    transport.close()


async def test_a_pipe_is_read_to_its_end(pipe: Pipe) -> None:
    lines = LineProtocol()
    PipeReader(pipe.read_end, lines)
    os.write(pipe.write_end, b"one\ntwo\n")
    pipe.writer.close()
    os.close(pipe.write_end)

    assert [await lines.next_line() for _ in range(3)] == [b"one", b"two", None]


async def test_a_pipe_is_not_read_after_closing(pipe: Pipe) -> None:
    closed = LineProtocol()
    PipeReader(pipe.read_end, closed).close()
    os.write(pipe.write_end, b"late\n")

    assert await closed.next_line() is None
    assert pipe.read() == b"late\n"


class Pipe:
    """A pipe with a writer."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.writer = PipeWriter(self.write_end)
        self.unwritten: list[int] = []
        self.writer.on_broken = self.unwritten.append

    def read(self, count: int = 100) -> bytes:
        try:
            return os.read(self.read_end, count)
        except BlockingIOError:
            return b""

    async def drain(self, count: int) -> bytes:
        """Read exactly this many bytes, letting the loop write in between."""
        data = b""
        with anyio.fail_after(5):
            while len(data) < count:
                data += self.read(count - len(data))
                await asyncio.sleep(0)
        return data

    def more_than_it_takes(self, times: int = 2) -> bytes:
        is_linux = sys.platform.startswith("linux")
        return (
            b"a" * times * (fcntl.fcntl(self.write_end, fcntl.F_GETPIPE_SZ) if is_linux else 65536)
        )

    async def start(self, data: bytes) -> asyncio.Task[int]:
        sending = asyncio.create_task(self.writer.send(data))
        await asyncio.sleep(0)
        return sending


@pytest.fixture
async def pipe() -> AsyncGenerator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.writer.close()
    for end in (pipe.read_end, pipe.write_end):
        with contextlib.suppress(OSError):
            os.close(end)


async def test_a_small_message_is_written_at_once(pipe: Pipe) -> None:
    assert await pipe.writer.send(b"hello\n") == 6
    assert await pipe.writer.send(b"again\n") == 12

    assert pipe.read() == b"hello\nagain\n"


async def test_large_messages_of_many_senders_wait_for_the_reader_and_do_not_mix(
    pipe: Pipe,
) -> None:
    lines = [bytes([65 + index]) * 150_000 + b"\n" for index in range(8)]

    sending = [asyncio.create_task(pipe.writer.send(line)) for line in lines]
    data = await pipe.drain(sum(map(len, lines)))
    await asyncio.gather(*sending)

    assert sorted(data.splitlines(keepends=True)) == lines
    assert pipe.writer.reached_bytes() == len(data)


async def test_a_cancelled_sender_leaves_no_half_message_behind(pipe: Pipe) -> None:
    big = pipe.more_than_it_takes(3) + b"\n"
    sending = await pipe.start(big)
    pipe.read()
    assert pipe.writer.reached_bytes() < len(big)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    after = await pipe.start(b"next\n")

    assert await pipe.drain(len(big) + 5 - 100) == big[100:] + b"next\n"
    await after


async def test_what_nobody_can_read_any_more_counts_as_never_read(pipe: Pipe) -> None:
    first = await pipe.writer.send(b"first\n")
    second = await pipe.writer.send(b"second\n")
    os.read(pipe.read_end, first)

    os.close(pipe.read_end)

    assert first <= pipe.writer.reached_bytes() < second
    pipe.writer.close()
    assert pipe.writer.reached_bytes() == first


async def test_what_a_reader_may_still_read_counts_as_read(pipe: Pipe) -> None:
    end = await pipe.writer.send(b"pay\n")
    stopped = os.dup(pipe.read_end)  # of a process that is stopped, or of a child of the reader
    os.close(pipe.read_end)
    try:
        assert pipe.writer.reached_bytes() == end

        pipe.writer.close()
        os.close(pipe.write_end)

        assert os.read(stopped, 100) == b"pay\n"
        assert pipe.writer.reached_bytes() == end
    finally:
        os.close(stopped)


async def test_a_line_that_lacks_only_its_newline_counts_as_sent(pipe: Pipe) -> None:
    line = pipe.more_than_it_takes(1) + b"\n"
    sending = await pipe.start(line)

    os.close(pipe.read_end)

    with anyio.fail_after(5):
        assert await sending == len(line)


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "during a long write"])
async def test_a_reader_that_is_gone_breaks_the_pipe(pipe: Pipe, is_early: bool) -> None:
    if is_early:
        os.close(pipe.read_end)
    sending = await pipe.start(pipe.more_than_it_takes())
    if not is_early:
        os.close(pipe.read_end)

    with pytest.raises(anyio.BrokenResourceError), anyio.fail_after(5):
        await sending
    with pytest.raises(anyio.BrokenResourceError):
        await pipe.writer.send(b"hello\n")


async def test_closing_ends_those_who_wait_and_leaves_the_file_to_its_owner(pipe: Pipe) -> None:
    waiting = await pipe.start(pipe.more_than_it_takes())

    pipe.writer.close()
    pipe.writer.close()

    with pytest.raises(anyio.ClosedResourceError), anyio.fail_after(5):
        await waiting
    with pytest.raises(anyio.ClosedResourceError):
        await pipe.writer.send(b"late\n")
    while pipe.read():
        pass
    assert os.write(pipe.write_end, b"still open") == 10


async def test_messages_posted_in_one_turn_of_the_loop_arrive_in_order(pipe: Pipe) -> None:
    ends = [pipe.writer.post(b"%d\n" % number, is_alone=number == 0) for number in range(5)]
    assert pipe.read() == b"0\n"  # it does not wait for others
    await asyncio.sleep(0)

    assert pipe.read() == b"1\n2\n3\n4\n"
    assert ends == [2, 4, 6, 8, 10]
    assert pipe.writer.reached_bytes() == 10


async def test_the_reader_gets_the_first_of_many_posted_messages_early(pipe: Pipe) -> None:
    for number in range(20):
        pipe.writer.post(b"%02d\n" % number)
    early = pipe.read()
    await asyncio.sleep(0)

    assert len(early) == 16 * 3
    assert early + pipe.read() == b"".join(b"%02d\n" % number for number in range(20))


async def test_a_message_of_another_thread_does_not_overtake_posted_ones(pipe: Pipe) -> None:
    pipe.writer.post(b"first\n")
    pipe.writer.post(b"second\n")
    await asyncio.to_thread(pipe.writer.post, b"third\n")

    assert await pipe.drain(19) == b"first\nsecond\nthird\n"


async def test_posted_messages_wait_for_a_full_pipe(pipe: Pipe) -> None:
    messages = [pipe.more_than_it_takes(1) + b"%d\n" % index for index in range(4)]
    for message in messages:
        pipe.writer.post(message)

    assert await pipe.drain(sum(map(len, messages))) == b"".join(messages)


async def test_posted_messages_that_a_broken_pipe_did_not_take_are_reported(pipe: Pipe) -> None:
    first = pipe.writer.post(b"first\n", is_alone=True)
    pipe.writer.post(b"second\n")
    os.close(pipe.read_end)
    for _ in range(3):
        await asyncio.sleep(0)

    assert pipe.unwritten == [first]
    with pytest.raises(anyio.BrokenResourceError):
        pipe.writer.post(b"third\n")


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "about to end"])
async def test_nothing_is_posted_to_a_reader_that_is_gone_or_about_to_end(
    pipe: Pipe, is_refused: bool
) -> None:
    end = pipe.writer.post(b"pay\n")  # and written at the end of the turn
    if is_refused:
        pipe.writer.refuse()
    else:
        pipe.writer.is_doomed = lambda: True
    with pytest.raises(anyio.BrokenResourceError):
        pipe.writer.post(b"alone\n", is_alone=True)
    for _ in range(3):
        await asyncio.sleep(0)

    assert end > pipe.unwritten[0] == 0
    assert pipe.read() == b""
    assert pipe.writer.reached_bytes() == 0


async def test_what_another_thread_has_written_counts_as_soon_as_it_can_be_read(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, go_on = threading.Event(), threading.Event()
    write = os.write

    def preempted(fd: int, data: bytes) -> int:
        """Write, and be held up before the caller learns of it."""
        taken = write(fd, data)
        written.set()
        assert go_on.wait(5)
        return taken

    monkeypatch.setattr(os, "write", preempted)
    sending = asyncio.create_task(asyncio.to_thread(pipe.writer.write, b"0123456789"))
    assert await asyncio.to_thread(written.wait, 5)
    assert pipe.read() == b"0123456789"
    counting = asyncio.create_task(asyncio.to_thread(pipe.writer.reached_bytes))
    await asyncio.wait([counting], timeout=0.1)
    go_on.set()

    assert await sending == 10
    assert await counting == 10
