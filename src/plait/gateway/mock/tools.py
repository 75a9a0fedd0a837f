"""Mock tools: what a file says about them, and what they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from plait.errors import ConfigError

DEFAULT_TEMPLATE = "Mock response from {{name}}"

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")

_OVERRIDES = ("responseTemplate", "response", "mockResponse", "text", "value", "output")
"""Arguments that replace the template of a tool which has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MockTool:
    """One tool that only pretends."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    response_template: str = DEFAULT_TEMPLATE
    delay_seconds: float = 0.0
    error_rate: float = 0.0
    """How often it fails, from 0 to 1."""

    status_code: int = 200
    """From 400 on, the tool says that it failed."""

    enabled: bool = True


@dataclass(frozen=True, slots=True)
class MockAnswer:
    """What a tool answers."""

    text: str
    template: str
    missing: tuple[str, ...]
    """Placeholders for which no argument was given."""


def read_mocks(path: Path) -> tuple[MockTool, ...]:
    """Read the tools of one server.

    Raises:
        ConfigError: The file is not a list of tools.
    """
    try:
        document: object = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, list):
        raise ConfigError(f"{path} is not a list of tools")
    return tuple(_tool(path, entry) for entry in cast("list[object]", document))


def _tool(path: Path, entry: object) -> MockTool:
    match entry:
        case {"name": str() as name} if name.strip():
            fields = cast("Mapping[str, Any]", entry)
        case _:
            raise ConfigError(f"{path} has a tool without a name")
    try:
        return MockTool(
            name=name,
            description=str(fields.get("description") or ""),
            input_schema=dict(fields.get("inputSchema") or {"type": "object"}),
            response_template=str(fields.get("responseTemplate") or DEFAULT_TEMPLATE),
            delay_seconds=float(fields.get("delayMs") or 0) / 1000,
            error_rate=float(fields.get("errorRate") or 0),
            status_code=int(fields.get("statusCode") or 200),
            enabled=bool(fields.get("enabled", True)),
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: the tool {name!r} is not written right: {error}") from error


def answer_of(tool: MockTool, arguments: Mapping[str, Any]) -> MockAnswer:
    """Fill in the template of a tool; a placeholder without an argument stays as it is."""
    template = tool.response_template
    if template == DEFAULT_TEMPLATE:
        given = (arguments.get(name) for name in _OVERRIDES)
        template = next((text for text in given if isinstance(text, str) and text), template)
    values = {
        name.lower(): value for name, value in ({"name": tool.name} | dict(arguments)).items()
    }
    missing: list[str] = []

    def fill(match: re.Match[str]) -> str:
        key = match[1].lower()
        if key not in values:
            missing.append(match[1])
            return match[0]
        value: object = values[key]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    text = _PLACEHOLDER.sub(fill, template)
    return MockAnswer(text, template, tuple(dict.fromkeys(missing)))
