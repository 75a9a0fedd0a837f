"""Durable records of a test server, which show a test what it executed."""

from __future__ import annotations

import os
from pathlib import Path


class StateDir:
    """A folder of append-only text files, shared by a server, its restarts and the test.

    Every line is flushed to the disk before `append` returns, so it is there even when the
    process dies right after.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, name: str, line: str) -> None:
        """Add one line to a file of the folder, durably."""
        append_line(self.path / name, line)

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file; none when it does not exist."""
        try:
            return (self.path / name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def ledger(self) -> list[str]:
        """Return the amounts that `pay` and `pay_and_die` have committed, oldest first."""
        return self.lines("ledger")

    def reads(self) -> list[str]:
        """Return the keys of `get_and_die`, once per executed call."""
        return self.lines("reads")

    def starts(self) -> list[int]:
        """Return the process ids of every start of the server, oldest first."""
        return [int(line) for line in self.lines("starts")]

    def sessions(self, kind: str | None = None) -> list[str]:
        """Return the sessions log: `initialize PID`, `discover PID` and `connect PID` lines.

        With `kind` (the first word) only the lines of that kind.
        """
        lines = self.lines("sessions")
        return lines if kind is None else [line for line in lines if line.split()[0] == kind]


def append_line(path: Path, line: str) -> None:
    """Add one line to a file and wait until it is on the disk."""
    # One write with O_APPEND: lines of two processes never mix.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
