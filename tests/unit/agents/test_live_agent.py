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
from plait._support.redact import Redactor
from plait.agents import BatchTask, run_batch
from plait.agents.agent_run import AgentRun
from plait.agents.live_agent import Ending, LiveAgent, recorder_for
from plait.client.config.read import read_config
from plait.errors import AgentExecutionError, AgentServerConnectError
from plait.traces import ToolUseContent, UsageMetadata, read_trace
from plait.traces.recorder import Recorder

pytestmark = pytest.mark.anyio

MODEL = ModelConfig(id="toy", model_name="toy", interface="claude_tool", system_prompt="Be brief.")
ASK = [Message.user("Go on.")]
SECRET = "sk-canary-0123456789abcdef"


class Toy(LiveAgent):
    """Makes its calls, one a turn, and then says that it is done."""

    engine = "toy"

    def __init__(self, *calls: tuple[str, dict[str, Any]], config: ModelConfig = MODEL) -> None:
        super().__init__(config)
        self._calls = calls
        self.runs: list[AgentRun] = []

    async def drive(self, run: AgentRun) -> Ending:
        self.runs.append(run)
        usage = UsageMetadata(1, 2, 3)
        for number, (name, arguments) in enumerate(self._calls):
            call = ToolUseContent(f"c{number}", name, arguments)
            run.recorder.turn(Message.assistant(f"Turn {number}", [call]), usage=usage)
            await run.call(call.id, name, arguments)
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
GONE: Any = {"gone": {"command": "plait-has-no-such-program"}}


def texts(messages: Sequence[Message]) -> list[str]:
    results = [result for message in messages for result in message.tool_results]
    return [("! " if one.is_error else "") + one.content for one in results]


async def test_every_call_gets_an_answer() -> None:
    twice = StaticTool("twice", function=lambda n: 2 * n)
    calls = [("add", {"a": 1, "b": 2}), ("twice", {"n": 4}), ("nothing", {}), ("fail", {})]
    agent = Toy(*calls, ("add", {"a": "x"}), ("gone", {}))

    result = await agent.arun(ASK, [twice], SERVERS)

    *made, failed, wrong, unknown = texts(result.trace_messages)
    assert made == ["3", "8", "The tool returned nothing."]
    assert failed.startswith("! ")
    assert "secret details" not in failed
    assert wrong.startswith("! ")
    assert unknown == "! there is no tool 'gone'; the tools are: twice, add, fail, nothing, hang"
    assert (result.turns, result.usage.total_tokens) == (7, 21)
    assert (result.final_response, result.actual_model) == ("Done.", "toy-1")


async def test_the_time_of_the_model_configuration_holds_too() -> None:
    config = MODEL.model_copy(update={"agent_timeout": 0.3})

    result = await Toy(("hang", {}), config=config).arun(ASK, None, SERVERS)

    assert result.timeout_reached


