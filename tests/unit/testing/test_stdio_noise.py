"""Noise on stdout, kind by kind."""

from __future__ import annotations

import io
import json
from typing import get_args

import pytest

from plait.testing.faults.options import NoiseKind
from plait.testing.faults.serve import BOM, HALF, NoisyStdout, noisy_chunks

LINE = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "é"}}, ensure_ascii=False) + "\n"


def written(*kinds: NoiseKind, first: bool = False) -> bytes:
    return b"".join(noisy_chunks(LINE, kinds, first=first))


def test_without_noise_a_line_is_written_as_it_is() -> None:
    assert noisy_chunks(LINE, (), first=True) == [LINE.encode()]


@pytest.mark.parametrize("kind", get_args(NoiseKind))
def test_the_message_is_always_there(kind: NoiseKind) -> None:
    assert LINE.rstrip().encode() in written(kind, first=True)


@pytest.mark.parametrize("kind", ["banner", "bom"])
def test_a_banner_and_a_byte_order_mark_come_once(kind: NoiseKind) -> None:
    assert written(kind, first=True) != LINE.encode()
    assert written(kind, first=False) == LINE.encode()


def test_the_byte_order_mark_is_the_first_thing_on_the_wire() -> None:
    assert written("banner", "bom", first=True).startswith(BOM)


def test_half_a_line_is_glued_to_the_message() -> None:
    assert written("half") == HALF + LINE.encode()


def test_bad_utf8_is_a_line_of_its_own() -> None:
    bad, message, _ = written("utf8").split(b"\n")
    with pytest.raises(UnicodeDecodeError):
        bad.decode()
    assert message == LINE.rstrip().encode()


def test_a_split_line_is_written_in_two_pieces() -> None:
    first, second = noisy_chunks(LINE, ["split"], first=False)
    assert first + second == LINE.encode()


def test_lines_may_end_as_on_windows() -> None:
    assert written("crlf") == LINE.rstrip().encode() + b"\r\n"


def test_noisy_stdout_tells_when_a_message_has_left() -> None:
    wire = io.BytesIO()
    sizes: list[int] = []
    stdout = NoisyStdout(wire, ["banner"], lambda: sizes.append(len(wire.getvalue())))

    stdout.write(LINE)
    stdout.write(LINE)

    assert sizes == [len(wire.getvalue()) - len(LINE.encode()), len(wire.getvalue())]
    assert wire.getvalue().endswith(LINE.encode() * 2)
