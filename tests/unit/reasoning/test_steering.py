"""A branch that is followed steers what comes next; thoughts can be revised and branched off."""

from __future__ import annotations

from typing import Any

import pytest
from dirty_equals import IsPartialDict

from plait.errors import BranchNotFoundError, RefusedError, ThoughtNotFoundError
from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS
from plait.reasoning.values import Thought
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

OWN = [{"thought": "left", "confidence": 0.7}, {"thought": "right", "confidence": 0.6}]


async def _thought(desk: Desk, result: dict[str, Any]) -> Thought:
    found = await desk.store.get_thought(result["thought_id"])
    assert found is not None
    return found


async def _fork(desk: Desk) -> tuple[str, str]:
    """Open two ways, and return their ids."""
    tree = await desk("tree", content="which way?", session_id="s", branches=OWN)
    left, right = (child["id"] for child in tree["child_branches"])
    return left, right


async def test_a_linear_step_goes_on_where_the_focus_is(desk: Desk) -> None:
    left, right = await _fork(desk)
    await desk("tree_focus", session_id="s", branch_id=right)
    one = await _thought(desk, await desk("linear", content="first", session_id="s"))
    two = await _thought(desk, await desk("linear", content="second", session_id="s"))
    await desk("tree_focus", session_id="s", branch_id=left)
    other = await _thought(desk, await desk("linear", content="elsewhere", session_id="s"))

    thoughts = {each.content: each for each in await desk.store.get_session_thoughts("s")}
    assert (one.branch_id, one.parent_id) == (right, thoughts["right"].id)
    assert (two.branch_id, two.parent_id) == (right, one.id)
    assert (other.branch_id, other.parent_id) == (left, thoughts["left"].id)


async def test_a_model_is_shown_the_path_and_then_the_best_of_the_rest(desk: Desk) -> None:
    await desk("linear", content="the question", session_id="s")
    left, right = await _fork(desk)
    await desk("tree_focus", session_id="s", branch_id=left)
    await desk("linear", content="far on the left", session_id="s")
    await desk("tree_focus", session_id="s", branch_id=right)
    desk.script([{"thought": "far on the right"}])

    await desk("linear", content="and then?", session_id="s")

    path, _, rest = desk.completer.prompts[0].user.partition("Other branches")
    assert path.splitlines()[1:4] == ["- the question", "- which way?", "- right"]
    assert "left" not in path
    assert "- [Option 1: left, active] far on the left" in rest


async def test_a_model_is_not_shown_abandoned_branches(desk: Desk) -> None:
    left, right = await _fork(desk)
    await desk("tree_complete", branch_id=left, completed=False)
    await desk("tree_focus", session_id="s", branch_id=right)
    desk.script([{"thought": "x"}])

    await desk("linear", content="and then?", session_id="s")

    assert "left" not in desk.completer.prompts[0].user


async def test_a_subtree_hangs_under_its_branch(desk: Desk) -> None:
    _, right = await _fork(desk)
    await desk("tree_focus", session_id="s", branch_id=right)
    here = await desk("tree", content="again", session_id="s", branches=OWN)
    there = await desk("tree", content="more", session_id="s", branch_id=right, branches=OWN)

    first, second = await _thought(desk, here), await _thought(desk, there)
    tip = next(one for one in await desk.store.get_session_thoughts("s") if one.content == "right")
    assert (first.branch_id, first.parent_id) == (right, tip.id)
    assert second.parent_id == first.id


async def test_a_document_names_the_branch_of_a_thought_and_what_it_follows(desk: Desk) -> None:
    left, _ = await _fork(desk)
    await desk("tree_focus", session_id="s", branch_id=left)
    await desk("linear", content="a step", session_id="s")

    session = await desk.store.get_session("s")
    assert session is not None
    text = EXPORTERS["markdown"](await read_document(desk.store, session)).content
    assert "### 1. tree, on Root" in text
    assert "### 4. linear, after 2, on Option 1: left" in text


async def test_more_thoughts_than_estimated_are_counted_without_the_estimate(desk: Desk) -> None:
    await desk("linear", content="one", session_id="s", total_thoughts=2)
    within = await desk("session_where", session_id="s")
    await _fork(desk)
    beyond = await desk("session_where", session_id="s")

    assert within["budget"]["thoughts"] == "1 of 2"
    assert beyond["budget"]["thoughts"] == 4


async def test_reasoning_leaves_a_branch_that_was_ended(desk: Desk) -> None:
    left, right = await _fork(desk)
    await desk("tree_focus", session_id="s", branch_id=right)
    await desk("tree_complete", branch_id=right, completed=False)
    back = await _thought(desk, await desk("linear", content="back", session_id="s"))
    root = (await desk.store.get_session_branches("s"))[0]
    assert back.branch_id == root.id

    opened = await desk("tree_focus", session_id="s", branch_id=right)
    again = await _thought(desk, await desk("linear", content="after all", session_id="s"))
    assert (opened["state"], again.branch_id) == ("active", right)
    assert left != right


async def test_a_clean_chain_is_coherent(desk: Desk) -> None:
    for text in ("one", "two", "three"):
        await desk("linear", content=text, session_id="s")

    assert (await desk("reflection_evaluate", session_id="s"))["coherence_score"] == 1.0


