"""Whatever `next` names can be called: random walks follow it in every mode and profile."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from plait.errors import PlaitError
from plait.reasoning.compact import COMPACT_TOOLS, compact_data, full_call
from plait.reasoning.results import result_data
from tests.unit.reasoning.conftest import Desk
from tests.unit.reasoning.test_nothing_lost import CONTENT
from tests.unit.reasoning.test_results import REPLIES

pytestmark = pytest.mark.anyio

STEPS = int(os.environ.get("WALK_STEPS", "8"))
"""The steps of one walk; seven walks are taken per profile and backend."""

Call = tuple[str, dict[str, Any]]

STARTS: Mapping[str, Call] = {
    "linear": ("linear", {"content": "a first step"}),
    "tree": ("tree", {"content": "which way?", "branches": CONTENT["branches"]}),
    "divergent": (
        "divergent",
        {
            "content": "see it anew",
            "perspectives": CONTENT["perspectives"],
            "synthesis": "together",
        },
    ),
    "reflection": (
        "reflection",
        {"content": "a claim", "reflection": {"analysis": "thin", "quality_score": 0.2}},
    ),
    "got": (
        "got_init",
        {"content": "root", "problem": "P", "config": {"max_nodes": 12, "max_depth": 3}},
    ),
    "auto": ("auto", {"content": "compare the options that there are for the long way home"}),
    "checkpoint": ("linear", {"content": "a step to return to"}),
}
LOOKS = ("session_where", "session_get", "session_list")
"""Calls between the steps, whose advice is followed too."""


class Walker:
    """Follows the advice of a server as an agent reads it."""

    def __init__(self, desk: Desk, profile: str) -> None:
        self.desk = desk
        self.is_compact = profile == "compact"
        self.refusals: list[str] = []
        self.session = ""

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result; a refusal is kept."""
        reasoner = self.desk.reasoner
        try:
            if self.is_compact:
                full_name, own = full_call(COMPACT_TOOLS[name], arguments)
                result = await reasoner.call(full_name, own, is_compact=True)
                data = await compact_data(full_name, result, self.desk.store)
            else:
                data = result_data(await reasoner.call(name, arguments))
        except PlaitError as error:
            self.refusals.append(f"{name} {arguments}: {error}")
            return {}
        self.session = str(data.get("session_id") or self.session)
        return data

    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool by its name in the full profile."""
        if tool == "session_where" and not self.is_compact:
            tool = "session_get"
        if not self.is_compact:
            return await self.call(f"reasoning_{tool}", arguments)
        for compact in COMPACT_TOOLS.values():
            for action, route in compact.routes.items():
                if route == tool:
                    selected = {compact.selector: action} if len(compact.routes) > 1 else {}
                    return await self.call(compact.name, {**selected, **arguments})
        raise AssertionError(tool)

    def moves(self, result: Mapping[str, Any]) -> list[Call]:
        """Read the calls that a result advises."""
        if not self.is_compact:
            return [
                (
                    move["tool"],
                    {
                        **move["arguments"],
                        **{name: CONTENT[name] for name in move.get("supply", ())},
                    },
                )
                for move in result.get("next", ())
            ]
        return [self._read(text) for text in result.get("next", ())]

    def _read(self, text: str) -> Call:
        """Read a line such as `reasoning_steer action=focus branch_id=b2: why`."""
        name, _, rest = text.partition(" ")
        name = name.rstrip(":")
        tool = COMPACT_TOOLS[name]
        arguments: dict[str, Any] = {}
        for key, value in re.findall(r"(\w+)=(.*?)(?= \w+=|: |$)", rest if rest else ""):
            kind = tool.schema["properties"][key].get("type")
            if value == "…":
                arguments[key] = CONTENT[key]
            else:
                arguments[key] = value.split(",") if kind == "array" else value
        if "session_id" in tool.properties:
            arguments.setdefault("session_id", self.session)
        return name, arguments


@pytest.mark.parametrize("profile", ["full", "compact"])
@pytest.mark.parametrize("backend", ["host", "scripted"])
async def test_no_advice_is_refused_on_random_walks(desk: Desk, profile: str, backend: str) -> None:
    if backend == "scripted":
        desk.script(REPLIES)
    walker = Walker(desk, profile)
    chance = random.Random(f"{profile} {backend}")
    followed: set[str] = set()
    for name, (tool, arguments) in STARTS.items():
        session = {"session_id": f"a session of the mode {name}"}
        if profile == "compact":
            arguments = {key: value for key, value in arguments.items() if key != "config"}
        result = await walker.start(tool, {**arguments, **session})
        if name == "checkpoint":
            result = await walker.start("checkpoint_create", {"name": "here", **session})
        for _ in range(STEPS):
            moves = walker.moves(result)
            if not moves or chance.random() < 0.15:
                look = chance.choice(LOOKS)
                own = {} if look == "session_list" else session
                walker.session = session["session_id"]
                moves = walker.moves(await walker.start(look, own)) or moves
            if moves:
                move = chance.choice(moves)
                result = await walker.call(*move)
                followed.add(json.dumps([move[0], move[1].get("action"), move[1].get("mode")]))

    assert walker.refusals == []
    assert len(followed) >= 6


async def test_a_full_graph_is_judged_and_concluded_but_not_grown(desk: Desk) -> None:
    config = {"max_nodes": 10, "max_depth": 5}
    await desk("got_init", content="root", problem="P", session_id="s", config=config)
    own = [{"thought": f"thought {number}", "confidence": 0.6} for number in range(9)]
    some = await desk("got_generate", session_id="s", continuations=own[:5])
    node = {"node_id": some["continuations"][0]["node_id"]}
    last = await desk("got_generate", session_id="s", continuations=own[5:], **node)
    judged = await desk("got_score", session_id="s", scores={"overall_score": 0.8}, **node)

    named = {move["tool"] for move in (*last["next"], *judged["next"])}
    assert "reasoning_got_generate" in {move["tool"] for move in some["next"]}
    assert named == {"reasoning_got_finalize"}
