"""With a changed library plait takes the slower public way, and still nothing runs twice."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import plait
from plait import ConfigError, MultiServerMCPClient
from plait.langchain import library_internals
from plait.langchain.tools.tool import is_observed
from plait.testing import ServerProcess
from tests.integration.langchain.paying_graphs import LAYOUTS, THREAD, Payment, opened, step
from tests.servers.till import ledger_of, served_till

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

Change = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def server(tmp_path: Path) -> Generator[ServerProcess]:
    with served_till(tmp_path) as running_till:
        yield running_till


@dataclass
class Scratchpad:
    """One that does not list answers."""

    step: int


CHANGES: dict[str, tuple[str, Change]] = {
    "no key of resumed runs": (
        "KNOWS_FIRST_RUNS",
        lambda patch: patch.delattr("langgraph._internal._constants.CONFIG_KEY_RESUMING"),
    ),
    "no list of answers": (
        "KNOWS_FIRST_RUNS",
        lambda patch: patch.setattr("langgraph._internal._scratchpad.PregelScratchpad", Scratchpad),
    ),
    "no hooks": (
        "KNOWS_OBSERVERS",
        lambda patch: patch.delattr("langchain_core.tracers.context._configure_hooks"),
    ),
    "other hooks": (
        "KNOWS_OBSERVERS",
        lambda patch: patch.setattr("langchain_core.tracers.context._configure_hooks", [object()]),
    ),
    "no function for callbacks": (
        "KNOWS_OBSERVERS",
        lambda patch: patch.delattr("langchain_core.callbacks.manager._configure"),
    ),
    "no variable of LangSmith": (
        "KNOWS_TRACING",
        lambda patch: patch.delattr("langsmith._internal._context._PARENT_RUN_TREE_REF"),
    ),
}


def flags_with(change: Change) -> dict[str, bool]:
    """Return what a new import of the module finds in a changed library."""
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        spec = importlib.util.find_spec(library_internals.__name__)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.startswith("KNOWS_")}


def test_this_version_has_everything_that_plait_looks_for() -> None:
    flags = flags_with(lambda _: None)
    # The oldest LangSmith that LangChain allows has its context elsewhere.
    has_context = importlib.util.find_spec("langsmith._internal._context") is not None
    assert flags == {
        "KNOWS_FIRST_RUNS": True,
        "KNOWS_OBSERVERS": True,
        "KNOWS_TRACING": has_context,
    }


@pytest.mark.parametrize("name", CHANGES)
def test_a_part_that_has_changed_is_switched_off_and_no_other(name: str) -> None:
    flag, change = CHANGES[name]
    if flag == "KNOWS_TRACING":
        pytest.importorskip("langsmith._internal._context")
    before = flags_with(lambda _: None)
    assert flags_with(change) == {**before, flag: False}


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch every part off."""
    for flag in ("KNOWS_FIRST_RUNS", "KNOWS_OBSERVERS", "KNOWS_TRACING"):
        monkeypatch.setattr(library_internals, flag, False)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_no_payment_is_made_twice_without_private_names(
    server: ServerProcess, tmp_path: Path, unknown: None, layout: str
) -> None:
    payments: list[Payment] = [("pay", 1), ("pay_approved", 20), ("pay", 300), ("pay_asked", 4000)]

    async def run(graph: Any) -> Any:
        for _ in range(9):
            if (texts := await step(graph, payments, tmp_path)) is not None:
                return texts
        raise AssertionError("the graph asks again and again")

    texts = await opened(server.url, layout, payments, str(tmp_path / "state.db"), run)

    assert texts == [f"paid {amount}" for _, amount in payments]
    assert sorted(ledger_of(tmp_path)) == [1, 20, 300, 4000]


async def called_in_graph(tool: BaseTool, **arguments: Any) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "tools")
    call = {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}
    graph = builder.compile(checkpointer=InMemorySaver())
    state = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, THREAD)
    return state["messages"][-1]


async def test_a_call_of_an_unknown_task_is_refused_before_it_is_sent(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Runtime:
        """One of a version that does not tell the task."""

        control = None

    monkeypatch.setattr("langgraph.runtime.get_runtime", Runtime)
    servers: Any = {"till": {"url": server.url}}
    async with MultiServerMCPClient(servers) as client:
        (pay,) = await client.get_tools(include="pay")
        with pytest.raises(ConfigError, match=r"langgraph.*was not sent.*without a checkpointer"):
            await called_in_graph(pay, amount=1)
        assert await pay.ainvoke({"amount": 2}) == "paid 2"

    assert ledger_of(tmp_path) == [2]


async def test_every_run_counts_as_observed_without_private_names(
    server: ServerProcess, unknown: None
) -> None:
    servers: Any = {"till": {"url": server.url}}
    async with MultiServerMCPClient(servers) as client:
        (pay,) = await client.get_tools(include="pay")
        assert is_observed(pay, None)
        assert await pay.ainvoke({"amount": 1}) == "paid 1"


async def test_a_call_whose_input_langchain_converts_otherwise_is_refused(
    server: ServerProcess, tmp_path: Path, unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(library_internals.InvocationTool, "_to_args_and_kwargs")
    servers: Any = {"till": {"url": server.url}}
    async with MultiServerMCPClient(servers, tool_interceptors=[passing]) as client:
        (pay,) = await client.get_tools(include="pay")
        with pytest.raises(ConfigError, match=r"langchain-core.*was not sent.*Install"):
            await pay.ainvoke({"amount": 1})

    assert ledger_of(tmp_path) == []


async def passing(request: Any, handler: Any) -> Any:
    return await handler(request)


def test_no_other_module_has_private_names_of_these_packages() -> None:
    private = re.compile(
        r"__pregel_|(langgraph|langsmith|langchain\w*)[\w.]*\._[a-z]"
        r"|_configure_hooks|_filter_injected_args|_to_args_and_kwargs|_injected_args_keys"
        r"|\._get_ls_params\(\)|_client_params|\"_async_client\""
    )
    root = Path(plait.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if private.search(path.read_text("utf-8"))
    }
    assert found == {"langchain/library_internals.py"}
