"""Starting the server that counts, and reading what it counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.testing import ServerProcess
from tests.nursery import python

PROGRAM = str(Path(__file__).with_name("counting_server.py"))


@dataclass(frozen=True)
class Counting:
    """A server that counts, and how to reach it."""

    folder: Path
    config: dict[str, Any]

    def lists(self) -> int:
        """Say how often the tools were listed."""
        return self._count("tools/list")

    def calls(self) -> int:
        return self._count("tools/call")

    def _count(self, method: str) -> int:
        log = self.folder / "requests"
        lines = log.read_text().splitlines() if log.exists() else []
        return Counter(line.split()[0] for line in lines)[method]


@contextmanager
def counting(folder: Path, transport: str, *flags: str) -> Generator[Counting]:
    folder.mkdir(exist_ok=True)
    (folder / "tools").write_text("read_a b")
    command = [*python(), PROGRAM, str(folder), *flags]
    if transport == "stdio":
        yield Counting(folder, {"command": command[0], "args": command[1:]})
        return
    with ServerProcess([*command, "--port", "{port}"]) as server:
        yield Counting(folder, {"url": server.url})
