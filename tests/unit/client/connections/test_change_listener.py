"""Which changes a server promises to announce."""

from __future__ import annotations

import pytest
from mcp_types import (
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)

from plait.client.connections.change_listener import announced_lists


@pytest.mark.parametrize(
    ("capabilities", "lists"),
    [
        (None, set[str]()),
        (ServerCapabilities(), set[str]()),
        (ServerCapabilities(tools=ToolsCapability(list_changed=False)), set[str]()),
        (ServerCapabilities(tools=ToolsCapability(list_changed=True)), {"tools"}),
        (
            ServerCapabilities(
                tools=ToolsCapability(),
                prompts=PromptsCapability(list_changed=True),
                resources=ResourcesCapability(list_changed=True),
            ),
            {"prompts", "resources"},
        ),
    ],
)
def test_only_what_a_server_announces_is_listened_to(
    capabilities: ServerCapabilities | None, lists: set[str]
) -> None:
    assert announced_lists(capabilities) == lists
