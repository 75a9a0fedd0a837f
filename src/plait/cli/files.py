"""Read what the command line names: a file, or stdin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def reader_for(words: Iterable[str]) -> Callable[[str], str]:
    """Return a function that gives the text of a file; `-` is stdin.

    Stdin is read at once if a word asks for it: nothing else may wait while a person types.
    It may be used once or many times; the function raises `OSError` or `UnicodeDecodeError`
    for a file that cannot be read.
    """
    uses_stdin = any(word in {"-", "@-"} or word.endswith("=@-") for word in words)
    typed = sys.stdin.buffer.read() if uses_stdin else b""

    def read_text(path: str) -> str:
        data = typed if path == "-" else Path(path).expanduser().read_bytes()
        return data.decode("utf-8-sig")

    return read_text
