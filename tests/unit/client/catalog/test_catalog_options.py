"""What a client and its servers want of the tools, taken together."""

from __future__ import annotations

import pytest

from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.tool import Tool
from plait.client.config.servers import StdioServer

TOOLS = [Tool(server="s", wire_name=name, name=name) for name in ("read", "rename", "write")]


@pytest.mark.parametrize(
    ("client", "server", "offered"),
    [
        (CatalogOptions(), StdioServer(command="x"), ["read", "rename", "write"]),
        (CatalogOptions(), StdioServer(command="x", include=["r*"], exclude=["read"]), ["rename"]),
        (CatalogOptions(include=["r*"]), StdioServer(command="x"), ["read", "rename"]),
        (CatalogOptions(include=["r*"]), StdioServer(command="x", include=["write"]), ["write"]),
        (CatalogOptions(exclude="read"), StdioServer(command="x", exclude=["write"]), ["rename"]),
        (CatalogOptions(include=[]), StdioServer(command="x"), []),
        (
            CatalogOptions(tool_filter=lambda tool: False),
            StdioServer(command="x", include=["*"]),
            [],
        ),
    ],
)
def test_a_servers_include_wins_and_every_exclude_holds(
    client: CatalogOptions, server: StdioServer, offered: list[str]
) -> None:
    wanted = client.filter_for(server)

    assert [tool.wire_name for tool in TOOLS if wanted.offers(tool)] == offered
