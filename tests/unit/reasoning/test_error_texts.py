"""A call that does not fit is refused in words that help, and changes nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from sqlalchemy import select

from plait.errors import BackendError, RefusedError, ReplyError
from plait.reasoning.diagram import SessionDocument, read_document
from plait.reasoning.results import result_data
from plait.reasoning.storage import tables
from plait.reasoning.values import Invocation
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

OWN = [{"thought": "a"}, {"thought": "b"}]
VIEWS = [{"thought": text, "novelty": 0.5, "viability": 0.5} for text in "ab"]
LIKES = {"to_branch": "b", "type": "likes"}


async def _everything(desk: Desk) -> list[SessionDocument]:
    lines = await desk.store.list_sessions()
    return [await read_document(desk.store, line.session) for line in lines]


async def _refused(desk: Desk, tool: str, **arguments: Any) -> str:
    before = await _everything(desk)
    with pytest.raises(RefusedError) as caught:
        await desk(tool, **arguments)
    assert await _everything(desk) == before
    return str(caught.value)


INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("linear", {"content": " \n"}, "content - Content cannot be empty"),
    ("linear", {}, "content - is required"),
    ("linear", {"content": 3}, "content - must be a string"),
    ("linear", {"content": None}, "content - must be a string"),
    ("linear", {"content": "x\0y"}, "content - Text cannot hold NUL characters"),
    ("linear", {"content": "x", "confidence": "high"}, "confidence - must be a number"),
    ("linear", {"content": "x", "confidence": math.nan}, "confidence - must be a finite number"),
    ("linear", {"content": "x", "confidence": True}, "confidence - must be a number"),
    ("linear", {"content": "x", "session_id": ""}, "session_id - Session id cannot be empty"),
    ("linear", {"content": "x", "session_id": "y" * 201}, "session_id - Id cannot be longer than"),
    (
        "linear",
        {"content": "x" * 100_001},
        "content - Text cannot be longer than 100000 characters",
    ),
    ("linear", {"contents": "x"}, "content - is required; contents - is not a known argument"),
    ("linear", {"color": "x"}, "there are: content, session_id, confidence"),
    ("linear", {"content": "x", "branch": "b"}, "confidence, branch_from_thought, branch_id"),
    ("tree", {"content": "x", "num_branches": 2.5}, "num_branches - must be a whole number"),
    ("tree", {"content": "x", "cross_refs": [LIKES]}, "cross_refs[0].type - must be one of 'supp"),
    ("tree", {"content": "x", "branches": OWN[:1]}, "branches - Between 2 and 4 branches"),
    ("tree", {"content": "x", "branches": OWN, "recommended_branch": 2}, "Must be an index from 0"),
    ("divergent", {"content": "x", "perspectives": []}, "perspectives - Between 2 and 5"),
    ("divergent", {"content": "x", "perspectives": VIEWS}, "synthesis - Synthesis is required"),
    ("reflection", {}, "thought_id or content - Either thought_id or content must be provided"),
    ("reflection", {"thought_id": "t"}, "thought_id - Thought not found: t"),
    ("backtrack", {"checkpoint_id": "c"}, "checkpoint_id - Checkpoint not found: c"),
    ("got_generate", {}, "session_id - Either session_id or graph_id must be provided"),
    ("got_state", {"graph_id": "g"}, "graph_id - Graph not found: g"),
    ("got_aggregate", {"session_id": "s", "node_ids": ["n", "n"]}, "node_ids - At least 2 nodes"),
]
NO_SESSION = [
    ("tree_list", {}),
    ("tree_focus", {"branch_id": "b"}),
    ("reflection_evaluate", {}),
    ("checkpoint_create", {"name": "n"}),
    ("got_state", {}),
    ("session_search", {"query": "q"}),
    ("session_delete", {}),
]
OTHER: list[tuple[str, dict[str, Any], str]] = [
    ("tree", {"content": "x", "branch_id": "b"}, "Session error: Branch not found: b"),
    ("tree_complete", {"branch_id": "b"}, "Session error: Branch not found: b"),
    ("nothing", {}, "Unknown tool: reasoning_nothing"),
]


async def test_what_is_refused_is_said_and_changes_nothing(desk: Desk) -> None:
    for tool, arguments, text in INVALID:
        said = await _refused(desk, tool, **arguments)
        assert said.startswith("Validation failed: ")
        assert text in said, said
    for tool, arguments in NO_SESSION:
        said = await _refused(desk, tool, session_id="s", **arguments)
        assert said == "Session error: Session not found: s"
    for tool, arguments, text in OTHER:
        assert await _refused(desk, tool, **arguments) == text


async def test_ids_of_another_session_are_refused(desk: Desk) -> None:
    await desk("linear", content="x", session_id="mine")
    tree = await desk("tree", content="x", session_id="other", branches=OWN)
    thought = await desk("linear", content="x", session_id="other")
    point = await desk("checkpoint_create", session_id="other", name="p")
    graph = await desk("got_init", content="root", session_id="other")
    await desk("got_init", content="root", session_id="mine")
    node, branch = graph["root_node_id"], tree["branch_id"]
    no_branch = "Session error: Branch does not belong to this session"
    no_node = f"node_id - Node not found in this graph: {node}"
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("tree_focus", {"branch_id": branch}, no_branch),
        ("tree", {"content": "x", "branch_id": branch, "branches": OWN}, no_branch),
        ("tree", {"content": "x", "branches": OWN, "cross_refs": [refers_to(branch)]}, no_branch),
        ("divergent", {"content": "x", "branch_id": branch}, no_branch),
        (
            "reflection",
            {"thought_id": thought["thought_id"]},
            "thought_id - Thought does not belong",
        ),
        ("backtrack", {"checkpoint_id": point["id"]}, "session_id - Session ID does not match"),
        ("got_generate", {"node_id": node}, no_node),
        ("got_score", {"node_id": node}, no_node),
        ("got_refine", {"node_id": node}, no_node),
        ("got_finalize", {"terminal_node_ids": [node]}, f"terminal_{no_node.replace(' -', 's -')}"),
        ("got_state", {"graph_id": graph["graph_id"]}, "graph_id - Graph does not belong to this"),
    ]

    for tool, arguments, text in calls:
        assert text in await _refused(desk, tool, session_id="mine", **arguments)


async def test_a_graph_without_thoughts_has_no_conclusions(desk: Desk) -> None:
    await desk("got_init", content="root", session_id="s")

    text = await _refused(desk, "got_finalize", session_id="s")

    assert text.startswith("Validation failed: terminal_node_ids - There are no active nodes")


def refers_to(branch: str) -> dict[str, str]:
    return {"to_branch": branch, "type": "extends"}


async def test_numbers_outside_their_range_are_brought_into_it_and_told(desk: Desk) -> None:
    result = await desk(
        "tree",
        content="x",
        session_id="s",
        num_branches=9,
        confidence=-1,
        branches=[{"thought": "a", "confidence": 1.5}, {"thought": "b"}],
    )

    assert result["adjusted"] == {
        "num_branches": {"given": 9, "used": 4},
        "confidence": {"given": -1.0, "used": 0},
        "branches[0].confidence": {"given": 1.5, "used": 1},
    }
    assert result["confidence"] == 0
    assert result["child_branches"][0]["confidence"] == 1


async def test_a_null_is_taken_for_something_left_out(desk: Desk) -> None:
    result = await desk("linear", content="x", session_id=None, confidence=None)

    assert result["confidence"] == 0.8
    assert "adjusted" not in result


async def test_tools_that_begin_something_begin_a_session_under_a_given_id(desk: Desk) -> None:
    own: dict[str, dict[str, Any]] = {
        "linear": {},
        "tree": {"branches": OWN},
        "divergent": {"perspectives": VIEWS, "synthesis": "s"},
        "reflection": {"reflection": {"analysis": "a", "quality_score": 0.5}},
        "auto": {},
        "got_init": {},
    }
    for tool, arguments in own.items():
        await desk(tool, content="x", session_id=f"of {tool}", **arguments)

        found = await desk.store.get_session(f"of {tool}")
        assert found is not None
        assert found.mode == {"got_init": "got"}.get(tool, tool)


async def test_without_a_model_the_caller_is_told_exactly_what_to_supply(desk: Desk) -> None:
    begun = await desk("got_init", content="root", session_id="s")
    node = begun["root_node_id"]
    (other,) = (await desk("got_generate", session_id="s", continuations=[{"thought": "c"}]))[
        "continuations"
    ]
    point = await desk("checkpoint_create", session_id="s", name="p")

    wanted = {
        "branches": await _refused(desk, "tree", content="x", session_id="s"),
        "perspectives": await _refused(desk, "divergent", content="x", session_id="s"),
        "reflection": await _refused(desk, "reflection", content="x", session_id="s"),
        "thought": await _refused(desk, "backtrack", checkpoint_id=point["id"]),
        "continuations": await _refused(desk, "got_generate", session_id="s"),
        "scores": await _refused(desk, "got_score", session_id="s", node_id=node),
        "aggregation": await _refused(
            desk, "got_aggregate", session_id="s", node_ids=[node, other["node_id"]]
        ),
        "refinement": await _refused(desk, "got_refine", session_id="s", node_id=node),
    }

    for parameter, text in wanted.items():
        assert text.startswith(f"Input needed: {parameter} - No model is connected"), text
        assert f"and {parameter}=" in text


async def test_a_model_that_fails_leaves_only_a_record_of_it(desk: Desk) -> None:
    desk.script([BackendError("down", backend="scripted")])

    with pytest.raises(BackendError):
        await desk("linear", content="x", session_id="s")

    assert await desk.store.list_sessions() == []
    (record,) = await desk.store.read_all(Invocation, select(tables.invocations))
    assert (record.success, record.error, record.tool_name) == (False, "down", "reasoning_linear")


async def test_an_answer_that_does_not_fit_is_an_error_and_never_a_thought(desk: Desk) -> None:
    desk.script(["not JSON", "still not"])

    with pytest.raises(ReplyError):
        await desk("linear", content="x", session_id="s")

    assert await desk.store.get_session("s") is None


async def test_limits_of_a_graph_hold(desk: Desk) -> None:
    limits = {"max_nodes": 10, "max_depth": 1, "default_k": 9}
    begun = await desk("got_init", content="root", session_id="s", config=limits)
    own = [{"thought": f"t{number}", "confidence": 0.5} for number in range(9)]
    grown = await desk("got_generate", session_id="s", continuations=own)
    node = grown["continuations"][0]["node_id"]

    full = "Validation failed: nodes - Maximum of 10 nodes reached; prune or finalize"
    deep = "Validation failed: depth - Maximum depth 1 reached"
    root, one = begun["root_node_id"], own[:1]
    for tool, arguments, text in (
        ("got_refine", {"node_id": node, "refinement": {"refined_thought": "x"}}, full),
        ("got_generate", {"node_id": root, "continuations": one}, full),
        ("got_generate", {"node_id": node, "continuations": one}, deep),
    ):
        assert await _refused(desk, tool, session_id="s", **arguments) == text


async def test_branches_cannot_depend_on_each_other_in_a_circle(desk: Desk) -> None:
    first = await desk("tree", content="x", session_id="s", branches=OWN)
    one, two = (child["id"] for child in first["child_branches"])

    async def depend(source: str, target: str) -> dict[str, Any]:
        await desk("tree_focus", session_id="s", branch_id=source)
        refs = [{"to_branch": target, "type": "depends"}]
        return await desk("tree", content="x", session_id="s", branches=OWN, cross_refs=refs)

    await depend(one, two)
    with pytest.raises(RefusedError, match="in a circle"):
        await depend(two, one)


async def test_a_concluded_session_takes_nothing_until_it_is_reopened(desk: Desk) -> None:
    first = await desk("linear", content="x", session_id="s")
    ended = await desk(
        "session_conclude", session_id="s", conclusion="42", thought_ids=[first["thought_id"]]
    )
    assert ended["conclusion"]["text"] == "42"

    for tool, arguments in (
        ("linear", {"content": "y"}),
        ("got_init", {"content": "y"}),
        ("checkpoint_create", {"name": "y"}),
        ("session_conclude", {"conclusion": "y"}),
    ):
        text = await _refused(desk, tool, session_id="s", **arguments)
        assert "call reasoning_session_reopen" in text
    reopened = await desk("session_reopen", session_id="s", reason="more to say")
    assert reopened["former_conclusion"]["text"] == "42"
    await desk("linear", content="y", session_id="s")
    assert "is not concluded" in await _refused(desk, "session_reopen", session_id="s")


async def test_reading_tools_change_nothing(desk: Desk) -> None:
    await desk("linear", content="x", session_id="s")
    await desk("got_init", content="x", session_id="s")
    before = await _everything(desk)

    for tool in ("tree_list", "checkpoint_list", "reflection_evaluate", "got_state"):
        first = await desk.reasoner.call(f"reasoning_{tool}", {"session_id": "s"})
        again = await desk.reasoner.call(f"reasoning_{tool}", {"session_id": "s"})
        assert result_data(first) == result_data(again)

    assert await _everything(desk) == before


async def test_as_many_nodes_are_made_as_there_is_room_for_and_that_is_told(desk: Desk) -> None:
    await desk("got_init", content="root", session_id="s", config={"max_nodes": 10})
    own = [{"thought": f"t{number}"} for number in range(7)]
    await desk("got_generate", session_id="s", continuations=own)
    desk.script([{"continuations": [{"thought": f"u{number}"} for number in range(5)]}])

    result = await desk("got_generate", session_id="s", k=5)

    assert result["count"] == 2
    assert result["adjusted"] == {"k": {"given": 5, "used": 2}}
    assert "Give 2 continuations" in desk.completer.prompts[0].user
