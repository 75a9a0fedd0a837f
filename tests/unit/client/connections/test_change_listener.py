"""Which changes a server promises to announce."""

from __future__ import annotations

from typing import Any

import pytest

from plait.client.connections.change_listener import announced_lists


@pytest.mark.parametrize(
    ("capabilities", "lists"),
    [
        (None, set[str]()),
        ({}, set[str]()),
        ({"tools": {"listChanged": False}}, set[str]()),
        ({"tools": {"listChanged": True}}, {"tools"}),
        (
            {"tools": {}, "prompts": {"listChanged": True}, "resources": {"listChanged": True}},
            {"prompts", "resources"},
        ),
        ({"tools": None, "prompts": [1]}, set[str]()),
    ],
)
def test_only_what_a_server_announces_is_listened_to(
    capabilities: dict[str, Any] | None, lists: set[str]
) -> None:
    assert announced_lists(capabilities) == lists
