"""Bodies are decompressed in pieces, whatever they hold and however they are cut."""

from __future__ import annotations

import gzip
import zlib

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.transports.http_decoding import MAX_IGNORED_BYTES, PIECE_BYTES, BodyDecoder


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


@pytest.mark.parametrize("cut", [1, 8, 15])
def test_a_body_that_is_cut_off_is_an_error(cut: int) -> None:
    with pytest.raises(httpx2.DecodingError, match="cut off"):
        decoded([gzip.compress(b"whole")[:-cut]])


def test_what_is_not_compressed_is_an_error() -> None:
    with pytest.raises(httpx2.DecodingError):
        decoded([b"hello"])


def test_few_bytes_behind_the_end_are_ignored_and_many_are_an_error() -> None:
    chunk = b"x" * (MAX_IGNORED_BYTES // 4)

    assert decoded([gzip.compress(b"done"), *[chunk] * 4]) == b"done"
    with pytest.raises(httpx2.DecodingError, match="does not end"):
        decoded([gzip.compress(b"done"), *[chunk] * 5])