async def test_a_thought_revises_an_earlier_one(desk: Desk) -> None:
    await desk("linear", content="wrong", session_id="s", total_thoughts=3)
    await desk("linear", content="then", session_id="s")
    result = await desk(
        "linear", content="right", session_id="s", revises_thought=1, needs_more_thoughts=True
    )

    first, _, third = await desk.store.get_session_thoughts("s")
    assert result == IsPartialDict(
        thought_number=3, total_thoughts=4, next_thought_needed=True, revises_thought=first.id
    )
    assert (first.metadata, third.metadata) == ({"revised_by": third.id}, {"revises": first.id})
    desk.script([{"thought": "x"}])
    await desk("linear", content="go on", session_id="s")
    assert "- (revised later) wrong" in desk.completer.prompts[0].user


async def test_a_model_keeps_the_question_in_sight(desk: Desk) -> None:
    judged = {"analysis": "thin", "quality_score": 0.2}
    desk.script([{"thought": "first"}, {"thought": "second"}, judged, {"thought": "anew"}])

    step = await desk("linear", content="why is it slow?", session_id="s")
    await desk("linear", content="go on", session_id="s")
    point = await desk("checkpoint_create", session_id="s", name="here")
    await desk("reflection", thought_id=step["thought_id"], max_iterations=1)
    await desk("backtrack", checkpoint_id=point["id"], new_direction="elsewhere")

    first, *later = [prompt.user for prompt in desk.completer.prompts]
    assert first == "why is it slow?"
    assert [text.count("Question:\nwhy is it slow?") for text in later] == [1, 1, 1]


async def test_a_branch_begins_at_a_thought_and_goes_on_by_its_name(desk: Desk) -> None:
    one = await desk("linear", content="one", session_id="s")
    await desk("linear", content="two", session_id="s")
    side = {"session_id": "s", "branch_from_thought": "t1", "branch_id": "side"}
    begun = await desk("linear", content="aside", **side)
    again = await desk("linear", content="further", **side)
    last = await desk("linear", content="last", session_id="s")

    (branch,) = await desk.store.get_session_branches("s")
    assert (branch.name, begun["branch_id"]) == ("side", branch.id)
    assert begun["previous_thought"] == begun["branch_from_thought"] == one["thought_id"]
    assert again["previous_thought"] == begun["thought_id"]
    assert last["previous_thought"] == again["thought_id"]


async def test_numbers_are_those_of_the_session(desk: Desk) -> None:
    result = await desk(
        "linear", content="x", thought_number=7, total_thoughts=2, next_thought_needed=False
    )

    assert (result["thought_number"], result["next_thought_needed"]) == (1, False)
    assert result["adjusted"] == {"thought_number": {"given": 7, "used": 1}}
    assert [step["tool"] for step in result["next"]] == ["reasoning_session_conclude"]
    grown = await desk("linear", content="y", session_id=result["session_id"], total_thoughts=1)
    assert (grown["thought_number"], grown["total_thoughts"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"revises_thought": 9}, ThoughtNotFoundError),
        ({"branch_from_thought": "t9"}, ThoughtNotFoundError),
        ({"revises_thought": "nothing"}, ThoughtNotFoundError),
        ({"branch_id": "nowhere"}, BranchNotFoundError),
        ({"branch_id": "b9"}, BranchNotFoundError),
    ],
)
async def test_what_is_not_there_cannot_be_referred_to(
    desk: Desk, arguments: dict[str, Any], error: type[RefusedError]
) -> None:
    await desk("linear", content="x", session_id="s")

    with pytest.raises(error):
        await desk("linear", content="y", session_id="s", **arguments)

    assert len(await desk.store.get_session_thoughts("s")) == 1


async def test_short_ids_do_as_well_as_long_ones(desk: Desk) -> None:
    await desk("linear", content="one", session_id="s")
    left, right = await _fork(desk)
    begun = await desk("got_init", content="root", session_id="s")
    own = [{"thought": "a"}, {"thought": "b"}]
    grown = await desk("got_generate", graph_id="g1", session_id="s", continuations=own)
    point = await desk("checkpoint_create", session_id="s", name="here")

    focused = await desk("tree_focus", session_id="s", branch_id="b3")
    ended = await desk("tree_complete", session_id="s", branch_id="b2")
    noted = await desk(
        "reflection",
        session_id="s",
        thought_id="t1",
        reflection={"analysis": "fine", "quality_score": 0.9},
    )
    joined = await desk(
        "got_aggregate",
        session_id="s",
        node_ids=["n2", "n3"],
        aggregation={"aggregated_thought": "ab"},
    )
    refs = [{"to_branch": "b2", "type": "extends"}]
    await desk("tree", content="x", session_id="s", branches=OWN, cross_refs=refs)
    back = await desk("backtrack", session_id="s", checkpoint_id="c1", thought="again")

    assert (focused["id"], ended["id"]) == (right, left)
    assert noted["original_thought_id"] is not None
    assert joined["source_nodes"] == [node["node_id"] for node in grown["continuations"]]
    assert back["checkpoint_restored"] == point["id"]
    assert begun["graph_id"]
    with pytest.raises(RefusedError, match="session_id - is required with a short id"):
        await desk("tree_complete", branch_id="b2")


async def test_a_copy_of_a_session_refers_to_its_own_thoughts(desk: Desk) -> None:
    await desk("linear", content="wrong", session_id="s")
    await desk("linear", content="right", session_id="s", revises_thought=1)

    await desk("session_fork", session_id="s", new_session_id="copy")

    first, second = await desk.store.get_session_thoughts("copy")
    assert first.metadata == {"revised_by": second.id}
    assert second.metadata == {"revises": first.id}
