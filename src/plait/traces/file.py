"""The file that a trace is written to, while it happens."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Lock

logger = logging.getLogger("plait.traces")


class TraceFile:
    """Appends whole lines; each one is with the system when `write` returns.

    So a run that is killed leaves all that had happened. Several runs, and several processes, may
    write to one file. The file is readable by its owner only: a trace tells what an agent saw.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file, and make it and its folder if need be.

        Raises:
            OSError: It cannot be written.
        """
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._file: int | None = os.open(self.path, flags, 0o600)
        self._lock = Lock()
        self._torn = _ends_torn(self._file)
        self._full = False

    def write(self, line: bytes) -> None:
        """Append a line; that it cannot be written is logged once, and ends nothing."""
        with self._lock:
            if self._file is None:
                return
            try:
                self._append(b"\n" + line if self._torn else line)
            except OSError as error:
                self._torn = True
                if not self._full:
                    self._full = True
                    logger.warning("the trace %s cannot be written: %s", self.path, error.strerror)

    def close(self) -> None:
        """Close the file; what is written afterwards is lost."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101  # the lock is held, and it was looked at
        # In one go, so that lines of several writers do not mix.
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False


def _ends_torn(file: int) -> bool:
    """Say whether a writer was killed in the middle of the last line."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
