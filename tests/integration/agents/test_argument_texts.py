"""No call is made whose arguments are not complete JSON, as the model wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from mcp.server import MCPServer

from plait import AgentConfig, AgentResult, Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, Call, OpenAIServer, Say, StateDir
from plait.traces import hash_question
from tests import nursery
from tests.integration.agents.langchain_models import ASK, model_of
from tests.servers import KEY

pytestmark = pytest.mark.anyio

DAMAGED: Final = {
    "cut in a string": '{"text": "rm -rf /home/us',
    "cut in an escape": '{"text": "rm -rf \\',
    "cut in a number": '{"text": "rm", "times": 1',
    "cut in a literal": '{"text": "rm", "deep": tr',
    "cut in a key": '{"text": "rm -rf /", "ti',
    "cut after a key": '{"text": "rm -rf /", "times":',
    "cut between members": '{"text": "rm -rf /", ',
    "cut after the opening brace": "{",
    "without the closing brace": '{"text": "rm -rf /"',
    "with a brace too many": '{"text": "rm -rf /"}}',
    "with a text behind it": '{"text": "rm -rf /"} I am done.',
    "with a text before it": 'Here: {"text": "rm -rf /"}',
    "two objects": '{"text": "rm -rf /"}{"text": "ls"}',
    "the same twice": '{"text": "rm -rf /"}{"text": "rm -rf /"}',
    "a blank": " ",
    "an array": '["rm -rf /"]',
    "a number": "1",
    "a truth value": "true",
    "half an object in a text": '"{\\"text\\": \\"rm -rf"',
    "not a number": '{"text": "rm", "times": NaN}',
    "infinite": '{"text": "rm", "times": -Infinity}',
    "too large a number": '{"text": "rm", "times": 1e999}',
}
"""Arguments that are not the JSON of an object."""

EMPTY: Final = {"null": "null", "nothing": ""}
"""Texts for no arguments, which some providers send."""


@dataclass
class Ledger:
    """Tools of the program and of a server that note what they are called with."""

    ran: list[object] = field(default_factory=list[object])

    def servers(self) -> dict[str, Any]:
        made = MCPServer("shell")

        @made.tool()
        def run(text: str, times: float = 1, deep: bool = False) -> str:
            self.ran.append(text)
            return "ran"

        @made.tool()
        def wipe(text: str = "/", times: float = 1, deep: bool = False) -> str:
            self.ran.append(text)
            return "wiped"

        return {"shell": {"type": "sdk", "instance": made}}

    def run_here(self, text: str, times: float = 1, deep: bool = False) -> str:
        """Run a command."""
        self.ran.append(text)
        return "ran"

    def wipe_here(self, text: str = "/", times: float = 1, deep: bool = False) -> str:
        """Wipe a folder."""
        self.ran.append(text)
        return "wiped"


TOOLS: Final = ("run", "wipe", "run_here", "wipe_here")

NOT_MADE: Final = "not one complete JSON object|could not be parsed as JSON"
"""What the model reads; the second is of Claude's command line."""

ENGINES: Final = [
    ("langchain", False),
    ("langchain", True),
    ("openai_endpoint", False),
    ("openai_endpoint", True),
    ("responses", False),
    ("responses", True),
    ("claude_tool", False),
    ("claude_tool", True),
    ("claude_agent_sdk", True),
]
"""The engines, and whether answers are streamed; Claude's command line streams always."""


@pytest.fixture(params=ENGINES, ids=lambda param: f"{param[0]}-{param[1]}")
def engine(
    request: pytest.FixtureRequest, anthropic: AnthropicServer, openai: OpenAIServer
) -> tuple[AnthropicServer | OpenAIServer, Any, AgentConfig]:
    name, streaming = request.param
    config = AgentConfig(stream=streaming, max_turns=len(DAMAGED) + 1)
    if name == "responses":
        extra = {"use_responses_api": True, "base_url": openai.base_url, "api_key": KEY}
        settings: dict[str, Any] = {"interface": "langchain", "model_provider": "openai"}
        keys = {"endpoint_base_url": None, "endpoint_api_key": None, "extra_kwargs": extra}
        return openai, model_of(openai, **settings, **keys), config
    if name == "openai_endpoint":
        return openai, model_of(openai), config
    provider = {"model_provider": "anthropic" if name == "langchain" else None}
    return anthropic, model_of(anthropic, interface=name, **provider), config


