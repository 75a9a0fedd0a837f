"""Long lists of prompts and resources are read as short ones are, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import TextContent, TextResourceContents

from plait import Toolbox
from plait.langchain import MultiServerMCPClient
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
_MANY = 2_000
"""So many items have more than 64 KB, and more than one slice."""


async def _no_call(reply: Reply) -> None:
    reply.status(500)


def _page(field: str, items: list[Json], cursor: str | None = None) -> Json:
    page: Json = {field: items, "ttlMs": 60_000, "cacheScope": "public"}
    return page if cursor is None else {**page, "nextCursor": cursor}


@ERAS
async def test_every_item_of_a_long_list_arrives_in_its_order(era: str) -> None:
    prompts = [{"name": f"prompt {n}", "arguments": [{"name": "a"}]} for n in range(_MANY)]
    resources = [{"uri": f"test:{n}", "name": f"resource {n}"} for n in range(_MANY)]
    templates = [{"uriTemplate": f"test:{n}/{{a}}", "name": f"r{n}"} for n in range(_MANY)]

    def list_prompts(params: Json) -> Json:
        if "cursor" in params:
            return _page("prompts", [{"name": "the last"}])
        return _page("prompts", prompts, "next")

    async with scripted_http(_no_call, era=era) as server:
        server.results = {
            "prompts/list": list_prompts,
            "resources/list": lambda _: _page("resources", resources),
            "resources/templates/list": lambda _: _page("resourceTemplates", templates),
        }
        async with Toolbox({"server": {"url": server.url}}) as box:
            for _ in range(2):  # the second time as well: nothing empty is cached
                listed = [one.item for one in await box.list_prompts("server")]
                assert [one.name for one in listed] == [
                    *(one["name"] for one in prompts),
                    "the last",
                ]
                assert [len(one.arguments or ()) for one in listed] == [1] * _MANY + [0]
            found = await box.list_resources("server")
            assert [one.item.uri for one in found] == [one["uri"] for one in resources]
            templated = await box.list_resource_templates("server")
            uris = [one.item.uri_template for one in templated]
            assert uris == [one["uriTemplate"] for one in templates]


@ERAS
async def test_broken_items_of_a_long_list_are_left_out(era: str) -> None:
    prompts: list[Json] = [{"name": f"a prompt with the number {n}"} for n in range(_MANY)]
    prompts[5], prompts[1500] = {"name": 7}, {}
    async with scripted_http(_no_call, era=era) as server:
        server.results = {"prompts/list": lambda _: _page("prompts", prompts)}
        async with Toolbox({"server": {"url": server.url}}) as box:
            assert len(await box.list_prompts("server")) == _MANY - 2


@ERAS
async def test_long_prompts_and_resources_arrive_whole(era: str) -> None:
    texts = [f"this is text number {n}" for n in range(_MANY)]
    messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]
    contents = [{"uri": "test:r", "text": text} for text in texts]
    async with scripted_http(_no_call, era=era) as server:
        server.results = {
            "prompts/get": lambda _: {"messages": messages, "description": "long"},
            "resources/read": lambda _: _page("contents", contents),
        }
        async with MultiServerMCPClient({"server": {"url": server.url}}) as client:
            prompt = await client.toolbox.get_prompt("server", "p")
            shown = [one.content for one in prompt.messages]
            assert prompt.description == "long"
            assert [one.text for one in shown if isinstance(one, TextContent)] == texts
            read = (await client.read_resource("server", "test:r")).contents
            assert [one.text for one in read if isinstance(one, TextResourceContents)] == texts
            converted = await client.get_prompt("server", "p")
            assert [message.content for message in converted] == texts
            blobs = await client.get_resources("server", uris="test:r")
            assert [blob.as_string() for blob in blobs] == texts


async def test_a_long_state_that_comes_before_a_prompt_is_sent_back() -> None:
    state = "s" * 100_000

    def get_prompt(params: Json) -> Json:
        if params.get("requestState") != state:
            return {"resultType": "input_required", "requestState": state}
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "done"}}]}

    async with scripted_http(_no_call) as server:
        server.results = {"prompts/get": get_prompt}
        async with Toolbox({"server": {"url": server.url}}) as box:
            prompt = await box.get_prompt("server", "p")
    assert len(prompt.messages) == 1
