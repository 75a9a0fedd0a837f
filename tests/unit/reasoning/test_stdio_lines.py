"""Lines on standard input take no more memory than one line may have."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

from plait.reasoning.serving.stdio_server import MAX_LINE_BYTES, read_lines


def test_a_line_that_is_too_long_is_refused_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "input"
    with path.open("wb") as file:
        file.write(b"one\n")
        file.seek(4 * MAX_LINE_BYTES, os.SEEK_CUR)  # zeros that take no place on the disk
        file.write(b"\ntwo\n")
    source = os.open(path, os.O_RDONLY)

    tracemalloc.start()
    lines = list(read_lines(source))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    os.close(source)

    assert lines == [b"one", None, b"two"]
    # A buffer that grows is there twice for a moment.
    assert peak_bytes < 3 * MAX_LINE_BYTES