async def test_the_trace_says_how_the_agent_was_set_up(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"

    await Toy().arun([*ASK], None, SERVERS, AgentConfig(trace=trace, max_turns=7, timeout=9))

    started = read_trace(trace).started
    assert started is not None
    assert [one.text for one in started.messages] == ["Be brief.", "Go on."]
    assert (started.servers, started.max_turns, started.timeout_seconds) == (("calc",), 7, 9)
    assert "calc/add" in started.tools


@pytest.mark.parametrize(
    ("settings", "variables", "endpoint"),
    [
        ({"interface": "claude_tool"}, {}, "https://api.anthropic.com"),
        ({"interface": "claude_tool"}, {"ANTHROPIC_BASE_URL": "http://here"}, "http://here"),
        ({"model_provider": "openai"}, {}, "https://api.openai.com/v1"),
        ({"extra_kwargs": {"base_url": "http://a"}, "model_provider": "openai"}, {}, "http://a"),
        ({"interface": "openai_endpoint", "endpoint_base_url": "http://b"}, {}, "http://b/v1"),
        ({"interface": "openai_endpoint"}, {"OPENAI_BASE_URL": "http://c"}, None),
        ({"interface": "openrouter"}, {}, "https://openrouter.ai/api/v1"),
        ({"model_provider": "scripted"}, {}, None),
    ],
)
def test_a_trace_names_the_endpoint_that_requests_go_to(
    settings: dict[str, Any],
    variables: dict[str, str],
    endpoint: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model = ModelConfig.model_validate({"id": "m", "model_name": "x", **settings})
    run = AgentRun(model, AgentConfig(), ASK, Recorder(), Redactor(), None)
    run.temperature = None

    run.begin("x")

    started = run.recorder.trace.started
    assert started is not None
    assert started.settings.get("endpoint") == endpoint
    assert "temperature" not in started.settings


class Broken(Toy):
    async def drive(self, run: AgentRun) -> Ending:
        raise RuntimeError(f"no: Authorization: Bearer {SECRET}")


@pytest.mark.parametrize(
    ("agent", "messages", "tools", "servers", "error", "says"),
    [
        (Broken(), ASK, None, None, AgentExecutionError, r"toy: RuntimeError: no: .*\*\*\*"),
        (Toy(), ASK, None, GONE, AgentServerConnectError, "gone"),
        (Toy(), ASK, [StaticTool("add")], SERVERS, ConfigError, "'add' is a tool of the program"),
        (Toy(), [Message.system("?")], None, None, AgentExecutionError, "no message to answer"),
    ],
    ids=["the engine fails", "no such server", "two tools of one name", "no question"],
)
async def test_a_run_that_cannot_be_made_is_one_error_without_secrets(
    agent: Toy, messages: Any, tools: Any, servers: Any, error: Any, says: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(error, match=says) as failed:
        await agent.arun(messages, tools, servers, AgentConfig(trace=trace))

    assert "canary" not in "".join(format_exception(failed.value))
    if messages is ASK:
        assert b"canary" not in trace.read_bytes()
        assert (read_trace(trace).status, read_trace(trace).started is None) == ("failed", False)


POLICY = {"default": "allow", "rules": [{"tool": "add", "when": {"a": "5"}, "do": "deny"}]}


@pytest.mark.parametrize("place", ["the run", "the configuration of the servers"])
async def test_options_reach_the_toolbox_and_the_engine(place: str) -> None:
    options: dict[str, Any] = {"exclude": ["hang"], "result_budget": 1000, "policy": POLICY}
    agent = Toy(("add", {"a": 1, "b": 2}), ("add", {"a": 5, "b": 2}))
    servers, config = SERVERS, AgentConfig(tool_options=options)
    if place != "the run":
        servers, config = read_config({"servers": {"calc": server()}, **options}), AgentConfig()

    result = await agent.arun(ASK, None, servers, config)

    allowed, denied = texts(result.trace_messages)
    assert allowed == "3"
    assert "denied" in denied
    assert list(agent.runs[0].tools) == ["add", "fail", "nothing", "read_more"]
    assert agent.runs[0].tool_option("policy") is not None


async def test_a_tool_of_the_program_that_is_denied_is_not_offered() -> None:
    called: list[str] = []
    tools = [StaticTool(name, function=partial(called.append, name)) for name in ("erase", "keep")]
    policy = {"default": "allow", "rules": [{"tool": "erase", "do": "deny"}]}
    agent = Toy(("erase", {}), ("keep", {}))

    await agent.arun(ASK, tools, None, AgentConfig(tool_options={"policy": policy}))

    assert list(agent.runs[0].tools) == called == ["keep"]


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


@pytest.mark.parametrize(
    ("options", "listens"),
    [({}, False), ({"policy": {"default": "allow"}}, True), ({"follow_tools": True}, True)],
)
async def test_servers_are_asked_for_changes_only_where_a_guard_needs_them(
    options: dict[str, Any], listens: bool
) -> None:
    requests: list[str] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        requests.append(ctx.method)
        return await call_next(ctx)

    watched = MCPServer("watched", middleware=[watch])

    @watched.tool()
    def say() -> str:
        return "said"

    servers: Any = {"watched": {"type": "sdk", "instance": watched}}

    await Toy(("say", {})).arun(ASK, None, servers, AgentConfig(tool_options=options))

    assert "tools/call" in requests
    assert ("subscriptions/listen" in requests) is listens


async def test_tools_that_would_be_deferred_are_offered_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Toy()

    await agent.arun(ASK, None, SERVERS, AgentConfig(tool_options={"defer": True}))

    assert list(agent.runs[0].tools) == ["add", "fail", "nothing", "hang"]
    assert "`defer` is not used for 4 of them" in caplog.text


async def test_servers_that_are_kept_serve_several_runs() -> None:
    agent = Toy(("add", {"a": 1, "b": 2}))

    async with agent.keep_servers(SERVERS, {"tool_options": {"exclude": ["hang"]}}) as toolbox:
        first, second = [await agent.arun("Go.") for _ in range(2)]
        assert agent.keeps_servers
        assert {run.toolbox for run in agent.runs} == {toolbox}

    assert texts([*first.trace_messages, *second.trace_messages]) == ["3", "3"]
    assert "hang" not in agent.runs[0].tools
    assert not agent.keeps_servers


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
    with pytest.raises(ConfigError, match="max_concurrency is 0"):
        await run_batch(Counting(), tasks, max_concurrency=0)
    with pytest.raises(ConfigError, match="must be unique: 0"):
        await run_batch(Counting(), [*tasks, tasks[0]])


def recorded(error: BaseException | None, config: AgentConfig, *, ends: bool = False) -> Recorder:
    """Run a block with a recorder that an exception may leave."""
    with recorder_for(config, Redactor(["canary-value"])) as recorder:
        try:
            recorder.turn(Message.assistant("I look."))
            if ends:
                recorder.ended("limit")
        finally:
            if error is not None:
                raise error
    return recorder


@pytest.mark.parametrize(
    ("error", "ends", "status", "kinds"),
    [
        (LookupError("no canary-value"), False, "failed", ["turn", "failure", "end"]),
        (KeyboardInterrupt(), False, "cancelled", ["turn", "end"]),
        (asyncio.CancelledError(), False, "cancelled", ["turn", "end"]),
        (LookupError("while closing"), True, "limit", ["turn", "end", "failure"]),
    ],
)
def test_what_leaves_the_block_of_a_recorder_is_recorded_with_its_end(
    error: BaseException, ends: bool, status: str, kinds: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    heard: list[str] = []
    config = AgentConfig(trace=path, on_event=lambda event: heard.append(event.kind))

    with pytest.raises(type(error)):
        recorded(error, config, ends=ends)

    trace = read_trace(path)
    assert [event.kind for event in trace.events] == heard == kinds
    assert trace.status == status
    assert b"canary" not in path.read_bytes()
