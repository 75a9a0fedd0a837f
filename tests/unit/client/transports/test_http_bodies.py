"""Bodies are decompressed, and read as the events that httpx2 finds, however they are cut."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.transports.http_bodies import (
    MAX_IGNORED_BYTES,
    PIECE_BYTES,
    BodyDecoder,
    EventParser,
    ServerEvent,
)

LINES = st.sampled_from(
    [
        "data: {}",
        "data:x",
        "data",
        "data: ",
        "data:  two spaces",
        "data: snow ☃",
        "event: message",
        "event: other",
        "id: 7",
        "id",
        "id: a\x00b",
        "retry: 10",
        "retry: soon",
        ": a comment",
        "unknown: x",
        "",
        "",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=14).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


def parsed(chunks: Iterable[bytes], max_event_size: int | None = None) -> list[ServerEvent]:
    parser = EventParser(max_event_size)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [*events, *parser.end()]


def as_httpx2(stream: bytes) -> list[ServerEvent]:
    headers = {"content-type": "text/event-stream"}
    request = httpx2.Request("GET", "http://server.test")
    response = httpx2.Response(200, headers=headers, content=stream, request=request)
    return [
        ServerEvent(event.event, event.data.encode(), event.id, event.retry)
        for event in httpx2.EventSource(response, max_event_size=None)
    ]


@given(STREAMS.filter(lambda stream: not stream.endswith(b"\r")))
def test_events_are_those_that_httpx2_reads(stream: bytes) -> None:
    assert parsed([stream]) == as_httpx2(stream)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=6))
def test_it_does_not_matter_where_the_bytes_are_cut(stream: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(bounds)]

    assert parsed(pieces) == parsed([stream])
    assert parsed(stream[index : index + 1] for index in range(len(stream))) == parsed([stream])


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (
            b"id: 1\nretry: 20\ndata: a\ndata: b\n\ndata: c\n\n",
            [(b"a\nb", "1", 20), (b"c", "1", None)],
        ),
        *(
            (b"retry: " + b"9" * digits + b"\ndata: a\n\n", [(b"a", "", None)])
            for digits in (9, 5_000)
        ),
        (b"data: a\r\r", [(b"a", "", None)]),
        (b"data: a\r", []),
    ],
    ids=["fields", "back in a day", "back in years", "ended by a return", "not ended"],
)
def test_an_event_has_what_its_lines_say(stream: bytes, events: list[Any]) -> None:
    assert parsed([stream]) == [ServerEvent("message", *event) for event in events]


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_an_event_larger_than_allowed_is_an_error_before_it_ends(pieces: int) -> None:
    line = b"data: " + b"x" * 100
    step = len(line) // pieces + 1
    chunks = [line[start : start + step] for start in range(0, len(line), step)]

    with pytest.raises(httpx2.SSEError, match="exceeded the 50 byte limit"):
        parsed(chunks, 50)


def test_the_limit_is_for_one_event_and_not_for_comments() -> None:
    stream = b": " + b"x" * 40 + b"\ndata: " + b"x" * 30 + b"\n\n"

    assert len(parsed([stream * 20], 45)) == 20


def test_lines_of_one_event_count_together() -> None:
    with pytest.raises(httpx2.SSEError):
        parsed([b"data: 12345\n" * 5], 45)


def test_millions_of_lines_of_data_take_little_memory() -> None:
    parser = EventParser(None)
    piece = b"data:\n" * 1000
    tracemalloc.start()
    try:
        for _ in range(200):
            assert [*parser.feed(piece)] == []
        (event,) = parser.feed(b"\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert event.data == b"\n" * 199_999
    assert peak < 2_000_000


def decoded(chunks: list[bytes]) -> bytes:
    decoder, pieces = BodyDecoder(), list[bytes]()
    for chunk in chunks:
        rest = chunk
        while rest:
            piece, rest = decoder.decode(rest)
            assert len(piece) <= PIECE_BYTES
            pieces.append(piece)
    decoder.end()
    return b"".join(pieces)


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.binary(max_size=5), st.integers(1)
)
def test_the_members_of_a_body_are_joined_however_it_is_cut(
    parts: list[bytes], padding: bytes, step: int
) -> None:
    padding = padding.replace(b"\x1f", b"\0")
    body = b"".join(map(gzip.compress, parts)) + padding
    chunks = [body[start : start + step] for start in range(0, len(body), min(step, len(body)))]

    assert decoded(chunks) == b"".join(parts)


def test_what_grows_without_end_comes_in_small_pieces() -> None:
    assert decoded([gzip.compress(b"x" * 1_000_000)]) == b"x" * 1_000_000
    assert decoded([zlib.compress(b"x" * 1_000_000)]) == b"x" * 1_000_000


WHOLE = gzip.compress(b"whole")


@pytest.mark.parametrize(
    "body",
    [WHOLE[:-1], WHOLE[:-8], WHOLE[:-15], b"hello"],
    ids=["without a byte", "without its end", "half", "plain"],
)
def test_what_is_cut_off_or_not_compressed_is_an_error(body: bytes) -> None:
    with pytest.raises(httpx2.DecodingError, match="incorrect" if body == b"hello" else "cut off"):
        decoded([body])


def test_few_bytes_behind_the_end_are_ignored_and_many_are_an_error() -> None:
    chunk = b"x" * (MAX_IGNORED_BYTES // 4)

    assert decoded([gzip.compress(b"done"), *[chunk] * 4]) == b"done"
    with pytest.raises(httpx2.DecodingError, match="does not end"):
        decoded([gzip.compress(b"done"), *[chunk] * 5])
