"""What a caller writes is kept, results stay small, and advice can be followed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.errors import RefusedError
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.tool_registry import TOOLS
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio


async def test_as_many_branches_and_perspectives_are_kept_as_were_written(desk: Desk) -> None:
    own = [{"thought": f"way {number}"} for number in range(4)]
    views = [{"thought": f"view {n}", "novelty": 0.5, "viability": 0.5} for n in range(5)]

    tree = await desk("tree", content="x", branches=own, recommended_branch=3)
    divergent = await desk("divergent", content="x", perspectives=views, synthesis="all")

    assert [len(tree["child_branches"]), tree["recommended_branch_index"]] == [4, 3]
    assert [view["content"] for view in divergent["perspectives"]] == [v["thought"] for v in views]
    with pytest.raises(RefusedError, match="Between 2 and 4"):
        await desk("tree", content="x", branches=[*own, {"thought": "one too many"}])


async def test_what_belongs_to_a_node_is_kept_with_it(desk: Desk) -> None:
    await desk("got_init", content="root", session_id="s")
    own = [{"thought": "a", "rationale": "why a"}, {"thought": "b"}]
    await desk("got_generate", session_id="s", continuations=own)
    await desk(
        "got_score",
        session_id="s",
        node_id="n2",
        scores={"overall_score": 0.4, "validity": 0.9, "rationale": "too vague"},
    )
    joined = {
        "aggregated_thought": "ab",
        "synthesis_approach": "merge",
        "conflicts_resolved": ["a beats b"],
    }
    await desk("got_aggregate", session_id="s", node_ids=["n2", "n3"], aggregation=joined)
    refined = {"refined_thought": "finer", "improvements_made": ["shorter"], "quality_delta": 0.2}
    await desk("got_refine", session_id="s", node_id="n4", refinement=refined)

    notes = [node.metadata for node in await desk.store.get_session_graph_nodes("s")]
    assert notes[1] is not None
    assert notes[1]["rationale"] == "why a"
    assert notes[1]["judgement"]["rationale"] == "too vague"
    assert notes[1]["judgement"]["breakdown"]["validity"] == 0.9
    assert notes[3] == {"synthesis_approach": "merge", "conflicts_resolved": ["a beats b"]}
    assert notes[4] == {"improvements_made": ["shorter"], "quality_delta": 0.2}


async def test_questions_and_examined_texts_are_kept(desk: Desk) -> None:
    examination = {"analysis": "weak", "quality_score": 0.2}
    await desk("reflection", content="my text", session_id="s", reflection=examination)
    desk.script([{"thought": "an answer"}])
    await desk("linear", content="a question", session_id="s")

    analysis, answer = await desk.store.get_session_thoughts("s")
    assert analysis.metadata is not None
    assert analysis.metadata["examined"] == "my text"
    assert answer.metadata == {"question": "a question"}


async def test_a_checkpoint_can_be_told_without_its_state(desk: Desk) -> None:
    for number in range(30):
        await desk("linear", content=f"thought {number} " + "x" * 200, session_id="s")

    whole = await desk("checkpoint_create", session_id="s", name="whole")
    brief = await desk("checkpoint_create", session_id="s", name="n", include_snapshot=False)
    listed = await desk("checkpoint_list", session_id="s", include_snapshot=False)
    saving = Reasoner(desk.store, desk.completer, include_snapshots=False)
    quiet = result_data(await saving.call("reasoning_checkpoint_list", {"session_id": "s"}))

    assert len(whole["snapshot"]["thoughts"]) == 30
    assert "snapshot" not in brief
    assert brief["size"] == {"thoughts": 30, "branches": 0, "nodes": 0}
    assert quiet == listed
    assert len(json.dumps(listed)) < 1000


async def test_a_graph_can_be_resumed_from_what_is_shown(desk: Desk) -> None:
    await desk("got_init", content="r" * 5000, session_id="s", problem="P")
    own = [{"thought": "good", "confidence": 0.9}, {"thought": "bad", "confidence": 0.1}]
    await desk("got_generate", session_id="s", continuations=own)

    state = await desk("got_state", session_id="s", include_content=True)
    session = await desk("session_get", session_id="s")

    assert [node["content"] for node in state["nodes"]][:2] == ["good", "bad"]
    assert (state["problem"], len(state["nodes"][2]["content"])) == ("P", 200)
    assert session["graphs"][0]["nodes"] == state["nodes"]


CONTENT: dict[str, Any] = {
    "content": "something new to say",
    "conclusion": "that is it",
    "name": "here",
    "thought": "another way",
    "branches": [{"thought": "left"}, {"thought": "right"}],
    "perspectives": [{"thought": t, "novelty": 0.5, "viability": 0.5} for t in ("up", "down")],
    "synthesis": "together",
    "reflection": {"analysis": "fine", "quality_score": 0.5, "improved_thought": "finer"},
    "continuations": [{"thought": "c", "confidence": 0.85}],
    "scores": {"overall_score": 0.5},
    "aggregation": {"aggregated_thought": "ab"},
    "refinement": {"refined_thought": "finer"},
}


async def test_the_most_confident_branch_is_recommended_unless_one_is_named(desk: Desk) -> None:
    own = [{"thought": "a", "confidence": 0.4}, {"thought": "b", "confidence": 0.9}]

    assert (await desk("tree", content="x", branches=own))["recommended_branch_index"] == 1
    named = await desk("tree", content="x", branches=own, recommended_branch=0)
    assert named["recommended_branch_index"] == 0


async def _every_move_works(desk: Desk, result: dict[str, Any], *, depth: int) -> int:
    """Follow each move on a copy of the session, and the moves after it."""
    followed = 0
    for move in result.get("next", ()):
        tool = TOOLS[move["tool"]]
        arguments = dict(move["arguments"])
        arguments |= {name: CONTENT[name] for name in move.get("supply", ())}
        outcome = await desk.reasoner.call(tool.name, arguments)
        followed += 1
        if depth and tool.name != "reasoning_session_conclude":
            followed += await _every_move_works(desk, result_data(outcome), depth=depth - 1)
        if tool.name == "reasoning_session_conclude":
            await desk("session_reopen", session_id=arguments["session_id"])
    return followed


async def test_every_advice_can_be_followed(desk: Desk) -> None:
    own = CONTENT["branches"]
    begun = {
        "linear": await desk("linear", content="x", confidence=0.2, session_id="a"),
        "again": await desk("linear", content="x", session_id="a"),
        "tree": await desk("tree", content="x", session_id="b", branches=own),
        "divergent": await desk(
            "divergent",
            content="x",
            session_id="c",
            perspectives=CONTENT["perspectives"],
            synthesis="s",
        ),
        "auto": await desk("auto", content="x" * 80 + " compare", session_id="d"),
        "evaluate": await desk("reflection_evaluate", session_id="a"),
    }
    for name, result in begun.items():
        assert await _every_move_works(desk, result, depth=2) > 0, name


async def test_advice_about_a_graph_can_be_followed_until_its_limits(desk: Desk) -> None:
    limits = {"max_nodes": 10, "max_depth": 2}
    result = await desk("got_init", content="root", session_id="s", config=limits)
    followed: list[str] = []
    while "reasoning_session_conclude" not in followed:
        move = result["next"][0]
        arguments = dict(move["arguments"])
        arguments |= {name: CONTENT[name] for name in move.get("supply", ())}
        result = result_data(await desk.reasoner.call(move["tool"], arguments))
        followed.append(move["tool"])
        assert len(followed) < 12
    state = await desk("got_state", session_id="s")
    assert [step["tool"] for step in state["next"]] == ["reasoning_session_reopen"]
    assert [step["tool"] for step in (await desk("session_get", session_id="s"))["next"]] == [
        "reasoning_session_reopen"
    ]


LONG = "Write down, in order, everything that has to be done before the guests arrive on Sunday."


@pytest.mark.parametrize(
    ("content", "hints", "mode"),
    [
        (f"{LONG} One paragraph is enough.", [], "linear"),
        (f"{LONG} A novelist would.", [], "linear"),
        (f"{LONG} Draw a graph.", [], "got"),
        (LONG, ["use a tree"], "tree"),
        (LONG, ["Compare what there is"], "tree"),
        ("short", ["graph of thoughts"], "got"),
        (LONG, ["nothing that helps"], "linear"),
    ],
)
async def test_a_mode_is_chosen_by_words_and_hints(
    desk: Desk, content: str, hints: list[str], mode: str
) -> None:
    result = await desk("auto", content=content, hints=hints)

    assert result["recommended_mode"] == mode
