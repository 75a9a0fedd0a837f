"""Noise on the stdout of a stdio server: banners, bad encodings and stray output."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from typing import BinaryIO

from plait.testing.faults.options import NoiseKind

BANNER = b"*** fault server, starting ***\nLoading models...\n\n"
HALF = b"progress: 50% "
BAD_UTF8 = b"caf\xe9 \xff\xfe \xc3\x28\n"
BIG_LINE = b"#" * (1024 * 1024) + b"\n"
BOM = b"\xef\xbb\xbf"


def noisy_chunks(line: str, kinds: Collection[NoiseKind], *, first: bool) -> list[bytes]:
    """Return the chunks to write to stdout for one line of JSON.

    `banner` and `bom` come once, before the first line; `crlf` ends each line; `utf8` and
    `biglines` are lines of their own before each; `half` is text without a line end, glued to
    the front; `split` writes the line in two pieces.
    """
    message = line.rstrip("\n").encode()
    end = b"\r\n" if "crlf" in kinds else b"\n"
    chunks: list[bytes] = []
    if first and "bom" in kinds:
        chunks.append(BOM)
    if first and "banner" in kinds:
        chunks.append(BANNER)
    if "utf8" in kinds:
        chunks.append(BAD_UTF8)
    if "biglines" in kinds:
        chunks.append(BIG_LINE)
    if "half" in kinds:
        chunks.append(HALF)
    if "split" in kinds:
        middle = len(message) // 2
        return [*chunks, message[:middle], message[middle:] + end]
    return [*chunks, message + end]


class NoisyStdout(io.TextIOWrapper):
    """A text file that adds noise to every written line of JSON."""

    def __init__(
        self, wire: BinaryIO, kinds: Collection[NoiseKind], on_written: Callable[[], None]
    ) -> None:
        super().__init__(wire, encoding="utf-8", newline="")
        self._kinds = kinds
        self._on_written = on_written
        self._first = True

    def write(self, text: str, /) -> int:
        """Write a line with its noise, chunk by chunk."""
        for chunk in noisy_chunks(text, self._kinds, first=self._first):
            self.buffer.write(chunk)
            self.buffer.flush()
        self._first = False
        self._on_written()
        return len(text)
