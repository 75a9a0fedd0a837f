"""What the raw servers send is wrong in exactly the way their table says."""

from __future__ import annotations

import pytest
from mcp import types
from pydantic import ValidationError

from tests.servers.raw import payloads


def test_every_mode_is_in_the_table() -> None:
    rows = [
        line.split("|")[1].strip() for line in str(payloads.__doc__).splitlines() if "|" in line
    ]
    assert rows[2:] == list(payloads.MODES)


@pytest.mark.parametrize(
    "mode",
    [
        "unknown-block",
        "uri-only-resource",
        "image-without-type",
        "link-without-name",
        "no-content",
        "content-string",
        "content-object",
        "null-result",
    ],
)
def test_the_sdk_refuses_each_spoiled_result(mode: str) -> None:
    with pytest.raises(ValidationError):
        types.CallToolResult.model_validate(payloads.RESULTS[mode])


@pytest.mark.parametrize(
    "mode", ["tool-without-schema", "tool-with-bad-schema", "tool-without-name", "negative-ttl"]
)
def test_the_sdk_refuses_each_spoiled_list(mode: str) -> None:
    with pytest.raises(ValidationError):
        types.ListToolsResult.model_validate(payloads.list_tools(mode))


def test_the_other_results_and_lists_are_well_formed() -> None:
    types.CallToolResult.model_validate(payloads.RESULTS["good"])
    types.CallToolResult.model_validate(payloads.RESULTS["breaks-schema"])
    for mode in ("good", "two-pages", "duplicate-names", "breaks-schema"):
        types.ListToolsResult.model_validate(payloads.list_tools(mode))


def test_a_list_may_have_two_pages_or_a_name_twice() -> None:
    first = payloads.list_tools("two-pages")
    second = payloads.list_tools("two-pages", first["nextCursor"])
    twice = payloads.list_tools("duplicate-names")

    assert [tool["name"] for tool in first["tools"] + second["tools"]] == ["good", "second-page"]
    assert "nextCursor" not in second
    assert [tool["name"] for tool in twice["tools"]] == ["good", "good"]
