"""Servers of both eras ask for the client's model, and get what the settings allow."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from mcp_types import CreateMessageRequestParams, TextContent

from plait import MultiServerMCPClient, Toolbox
from plait.client import Sampling
from plait.errors import InputRefusedError
from plait.testing import ScriptedChatModel, tool_call
from tests.nursery import fault_server, stdio_config
from tests.servers import everything_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The fault server on HTTP, started once: it speaks both eras."""
    with fault_server() as server:
        yield server.url


@pytest.fixture(params=["legacy", "2026-07-28"])
def server(url: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The server, spoken to in one of the eras."""
    return {"url": url, "protocol": request.param}


@pytest.fixture
def modern(url: str) -> dict[str, Any]:
    """The server, spoken to in the modern era."""
    return {"url": url, "protocol": "2026-07-28"}


def echoing() -> ScriptedChatModel:
    return ScriptedChatModel(lambda messages: f"on {messages[-1].text}")


async def sampled(client: MultiServerMCPClient, name: str = "sample", **given: Any) -> Any:
    """Call a tool that asks for the model, and return what it was answered."""
    (tool,) = await client.get_tools(include=[name])
    return await tool.ainvoke({"prompt": "tea", **given})


async def test_a_chat_model_answers_a_server(server: Any) -> None:
    model = ScriptedChatModel(
        [AIMessage("leaves in water", response_metadata={"finish_reason": "stop"})]
    )
    async with MultiServerMCPClient({"server": server}, sampling=model) as client:
        said = json.loads(await sampled(client))

    assert said == {
        "role": "assistant",
        "content": {"type": "text", "text": "leaves in water"},
        "model": "scripted",
        "stopReason": "endTurn",
    }
    assert model.seen == [[SystemMessage("You are terse."), HumanMessage("tea")]]


@pytest.mark.parametrize("sanitize", [True, False])
async def test_what_hides_in_a_request_reaches_no_model(server: Any, *, sanitize: bool) -> None:
    hidden = "\u200b\u202e\U000e0041\x1b[31m"
    model, shown = echoing(), list[Any]()

    def approve(_server: str, request: Any) -> bool:
        shown.append(request.messages[0].content.text)
        return True

    sampling: Any = Sampling(model, approve=approve)
    config: Any = {"server": server}
    async with MultiServerMCPClient(config, sampling=sampling, sanitize=sanitize) as client:
        await sampled(client, prompt=f"tea{hidden}")

    expected = "tea\\u202e" if sanitize else f"tea{hidden}"
    assert [message.text for message in model.seen[0]] == ["You are terse.", expected]
    assert shown == [expected]


async def test_by_default_servers_are_not_offered_the_model(server: Any) -> None:
    config = {"server": server}
    async with MultiServerMCPClient(config) as client:
        assert "did not declare the sampling capability" in await sampled(client)


@pytest.mark.parametrize(
    ("listed", "own", "answered"),
    [(["serv*"], None, True), (["other"], None, False), ([], True, True), (None, False, False)],
)
async def test_only_listed_servers_are_offered_the_model(
    modern: Any, listed: Any, own: bool | None, answered: bool
) -> None:
    config = modern if own is None else {**modern, "sampling": own}
    sampling = Sampling(echoing(), servers=listed)
    async with MultiServerMCPClient({"server": config}, sampling=sampling) as client:
        assert ("on tea" in await sampled(client)) is answered


async def test_more_requests_than_a_call_may_make_are_refused(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = echoing()
    sampling = Sampling(model, max_calls_per_call=1)
    with caplog.at_level(logging.WARNING, "plait.client.calls"):
        async with MultiServerMCPClient({"server": server}, sampling=sampling) as client:
            for _ in range(2):
                said = await sampled(client, "sample_twice")
                assert "a tool call may use the model of this client once" in said
            assert "on tea" in await sampled(client)

    assert len(model.seen) == 3
    assert len([one for one in caplog.records if "sampling request refused" in one.message]) == 1


async def test_all_servers_together_have_so_many_requests_in_a_minute(modern: Any) -> None:
    config = {"one": modern, "two": modern}
    sampling = Sampling(lambda server, asked: f"{server}: ok", max_calls_per_minute=2)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    async with Toolbox(config, on_sampling=sampling) as box:
        for name in ("one", "two"):
            said = await box.call(name, "sample", {"prompt": "tea"})
            assert f"{name}: ok" in said.text
        with pytest.raises(
            InputRefusedError, match=r"one/sample: .* 2 times in a minute"
        ) as caught:
            await box.call("one", "sample", {"prompt": "tea"})

    assert (caught.value.server, caught.value.tool, caught.value.code) == ("one", "sample", -1)


async def test_a_server_gets_no_more_tokens_than_allowed(modern: Any) -> None:
    asked: list[CreateMessageRequestParams] = []

    def sample(server: str, params: CreateMessageRequestParams) -> str:
        assert server == "server"
        asked.append(params)
        return "ok"

    sampling = Sampling(sample, max_tokens=20)
    async with Toolbox({"server": modern}, on_sampling=sampling) as box:
        for wanted in (10, 5000):
            await box.call("server", "sample", {"prompt": "tea", "max_tokens": wanted})

    assert [one.max_tokens for one in asked] == [10, 20]
    assert [one.temperature for one in asked] == [0.5, 0.5]
    assert asked[0].stop_sequences == ["END"]
    assert asked[0].include_context is None


@pytest.mark.parametrize("verdict", [True, False, None, "error"])
async def test_a_person_decides_about_each_request(server: Any, verdict: Any) -> None:
    asked: list[tuple[str, str]] = []
    model = echoing()

    async def approve(server: str, params: CreateMessageRequestParams) -> Any:
        (content,) = params.messages[0].content_as_list
        assert isinstance(content, TextContent)
        asked.append((server, content.text))
        if verdict == "error":
            raise RuntimeError("nobody is there")
        return verdict

    async with MultiServerMCPClient(
        {"server": server}, sampling=Sampling(model, approve=approve)
    ) as client:
        said = await sampled(client)

    assert asked == [("server", "tea")]
    assert ("on tea" in said) is (verdict is True)
    assert ("the user rejected the request" in said) is (verdict is not True)
    assert len(model.seen) == (1 if verdict is True else 0)


async def test_a_person_may_change_what_is_asked(modern: Any) -> None:
    def approve(server: str, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
        del server
        message = params.messages[0].model_copy(update={"content": TextContent(text="coffee")})
        return params.model_copy(update={"messages": [message], "max_tokens": 999_999})

    model = echoing()
    sampling = Sampling(model, approve=approve)
    async with MultiServerMCPClient({"server": modern}, sampling=sampling) as client:
        assert "on coffee" in await sampled(client)


async def test_a_model_that_fails_tells_the_server_nothing_of_why(server: Any) -> None:
    model = ScriptedChatModel([ValueError("the key sk-1234 is wrong")])
    async with MultiServerMCPClient({"server": server}, sampling=model) as client:
        said = await sampled(client)

    assert "the model failed" in said
    assert "sk-1234" not in said


async def test_pictures_reach_the_model(server: Any) -> None:
    model = echoing()
    async with MultiServerMCPClient({"server": server}, sampling=model) as client:
        await sampled(client, "sample_picture")

    text, picture = model.seen[0][0].content
    assert text == {"type": "text", "text": "tea"}
    assert isinstance(picture, dict)
    assert (picture["type"], picture["mime_type"]) == ("image", "image/png")


async def test_a_server_may_give_the_model_tools_where_that_is_allowed(server: Any) -> None:
    model = ScriptedChatModel([[tool_call("clock")], [tool_call("clock")]])
    config = {"server": server}
    async with MultiServerMCPClient(config, sampling=Sampling(model, allow_tools=True)) as client:
        said = json.loads(await sampled(client, "sample_with_tools"))
    async with MultiServerMCPClient(config, sampling=Sampling(model)) as client:
        refused = await sampled(client, "sample_with_tools")

    assert said["stopReason"] == "toolUse"
    assert [(part["type"], part["name"]) for part in said["content"]] == [("tool_use", "clock")]
    assert model.bound == [["clock"]]
    assert "sampling.tools" in refused


@pytest.mark.parametrize("over_stdio", [False, True])
async def test_answers_of_calls_at_once_are_never_swapped(server: Any, over_stdio: bool) -> None:
    if over_stdio:
        server = {**stdio_config(), "protocol": server["protocol"]}
    both = asyncio.Event()
    waiting: list[str] = []

    async def sample(server: str, params: CreateMessageRequestParams) -> str:
        del server
        (content,) = params.messages[0].content_as_list
        assert isinstance(content, TextContent)
        waiting.append(content.text)
        if len(waiting) == 8:
            both.set()
        await both.wait()
        return f"on {content.text}"

    async with Toolbox({"server": server}, on_sampling=sample) as box:
        answers = await asyncio.gather(
            *(box.call("server", "sample", {"prompt": f"tea {n}"}) for n in range(8))
        )

    texts = [json.loads(one.text)["content"]["text"] for one in answers]
    assert texts == [f"on tea {n}" for n in range(8)]


@pytest.mark.parametrize("blocking", [False, True])
async def test_the_model_is_asked_in_the_loop_of_the_caller(server: Any, blocking: bool) -> None:
    threads: list[str] = []

    def sample(server: str, params: CreateMessageRequestParams) -> str:
        del server, params
        threads.append(threading.current_thread().name)
        return "ok"

    box = Toolbox({"server": server}, on_sampling=sample)
    if blocking:
        await asyncio.to_thread(box.call_blocking, "server", "sample", {"prompt": "tea"})
    else:
        await box.call("server", "sample", {"prompt": "tea"})
    await box.aclose()

    assert threads == ["plait" if blocking else threading.current_thread().name]


async def test_a_request_ends_with_its_call(server: Any) -> None:
    ended = asyncio.Event()

    async def sample(server: str, params: CreateMessageRequestParams) -> str:
        del server, params
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with Toolbox({"server": server}, on_sampling=sample) as box:
        with pytest.raises(TimeoutError):
            await box.call("server", "sample", {"prompt": "tea"}, timeout_seconds=0.5)
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_model_that_takes_too_long_is_given_up(modern: Any) -> None:
    async def sample(server: str, params: CreateMessageRequestParams) -> str:
        del server, params
        await asyncio.Event().wait()
        return "never"

    sampling = Sampling(sample, timeout_seconds=0.1)
    async with Toolbox({"server": modern}, on_sampling=sampling) as box:
        with pytest.raises(InputRefusedError, match=r"no answer within 0\.1 s"):
            await box.call("server", "sample", {"prompt": "tea"})


async def test_the_run_of_an_agent_neither_sees_nor_streams_what_a_server_asks(modern: Any) -> None:
    helper = echoing()
    agent_model = ScriptedChatModel([[tool_call("sample", prompt="tea")], "done"])
    async with MultiServerMCPClient({"server": modern}, sampling=helper) as client:
        agent = create_agent(agent_model, await client.get_tools(include=["sample"]))
        given: Any = {"messages": [{"role": "user", "content": "go"}]}
        events = [event async for event in agent.astream_events(given, version="v2")]

    asked = [event for event in events if event["event"] == "on_chat_model_start"]
    assert len(helper.seen) == 1
    assert len(asked) == 2


@pytest.mark.parametrize("given", [True, 7, "nobody:nothing", {"maxTokens": 5}, {"model": 1}])
def test_something_that_is_no_model_is_refused_at_once(given: Any) -> None:
    with pytest.raises(ValueError, match="sampling"):
        MultiServerMCPClient({"server": stdio_config()}, sampling=given)


async def test_a_server_of_others_asks_for_the_model() -> None:
    model = echoing()
    config: Any = {"everything": everything_stdio_config()}
    async with MultiServerMCPClient(config, sampling=model) as client:
        (tool,) = await client.get_tools(include=["*sampling*"])
        said = str(await tool.ainvoke({"prompt": "tea", "maxTokens": 10}))

    assert "on " in said
    assert "tea" in model.seen[0][-1].text
