"""What servers say of their tools can be fetched from code with and without a loop."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from plait.agents.servers import afetch_tool_descriptions, fetch_tool_descriptions
from plait.errors import AgentServerConnectError
from plait.testing import running_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server() as server:
        yield server.url


@pytest.mark.anyio
async def test_descriptions_are_fetched_and_filtered(url: str) -> None:
    everything = await afetch_tool_descriptions({"a": url})
    # Blocks the loop of this test, which must not matter.
    some = fetch_tool_descriptions({"a": url}, ["add_numbers"])

    assert set(some) == {"add_numbers"}
    assert set(everything) > set(some)
    assert everything["add_numbers"] == some["add_numbers"] != ""
    assert await afetch_tool_descriptions({}) == {}


@pytest.mark.anyio
async def test_tools_of_the_same_name_do_not_hide_each_other(url: str) -> None:
    found = await afetch_tool_descriptions({"a": url, "b": url}, ["add_numbers"])

    assert set(found) == {"a__add_numbers", "b__add_numbers"}


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"

        with pytest.raises(AgentServerConnectError) as failed:
            fetch_tool_descriptions({"gone": address})

    assert failed.value.server_name == "gone"
