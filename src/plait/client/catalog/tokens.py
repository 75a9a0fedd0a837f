"""What a tool takes of a model's context, estimated without a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from plait.client.catalog.schemas import Profile, schema_for_provider
from plait.client.catalog.tool import Tool

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""

_BYTES_PER_TOKEN: Final = 4
"""What English and JSON come to with the tokenizers of all large providers, more or less."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for every four bytes of UTF-8, rounded up."""
    # A server may send half a surrogate pair, which plain UTF-8 refuses.
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def tokens_of(
    tool: Tool, profile: Profile | None = None, counter: TokenCounter | None = None
) -> int:
    """Count the tokens that a model is sent for a tool with every request.

    `counter` replaces the estimate.
    """
    return (counter or estimate_tokens)(definition_text(tool, profile))


def definition_text(tool: Tool, profile: Profile | None = None) -> str:
    """Write what a model is sent of a tool, as compact JSON: its name, description and schema.

    Each provider puts a few words of its own around it.
    """
    definition = {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "parameters": schema_for_provider(tool.input_schema, profile).schema,
    }
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"), default=str)
