"""Graphs of LangGraph that are not agents of plait, traced and limited."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from click.testing import CliRunner
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import SecretStr
from typing_extensions import override

from plait import AgentConfig, ModelConfig, get_agent
from plait import Message as PlaitMessage
from plait.agents import GraphLimitError, GraphTracer, TraceMiddleware
from plait.cli import main
from plait.testing import AnthropicServer, ScriptedChatModel, tool_call
from plait.traces import ToolCalled, Turn, read_trace, read_traces
from tests.servers import KEY

ASK = {"messages": [HumanMessage("Add.")]}


def add_numbers(a: int, b: int) -> int:
    """Add."""
    return a + b


add_numbers.__name__ = "add"
add = tool(add_numbers)


def graph_of(script: Any) -> Any:
    """Make a graph whose nodes are an agent with parallel tools, and a model alone."""
    inner = create_agent(ScriptedChatModel(script), [add])
    judge = ScriptedChatModel(["It is right."])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("research", inner)
    graph.add_node("judge", lambda state: {"messages": [judge.invoke(state["messages"])]})
    graph.add_edge(START, "research")
    graph.add_edge("research", "judge")
    return graph.compile()


def test_a_graph_with_a_sub_graph_and_parallel_tools_leaves_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    both = [tool_call("add", a=1, b=2), tool_call("add", a=3, b=4)]
    tracer = GraphTracer(path)

    graph_of([both, "Seven."]).invoke(ASK, {"callbacks": [tracer]})

    trace = read_trace(path)
    assert (trace.status, trace.turns, trace.final_response) == ("completed", 3, "It is right.")
    assert [event.node for event in trace.events if isinstance(event, Turn)] == [
        "research/model",
        "research/model",
        "judge",
    ]
    assert sorted(result.content for _, result in trace.calls if result) == ["3", "7"]
    first = next(event for event in trace.events if isinstance(event, Turn))
    assert {call.parent for call, _ in trace.calls} == {first.id}
    assert {call.call_id for call, _ in trace.calls} == {call["id"] for call in both}


def test_a_graph_ends_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    again = [[tool_call("add", a=1, b=2)] for _ in range(5)]

    with pytest.raises(GraphLimitError):
        graph_of(again).invoke(ASK, {"callbacks": [GraphTracer(path, max_turns=2)]})

    assert (read_trace(path).status, read_trace(path).turns) == ("limit", 2)


def show(path: Path) -> str:
    done = CliRunner().invoke(main, ["trace", "show", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_trace_show_names_the_nodes_of_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    both = [tool_call("add", a=1, b=2), tool_call("add", a=3, b=4)]

    graph_of([both, "Seven."]).invoke(ASK, {"callbacks": [GraphTracer(path)]})

    shown = show(path)
    assert "completed  langgraph · scripted · 3 turns · 2 tool calls" in shown
    assert shown.count("→ add  in research/tools") == 2
    assert "turn 1  in research/model" in shown
    assert "turn 3  in judge" in shown


def test_runs_at_the_same_time_have_a_trace_each(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"

    def answer(messages: list[Any]) -> Any:
        return [tool_call("add", a=1, b=2)] if len(messages) == 1 else "3."

    inner: Any = create_agent(ScriptedChatModel(answer), [add])

    inner.batch([ASK, ASK, ASK], {"callbacks": [GraphTracer(path)]})

    assert [(run.turns, len(run.calls), run.status) for run in read_traces(path)] == [
        (2, 1, "completed")
    ] * 3


WATCHERS = {"callback": GraphTracer, "middleware": TraceMiddleware}


def run_watched(kind: str, path: Path, script: Any, tools: Any = (add,), **limits: Any) -> Any:
    """Run an agent under a tracer of this kind, in an event loop, and return the tracer."""
    watcher: Any = WATCHERS[kind](path, **limits)
    is_middleware = kind == "middleware"
    agent: Any = create_agent(
        ScriptedChatModel(script), list(tools), middleware=[watcher] if is_middleware else []
    )
    config = {} if is_middleware else {"callbacks": [watcher]}
    anyio.run(lambda: agent.ainvoke(ASK, config))
    return watcher


@pytest.mark.parametrize("kind", WATCHERS)
@pytest.mark.parametrize(
    ("limits", "turns", "calls"),
    [
        ({"max_turns": 2}, 2, 4),
        ({"max_tool_calls": 3}, 2, 3),
        ({"max_tokens_total": 20}, 1, 2),
        ({"max_cost_usd": 0.5, "prices": lambda model, usage: 0.3}, 2, 4),
        ({"max_cost_usd": 0.5, "prices": lambda model, usage: None}, 1, 2),
    ],
    ids=["turns", "calls", "tokens", "cost", "unknown cost"],
)
def test_a_limit_ends_a_run_with_its_trace(
    kind: str, limits: dict[str, Any], turns: int, calls: int, tmp_path: Path
) -> None:
    path = tmp_path / "graph.jsonl"
    again = [[tool_call("add", a=1, b=2), tool_call("add", a=3, b=4)] for _ in range(9)]

    with pytest.raises(GraphLimitError) as caught:
        run_watched(kind, path, again, **limits)

    trace = read_trace(path)
    assert (trace.status, trace.turns, len(trace.calls)) == ("limit", turns, calls)
    assert caught.value.limit_reached
    assert caught.value.trace.run == trace.run
    assert len(caught.value.messages) >= turns
    assert caught.value.usage.total_tokens > 0


@tool
def hand_over(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Answer with a command."""
    return Command(update={"messages": [ToolMessage(text, tool_call_id=tool_call_id)]})


