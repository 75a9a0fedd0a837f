"""Which tools are offered."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.tool import Tool
from plait.client.config.servers import StdioServer
from plait.errors import ConfigError


def _tool(name: str = "read", server: str = "files", **hints: bool) -> Tool:
    annotations = {f"{hint}_hint": value for hint, value in hints.items()}
    return Tool(server=server, wire_name=name, name="public", annotations=annotations)


def _included(pattern: object, tool: Tool) -> bool:
    return ToolFilter.of(include=[pattern]).offers(tool)


@pytest.mark.parametrize(
    ("name", "include", "exclude", "offered"),
    [
        ("read", None, [], True),
        ("read", None, None, True),
        ("read", [], [], False),
        ("read", ["read"], [], True),
        ("read", "read", [], True),
        ("read", "r", [], False),
        ("read", ["write"], [], False),
        ("read", ["write", "read"], [], True),
        ("read", ["r*"], [], True),
        ("Read", ["r*"], [], False),
        ("read", ["*"], ["read"], False),
        ("read", None, ["re?d"], False),
        ("read", None, "read", False),
        ("read", None, ["write"], True),
        ("read", ["read"], ["*"], False),
        ("public", None, ["public"], False),
        ("read", ["public"], [], False),
    ],
)
def test_include_comes_first_then_exclude_and_both_mean_wire_names(
    name: str, include: Any, exclude: Any, offered: bool
) -> None:
    assert ToolFilter.of(include=include, exclude=exclude).offers(_tool(name)) is offered


MATCHING = (
    *("files/read", "files/*", "*/read", "re:ea", "re:^files/r", "re:(?i)READ"),
    *("re:^(read|write)$", re.compile("^re"), re.compile("^files/")),
    lambda tool: tool.server == "files",
)
OTHERS = (
    *("web/read", "web/*", "files", "f*", "re:^f", "re:^web/", "re:READ"),
    *(re.compile("^f"), re.compile("write")),
    lambda tool: tool.name == "other",
)


@pytest.mark.parametrize("pattern", [*MATCHING, *OTHERS])
def test_a_pattern_may_name_the_server_and_one_without_a_slash_never_means_it(
    pattern: object,
) -> None:
    assert _included(pattern, _tool("read", "files")) is (pattern in MATCHING)


@pytest.mark.parametrize("name", ["a[1]", "re:x(", "@read_only", "@!destructive", "a/b", "*"])
def test_a_tool_is_meant_by_its_very_name_whatever_else_that_says(name: str) -> None:
    tool = _tool(name, destructive=True)

    if name != "re:x(":
        assert _included(name, tool)
        assert not ToolFilter.of(exclude=name).offers(tool)
    assert _included(f"files/{name}", tool)
    assert _included("a[12]", _tool("a1"))


@given(st.text(), st.text())
def test_the_name_of_a_tool_means_it(server: str, name: str) -> None:
    tool = _tool(name, server)

    assert tool.is_called(name)
    assert tool.is_called(f"{server}/{name}")


HINTED: dict[str, dict[str, bool]] = {
    "silent": {},
    "reader": {"read_only": True},
    "odd reader": {"read_only": True, "destructive": True},
    "adder": {"read_only": False, "destructive": False},
    "setter": {"idempotent": True, "open_world": False},
}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("@read_only", {"reader", "odd reader"}),
        ("@readOnlyHint", {"reader", "odd reader"}),
        ("@!read_only", {"silent", "adder", "setter"}),
        ("@not read_only", {"silent", "adder", "setter"}),
        ("@destructive", {"silent", "setter"}),
        ("@!destructive", {"reader", "odd reader", "adder"}),
        ("@idempotent", {"reader", "odd reader", "setter"}),
        ("@open_world", {"silent", "reader", "odd reader", "adder"}),
        ("@! openWorld", {"setter"}),
        ({"read_only": True}, {"reader", "odd reader"}),
        ({"readOnlyHint": False, "destructive_hint": False}, {"adder"}),
        ({"idempotent": True, "open_world": True}, {"reader", "odd reader"}),
        ({"read_only": True, "destructive": True}, set[str]()),
    ],
)
def test_annotations_choose_tools_and_silence_counts_as_danger(
    pattern: object, names: set[str]
) -> None:
    tools = [_tool(name, "files", **hints) for name, hints in HINTED.items()]

    assert {tool.wire_name for tool in tools if _included(pattern, tool)} == names


def test_a_single_pattern_of_any_kind_needs_no_list_and_several_may_be_a_set() -> None:
    assert ToolFilter.of(include={"read", "write"}).offers(_tool())
    for pattern in ("read", re.compile("read"), {"read_only": True}, lambda tool: True):
        assert ToolFilter.of(include=pattern).offers(_tool(read_only=True))
        assert not ToolFilter.of(exclude=pattern).offers(_tool(read_only=True))


def test_the_function_is_asked_last_and_only_about_what_is_left() -> None:
    asked: list[str] = []

    def agrees(tool: Tool) -> bool:
        asked.append(tool.wire_name)
        return tool.wire_name == "a"

    tool_filter = ToolFilter.of(include="[abc]", exclude="c", tool_filter=agrees)
    offered = [name for name in "abcd" if tool_filter.offers(_tool(name))]

    assert offered == ["a"]
    assert asked == ["a", "b"]


def test_a_refusal_says_what_refuses() -> None:
    tool_filter = ToolFilter.of("[abc]", "c", lambda tool: tool.wire_name == "a")

    assert [tool_filter.refusal(_tool(name)) for name in "abcd"] == [
        *(None, "refused by tool_filter", "in exclude", "not in include"),
    ]


def _fails(tool: Tool) -> bool:
    raise ValueError(f"no {tool.wire_name}")


@pytest.mark.parametrize("setting", ["include", "exclude", "tool_filter"])
def test_a_function_that_fails_refuses_the_tool_and_is_logged_once_per_tool(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "plait.client.catalog")
    tool_filter = ToolFilter.of(**{setting: _fails})

    assert [tool_filter.refusal(_tool(name)) for name in "aab"] == [f"{setting} failed"] * 3
    assert [record.getMessage() for record in caplog.records] == [
        f"files/a is not offered: {setting} failed",
        f"files/b is not offered: {setting} failed",
    ]
    assert "ValueError: no a" in caplog.text


def test_a_function_that_turns_out_to_be_async_offers_nothing() -> None:
    async def agrees(tool: Tool) -> bool:
        return True

    assert ToolFilter.of(tool_filter=lambda tool: agrees(tool)).refusal(_tool()) == (
        "tool_filter failed"
    )


async def _agrees(tool: Tool) -> bool:
    return True


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"include": ["re:("]}, ["include", '"re:("', "regular expression"]),
        ({"exclude": ["re:*"]}, ["exclude", '"re:*"']),
        ({"include": "@readonl"}, ['"@readonl"', "read-only"]),
        ({"include": "@"}, ['"@"', "open-world"]),
        ({"include": "@scope/tool"}, ['"[@]scope/tool"']),
        ({"exclude": [{"destructif": True}]}, ['"destructif"', 'did you mean "destructive"']),
        ({"exclude": [{"destructive": "yes"}]}, ["destructive", "a string"]),
        ({"exclude": [{"destructive": True, "destructiveHint": False}]}, ["destructive"]),
        ({"exclude": [{}]}, ["exclude", '"*"']),
        ({"include": 3}, ["include", "a number"]),
        ({"include": [None]}, ["include", "null"]),
        ({"include": [re.compile(b"x")]}, ["include", "Pattern"]),
        ({"tool_filter": "read"}, ["tool_filter", "a function", "a string"]),
        ({"tool_filter": _agrees}, ["tool_filter", "async"]),
        ({"include": [_agrees]}, ["include", "async"]),
    ],
)
def test_what_cannot_be_understood_is_refused_at_once(
    settings: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        ToolFilter.of(**settings)

    for part in parts:
        assert part in caught.value.message


def test_a_filter_made_directly_is_checked_too_and_equals_one_of_the_same_patterns() -> None:
    with pytest.raises(ConfigError):
        ToolFilter(include=("re:(",))
    assert ToolFilter.of("a", ["b"]) == ToolFilter(("a",), ("b",))


LISTED = [_tool("read_file"), _tool("write_file"), _tool("search", "web")]


@pytest.mark.parametrize(
    ("include", "unknown"),
    [
        (None, []),
        (["read_file", "search", "files/read_file"], []),
        (["raed_file"], [("raed_file", "read_file")]),
        (["readFile"], [("readFile", "read_file")]),
        (["delete"], [("delete", None)]),
        (["delete", "delete"], [("delete", None)]),
        (["web/serch"], [("web/serch", "web/search")]),
        (["web/read_file"], [("web/read_file", None)]),
        (["shop/pay"], []),
        (["del*", "re:del", "@read_only", "x[1]", re.compile("x"), {"read_only": True}], []),
    ],
)
def test_names_that_no_tool_has_are_found_with_the_nearest(
    include: Any, unknown: list[tuple[str, str | None]]
) -> None:
    assert ToolFilter.of(include).unknown_names(LISTED) == unknown


@given(
    st.lists(st.sampled_from(["a", "b", "a*", "s/a", "re:b", "@read_only"])),
    st.lists(st.sampled_from(["a", "b", "b*", "s/a", "re:a", "@destructive"])),
    st.sampled_from(["a", "b", "ab"]),
)
def test_more_in_exclude_never_offers_more_and_more_in_include_never_less(
    include: list[str], exclude: list[str], name: str
) -> None:
    tool = _tool(name, "s")
    offered = ToolFilter.of(include[1:], exclude[1:]).offers(tool)

    assert ToolFilter.of(include, exclude[1:]).offers(tool) or not offered
    assert offered or not ToolFilter.of(include[1:], exclude).offers(tool)


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