async def run(engine: Any, texts: Iterable[str], ledger: Ledger) -> AgentResult:
    """Run an agent whose model calls every tool with each text, one text a turn."""
    api, model, config = engine
    turns = [
        Say("I call.", calls=tuple(Call(tool, encoded=text, id=f"{tool}-{turn}") for tool in TOOLS))
        for turn, text in enumerate(texts)
    ]
    api.play([*turns, "I see."])
    agent = get_agent(model, auto_fallback=False)
    own = [ledger.run_here, ledger.wipe_here]
    return await agent.arun([Message.user("Go.")], own, ledger.servers(), config)


def answers(result: AgentResult) -> dict[str, tuple[str, bool]]:
    found = [one for message in result.trace_messages for one in message.tool_results]
    return {one.tool_use_id: (one.content, one.is_error) for one in found}


async def test_arguments_that_do_not_parse_are_not_run(engine: Any) -> None:
    ledger = Ledger()

    result = await run(engine, DAMAGED.values(), ledger)

    assert ledger.ran == []
    replies = answers(result)
    for turn, kind in enumerate(DAMAGED):
        for tool in TOOLS:
            text, is_error = replies[f"{tool}-{turn}"]
            assert is_error, (kind, tool, text)
            assert re.search(NOT_MADE, text), (kind, tool, text)
    assert (result.status, result.final_response) == ("completed", "I see.")


async def test_no_arguments_are_enough_for_tools_that_need_none(engine: Any) -> None:
    ledger = Ledger()

    result = await run(engine, EMPTY.values(), ledger)

    assert ledger.ran == ["/"] * 2 * len(EMPTY)
    failed = {call_id for call_id, (_, is_error) in answers(result).items() if is_error}
    tools = ("run", "run_here")
    assert failed == {f"{tool}-{turn}" for tool in tools for turn in range(len(EMPTY))}


async def test_recordings_of_calls_that_were_not_made_call_nothing(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    trace = tmp_path / "run.jsonl"
    model = model_of(anthropic, interface="claude_tool", model_provider=None)
    config = AgentConfig(stream=True, trace=trace, max_turns=len(DAMAGED) + 1)

    recorded = await run((anthropic, model, config), DAMAGED.values(), ledger)
    manual = get_agent(ModelConfig(interface="manual", manual_traces=str(trace)))
    replayed = await manual.arun([], config=AgentConfig(question_hash=hash_question("Go.")))

    assert replayed == recorded
    assert ledger.ran == []


async def test_claudes_command_line_makes_no_such_calls_itself(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    """It would call tools with other arguments, and before it knows that the answer was cut."""
    broken = (Call("pid", encoded="[1]", id="array"), Call("pid", encoded="1e999", id="number"))
    twice = Call("pay", encoded='"{\\"amount\\": 3}"', id="twice")
    cut = Say("I pay.", calls=(Call("pay", {"amount": 1}), Call("pay", {"amount": 2})))
    anthropic.play([Say(calls=(*broken, twice)), replace(cut, stop="max_tokens"), "I see."])
    model = model_of(anthropic, interface="claude_agent_sdk", model_provider=None)
    servers: Any = {"bank": nursery.stdio_config(state_dir=str(tmp_path))}
    config = AgentConfig(extra={"pass_through_servers": True})

    result = await get_agent(model, auto_fallback=False).arun(ASK, None, servers, config)

    assert StateDir(tmp_path).ledger() == ["3"]
    replies = answers(result)
    assert [replies[call_id][1] for call_id in ("array", "number", "twice")] == [True, True, False]
    assert result.final_response == "I see."
