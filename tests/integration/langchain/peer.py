"""The deliberate differences from `langchain-mcp-adapters`, as rows of the migration page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migration.md"

DIFFERENCES = frozenset(
    {
        "Modules",
        "Sessions",
        "Content of a single text",
        "Ids of content blocks",
        "A result without content",
        "Embedded resources",
        "Links to resources",
        "Audio",
        "Artifact",
        "Structured content without text",
        "Metadata of a tool",
        "Class of a tool",
        "Two servers with one tool name",
        "Connection lost, timeout, HTTP error during a call",
        "`${VAR}` that is not set",
        "MCP types",
        "HTTP client",
        "Arguments",
        "Prompts with other content than text",
        "Information about a server",
        "A session that is already initialized",
        "Texts of errors",
        "Client in `async with`",
        "Content blocks served by `to_fastmcp`",
        "Failures served by `to_fastmcp`",
    }
)
"""The first cells of their rows."""


def differs(row: str) -> Callable[[T], T]:
    """Mark a test that shows a difference; the rest of the test is what both do."""
    assert row in DIFFERENCES, row

    def mark(test: T) -> T:
        SHOWN.add(row)
        return test

    return mark


SHOWN: set[str] = set()
"""The rows that a test shows."""


def rows_of_page() -> set[str]:
    """Return the first cells of the table of differences on the migration page."""
    section = PAGE.read_text().split("## What is different on purpose")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| ") for line in lines[2:]}
