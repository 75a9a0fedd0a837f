"""The words that stand where something is left out, and that say how to read on."""

from __future__ import annotations

import json
from dataclasses import dataclass

CUT = "plait/cut"
"""The key under which a shortened object says so."""

_LONGEST_PATH = 200
"""A longer path is not written out; the one of a value around it leads there too."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How to get at what is left out of one block of a result."""

    handle: str

    reader: str
    """The name under which the model knows the tool that reads on."""

    block: int | None = None
    """Which block; `None` where there is only one."""

    base: str | None = "$"
    """The path of the value that is cut, or `None` where no path leads to it."""

    def to_read(
        self, *, path: str | None = None, start: int | None = None, block: int | None = None
    ) -> str:
        """Write the call that reads on."""
        asked: dict[str, object] = {
            "handle": self.handle,
            "block": self.block if block is None else block,
            "path": path,
            "start": start,
        }
        written = (f"{name}={json.dumps(one)}" for name, one in asked.items() if one is not None)
        return f"{self.reader}({', '.join(written)})"

    def text_line(self, left_out: int, total: int, start: int) -> str:
        """Say how much of a text is left out, and where it goes on."""
        read = self.to_read(start=start)
        return f"\n[… {left_out} of {total} characters are left out here; to read on: {read} …]\n"

    def block_line(self, what: str, block: int) -> str:
        """Say that a block is left out."""
        return f"[{what}, left out; to read it: {self.to_read(block=block)}]"

    def blocks_line(self, first: int, total: int) -> str:
        """Say that all blocks from one on are left out."""
        read = self.to_read(block=first)
        return f"[{total - first} more blocks are left out; to read on: {read}]"

    def inner(self, what: str, path: str | None, start: int) -> str:
        """Say, inside a value, what is left out of it; the value itself names the handle."""
        where = "" if path is None or len(path) > _LONGEST_PATH else f", path={path}"
        return f"…[{what} left out{where}, start={start}]"

    def outer(self, what: str, start: int | None) -> str:
        """Say at the root of a value that something is left out, and how to read it."""
        path = self.base if self.base is None or len(self.base) <= _LONGEST_PATH else None
        return f"{what} left out; to read on: {self.to_read(path=path, start=start)}"
