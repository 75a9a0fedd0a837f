"""Fields that plait does not know pass through `plait serve`, in both eras on both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait.testing import eventually
from tests.integration.serve.conftest import (
    Era,
    RawClient,
    python_server,
    raw_client,
    write_config,
)
from tests.servers.raw import future

pytestmark = pytest.mark.anyio

ANSWERS: dict[str, dict[str, Any]] = {
    "elicit": {"action": "accept", "content": {"name": "Ada"}},
    "sample": {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"},
}


@pytest.fixture(params=["legacy", "modern"])
def behind(request: pytest.FixtureRequest) -> str:
    """The era of the server behind."""
    return request.param


def config_of(folder: Path, era: str, **options: object) -> Path:
    server = python_server(str(Path(future.__file__)), era)
    return write_config(folder, {"a": server}, **options)


async def listed(client: RawClient) -> dict[str, dict[str, Any]]:
    tools = (await client.ask("tools/list"))["tools"]
    return {tool["name"]: tool for tool in tools}


async def test_listed_tools_pass_with_all_their_fields(
    tmp_path: Path, era: Era, behind: str
) -> None:
    async with raw_client(config_of(tmp_path, behind), era=era) as client:
        found = await listed(client)

    assert found == {
        f"a__{tool['name']}": {**without_hidden(tool), "name": f"a__{tool['name']}"}
        for tool in future.TOOLS
    }


def without_hidden(sent: dict[str, Any]) -> dict[str, Any]:
    """Return what is left of a text when it is sanitized."""
    return json.loads(json.dumps(sent, ensure_ascii=False).replace("\u200b", ""))


async def test_a_renamed_tool_keeps_all_its_fields(tmp_path: Path) -> None:
    overrides = {"plain": {"name": "mine", "description": "My own"}}
    config = config_of(tmp_path, "legacy", tool_overrides=overrides)
    async with raw_client(config) as client:
        found = await listed(client)

    assert found["mine"] == {**future.TOOLS[0], "name": "mine", "description": "My own"}


@pytest.mark.parametrize(
    ("behind", "method"),
    [("legacy", "tools/call"), ("modern", "tools/call"), ("modern", "prompts/get")],
)
async def test_a_request_of_a_server_passes_with_all_its_fields(
    tmp_path: Path, era: Era, behind: str, method: str
) -> None:
    capabilities: dict[str, Any] = {"elicitation": {}, "sampling": {}}
    config = config_of(tmp_path, behind)
    async with raw_client(config, era=era, **capabilities) as client:
        await client.ask("tools/list")
        for name, answer in ANSWERS.items():
            request, result = await answered(client, era, method, f"a__{name}", answer)

            assert request["method"] == future.ASKED[name][0]
            assert request["params"] == without_hidden(future.ASKED[name][1])
            is_call = method == "tools/call"
            block = result["content"][0] if is_call else result["messages"][0]["content"]
            assert json.loads(block["text"]) == answer


async def answered(
    client: RawClient, era: Era, method: str, name: str, answer: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a server asks in the course of a request, and the result of the request."""
    if era == "legacy":
        client.send({"id": name, "method": method, "params": {"name": name}})
        asked = client.requests
        await eventually(lambda: bool(asked), timeout_seconds=30)
        request = asked.pop()
        client.send({"id": request["id"], "result": answer})
        await eventually(lambda: name in client.answers, timeout_seconds=30)
        return request, client.answers[name]["result"]
    unfinished = await client.ask(method, name=name)
    ((key, request),) = unfinished["inputRequests"].items()
    state = unfinished["requestState"]
    return request, await client.ask(
        method, name=name, requestState=state, inputResponses={key: answer}
    )


async def test_a_client_that_knows_the_error_visits_urls_itself(tmp_path: Path) -> None:
    config = config_of(tmp_path, "legacy")
    async with raw_client(config, elicitation={"url": {}}) as client:
        refused = [await client.call("a__visit"), await client.call("a__visit")]
        result = await client.call("a__visit")

    error = {"code": -32042, "message": "Sign in", "data": {"elicitations": [future.URL]}}
    assert refused == [error, error]
    assert client.requests == []
    assert result["content"][0]["text"] == "visited"


async def test_a_modern_client_is_asked_once_to_visit_a_url(tmp_path: Path) -> None:
    config = config_of(tmp_path, "legacy")
    async with raw_client(config, era="2026-07-28", elicitation={"url": {}}) as client:
        asked = await client.call("a__visit")
        ((key, request),) = asked["inputRequests"].items()
        answers = {key: {"action": "accept"}}
        refused = await client.call(
            "a__visit", requestState=asked["requestState"], inputResponses=answers
        )
        result = await client.call("a__visit")

    assert request == {"method": "elicitation/create", "params": future.URL}
    assert refused["code"] == -32042
    assert result["content"][0]["text"] == "visited"


async def test_a_server_that_always_wants_another_url_visited_gets_its_way_a_few_times_only(
    tmp_path: Path,
) -> None:
    times = 0
    config = config_of(tmp_path, "legacy")
    async with raw_client(config, era="2026-07-28", elicitation={"url": {}}) as client:
        result = await client.call("a__visit_new")
        while "inputRequests" in result:
            times += 1
            state, (key,) = result["requestState"], result["inputRequests"]
            answers = {key: {"action": "accept"}}
            result = await client.call("a__visit_new", requestState=state, inputResponses=answers)

    assert (result["code"], times) == (-32042, 3)
