"""What the suite of all engines does not see: the wire of each provider, and the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Mapping
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from plait import AgentConfig, ConfigError, Message, ModelConfig, StaticTool
from plait.agents import LangChainAgent
from plait.agents.port import BaseAgent
from plait.testing import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Say,
    ScriptedChatModel,
    running_server,
    tool_call,
)
from plait.testing.llm.anthropic import signature_of
from plait.testing.llm.turns import Raw
from plait.traces import ThinkingContent, ToolUseContent, UsageMetadata
from plait.traces.messages.message import Role
from tests.integration.agents.langchain_models import (
    ASK,
    PNG,
    Provider,
    agent_of,
    results,
    toys,
)

pytestmark = pytest.mark.anyio

ADD = Say("I add.", (Call("add", {"a": 1, "b": 2}, "c1"),), thinking="hm")


@pytest.fixture(params=["langchain", "claude_tool", "openai_endpoint"])
def engine(request: pytest.FixtureRequest) -> tuple[BaseAgent, Provider]:
    """An agent on each API that a test can look at, and the API."""
    name = "openai" if request.param == "openai_endpoint" else "anthropic"
    api: Provider = request.getfixturevalue(name)
    api.play(None)
    return agent_of(api, request.param), api


async def test_calls_thoughts_and_usage_are_as_the_api_sent_them(
    engine: tuple[BaseAgent, Provider],
) -> None:
    agent, api = engine
    calls = (*ADD.calls, Call("gone", {}, "c2"))
    usage = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 40}
    api.play([Say("I add.", calls, thinking="hm", usage=usage), "Done – готово."])
    usages: list[Any] = []
    config = AgentConfig(on_event=lambda event: usages.append(getattr(event, "usage", None)))

    result = await agent.arun(ASK, None, toys(), config)

    said, *answers, last = result.trace_messages
    is_anthropic = isinstance(api, AnthropicServer)
    thought = ThinkingContent("hm", signature_of("hm") if is_anthropic else None)
    wishes = [ToolUseContent("c1", "add", {"a": 1, "b": 2}), ToolUseContent("c2", "gone", {})]
    expected = Message.assistant("I add.", wishes).content
    assert [block for block in said.content if block != thought] == expected
    assert not is_anthropic or said.content[0] == thought
    unknown = "! there is no tool 'gone'; the tools are: add, fail, picture, meet, hang"
    assert results(answers) == ["3", unknown]
    assert last == Message.assistant("Done – готово.")
    assert (result.turns, result.actual_model) == (2, api.bodies[0]["model"])
    assert result.usage.total_tokens == api.spent.total_tokens
    assert result.usage.cache_read_tokens == 40
    first = next(one for one in usages if isinstance(one, UsageMetadata))
    assert (first.input_tokens, first.output_tokens) == (100, 7)


async def test_calls_of_one_turn_are_made_at_the_same_time(
    engine: tuple[BaseAgent, Provider],
) -> None:
    agent, api = engine
    calls = (Call("meet", {}, "c1"), Call("add", {"a": 1, "b": 2}, "c2"), Call("meet", {}, "c3"))
    api.play([Say(calls=calls), "Done."])

    result = await agent.arun(ASK, None, toys(), AgentConfig(timeout=20))

    assert results(result.trace_messages) == ["met", "3", "met"]


async def test_models_see_images_and_errors_where_the_api_has_them(
    engine: tuple[BaseAgent, Provider],
) -> None:
    agent, api = engine
    api.play([Say(calls=(Call("picture"), Call("fail"))), "Nice."])

    result = await agent.arun(ASK, None, toys())

    lines = "a picture\n[image: image/png, 20 B]\n[audio: audio/wav, 20 B]"
    assert results(result.trace_messages) == [lines, "! nothing found – ничего"]
    if isinstance(api, OpenAIServer):
        assert api.bodies[1]["messages"][-2]["content"] == lines
        return
    picture, failed = api.bodies[1]["messages"][-1]["content"]
    assert [part["type"] for part in picture["content"]] == ["text", "image", "text"]
    assert picture["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": PNG,
    }
    assert picture["content"][2]["text"] == "[audio: audio/wav, 20 B]"
    assert (picture.get("is_error", False), failed["is_error"]) == (False, True)


async def test_without_tools_it_is_a_plain_question(engine: tuple[BaseAgent, Provider]) -> None:
    agent, api = engine
    api.play(["Hello."])

    result = await agent.arun([Message.system("Be brief."), *ASK])

    assert result.final_response == "Hello."
    (body,) = api.bodies
    assert "tools" not in body
    assert "thread" not in body
    assert "Be brief." in str(body)


async def test_earlier_messages_are_sent_as_they_were(engine: tuple[BaseAgent, Provider]) -> None:
    agent, api = engine
    api.play(["Done."])
    thoughts = [ThinkingContent("hm", signature_of("hm")), ThinkingContent("without a seal")]
    call = Message.assistant("I add.", [ToolUseContent("c1", "add", {"a": 1})])
    history = [
        Message.user("What is 1 + 2?"),
        Message(Role.ASSISTANT, [*thoughts, *call.content]),
        Message.tool_result("c1", "b is missing", is_error=True),
        Message.assistant("It failed."),
        Message.user("Again."),
    ]

    result = await agent.arun(history, None, toys())

    assert result.trace_messages == [Message.assistant("Done.")]
    (body,) = api.bodies
    assert "without a seal" not in str(body)
    sent = [one for one in body["messages"] if one["role"] not in ("system", "tool")]
    assert [one["role"] for one in sent][:2] == ["user", "assistant"]
    if isinstance(api, AnthropicServer):
        assert [block["type"] for block in sent[1]["content"]] == ["thinking", "text", "tool_use"]
        assert sent[2]["content"][0]["is_error"] is True


async def test_what_a_developer_must_correct_ends_the_run_and_its_other_calls(
    engine: tuple[BaseAgent, Provider],
) -> None:
    def unclear(request: Any) -> Any:
        return {"decision": "perhaps", "about": request.tool}

    agent, api = engine
    api.play([Say(calls=(Call("add", {"a": 1, "b": 0}), Call("hang")))])
    policy = {"rules": [{"tool": "add", "do": "ask"}], "default": "allow"}
    config = AgentConfig(tool_options={"policy": policy, "on_approval": unclear})

    with pytest.raises(ConfigError):
        await agent.arun(ASK, None, toys(), config)


def test_an_agent_can_be_run_in_one_loop_after_another(engine: tuple[BaseAgent, Provider]) -> None:
    agent, api = engine
    api.play(["One.", "Two.", "Three."])

    async def inside() -> str:
        return agent.run(ASK).final_response

    assert agent.run(ASK).final_response == "One."
    assert agent.run(ASK).final_response == "Two."
    assert asyncio.run(inside()) == "Three."
    gc.collect()  # what is not closed warns, and warnings are errors


async def test_nothing_blocks_the_loop_and_nothing_stays_open(anthropic: AnthropicServer) -> None:
    anthropic.play([ADD, "Done."] * 2)
    agent = agent_of(anthropic, "langchain")
    await agent.arun(ASK, None, toys())  # imports what there is to import

    with blockbuster_ctx():
        result = await agent.arun(ASK, None, toys())

    assert result.final_response == "Done."
    gc.collect()


async def test_runs_at_the_same_time_do_not_mix(engine: tuple[BaseAgent, Provider]) -> None:
    agent, api = engine
    api.play(None)
    questions = [[Message.user(f'CALL add {{"a": {n}, "b": 1}}')] for n in range(4)]

    done = await asyncio.gather(*(agent.arun(one, None, toys()) for one in questions))

    assert [one.final_response for one in done] == ["1", "2", "3", "4"]
    if isinstance(agent, LangChainAgent):
        assert len({one.session_id for one in done}) == 4


async def test_broken_arguments_and_ids_used_twice_are_the_models_to_correct(
    openai: OpenAIServer,
) -> None:
    functions = [
        {"name": "add", "arguments": '{"a": 1,'},
        {"name": "add", "arguments": '{"a": 1, "b": 2}'},
    ]
    calls = [{"id": "c1", "type": "function", "function": function} for function in functions]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    answer = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "test-model",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    openai.play([Raw(json.dumps(answer)), "Done."])

    result = await agent_of(openai, "openai_endpoint").arun(ASK, None, toys())

    broken = '! the call was not made: its arguments are not one complete JSON object: {"a": 1,'
    assert sorted(results(result.trace_messages)) == [broken, "3"]
    assert len({call.id for call in result.trace_messages[0].tool_calls}) == 2
    assert result.final_response == "Done."


async def test_a_ready_chat_model_can_be_passed() -> None:
    model = ScriptedChatModel([[tool_call("add", a=1, b=2)], "Done."])
    config = ModelConfig(id="ready", model_provider="mine", model_name="ready")

    result = await LangChainAgent(config, model).arun(ASK, None, toys())

    assert results(result.trace_messages) == ["3"]
    assert model.bound == [["add", "fail", "picture", "meet", "hang"]] * 2


async def test_claudes_tools_are_cached_and_long_answers_streamed(
    anthropic: AnthropicServer,
) -> None:
    both = Say("…", (*ADD.calls, Call("twice", {"n": 4})), thinking="Hm.")
    anthropic.play([both, "done"])
    twice = StaticTool("twice", "Doubles.", function=lambda n: 2 * n)
    agent = agent_of(anthropic, "claude_tool", max_tokens=20_000)

    result = await agent.arun(ASK, [twice], toys())

    assert all(body["stream"] for body in anthropic.bodies)
    assert results(result.trace_messages) == ["3", "8"]
    assert (result.final_response, result.usage) == ("done", anthropic.spent)
    marks = [tool.get("cache_control") for tool in anthropic.bodies[0]["tools"]]
    assert marks == [None] * (len(marks) - 1) + [{"type": "ephemeral"}]


async def test_arguments_that_are_null_are_none(anthropic: AnthropicServer) -> None:
    calls = [{"type": "tool_use", "id": name, "name": "now", "input": None} for name in ("a", "b")]
    answer = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": calls,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    count = iter(range(10))
    anthropic.play([Raw(json.dumps(answer)), "done"])

    await agent_of(anthropic, "claude_tool").arun(
        ASK, [StaticTool("now", function=lambda: next(count))]
    )

    sent = anthropic.bodies[1]["messages"][-1]["content"]
    assert [one["content"] for one in sent] == ["0", "1"]


async def test_a_server_over_http_that_restarts_in_a_run_comes_back(
    engine: tuple[BaseAgent, Provider],
) -> None:
    agent, api = engine
    call = Say(calls=(Call("add_numbers", {"a": 1, "b": 2}),))
    turns = iter([call, call, Say("done")])
    with running_server() as server:

        def restarting(_: Mapping[str, Any]) -> Say:
            if len(api.bodies) == 2:
                server.restart()
            return next(turns)

        api.play(restarting)
        result = await agent.arun(ASK, None, {"calc": {"url": server.url}})

    assert results(result.trace_messages) == ["3", "3"]
    assert result.final_response == "done"
