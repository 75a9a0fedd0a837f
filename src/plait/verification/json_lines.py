"""Append-only files of JSON objects, one in a line, that stay valid when their writer is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from plait._support.files import write_atomically


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Append objects to a file, which only its owner may read if it is new."""
    data = _encoded(values)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # the last writer was killed in the middle of a line
                data = b"\n" + data
        file.write(data)


def replace_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Replace the objects of a file; its readers see those before, or the new ones."""
    write_atomically(path, _encoded(values).decode(), mode=0o600)


def _encoded(values: Iterable[Mapping[str, Any]]) -> bytes:
    lines = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, if it is there; lines that were cut off are left out."""
    if not path.is_file():
        return
    # Not `splitlines`: texts contain what it takes for the end of a line, such as U+2028.
    for line in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)
