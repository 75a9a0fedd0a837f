"""The langchain engine against stand-ins of Anthropic's and OpenAI's APIs."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from plait import AgentConfig, ConfigError, Message, ModelConfig, StaticTool, get_agent
from plait.agents.engines.langchain.agent import LangChainAgent
from plait.testing import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Say,
    ScriptedChatModel,
    running_server,
    server_stdio_config,
    tool_call,
)
from plait.testing.llm.anthropic import signature_of
from plait.testing.llm.turns import Hang, Raw
from plait.traces import ThinkingContent, ToolUseContent, UsageMetadata, read_trace
from plait.traces.messages.message import Role
from tests.integration.agents.langchain_models import (
    ASK,
    PNG,
    Provider,
    model_of,
    results,
    toys,
)

pytestmark = pytest.mark.anyio


async def test_the_model_calls_tools_until_it_has_an_answer(api: Provider) -> None:
    calls = (Call("add", {"a": 1, "b": 2}, "c1"), Call("fail", {}, "c2"), Call("gone", {}, "c3"))
    api.play([Say("I look.", calls), Say("Done – готово.")])

    result = await get_agent(model_of(api)).arun(ASK, None, toys())

    first, *answers, last = result.trace_messages
    assert first == Message.assistant(
        "I look.",
        [
            ToolUseContent("c1", "add", {"a": 1, "b": 2}),
            ToolUseContent("c2", "fail", {}),
            ToolUseContent("c3", "gone", {}),
        ],
    )
    assert results(answers) == [
        "3",
        "! nothing found – ничего",
        "! there is no tool 'gone'; the tools are: add, fail, picture, meet, hang",
    ]
    assert last == Message.assistant("Done – готово.")
    assert (result.final_response, result.turns) == ("Done – готово.", 2)
    assert (result.limit_reached, result.timeout_reached) == (False, False)
    assert result.session_id
    assert result.actual_model == api.bodies[0]["model"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_servers_are_reached_by_every_transport(
    anthropic: AnthropicServer, transport: str
) -> None:
    anthropic.play([Say(calls=(Call("add_numbers", {"a": 20, "b": 22}),)), "Done."])
    agent = get_agent(model_of(anthropic))

    if transport == "stdio":
        result = await agent.arun(ASK, None, {"math": server_stdio_config()})  # pyright: ignore[reportArgumentType]
    else:
        with running_server() as server:
            result = await agent.arun(ASK, None, {"math": {"type": "http", "url": server.url}})

    assert results(result.trace_messages) == ["42"]


async def test_usage_is_what_the_provider_reported(api: Provider) -> None:
    usage = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 40}
    api.play([Say(calls=(Call("add", {"a": 1, "b": 2}),), usage=usage), "Done."])
    turns: list[Any] = []
    config = AgentConfig(on_event=lambda event: turns.append(getattr(event, "usage", None)))

    result = await get_agent(model_of(api)).arun(ASK, None, toys(), config)

    spent = api.spent
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.total_tokens) == (
        spent.input_tokens,
        spent.output_tokens,
        spent.total_tokens,
    )
    assert result.usage.cache_read_tokens == 40
    told = [one for one in turns if isinstance(one, UsageMetadata)]
    assert (told[0].input_tokens, told[0].output_tokens) == (100, 7)


@pytest.mark.parametrize(("limit", "ends"), [(1, True), (2, True), (3, False)])
async def test_the_limit_of_turns_is_exact(api: Provider, limit: int, ends: bool) -> None:
    call = Say("On.", (Call("add", {"a": 1, "b": 2}),))
    api.play([call, call, "Done."])

    result = await get_agent(model_of(api)).arun(ASK, None, toys(), AgentConfig(max_turns=limit))

    assert len(api.bodies) == limit
    assert (result.turns, result.limit_reached) == (limit, ends)
    assert results(result.trace_messages) == ["3"] * min(limit, 2)
    assert result.final_response == ("On." if ends else "Done.")


@pytest.mark.parametrize("what", ["model", "tool"])
async def test_a_timeout_keeps_what_was_said(api: Provider, what: str, tmp_path: Path) -> None:
    last = Hang() if what == "model" else Say("I wait.", (Call("hang"),))
    api.play([Say("On.", (Call("add", {"a": 1, "b": 2}),)), last])
    trace = tmp_path / "trace.jsonl"
    before = asyncio.all_tasks()

    result = await get_agent(model_of(api)).arun(
        ASK, None, toys(), AgentConfig(timeout=3, trace=trace)
    )

    assert result.timeout_reached
    assert result.final_response == ("On." if what == "model" else "I wait.")
    assert results(result.trace_messages)[0] == "3"
    assert result.usage.total_tokens == api.spent.total_tokens
    assert read_trace(trace).status == "timeout"
    assert asyncio.all_tasks() == before


async def test_an_empty_answer_is_an_answer(api: Provider) -> None:
    api.play([Say("")])

    result = await get_agent(model_of(api)).arun(ASK, None, toys())

    assert result.trace_messages == [Message(Role.ASSISTANT, [])]
    assert result.final_response == "[No final response extracted]"
    assert not result.limit_reached


async def test_a_question_without_tools_gets_a_plain_answer(api: Provider) -> None:
    api.play(["Hello."])

    result = await get_agent(model_of(api, system_prompt="Be brief.")).arun(ASK)

    assert result.final_response == "Hello."
    (body,) = api.bodies
    assert "tools" not in body
    assert "Be brief." in str(body)


async def test_tools_of_the_program_are_tools(api: Provider) -> None:
    async def twice(n: int) -> int:
        return 2 * n

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [StaticTool("twice", "Doubles.", schema, twice), StaticTool("empty", "", {})]
    api.play([Say(calls=(Call("twice", {"n": 4}), Call("empty"))), "Done."])

    result = await get_agent(model_of(api)).arun(ASK, tools)

    assert results(result.trace_messages) == [
        "8",
        "! empty cannot be called: it has no function",
    ]


async def test_models_see_images_where_the_api_takes_them(api: Provider) -> None:
    api.play([Say(calls=(Call("picture", {}, "c1"),)), "Nice."])

    result = await get_agent(model_of(api)).arun(ASK, None, toys())

    assert results(result.trace_messages) == [
        "a picture\n[image: image/png, 20 B]\n[audio: audio/wav, 20 B]"
    ]
    answer = api.bodies[1]["messages"][-1]
    if isinstance(api, OpenAIServer):
        assert answer["content"] == results(result.trace_messages)[0]
        return
    (block,) = answer["content"]
    assert [part["type"] for part in block["content"]] == ["text", "image", "text"]
    assert block["content"][1]["source"]["data"] == PNG
    assert block["content"][2]["text"] == "[audio: audio/wav, 20 B]"


async def test_errors_are_marked_for_the_model(anthropic: AnthropicServer) -> None:
    anthropic.play([Say(calls=(Call("fail", {}, "c1"),)), "Done."])

    await get_agent(model_of(anthropic)).arun(ASK, None, toys())

    (block,) = anthropic.bodies[1]["messages"][-1]["content"]
    assert block["is_error"] is True


async def test_thoughts_are_kept_with_their_seals(anthropic: AnthropicServer) -> None:
    anthropic.play([Say("I add.", (Call("add", {"a": 1, "b": 2}),), thinking="hm"), "Done."])

    result = await get_agent(model_of(anthropic)).arun(ASK, None, toys())

    assert result.trace_messages[0].content[0] == ThinkingContent("hm", signature_of("hm"))


async def test_what_was_said_before_is_told_as_it_was(api: Provider) -> None:
    api.play(["Done."])
    history = [
        Message.system("Be brief."),
        Message.user("What is 1 + 2?"),
        Message(
            Role.ASSISTANT,
            [
                ThinkingContent("hm", signature_of("hm")),
                ThinkingContent("without a seal"),
                *Message.assistant("I add.", [ToolUseContent("c1", "add", {"a": 1})]).content,
            ],
        ),
        Message.tool_result("c1", "b is missing", is_error=True),
        Message.assistant("It failed."),
        Message.user("Again."),
    ]

    result = await get_agent(model_of(api)).arun(history, None, toys())

    assert result.trace_messages == [Message.assistant("Done.")]
    (body,) = api.bodies
    assert "without a seal" not in str(body)
    said = [one for one in body["messages"] if one["role"] != "system"]
    assert [one["role"] for one in said if one["role"] != "tool"][:2] == ["user", "assistant"]
    if isinstance(api, AnthropicServer):
        assert [block["type"] for block in said[1]["content"]] == ["thinking", "text", "tool_use"]
        assert said[2]["content"][0]["is_error"] is True


async def test_a_denied_call_is_an_error_that_the_model_reads(api: Provider) -> None:
    api.play([Say(calls=(Call("add", {"a": 1, "b": 2}),)), "Done."])
    policy = {"default": "allow", "rules": [{"tool": "add", "when": {"a": 1}, "do": "deny"}]}
    config = AgentConfig(tool_options={"policy": policy})

    result = await get_agent(model_of(api)).arun(ASK, None, toys(), config)

    (answer,) = results(result.trace_messages)
    assert answer.startswith("! ")
    assert result.final_response == "Done."


async def test_arguments_that_are_no_json_are_an_error_that_the_model_reads(
    openai: OpenAIServer,
) -> None:
    broken = """{"id": "x", "object": "chat.completion", "created": 0, "model": "test-model",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "add", "arguments": "{\\"a\\": 1,"}},
                {"id": "c1", "type": "function",
                 "function": {"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}"""
    openai.play([Raw(broken.replace('"tool_calls", "mess', 'null, "mess')), "Done."])

    result = await get_agent(model_of(openai)).arun(ASK, None, toys())

    assert sorted(results(result.trace_messages)) == [
        '! the call was not made: its arguments are not one complete JSON object: {"a": 1,',
        "3",
    ]
    ids = [call.id for call in result.trace_messages[0].tool_calls]
    assert len(set(ids)) == 2
    assert result.final_response == "Done."


async def test_nothing_blocks_the_loop_and_nothing_stays_open(anthropic: AnthropicServer) -> None:
    anthropic.play([Say(calls=(Call("add", {"a": 1, "b": 2}),)), "Done."] * 2)
    agent = get_agent(model_of(anthropic))
    await agent.arun(ASK, None, toys())  # imports what there is to import

    with blockbuster_ctx():
        result = await agent.arun(ASK, None, toys())

    assert result.final_response == "Done."
    gc.collect()  # what is not closed warns, and warnings are errors


def test_an_agent_can_be_run_in_one_loop_after_another(api: Provider) -> None:
    api.play(["One.", "Two.", "Three."])
    agent = get_agent(model_of(api))

    async def inside() -> str:
        return agent.run(ASK).final_response

    assert agent.run(ASK).final_response == "One."
    assert agent.run(ASK).final_response == "Two."
    assert asyncio.run(inside()) == "Three."
    gc.collect()


async def test_runs_at_the_same_time_do_not_mix(anthropic: AnthropicServer) -> None:
    anthropic.play(None)
    agent = get_agent(model_of(anthropic))
    asked = [[Message.user(f'CALL add {{"a": {n}, "b": 1}}')] for n in range(4)]

    done = await asyncio.gather(*(agent.arun(one, None, toys()) for one in asked))

    assert [one.final_response for one in done] == ["1", "2", "3", "4"]
    assert len({one.session_id for one in done}) == 4


async def test_calls_of_one_turn_are_made_at_the_same_time(api: Provider) -> None:
    calls = (Call("meet", {}, "c1"), Call("add", {"a": 1, "b": 2}, "c2"), Call("meet", {}, "c3"))
    api.play([Say(calls=calls), "Done."])

    result = await get_agent(model_of(api)).arun(ASK, None, toys(), AgentConfig(timeout=20))

    assert results(result.trace_messages) == ["met", "3", "met"]


async def test_what_a_developer_must_mend_ends_the_run(anthropic: AnthropicServer) -> None:
    def ask(_: object) -> bool:
        raise ConfigError("mend this")

    anthropic.play([Say(calls=(Call("add", {"a": 1, "b": 2}),)), "Done."])
    options = {"policy": {"default": "ask"}, "on_approval": ask}

    with pytest.raises(ConfigError, match="mend this"):
        await get_agent(model_of(anthropic, agent_middleware={})).arun(
            ASK, None, toys(), AgentConfig(tool_options=options)
        )


async def test_a_ready_chat_model_can_be_given() -> None:
    model = ScriptedChatModel([[tool_call("add", a=1, b=2)], "Done."])
    config = ModelConfig(id="ready", model_provider="mine", model_name="ready")

    result = await LangChainAgent(config, model).arun(ASK, None, toys())

    assert results(result.trace_messages) == ["3"]
    assert model.bound == [["add", "fail", "picture", "meet", "hang"]] * 2
