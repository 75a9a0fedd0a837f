"""Advice sends nobody back to a way that failed, and compares no score that nobody gave."""

from __future__ import annotations

import json

import pytest

from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS
from plait.reasoning.html import thinking
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio


async def _dead_end(desk: Desk) -> dict[str, str]:
    """Follow the better of two ways to a dead end, and go back."""
    own = [{"thought": "one team", "confidence": 0.7}, {"thought": "two teams", "confidence": 0.6}]
    tree = await desk("tree", content="which?", session_id="s", branches=own)
    failed, other = (child["id"] for child in tree["child_branches"])
    point = await desk("checkpoint_create", session_id="s", name="before")
    await desk("tree_focus", session_id="s", branch_id=failed)
    await desk("linear", content="it ends too late", session_id="s")
    back = await desk("backtrack", checkpoint_id=point["id"], thought="one team is too slow")
    return {
        "failed": failed,
        "other": other,
        "point": point["id"],
        "first": json.dumps(back["next"][0]),
        "aside": back["abandoned_branch_id"],
    }


async def test_after_a_backtrack_the_other_way_is_advised_and_the_failed_one_comes_last(
    desk: Desk,
) -> None:
    found = await _dead_end(desk)

    where = await desk("session_where", session_id="s")

    assert found["other"] in found["first"]
    assert list(where["open_branches"]) == [found["other"], found["failed"]]
    assert where["open_branches"][found["failed"]].endswith("(left after: it ends too late)")
    assert where["left_behind"] == {found["aside"]: "it ends too late"}
    assert found["failed"] not in json.dumps(where["next"])
    ended = await desk("tree_complete", branch_id=found["other"])
    assert ended["next"][0]["tool"] == "reasoning_session_conclude"
    assert found["failed"] in json.dumps(ended["next"][1])
    assert "left after: it ends too late" in ended["next"][1]["why"]


async def test_a_way_that_was_left_stays_marked_after_the_next_backtrack(desk: Desk) -> None:
    found = await _dead_end(desk)
    await desk("tree_focus", session_id="s", branch_id=found["other"])
    await desk("linear", content="it costs too much", session_id="s")
    back = await desk("backtrack", checkpoint_id=found["point"], thought="neither")

    where = await desk("session_where", session_id="s")

    assert all("left after" in text for text in where["open_branches"].values())
    assert {move["tool"] for move in back["next"]} == {"reasoning_linear", "reasoning_tree"}
    assert {*where["left_behind"].values()} == {"it ends too late", "it costs too much"}


async def test_steps_on_the_restored_branch_itself_mark_no_way(desk: Desk) -> None:
    await desk("linear", content="begin", session_id="s")
    point = await desk("checkpoint_create", session_id="s", name="before")
    await desk("linear", content="a dead end", session_id="s")
    await desk("backtrack", checkpoint_id=point["id"], thought="another way")

    where = await desk("session_where", session_id="s")

    assert where["open_branches"] == {}
    assert [*where["left_behind"].values()] == ["a dead end"]


async def test_a_score_that_nobody_gave_is_none_and_is_asked_for_first(desk: Desk) -> None:
    await desk("got_init", content="root", session_id="s")
    own = [{"thought": "bare"}, {"thought": "rated", "confidence": 0.9}]
    grown = await desk("got_generate", session_id="s", continuations=own)
    bare, rated = (node["node_id"] for node in grown["continuations"])

    state = await desk("got_state", session_id="s", include_content=True)
    assert {node["content"]: node["score"] for node in state["nodes"]} == {
        "root": None,
        "bare": None,
        "rated": 0.9,
    }
    assert grown["next"][0]["tool"] == "reasoning_got_score"
    assert grown["next"][0]["arguments"]["node_id"] == bare
    assert "aggregate" not in json.dumps(grown["next"])
    joined = await desk(
        "got_aggregate",
        session_id="s",
        node_ids=[bare, rated],
        aggregation={"aggregated_thought": "both"},
    )
    assert joined["confidence"] == 0.7  # what the contract promises for an answer without one
    ended = await desk("got_finalize", session_id="s")
    assert [(one["content"], one["score"]) for one in ended["conclusions"]] == [("both", None)]


@pytest.mark.parametrize(("second", "is_joined"), [(0.2, False), (0.49, False), (0.5, True)])
async def test_a_weak_node_is_never_advised_for_joining(
    desk: Desk, second: float, is_joined: bool
) -> None:
    await desk("got_init", content="root", session_id="s")
    own = [{"thought": "good", "confidence": 0.7}, {"thought": "other", "confidence": second}]
    grown = await desk("got_generate", session_id="s", continuations=own)

    assert ("reasoning_got_aggregate" in {move["tool"] for move in grown["next"]}) == is_joined


async def test_a_confidence_that_nobody_gave_is_in_no_picture_list_or_judgement(desk: Desk) -> None:
    await desk("linear", content="no number", session_id="s")
    await desk("linear", content="a number", session_id="s", confidence=0.8)
    own = [{"thought": "plain"}, {"thought": "sure", "confidence": 0.3}]
    await desk("tree", content="which?", session_id="s", branches=own, recommended_branch=0)
    session = await desk.store.get_session("s")
    assert session is not None
    document = await read_document(desk.store, session)

    texts = {kind: EXPORTERS[kind](document).content for kind in ("markdown", "mermaid", "svg")}
    assert "### 1. linear\n" in texts["markdown"]
    assert "### 2. linear, confidence 0.80" in texts["markdown"]
    assert "Option 1: plain: active, below Root\n" in texts["markdown"]
    for kind in ("mermaid", "svg"):
        assert "no number (" not in texts[kind]
        assert "a number (0.80)" in texts[kind]
    assert thinking(document).count("0.80") == thinking(document).count(">0.80<") + 1
    where = await desk("session_where", session_id="s")
    assert [*where["open_branches"].values()] == ["Option 1: plain", "0.30 Option 2: sure"]


async def test_an_evaluation_without_any_confidence_says_so(desk: Desk) -> None:
    await desk("linear", content="one", session_id="s")
    await desk("linear", content="two", session_id="s")

    result = await desk("reflection_evaluate", session_id="s")

    assert "nobody gave" in result["recommendation"]


async def test_a_way_that_nobody_recommended_is_only_the_first(desk: Desk) -> None:
    tree = await desk("tree", content="x", branches=[{"thought": "a"}, {"thought": "b"}])
    named = await desk(
        "tree", content="x", branches=[{"thought": "a"}, {"thought": "b"}], recommended_branch=1
    )

    assert tree["next"][0]["why"].startswith("follow the first way")
    assert named["next"][0]["why"].startswith("follow the recommended way")