@tool
def explode() -> str:
    """Fail."""
    raise RuntimeError("no fuel")


@pytest.mark.parametrize("kind", WATCHERS)
def test_results_are_recorded_as_the_model_reads_them(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    run_watched(kind, path, [[tool_call("hand_over", text="over")], "Done."], [hand_over])

    ((_, result),) = read_trace(path).calls
    assert result is not None
    assert (result.content, result.is_error) == ("over", False)


@pytest.mark.parametrize("kind", WATCHERS)
def test_a_failure_is_in_the_trace(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    with pytest.raises(RuntimeError):
        run_watched(kind, path, [[tool_call("explode")], "Done."], [explode])

    trace = read_trace(path)
    assert (trace.status, trace.failure and trace.failure.message) == ("failed", "no fuel")
    ((_, result),) = trace.calls
    assert result is not None
    assert (result.content, result.is_error) == ("RuntimeError: no fuel", True)


@pytest.mark.parametrize("kind", WATCHERS)
def test_the_prompt_and_the_tools_are_recorded_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    watcher: Any = WATCHERS[kind](path)
    middleware = [watcher] if kind == "middleware" else []
    agent: Any = create_agent(
        ScriptedChatModel(["One.", "Two."]),
        [add],
        system_prompt="Be short.",
        middleware=middleware,
    )
    for _ in range(2):
        agent.invoke(ASK, {} if middleware else {"callbacks": [watcher]})

    for trace in read_traces(path):
        assert trace.started is not None
        assert [message.text for message in trace.started.messages] == ["Be short.", "Add."]
        assert trace.definitions["add"].description == "Add."
        assert set(trace.definitions["add"].input_schema["properties"]) == {"a", "b"}
    assert path.read_text().count('"event":"tool"') == 1


def start_of(path: Path) -> dict[str, Any]:
    """Return what a trace has about the model and the tools of its run."""
    trace = read_trace(path)
    assert trace.started is not None
    wanted = ("provider", "endpoint", "temperature", "max_tokens")
    return {
        "messages": [(one.role, one.text) for one in trace.started.messages],
        "model": trace.started.model,
        "settings": {name: trace.started.settings.get(name) for name in wanted},
        "tools": {
            one.name: (one.description, sorted(one.input_schema["properties"]))
            for one in trace.definitions.values()
        },
    }


def test_a_graph_has_the_trace_of_a_run_of_plait(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    model = ChatAnthropic(
        model_name="claude-test",
        api_key=SecretStr(KEY),
        base_url=anthropic.url,
        temperature=0.5,
        max_tokens_to_sample=77,
        timeout=None,
        stop=None,
    )
    config = ModelConfig(
        id="test",
        interface="langchain",
        model_provider="anthropic",
        model_name="claude-test",
        anthropic_base_url=anthropic.url,
        anthropic_api_key=SecretStr(KEY),
        temperature=0.5,
        max_tokens=77,
        system_prompt="Be short.",
    )

    def run_plait() -> None:
        agent = get_agent(config, auto_fallback=False)
        settings = AgentConfig(trace=tmp_path / "plait.jsonl")
        anyio.run(agent.arun, [PlaitMessage.user("Add.")], [add_numbers], {}, settings)

    def run_graph(kind: str) -> None:
        watcher: Any = WATCHERS[kind](tmp_path / f"{kind}.jsonl")
        middleware = [watcher] if kind == "middleware" else []
        agent: Any = create_agent(model, [add], system_prompt="Be short.", middleware=middleware)
        agent.invoke(ASK, {} if middleware else {"callbacks": [watcher]})

    for kind in ("plait", *WATCHERS):
        anthropic.play(["Done."])
        run_plait() if kind == "plait" else run_graph(kind)

    expected = start_of(tmp_path / "plait.jsonl")
    assert expected["settings"]["endpoint"] == anthropic.url
    assert start_of(tmp_path / "callback.jsonl") == expected
    assert start_of(tmp_path / "middleware.jsonl") == expected
    assert KEY not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_the_tools_of_every_agent_of_a_graph_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    graph: Any = StateGraph(MessagesState)
    graph.add_node("adder", create_agent(ScriptedChatModel(["One."] * 2), [add]))
    graph.add_node("asker", create_agent(ScriptedChatModel(["Two."] * 2), [confirm, add]))
    graph.add_edge(START, "adder")
    graph.add_edge("adder", "asker")
    compiled = graph.compile()

    for _ in range(2):
        compiled.invoke(ASK, {"callbacks": [GraphTracer(path)]})

    for trace in read_traces(path):
        assert {*trace.definitions} == {"add", "confirm"}
        assert trace.started is not None
        assert trace.started.tools == ("add",)


def test_a_graph_without_requests_has_its_start_and_end(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    graph: Any = StateGraph(MessagesState)
    graph.add_node("echo", lambda state: {"messages": state["messages"]})
    graph.add_edge(START, "echo")

    graph.compile().invoke(ASK, {"callbacks": [GraphTracer(path)]})

    trace = read_trace(path)
    assert trace.started is not None
    assert [one.text for one in trace.started.messages] == ["Add."]
    assert trace.status == "completed"


def test_a_router_with_a_prompt_of_its_own_leaves_the_question(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    model = ScriptedChatModel(["maths"])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("route", lambda state: {"messages": [model.invoke("Which subject is this?")]})
    graph.add_edge(START, "route")

    graph.compile().invoke(ASK, {"callbacks": [GraphTracer(path)]})

    started = read_trace(path).started
    assert started is not None
    assert [one.text for one in started.messages] == ["Add."]


def test_an_agent_in_a_tool_belongs_to_the_trace_of_the_outer_one(tmp_path: Path) -> None:
    watcher = TraceMiddleware(tmp_path / "outer.jsonl")
    other = TraceMiddleware(tmp_path / "other.jsonl")

    def agent_tool(name: str, watched: TraceMiddleware) -> Callable[[str], str]:
        inner: Any = create_agent(
            ScriptedChatModel([[tool_call("add", a=1, b=2)], "3."]), [add], middleware=[watched]
        )

        def delegate(question: str) -> str:
            """Ask another agent."""
            return inner.invoke({"messages": [("user", question)]})["messages"][-1].text

        delegate.__name__ = name
        return delegate

    tools = [tool(agent_tool("joined", watcher)), tool(agent_tool("apart", other))]
    both = [tool_call("joined", question="Add."), tool_call("apart", question="Add.")]
    outer: Any = create_agent(ScriptedChatModel([both, "Done."]), tools, middleware=[watcher])
    outer.invoke(ASK)

    trace = read_trace(tmp_path / "outer.jsonl")
    assert (trace.status, trace.turns, trace.final_response) == ("completed", 4, "Done.")
    names = [event.name for event in trace.events if isinstance(event, ToolCalled)]
    assert sorted(names) == ["add", "apart", "joined"]
    apart = read_trace(tmp_path / "other.jsonl")
    assert apart.started is not None
    assert (apart.turns, apart.started.parent_run) == (2, trace.run)


class Retry(AgentMiddleware[Any, Any, Any]):
    """Repeats a request that failed."""

    @override
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except RuntimeError:
            return handler(request)


class Flaky(AgentMiddleware[Any, Any, Any]):
    """Fails once."""

    failed = False

    @override
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        if not self.failed:
            self.failed = True
            raise RuntimeError("overloaded")
        return handler(request)


def test_a_request_that_other_middleware_repeats_is_one_turn(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    agent: Any = create_agent(
        ScriptedChatModel(["One."]), [], middleware=[TraceMiddleware(path), Retry(), Flaky()]
    )

    agent.invoke(ASK)

    assert (read_trace(path).status, read_trace(path).turns) == ("completed", 1)


@tool
def confirm() -> str:
    """Wait for the user."""
    return str(interrupt("Really?"))


def test_a_run_that_was_interrupted_continues_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    agent: Any = create_agent(
        ScriptedChatModel([[tool_call("confirm")], "Done."]),
        [confirm],
        middleware=[TraceMiddleware(path, max_tool_calls=1)],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "1"}}

    agent.invoke(ASK, config)
    before = read_trace(path)
    agent.invoke(Command(resume="yes"), config)

    trace = read_trace(path)
    assert (before.status, before.run) == ("unfinished", trace.run)
    ((_, result),) = trace.calls
    assert result is not None
    assert (trace.status, result.content) == ("completed", "yes")


def test_a_graph_that_waits_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    agent: Any = create_agent(
        ScriptedChatModel([[tool_call("confirm")]]), [confirm], checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "1"}, "callbacks": [GraphTracer(path)]}

    agent.invoke(ASK, config)

    assert read_trace(path).status == "unfinished"


def test_a_request_that_failed_is_no_turn(tmp_path: Path) -> None:
    model = ScriptedChatModel([ConnectionError("try again"), "Three."])

    def ask(state: MessagesState) -> Any:
        with contextlib.suppress(ConnectionError):
            return {"messages": [model.invoke(state["messages"])]}
        return {"messages": [model.invoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    path = tmp_path / "graph.jsonl"

    graph.compile().invoke(ASK, {"callbacks": [GraphTracer(path, max_turns=1)]})

    assert (read_trace(path).status, read_trace(path).final_response) == ("completed", "Three.")


def test_tools_that_fail_at_the_same_time_end_the_trace_once(tmp_path: Path) -> None:
    both_run = threading.Barrier(2, timeout=5)

    @tool
    def fail(text: str) -> str:
        """Fail together with another call."""
        both_run.wait()
        raise LookupError(text)

    path = tmp_path / "agent.jsonl"
    script = [[tool_call("fail", text="one"), tool_call("fail", text="two")]]
    agent: Any = create_agent(
        ScriptedChatModel(script), [fail], middleware=[TraceMiddleware(path, max_turns=3)]
    )

    with pytest.raises(LookupError):
        agent.invoke(ASK)

    trace = read_trace(path)
    assert [event.kind for event in trace.events].count("end") == 1
    assert (trace.status, len(trace.calls)) == ("failed", 2)
