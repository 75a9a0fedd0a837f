"""Schemas that are read before tools are bound."""

from __future__ import annotations

import pytest

from plait.client.catalog.tool import MAX_KEPT_TOOLS, Tool, prepare_schemas
from plait.client.protocol.tool_rows import RawRow

pytestmark = pytest.mark.anyio


def listed_tool(number: int) -> Tool:
    name = f"tool_{number}"
    row = b'{"name":"%s","description":"One.","inputSchema":{"type":"object"}}' % name.encode()
    return Tool.from_row("server", RawRow(name, row), may_mirror=False)


async def test_only_so_many_schemas_are_kept() -> None:
    tools = [listed_tool(number) for number in range(MAX_KEPT_TOOLS + 1)]

    await prepare_schemas(tools, None)

    assert [bool(tool.schemas) for tool in tools] == [True] * MAX_KEPT_TOOLS + [False]
    assert tools[0].shared_schema() is tools[0].shared_schema()
    assert tools[-1].shared_schema() == tools[0].shared_schema()
