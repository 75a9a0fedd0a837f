"""The frame around a run, with an engine whose model is a list of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Any

import mcp_types as types
import pytest
from mcp.server import MCPServer

from plait import AgentConfig, ConfigError, Message, ModelConfig, StaticTool
from plait.agents import BatchTask, run_batch
from plait.agents.agent_run import AgentRun
from plait.agents.live_agent import Ending, LiveAgent
from plait.client.config.read import read_config
from plait.errors import AgentExecutionError, AgentServerConnectError
from plait.traces import ToolUseContent, UsageMetadata, read_trace

pytestmark = pytest.mark.anyio

MODEL = ModelConfig(id="toy", model_name="toy", interface="claude_tool", system_prompt="Be brief.")
ASK = [Message.user("Go on.")]
SECRET = "sk-canary-0123456789abcdef"


class Toy(LiveAgent):
    """Calls what it is told to, one call a turn, and then says that it is done."""

    engine = "toy"

    def __init__(self, *calls: tuple[str, dict[str, Any]], config: ModelConfig = MODEL) -> None:
        super().__init__(config)
        self._calls = calls
        self.runs: list[AgentRun] = []

    async def drive(self, run: AgentRun) -> Ending:
        self.runs.append(run)
        usage = UsageMetadata(1, 2, 3)
        for number, (name, arguments) in enumerate(self._calls):
            if number == run.settings.max_turns:
                return "limit"
            wish = ToolUseContent(f"c{number}", name, arguments)
            run.recorder.turn(Message.assistant(f"Turn {number}", [wish]), usage=usage)
            await run.call(wish.id, name, arguments)
        run.recorder.turn(Message.assistant("Done."), usage=usage, model="toy-1")
        return "completed"


def server() -> MCPServer:
    made = MCPServer("calc")

    @made.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @made.tool()
    def fail() -> str:
        raise RuntimeError("secret details")

    @made.tool()
    def nothing() -> types.CallToolResult:
        return types.CallToolResult(content=[])

    @made.tool()
    async def hang() -> str:
        await asyncio.sleep(60)
        return "late"

    return made


SERVERS: Any = {"calc": {"type": "sdk", "instance": server()}}


def texts(messages: Sequence[Message]) -> list[str]:
    results = [result for message in messages for result in message.tool_results]
    return [("! " if one.is_error else "") + one.content for one in results]


async def test_calls_go_to_servers_and_to_tools_of_the_program() -> None:
    twice = StaticTool("twice", function=lambda n: 2 * n)
    agent = Toy(("add", {"a": 1, "b": 2}), ("twice", {"n": 4}), ("nothing", {}))

    result = await agent.arun(ASK, [twice], SERVERS)

    assert texts(result.trace_messages) == ["3", "8", "The tool returned nothing."]
    assert result.final_response == "Done."
    assert (result.turns, result.usage.total_tokens) == (4, 12)
    assert result.actual_model == "toy-1"
    assert list(agent.runs[0].tools) == ["twice", "add", "fail", "nothing", "hang"]


async def test_what_goes_wrong_with_a_call_is_an_answer() -> None:
    agent = Toy(("fail", {}), ("add", {"a": "x"}), ("gone", {}))

    result = await agent.arun(ASK, None, SERVERS)

    failed, wrong, unknown = texts(result.trace_messages)
    assert failed.startswith("! ")
    assert "secret details" not in failed
    assert wrong.startswith("! ")
    assert unknown == "! there is no tool 'gone'; the tools are: add, fail, nothing, hang"


async def test_a_limit_and_a_timeout_keep_what_was_said(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    calls = [("add", {"a": 1, "b": 2}), ("hang", {}), ("add", {"a": 3, "b": 4})]

    limited = await Toy(*calls).arun(ASK, None, SERVERS, AgentConfig(max_turns=1))
    late = await Toy(*calls).arun(ASK, None, SERVERS, AgentConfig(timeout=0.5, trace=trace))

    assert (limited.limit_reached, limited.timeout_reached) == (True, False)
    assert (limited.turns, limited.final_response) == (1, "Turn 0")
    assert texts(limited.trace_messages) == ["3"]
    assert (late.limit_reached, late.timeout_reached) == (False, True)
    assert (late.turns, late.final_response) == (2, "Turn 1")
    assert late.usage.total_tokens == 6
    assert read_trace(trace).status == "timeout"


async def test_the_time_of_the_model_configuration_holds_too() -> None:
    config = MODEL.model_copy(update={"agent_timeout": 0.3})

    result = await Toy(("hang", {}), config=config).arun(ASK, None, SERVERS)

    assert result.timeout_reached


async def test_the_trace_says_what_the_agent_was_given(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"

    await Toy().arun([*ASK], None, SERVERS, AgentConfig(trace=trace, max_turns=7, timeout=9))

    started = read_trace(trace).started
    assert started is not None
    assert [one.text for one in started.messages] == ["Be brief.", "Go on."]
    assert (started.servers, started.max_turns, started.timeout_seconds) == (("calc",), 7, 9)
    assert "calc/add" in started.tools


async def test_a_failure_of_the_engine_is_one_error_without_secrets(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    config = MODEL.model_copy(update={"anthropic_api_key": None})

    class Broken(Toy):
        async def drive(self, run: AgentRun) -> Ending:
            raise RuntimeError(f"no: Authorization: Bearer {SECRET}")

    with pytest.raises(AgentExecutionError, match=r"toy: RuntimeError: no: .*\*\*\*") as caught:
        await Broken(config=config).arun(ASK, None, None, AgentConfig(trace=trace))

    assert "canary" not in "".join(format_exception(caught.value))
    assert read_trace(trace).status == "failed"
    assert b"canary" not in trace.read_bytes()


async def test_a_server_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    servers: Any = {"gone": {"command": "plait-has-no-such-program"}}

    with pytest.raises(AgentServerConnectError, match="gone"):
        await Toy().arun(ASK, None, servers, AgentConfig(trace=trace))

    assert read_trace(trace).status == "failed"
    assert read_trace(trace).started is not None


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="'add' is a tool of the program"):
        await Toy().arun(ASK, [StaticTool("add")], SERVERS)


async def test_a_run_needs_a_question() -> None:
    with pytest.raises(AgentExecutionError, match="no message to answer"):
        await Toy().arun([Message.system("Hello?")])


async def test_options_of_the_toolbox_reach_it() -> None:
    policy = {"default": "allow", "rules": [{"tool": "add", "when": {"a": "5"}, "do": "deny"}]}
    options = {"exclude": ["hang"], "result_budget": 1000, "policy": policy}
    agent = Toy(("add", {"a": 1, "b": 2}), ("add", {"a": 5, "b": 2}))

    result = await agent.arun(ASK, None, SERVERS, AgentConfig(tool_options=options))

    allowed, denied = texts(result.trace_messages)
    assert allowed == "3"
    assert "denied" in denied
    assert list(agent.runs[0].tools) == ["add", "fail", "nothing", "read_more"]


async def test_a_tool_of_the_program_that_is_denied_is_not_offered() -> None:
    called: list[str] = []
    tools = [StaticTool(name, function=partial(called.append, name)) for name in ("erase", "keep")]
    policy = {"default": "allow", "rules": [{"tool": "erase", "do": "deny"}]}
    agent = Toy(("erase", {}), ("keep", {}))

    await agent.arun(ASK, tools, None, AgentConfig(tool_options={"policy": policy}))

    assert list(agent.runs[0].tools) == ["keep"]
    assert called == ["keep"]


@pytest.mark.parametrize(
    ("known", "most_usd", "is_spent"),
    [(("toy", "toy-1"), 1.0, False), (("toy", "toy-1"), 0.1, True), (("toy",), 1.0, True)],
    ids=["cheaper", "as much", "nobody knows"],
)
async def test_a_cost_that_is_not_known_counts_as_more_than_the_limit(
    known: tuple[str, ...], most_usd: float, is_spent: bool
) -> None:
    agent = Toy()
    limits = AgentConfig(
        prices=lambda model, _: 0.1 if model in known else None, max_cost_usd=most_usd
    )

    await agent.arun(ASK, config=limits)

    assert agent.runs[0].is_spent() is is_spent


async def test_options_of_a_configuration_reach_the_toolbox_and_the_engine() -> None:
    policy = {"default": "allow", "rules": [{"tool": "add", "when": {"a": "5"}, "do": "deny"}]}
    config = read_config({"servers": {"calc": server()}, "policy": policy})
    agent = Toy(("add", {"a": 5, "b": 2}))

    result = await agent.arun(ASK, None, config)

    (denied,) = texts(result.trace_messages)
    assert "denied" in denied
    assert agent.runs[0].tool_option("policy") is not None


@pytest.mark.parametrize(
    ("options", "listens"),
    [({}, False), ({"policy": {"default": "allow"}}, True), ({"follow_tools": True}, True)],
)
async def test_servers_are_asked_for_changes_only_where_a_guard_wants_to_know(
    options: dict[str, Any], listens: bool
) -> None:
    asked: list[str] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        asked.append(ctx.method)
        return await call_next(ctx)

    watched = MCPServer("watched", middleware=[watch])

    @watched.tool()
    def say() -> str:
        return "said"

    servers: Any = {"watched": {"type": "sdk", "instance": watched}}

    await Toy(("say", {})).arun(ASK, None, servers, AgentConfig(tool_options=options))

    assert "tools/call" in asked
    assert ("subscriptions/listen" in asked) is listens


async def test_tools_that_would_be_deferred_are_offered_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Toy()

    await agent.arun(ASK, None, SERVERS, AgentConfig(tool_options={"defer": True}))

    assert list(agent.runs[0].tools) == ["add", "fail", "nothing", "hang"]
    assert "`defer` is not used for 4 of them" in caplog.text


async def test_what_hides_something_does_not_reach_the_model() -> None:
    hiding = MCPServer("hiding")

    @hiding.tool()
    def say() -> str:
        return "a\u200bb\u202ec"

    result = await Toy(("say", {})).arun(ASK, None, {"h": {"type": "sdk", "instance": hiding}})

    (text,) = texts(result.trace_messages)
    assert "\u200b" not in text
    assert "\u202e" not in text


async def test_no_more_tasks_of_a_batch_run_at_once_than_the_cap_allows() -> None:
    counts: list[int] = []
    running = 0

    class Counting(Toy):
        async def drive(self, run: AgentRun) -> Ending:
            nonlocal running
            running += 1
            counts.append(running)
            for _ in range(20):
                await asyncio.sleep(0)  # lets the others in
            running -= 1
            return await super().drive(run)

    tasks = [BatchTask(id=str(number), messages=ASK) for number in range(5)]

    outcomes = await run_batch(Counting(), tasks, max_concurrency=2)

    assert all(one.error is None for one in outcomes)
    assert max(counts) == 2


def test_a_blocking_run_works_inside_a_running_loop() -> None:
    async def inside() -> str:
        return Toy(("add", {"a": 1, "b": 2})).run(ASK, None, SERVERS).final_response

    assert asyncio.run(inside()) == "Done."
