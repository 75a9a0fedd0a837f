"""Going back to a checkpoint restores what was there, and loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

OWN = [{"thought": "left"}, {"thought": "right"}]


async def _state(desk: Desk) -> dict[str, Any]:
    """Tell everything that counts in the session, as a checkpoint keeps it."""
    made = await desk("checkpoint_create", session_id="s", name="look")
    snapshot = dict(made["snapshot"])
    snapshot.pop("created_at")
    return snapshot


async def _begin(desk: Desk) -> dict[str, Any]:
    """Fill a session with a bit of everything."""
    await desk("linear", content="one", session_id="s")
    tree = await desk("tree", content="two", session_id="s", branches=OWN)
    await desk("tree_focus", session_id="s", branch_id=tree["child_branches"][1]["id"])
    await desk("got_init", content="root", session_id="s")
    own = [{"thought": "weak", "confidence": 0.1}, {"thought": "good", "confidence": 0.9}]
    await desk("got_generate", session_id="s", continuations=own)
    return tree


async def _change_everything(desk: Desk, tree: dict[str, Any]) -> None:
    await desk("linear", content="three", session_id="s")
    await desk("tree_complete", branch_id=tree["child_branches"][0]["id"], completed=False)
    await desk("tree", content="four", session_id="s", branches=OWN)
    await desk("tree_focus", session_id="s", branch_id=tree["branch_id"])
    await desk("got_prune", session_id="s")
    await desk("got_generate", session_id="s", continuations=[{"thought": "later"}])
    await desk("got_finalize", session_id="s")


async def test_everything_is_as_it_was_at_the_checkpoint(desk: Desk) -> None:
    tree = await _begin(desk)
    before = await _state(desk)
    point = await desk("checkpoint_create", session_id="s", name="here")
    await _change_everything(desk, tree)

    result = await desk("backtrack", checkpoint_id=point["id"], thought="another way")

    after = await _state(desk)
    assert after["graph"] == before["graph"]
    assert after["active_branch_id"] == before["active_branch_id"]
    assert after["thoughts"][:-1] == before["thoughts"]
    assert after["thoughts"][-1]["id"] == result["thought_id"]
    known = {one["id"]: one for one in before["branches"]}
    assert [one for one in after["branches"] if one["id"] in known] == before["branches"]
    assert {one["state"] for one in after["branches"] if one["id"] not in known} == {"abandoned"}


async def test_what_came_after_is_kept_on_an_abandoned_branch(desk: Desk) -> None:
    tree = await _begin(desk)
    point = await desk("checkpoint_create", session_id="s", name="here")
    await _change_everything(desk, tree)
    count = len(await desk.store.get_session_thoughts("s", abandoned=True))
    nodes = len(await desk.store.get_session_graph_nodes("s", abandoned=True))

    result = await desk("backtrack", checkpoint_id=point["id"], thought="another way")

    branches = {one.id: one for one in await desk.store.get_session_branches("s")}
    aside = branches[result["abandoned_branch_id"]]
    assert (aside.name, aside.state) == ("Abandoned after here", "abandoned")
    every = await desk.store.get_session_thoughts("s", abandoned=True)
    left = [one for one in every if one.abandoned_by == result["snapshot_id"]]
    assert [one.content for one in left] == ["three", "four", "left", "right"]
    assert len(every) == count + 1
    for thought in left:
        branch = branches[thought.branch_id or ""]
        assert aside.id in (branch.id, branch.parent_branch_id)
    # The node that was pruned is back, and the one that came later is still there.
    assert len(await desk.store.get_session_graph_nodes("s", abandoned=True)) == nodes + 1


async def test_one_can_go_back_and_then_forward_again(desk: Desk) -> None:
    await desk("linear", content="one", session_id="s")
    early = await desk("checkpoint_create", session_id="s", name="early")
    await desk("linear", content="two", session_id="s")
    late = await desk("checkpoint_create", session_id="s", name="late")

    await desk("backtrack", checkpoint_id=early["id"], thought="aside")
    assert [one["content"] for one in (await _state(desk))["thoughts"]] == ["one", "aside"]
    await desk("backtrack", checkpoint_id=late["id"], thought="on")

    contents = [one["content"] for one in (await _state(desk))["thoughts"]]
    assert contents == ["one", "two", "on"]


async def test_what_was_left_behind_is_not_shown_to_the_model(desk: Desk) -> None:
    await desk("linear", content="kept", session_id="s")
    point = await desk("checkpoint_create", session_id="s", name="here")
    await desk("linear", content="secret path", session_id="s")
    await desk("backtrack", checkpoint_id=point["id"], thought="another way")
    desk.script([{"thought": "ok", "confidence": 0.5}])

    await desk("linear", content="next", session_id="s")

    (prompt,) = desk.completer.prompts
    assert "another way" in prompt.user
    assert "secret path" not in prompt.user


async def test_a_graph_begun_after_the_checkpoint_is_left_behind(desk: Desk) -> None:
    first = await desk("got_init", content="first", session_id="s")
    point = await desk("checkpoint_create", session_id="s", name="here")
    await desk("got_init", content="second", session_id="s")

    await desk("backtrack", checkpoint_id=point["id"], thought="another way")

    state = await desk("got_state", session_id="s")
    assert state["graph_id"] == first["graph_id"]
    assert state["total_nodes"] == 1


async def test_a_copy_has_what_counts_and_goes_its_own_way(desk: Desk) -> None:
    await _begin(desk)
    before = await _state(desk)

    copy = await desk("session_fork", session_id="s", new_session_id="t")
    await desk("linear", content="only there", session_id="t")

    assert (copy["session_id"], copy["forked_from"]) == ("t", "s")
    there = await desk.store.get_session_thoughts("t")
    assert [one.content for one in there] == [
        *(one["content"] for one in before["thoughts"]),
        "only there",
    ]
    assert await _state(desk) == before
    assert {one.id for one in there}.isdisjoint(one["id"] for one in before["thoughts"])


async def test_a_session_is_read_in_pages(desk: Desk) -> None:
    for number in range(5):
        await desk("linear", content=f"t{number}", session_id="s")

    page = await desk("session_get", session_id="s", limit=2, offset=3)

    assert page["total_thoughts"] == 5
    assert [one["content"] for one in page["thoughts"]] == ["t3", "t4"]
    assert page["tokens"] == {"requests": 0, "input": 0, "output": 0}
