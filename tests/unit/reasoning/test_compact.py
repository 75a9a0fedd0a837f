"""The compact profile reaches every mode with seven small tools and short results."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from plait.reasoning.backends.port import Completer, HostCompleter, ScriptedCompleter
from plait.reasoning.backends.settings import ReasoningSettings
from plait.reasoning.compact import COMPACT_TOOLS
from plait.reasoning.serving.mcp_server import build_server, listed_tools
from plait.reasoning.serving.service import open_service
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.tool_registry import TOOLS
from tests.unit.reasoning.test_results import REPLIES

pytestmark = pytest.mark.anyio

TEXT = "x" * 300
MOST = 400


class Compact:
    """Calls compact tools through a real client, and holds each result to its size."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, *thoughts: str, **arguments: Any) -> Any:
        """Call a tool; `thoughts` are texts that the result may hold."""
        result = await self.client.call_tool(f"reasoning_{tool}", arguments)
        (block,) = result.content
        text: str = getattr(block, "text", "")
        if result.is_error:
            return text
        assert json.loads(text) == result.structured_content
        for thought in sorted(thoughts, key=len, reverse=True):
            text = text.replace(thought, "")
        assert len(text) <= MOST, text
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text)
        return result.structured_content


async def _opened(tmp_path: Path, completer: Completer) -> AsyncIterator[Compact]:
    database = database_from_text(str(tmp_path / "reasoning.db"))
    settings = ReasoningSettings(profile="compact")
    async with (
        open_service(settings, database=database, completer=completer) as service,
        Client(build_server(service)) as client,
    ):
        yield Compact(client)


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Compact]:
    async for opened in _opened(tmp_path, HostCompleter()):
        yield opened


@pytest.fixture
async def with_model(tmp_path: Path) -> AsyncIterator[Compact]:
    async for opened in _opened(tmp_path, ScriptedCompleter(REPLIES)):
        yield opened


def test_seven_tools_have_less_than_six_kilobytes() -> None:
    tools = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        for tool in listed_tools("compact")
    ]

    assert len(tools) == 7
    assert len(json.dumps(tools)) <= 6000


def test_every_tool_of_the_full_profile_has_a_route() -> None:
    routes = {f"reasoning_{r}" for tool in COMPACT_TOOLS.values() for r in tool.routes.values()}

    assert routes == {*TOOLS, "reasoning_session_where"}


def test_every_advertised_argument_exists() -> None:
    for tool in COMPACT_TOOLS.values():
        known: set[str] = set()
        for route in tool.routes.values():
            if f"reasoning_{route}" in TOOLS:
                known |= set(TOOLS[f"reasoning_{route}"].params.model_fields)
        assert set(tool.properties) <= known, tool.name


