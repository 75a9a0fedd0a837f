"""Tools whose arguments are named only in conditions and alternatives, for every profile.

A raw server takes everything and returns what arrived.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from plait import MultiServerMCPClient
from plait.models.schemas.for_provider import PROFILES

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]

ECHO = Path(__file__).parents[2] / "servers/raw/raw_echo.py"
STRING = {"type": "string"}
IF_THEN: Json = {
    "type": "object",
    "properties": {"mode": {"enum": ["file", "web"]}},
    "required": ["mode"],
    "if": {"properties": {"mode": {"const": "file"}}},
    "then": {"properties": {"path": STRING}, "required": ["path"]},
    "else": {"properties": {"url": STRING}, "required": ["url"]},
}
SCHEMAS: dict[str, tuple[Json, list[Json]]] = {
    "if_then": (IF_THEN, [{"mode": "file", "path": "x"}, {"mode": "web", "url": "x"}]),
    "if_then_closed": (
        IF_THEN | {"additionalProperties": False},
        [{"mode": "file", "path": "x"}, {"mode": "web", "url": "x"}, {"mode": "file", "url": "x"}],
    ),
    "if_then_required_outside": (
        IF_THEN | {"required": ["mode", "path"]},
        [{"mode": "file", "path": "x"}],
    ),
    "all_of_if_then": (
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"mode": STRING},
            "allOf": [{key: IF_THEN[key] for key in ("if", "then", "else")}],
        },
        [{"mode": "file", "path": "x"}],
    ),
    "one_of_overlapping": (
        {
            "type": "object",
            "oneOf": [
                {"properties": {"path": STRING}, "required": ["path"]},
                {"properties": {"path": STRING, "url": STRING}, "required": ["path"]},
            ],
        },
        [{"path": "x"}, {"path": "x", "url": "y"}],
    ),
    "one_of_optional": (
        {"type": "object", "oneOf": [{"properties": {"path": STRING}}, {"properties": {}}]},
        [{"path": "x"}, {}],
    ),
    "one_of_closed": (
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"mode": STRING},
            "oneOf": [
                {"properties": {"path": STRING}, "required": ["path"]},
                {"properties": {"url": STRING}, "required": ["url"]},
            ],
        },
        [{"path": "x"}, {"url": "x", "mode": "m"}, {"path": "x", "url": "y"}],
    ),
    "one_of_required": (
        {"type": "object", "oneOf": [{"required": ["path"]}, {"required": ["url"]}]},
        [{"path": "x"}, {"path": "x", "url": "y"}],
    ),
    "unknown_keyword_and_format": (
        {"type": "object", "properties": {"url": STRING | {"format": "uri", "x-check": "dns"}}},
        [{"url": "no address"}],
    ),
}


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_tool_can_be_called_and_its_schema_names_its_arguments(
    tmp_path: Path, profile: Any
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(
        json.dumps([{"name": name, "inputSchema": entry[0]} for name, entry in SCHEMAS.items()])
    )
    entry = {"command": sys.executable, "args": [str(ECHO), str(tools)]}
    async with MultiServerMCPClient({"echo": entry}) as client:
        for tool in await client.get_tools(profile=profile):
            shown = cast("Json", tool.tool_call_schema)
            for arguments in SCHEMAS[tool.name][1]:
                message = await tool.ainvoke(
                    {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}
                )
                assert message.status == "success", message.content
                assert json.loads(message.content) == arguments
                if profile != "default":  # which shows the schema of the server as it is
                    assert arguments.keys() <= shown["properties"].keys()
            if profile != "default":
                assert set(shown.get("required", ())) <= shown["properties"].keys()


async def test_a_strict_model_leaves_out_by_null_what_the_other_form_needs(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    closed = IF_THEN | {"additionalProperties": False}
    tools.write_text(json.dumps([{"name": "read", "inputSchema": closed}]))
    entry = {"command": sys.executable, "args": [str(ECHO), str(tools)]}
    async with MultiServerMCPClient({"echo": entry}) as client:
        (tool,) = await client.get_tools(profile="openai_strict")
        sent = await tool.ainvoke({"mode": "file", "path": "x", "url": None})

    assert json.loads(sent) == {"mode": "file", "path": "x"}
