"""What the settings of sampling allow, and which call pays for a request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ImageContent,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolUseContent,
)

from plait.client.calls.call_routing import ActiveCall, CallRouter
from plait.client.calls.sampling import Sampling, SamplingRequests, input_bytes, refusal
from plait.client.protocol.session import McpSession, RequestContext
from plait.errors import ConfigError
from tests.clock import FakeClock

SESSION = cast("McpSession", object())
CONTEXT = RequestContext(session=SESSION, request_id="1")


def asked(text: str = "tea", **more: Any) -> CreateMessageRequestParams:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    given: dict[str, Any] = {"messages": [message], "max_tokens": 10, **more}
    return CreateMessageRequestParams(**given)


def say_yes(server: str, params: CreateMessageRequestParams) -> str:
    del server, params
    return "yes"


def text_of(answer: Any) -> str:
    if isinstance(answer, ErrorData):
        return f"refused: {answer.message}"
    assert isinstance(answer, CreateMessageResult)
    assert isinstance(answer.content, TextContent)
    return answer.content.text


USE = ToolUseContent(name="clock", id="1", input={})


@pytest.mark.parametrize(
    ("params", "settings", "counts", "reason"),
    [
        (asked(), {}, (0, 0), None),
        (asked(), {}, (9, 29), None),
        (asked(), {}, (10, 0), "10 times"),
        (asked(), {}, (0, 30), "30 times in a minute"),
        (asked(), {}, (None, 0), "only during a tool call"),
        (asked(), {"outside_calls": True}, (None, 0), None),
        (asked("x" * 100), {"max_input_bytes": 100}, (0, 0), "larger than 100 bytes"),
        (asked(system_prompt="x" * 300), {"max_input_bytes": 300}, (0, 0), "larger"),
        (asked(max_tokens=0), {}, (0, 0), "at least 1"),
        (asked(tools=[Tool(name="t", input_schema={})]), {}, (0, 0), "tools"),
        (asked(tool_choice=ToolChoice(mode="auto")), {}, (0, 0), "tools"),
        (asked(messages=[SamplingMessage(role="assistant", content=USE)]), {}, (0, 0), "tools"),
        (asked(tools=[Tool(name="t", input_schema={})]), {"allow_tools": True}, (0, 0), None),
    ],
)
def test_a_request_is_refused_for_a_reason(
    params: CreateMessageRequestParams, settings: Any, counts: Any, reason: str | None
) -> None:
    in_call, in_minute = counts
    found = refusal(Sampling(say_yes, **settings), params, in_call=in_call, in_minute=in_minute)

    assert found == reason if reason is None else reason in (found or "")


def test_pictures_count_by_their_size() -> None:
    picture = ImageContent(data="A" * 4000, mime_type="image/png")
    message = SamplingMessage(role="user", content=picture)

    assert input_bytes(asked(messages=[message])) > 4000


def test_nothing_of_others_reaches_the_model() -> None:
    params = asked(max_tokens=5000, include_context="allServers", metadata={"user": "x"})

    limited = Sampling(say_yes, max_tokens=7).within_limits(params)

    assert (limited.max_tokens, limited.include_context, limited.metadata) == (7, None, None)
    assert params.max_tokens == 5000


def test_settings_are_read_from_files_in_both_spellings() -> None:
    read = Sampling.of({"model": "p:m", "maxTokens": 5, "max_input_bytes": 6, "servers": ["a*"]})

    assert read == Sampling("p:m", max_tokens=5, max_input_bytes=6, servers=["a*"])
    assert Sampling.of(None) is None
    assert Sampling.of(False) is None


@pytest.mark.parametrize(
    "given",
    [
        True,
        {},
        {"model": "m", "maxToken": 1},
        {"model": "m", "max_tokens": 0},
        {"model": "m", "max_calls_per_call": True},
        {"model": "m", "servers": "all"},
        {"model": "m", "approve": "yes"},
    ],
)
def test_settings_that_make_no_sense_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="sampling"):
        Sampling.of(given)


def test_a_server_s_own_word_wins_over_the_list() -> None:
    sampling = Sampling(say_yes, servers=["search-*"])

    assert sampling.may_sample("search-web")
    assert not sampling.may_sample("bank")
    assert sampling.may_sample("bank", own=True)
    assert not sampling.may_sample("search-web", own=False)


@pytest.mark.anyio
async def test_a_server_asks_in_vain_while_none_of_its_tools_is_called() -> None:
    router = CallRouter()
    requests = SamplingRequests(Sampling(say_yes), router)
    with router.active(ActiveCall("other", "tool"), SESSION):
        refused = await requests.answer("server", CONTEXT, asked())
    with router.active(ActiveCall("server", "tool"), SESSION):
        answered = await requests.answer("server", CONTEXT, asked())

    assert "only during a tool call" in text_of(refused)
    assert text_of(answered) == "yes"


@pytest.mark.anyio
async def test_calls_at_once_share_what_they_may_have_together() -> None:
    router = CallRouter()
    requests = SamplingRequests(Sampling(say_yes, max_calls_per_call=2), router)
    first, second = ActiveCall("server", "a"), ActiveCall("server", "b")
    over = asyncio.Event()

    async def call(listener: ActiveCall) -> None:
        with router.active(listener, SESSION):
            await over.wait()

    async with asyncio.TaskGroup() as calls:
        calls.create_task(call(first))
        calls.create_task(call(second))
        await asyncio.sleep(0)
        # Out here as legacy servers ask: in the context of no call.
        answers = [text_of(await requests.answer("server", CONTEXT, asked())) for _ in range(5)]
        over.set()

    assert answers[:4] == ["yes"] * 4
    assert "refused" in answers[4]
    assert (first.sampling_requests, second.sampling_requests) == (2, 2)


@pytest.mark.anyio
async def test_a_minute_later_servers_may_ask_again() -> None:
    clock = FakeClock()
    sampling = Sampling(say_yes, max_calls_per_minute=2, outside_calls=True)
    requests = SamplingRequests(sampling, CallRouter(), clock=clock)
    answers: list[str] = []
    for seconds in (0, 30, 59, 60, 61):
        clock.seconds = seconds
        answers.append(text_of(await requests.answer("server", CONTEXT, asked()))[:7])

    assert answers == ["yes", "yes", "refused", "yes", "refused"]
