"""The parts of Anthropic's API that several engines share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from plait.agents.config import ModelConfig
from plait.errors import ConfigError
from plait.models.endpoints import endpoint_fault
from plait.traces.messages.from_mcp import decoded_bytes, media_line
from plait.traces.messages.message import UsageMetadata

NO_KEY: Final = "none"
"""Sent to an endpoint on this machine, which needs no key."""


def anthropic_url(config: ModelConfig, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the API, if the configuration or `ANTHROPIC_BASE_URL` sets one."""
    name, url = "anthropic_base_url", config.anthropic_base_url
    if url is None:
        name, url = "ANTHROPIC_BASE_URL", environment.get("ANTHROPIC_BASE_URL")
    if not url:
        return None
    if (fault := endpoint_fault(url, secret=True)) is not None:
        raise ConfigError(f"{name} cannot be used: {fault}")
    return url


def usage_from_anthropic(usage: object) -> UsageMetadata:
    """Convert the usage of an answer, an object or JSON."""
    inputs, outputs = (field_of(usage, "input_tokens") or 0, field_of(usage, "output_tokens") or 0)
    return UsageMetadata(
        input_tokens=inputs,
        output_tokens=outputs,
        total_tokens=inputs + outputs,
        cache_read_tokens=field_of(usage, "cache_read_input_tokens"),
        cache_creation_tokens=field_of(usage, "cache_creation_input_tokens"),
    )


def blocks_of(content: object) -> Sequence[object]:
    """Return the blocks of a message or a tool result."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(cast("Iterable[object]", content))


def line_from_block(block: object) -> str:
    """Write a block as text; a line describes what is not text."""
    match field_of(block, "type"):
        case "text":
            return str(field_of(block, "text") or "")
        case "image":
            source = field_of(block, "source")
            data = str(field_of(source, "data") or "")
            return media_line("image", field_of(source, "media_type"), decoded_bytes(data))
        case kind:
            return f"[{kind}]"


def field_of(value: object, name: str) -> Any:
    """Return a field of an object of the SDK, or of JSON; `None` if it has none."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name)
    return getattr(value, name, None)
