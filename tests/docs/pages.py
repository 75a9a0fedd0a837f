"""The Markdown pages of the project, and the marked blocks in them.

A comment above a block says what it is: `file: PATH` quotes a file, `output: PATH` is what the
program prints, `session: FOLDER` are commands run in a copy of the folder. Paths are relative to
the page. `…` in an output stands for anything on the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"

_BLOCK = re.compile(
    r"<!-- (?P<kind>file|output|session): (?P<path>\S+) -->\n```(?P<language>\w+)\n"
    r"(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

Kind = Literal["file", "output", "session"]


@dataclass(frozen=True)
class Block:
    """A block that belongs to a file."""

    page: Path
    target: Path
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.target.name}"


def pages() -> list[Path]:
    """Return every page of the repository."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@cache
def blocks(kind: Kind) -> Sequence[Block]:
    """Return the marked blocks of every page."""
    return tuple(block for page in pages() for block in _blocks_of(page, kind))


def _blocks_of(page: Path, kind: Kind) -> Iterator[Block]:
    for found in _BLOCK.finditer(page.read_text()):
        if found["kind"] == kind:
            target = (page.parent / found["path"]).resolve()
            yield Block(page, target, found["language"], found["text"])


def matches(expected: str, printed: str) -> bool:
    """Compare an output with the one on a page, line by line."""
    pattern = re.escape(expected.rstrip()).replace("…", ".*")
    return re.fullmatch(pattern, printed.rstrip()) is not None
