"""Requests of servers as messages of LangChain, and answers of chat models as MCP."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typing_extensions import override

from plait.langchain.client.sampling import messages_from, result_from, sampling_from
from plait.testing import ScriptedChatModel, tool_call

TOOL = types.Tool(name="clock", description="Tell the time.", input_schema={"type": "object"})


def asked(*messages: types.SamplingMessage, **more: Any) -> types.CreateMessageRequestParams:
    said = messages or (said_by("user", types.TextContent(text="tea")),)
    given: dict[str, Any] = {"messages": list(said), "max_tokens": 10, **more}
    return types.CreateMessageRequestParams(**given)


def said_by(role: Any, *parts: Any) -> types.SamplingMessage:
    return types.SamplingMessage(role=role, content=list(parts))


class LimitedModel(BaseChatModel):
    """A chat model with settings of its own, which says what they are."""

    max_output_tokens: int | None = None
    temperature: float | None = None

    @property
    @override
    def _llm_type(self) -> str:
        return "limited"

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = f"{self.max_output_tokens} {self.temperature} {stop} {kwargs}"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def test_a_conversation_keeps_its_roles() -> None:
    params = asked(
        said_by("user", types.TextContent(text="a"), types.TextContent(text="b")),
        said_by("assistant", types.TextContent(text="c")),
        system_prompt="be kind",
    )

    assert messages_from(params) == [
        SystemMessage("be kind"),
        HumanMessage("a\nb"),
        AIMessage("c"),
    ]


def test_sound_and_pictures_become_blocks_without_the_server_s_notes() -> None:
    sound = types.AudioContent(data="AAAA", mime_type="audio/wav", _meta={"secret": 1})

    (message,) = messages_from(asked(said_by("user", sound)))

    assert message.content == [{"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}]


def test_uses_of_tools_and_their_results_find_each_other() -> None:
    use = types.ToolUseContent(name="clock", id="7", input={"zone": "UTC"})
    result = types.ToolResultContent(
        tool_use_id="7", content=[types.TextContent(text="noon")], is_error=True
    )
    note = types.TextContent(text="and now?")

    messages = messages_from(asked(said_by("assistant", use), said_by("user", result, note)))

    call = {"name": "clock", "args": {"zone": "UTC"}, "id": "7", "type": "tool_call"}
    assert messages == [
        AIMessage("", tool_calls=[call]),
        ToolMessage("noon", tool_call_id="7", status="error"),
        HumanMessage("and now?"),
    ]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"finish_reason": "stop"}, "endTurn"),
        ({"stop_reason": "max_tokens"}, "maxTokens"),
        ({"finish_reason": "MAX_TOKENS"}, "maxTokens"),
        ({"done_reason": "length"}, "maxTokens"),
        ({"stop_reason": "stop_sequence"}, "stopSequence"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({}, None),
    ],
)
def test_why_an_answer_ended_is_said_in_the_words_of_mcp(
    facts: dict[str, str], reason: str | None
) -> None:
    result = result_from(AIMessage("x", response_metadata={"model": "m", **facts}), asked())

    assert (result.model, result.stop_reason) == ("m", reason)


def test_thoughts_are_not_part_of_an_answer() -> None:
    message = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "tea"}])

    assert result_from(message, asked()).content == types.TextContent(text="tea")
    assert result_from(AIMessage(""), asked()).content == types.TextContent(text="")


def test_a_picture_may_be_the_answer() -> None:
    block = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}

    content = result_from(AIMessage([block]), asked()).content

    assert content == types.ImageContent(data="AAAA", mime_type="image/png")


def test_an_answer_to_a_request_with_tools_holds_the_calls() -> None:
    call = tool_call("clock", zone="UTC")

    result = result_from(AIMessage("one moment", tool_calls=[call]), asked(tools=[TOOL]))

    assert result.stop_reason == "toolUse"
    assert result.content == [
        types.TextContent(text="one moment"),
        types.ToolUseContent(name="clock", id=str(call["id"]), input={"zone": "UTC"}),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("own", "asked_for", "given"), [(None, 10, 10), (5, 10, 5), (50, 10, 10), (-1, 10, 10)]
)
async def test_a_model_with_limits_of_its_own_gets_the_lower_one(
    own: int | None, asked_for: int, given: int
) -> None:
    model = LimitedModel(max_output_tokens=own, temperature=0.1)
    sampling = sampling_from(model.bind(extra=1))
    assert sampling is not None

    params = asked(max_tokens=asked_for, temperature=0.9, stop_sequences=["END"])
    result = await sampling.model("server", params)

    assert result.content.text == f"{given} 0.9 ['END'] {{'extra': 1}}"
    assert (model.max_output_tokens, model.temperature) == (own, 0.1)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "required", "none"])
async def test_tools_are_bound_as_the_server_chooses(mode: Any) -> None:
    model = ScriptedChatModel(["ok"])
    sampling = sampling_from(model)
    assert sampling is not None

    params = asked(tools=[TOOL], tool_choice=types.ToolChoice(mode=mode))
    await sampling.model("server", params)

    assert model.bound == ([] if mode == "none" else [["clock"]])


@pytest.mark.anyio
async def test_a_function_may_answer_with_a_message() -> None:
    async def answer(server: str, params: types.CreateMessageRequestParams) -> AIMessage:
        return AIMessage(f"{server}: {params.max_tokens}")

    sampling = sampling_from(answer)
    assert sampling is not None

    result = await sampling.model("server", asked())

    assert result.content == types.TextContent(text="server: 10")