async def test_every_mode_is_reached_with_short_ids_and_short_results(call: Compact) -> None:
    begun = await call("think", content=TEXT, total_thoughts=5)
    session = {"session_id": begun["session_id"]}
    assert begun["thought_id"] == "t1"
    assert len(begun["session_id"]) == 8
    await call("think", content=TEXT + "2", revises_thought="t1", **session)
    tree = await call(
        "explore", content=TEXT, branches=[{"thought": TEXT + str(n)} for n in range(4)], **session
    )
    assert [way["branch_id"] for way in tree["branches"]] == ["b2", "b3", "b4", "b5"]
    point = await call("steer", action="checkpoint", name="here", **session)
    assert point["checkpoint_id"] == "c1"
    await call("steer", action="focus", branch_id="b3", **session)
    step = await call("think", content=TEXT, **session)
    assert (step["branch_id"], step["follows"]) == ("b3", "t5")
    views = [{"thought": f"v{n}", "novelty": 0.1, "viability": 0.2} for n in range(5)]
    await call(
        "explore",
        mode="divergent",
        content=TEXT,
        perspectives=views,
        synthesis="together",
        **session,
    )
    found = {"analysis": "a", "quality_score": 0.3, "improved_thought": "better"}
    noted = await call("review", thought_id="t1", reflection=found, **session)
    assert noted["improved_id"].startswith("t")
    await call("review", "acceptable", action="evaluate", **session)
    await call("review", action="advise", content="compare", hints=["a tree"])
    await call("steer", action="complete", branch_id="b3", **session)
    listed = await call("steer", *tree_names(4), action="branches", **session)
    assert listed["branches"][0] == {"branch_id": "b1", "state": "active", "content": "Root"}
    back = await call("steer", action="backtrack", checkpoint_id="c1", thought="no", **session)
    assert back["restored"] == "c1"
    await call("steer", "here", action="checkpoints", **session)

    await call("graph", action="init", content=TEXT, problem="P", **session)
    own = [{"thought": f"{TEXT}{n}", "confidence": 0.6} for n in range(10)]
    grown = await call("graph", action="generate", continuations=own, **session)
    assert [node["node_id"] for node in grown["nodes"]][:2] == ["n2", "n3"]
    await call("graph", action="score", node_id="n2", scores={"overall_score": 0.9}, **session)
    joined = {"aggregated_thought": "ab"}
    nodes = ["n2", "n3"]
    await call("graph", action="aggregate", node_ids=nodes, aggregation=joined, **session)
    await call(
        "graph", action="refine", node_id="n4", refinement={"refined_thought": "c"}, **session
    )
    shown = await call("graph", TEXT[:99] + "…", action="state", **session)
    assert shown["more"] > 0
    await call("graph", action="prune", threshold=0.65, **session)
    await call("graph", "ab", TEXT + "5", action="finalize", terminal_node_ids=["n12"], **session)
    texts = (TEXT[:199] + "…", TEXT[:79] + "…", "better", "together", *tree_names(4))
    where = await call("session", *texts, **session)
    assert where["question"].startswith("xxx")
    assert where["budget"]["nodes"].endswith(" of 100")
    assert [*where["open_branches"]] == ["b2", "b4", "b5", "b3"]
    assert (where["checkpoints"], [*where["best_nodes"]]) == ({"c1": "here"}, ["n12", "n13"])
    assert where["next"]
    await call("session", action="conclude", conclusion=TEXT, **session)
    await call("session", TEXT, TEXT[:299] + "…", action="get", **session)
    await call("session", TEXT[:59] + "…", action="list")
    await call("session", TEXT[:119] + "…", action="search", query="xxx")
    await call("session", action="fork", **session)
    await call("session", TEXT, action="reopen", **session)
    assert (await call("session", action="delete", **session))["deleted"]


def tree_names(count: int) -> list[str]:
    return [f"Option {n + 1}: {TEXT[:27]}..." for n in range(count)]


async def test_texts_of_a_model_are_shown(with_model: Compact) -> None:
    step = await with_model("think", content="begin")
    session = {"session_id": step["session_id"]}
    names = ("Option 1: short", f"Option 2: {'ä' * 27}...", "Option 3: third")
    tree = await with_model("explore", *names, content="which way?", **session)
    await with_model("graph", action="init", content="root", **session)
    grown = await with_model("graph", action="generate", **session)

    assert step["content"] == "next step"
    assert tuple(way["content"] for way in tree["branches"]) == names
    assert [node["content"] for node in grown["nodes"]] == ["c0", "c1", "c2"]


async def test_refusals_name_compact_tools(call: Compact) -> None:
    begun = await call("think", content="x")
    session = {"session_id": begun["session_id"]}
    await call("session", action="conclude", conclusion="y", **session)

    assert "call reasoning_session action=reopen" in await call("think", content="z", **session)
    assert "must be one of focus, complete" in await call("steer", action="jump", **session)
    assert "Input needed: branches" in await call("explore", content="x")
    assert await call("linear", content="x") == "Unknown tool: reasoning_linear"
    assert "is not a known argument" in await call("think", content="x", color="red")


async def test_200_steps_make_no_context_bomb(call: Compact) -> None:
    begun = await call("think", content="step 0")
    session = {"session_id": begun["session_id"]}
    for number in range(1, 200):
        await call("think", content=f"step {number} of a long way", **session)

    await call("steer", action="checkpoint", name="far", **session)
    listed = await call("steer", action="checkpoints", **session)
    assert listed["checkpoints"][0]["holds"] == "200 thoughts"
    await call("session", **session)


async def test_prompts_and_instructions_name_compact_tools(call: Compact) -> None:
    prompt = await call.client.get_prompt("reason_tree", {"problem": "P"})
    text = json.dumps(prompt.model_dump(mode="json")) + (call.client.instructions or "")

    assert "reasoning_steer action=focus" in text
    assert set(re.findall(r"reasoning_[a-z_]+", text)) <= set(COMPACT_TOOLS)
