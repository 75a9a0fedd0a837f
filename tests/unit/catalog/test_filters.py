"""Which tools of a server are offered."""

from __future__ import annotations

import pytest

from plait.catalog.filters import is_offered
from plait.catalog.tool import Tool
from plait.config.servers import StdioServer


def _offered(name: str, include: list[str] | None, exclude: list[str]) -> bool:
    server = StdioServer(command="x", include=include, exclude=exclude)
    return is_offered(Tool(server="s", wire_name=name, name="public"), server)


@pytest.mark.parametrize(
    ("name", "include", "exclude", "offered"),
    [
        ("read", None, [], True),
        ("read", [], [], False),
        ("read", ["read"], [], True),
        ("read", ["write"], [], False),
        ("read", ["r*"], [], True),
        ("Read", ["r*"], [], False),
        ("read", ["*"], ["read"], False),
        ("read", None, ["re?d"], False),
        ("read", None, ["write"], True),
        ("read", ["read"], ["*"], False),
        ("public", None, ["public"], False),
        ("read", ["public"], [], False),
    ],
)
def test_include_comes_first_then_exclude_and_both_mean_wire_names(
    name: str, include: list[str] | None, exclude: list[str], offered: bool
) -> None:
    assert _offered(name, include, exclude) is offered
