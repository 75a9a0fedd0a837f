"""The store keeps what it is given, the same way in SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from sqlalchemy import select

from plait.reasoning.storage import tables
from plait.reasoning.storage.port import ConflictError, Storage
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import (
    Branch,
    Changes,
    Checkpoint,
    CrossRef,
    Graph,
    GraphEdge,
    GraphNode,
    Invocation,
    Session,
    StateSnapshot,
    Thought,
)

pytestmark = pytest.mark.anyio

ODD = "näïve 思考 \U0001f9e0 'quoted' \"twice\" \\ %_ \n end"


async def _session(store: Storage, key: str = "s") -> Session:
    await store.create_session(Session(mode="linear", id=key))
    found = await store.get_session(key)
    assert found is not None
    return found


def _thought(content: str, session: str = "s", **facts: object) -> Thought:
    thought = Thought(session_id=session, content=content, mode="linear")
    return replace(thought, **facts)  # pyright: ignore[reportArgumentType]


async def test_every_value_comes_back_as_it_was_given_and_goes_with_its_session(
    store: SqlStorage,
) -> None:
    session = await _session(store)
    branch = Branch(session_id="s", name=ODD, metadata={"a": [1, None, ODD]}, is_judged=False)
    other = Branch(session_id="s", name="b", parent_branch_id=branch.id)
    thought = _thought(ODD, branch_id=branch.id, metadata={"deep": {"er": True}}, is_judged=False)
    ref = CrossRef(from_branch_id=branch.id, to_branch_id=other.id, ref_type="extends")
    point = Checkpoint(session_id="s", name="here", snapshot={"thoughts": [ODD]})
    snapshot = StateSnapshot(session_id="s", snapshot_type="full", state_data={"x": 1})
    graph = Graph(session_id="s", config={"max_nodes": 3})
    one = GraphNode(graph_id=graph.id, session_id="s", content=ODD, is_root=True)
    two = replace(one, id="two", is_root=False, score=0.25, is_active=False)
    edge = GraphEdge(graph_id=graph.id, session_id="s", from_node=one.id, to_node=two.id)
    record = Invocation(session_id="s", tool_name="t", input={"q": ODD}, success=False)
    changes = Changes(
        session=replace(session, active_branch_id=branch.id),
        branches=(branch, other),
        thoughts=(thought,),
        cross_refs=(ref,),
        checkpoints=(point,),
        snapshots=(snapshot,),
        graphs=(graph,),
        nodes=(one, two),
        edges=(edge,),
        invocations=(record,),
    )

    await store.write(changes)

    nodes = [replace(one, position=1), replace(two, position=2)]
    assert await store.get_branch(branch.id) == replace(branch, position=1)
    assert await store.get_thought(thought.id) == replace(thought, position=1)
    assert await store.get_session_cross_refs("s") == [ref]
    assert await store.get_checkpoint(point.id) == point
    every = select(tables.state_snapshots)
    assert await store.read_all(StateSnapshot, every) == [snapshot]
    assert await store.get_graph(graph.id) == graph
    assert await store.get_graph_nodes(graph.id) == nodes
    assert await store.get_graph_edges(graph.id) == [edge]
    assert await store.read_all(Invocation, select(tables.invocations)) == [record]
    assert await store.get_thought("nobody") is None

    assert await store.delete_session("s")
    assert await store.get_branch(branch.id) is None
    assert await store.get_thought(thought.id) is None
    assert await store.get_graph_node(one.id) is None
    assert await store.get_graph(graph.id) is None
    kept = await store.read_all(Invocation, select(tables.invocations))
    assert [one.session_id for one in kept] == [None]
    assert not await store.delete_session("s")


async def test_everything_comes_in_order_and_checkpoints_newest_first(store: SqlStorage) -> None:
    await _session(store)
    same = "2026-01-01T00:00:00.000000+00:00"
    for text in "abcdef":
        await store.create_thought(_thought(text, created_at=same))
    branches = [Branch(session_id="s", name=n, priority=p) for n, p in (("lo", 1), ("hi", 2))]
    points = [Checkpoint(session_id="s", name=n, snapshot={}, created_at=n) for n in "12"]
    graph = Graph(session_id="s", config={})
    nodes = [
        GraphNode(graph_id=graph.id, session_id="s", content=content, depth=depth)
        for content, depth in (("deep", 2), ("bare", 1), ("top", 1))
    ]
    await store.write(
        Changes(branches=(*branches,), checkpoints=(*points,), graphs=(graph,), nodes=(*nodes,))
    )

    found = await store.get_session_thoughts("s")
    assert [(one.content, one.position) for one in found] == [*zip("abcdef", range(1, 7))]  # noqa: B905
    assert [one.content for one in await store.get_recent_thoughts("s", 2)] == ["e", "f"]
    assert (await store.get_latest_thought("s"), await store.get_first_thought("s")) == (
        found[-1],
        found[0],
    )
    assert [one.name for one in await store.get_session_branches("s")] == ["lo", "hi"]
    assert [one.name for one in await store.get_session_checkpoints("s")] == ["2", "1"]
    assert [one.content for one in await store.get_graph_nodes(graph.id)] == ["deep", "bare", "top"]


async def test_what_a_backtrack_left_behind_is_listed_only_when_asked_for(
    store: SqlStorage,
) -> None:
    await _session(store)
    await store.create_thought(_thought("kept"))
    await store.create_thought(_thought("left", abandoned_by="s"))

    (kept,) = await store.get_session_thoughts("s")
    every = await store.get_session_thoughts("s", abandoned=True)
    assert [one.content for one in every] == ["kept", "left"]
    assert await store.get_latest_thought("s") == kept == every[0]


async def test_the_best_thoughts_are_those_that_somebody_judged(store: SqlStorage) -> None:
    await _session(store)
    for text, confidence, is_judged in (
        ("bare", 0.8, False),
        ("low", 0.3, True),
        ("hi", 0.9, True),
    ):
        await store.create_thought(_thought(text, confidence=confidence, is_judged=is_judged))

    best = await store.get_best_thoughts("s", 3)

    assert [one.content for one in best] == ["hi", "low", "bare"]


async def test_a_session_that_changed_in_between_is_not_overwritten(store: SqlStorage) -> None:
    read = await _session(store)
    await store.update_session(replace(read, mode="tree"))

    with pytest.raises(ConflictError):
        await store.write(Changes(session=read, thoughts=(_thought("late"),)))
    with pytest.raises(ConflictError):  # one that is there already
        await store.create_session(Session(mode="got", id="s"))

    assert await store.get_session_thoughts("s") == []
    found = await store.get_session("s")
    assert found is not None
    assert (found.mode, found.version) == ("tree", 2)


async def test_nothing_is_written_when_a_part_cannot_be(store: SqlStorage) -> None:
    session = await _session(store)

    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await store.write(
            Changes(session=session, thoughts=(_thought("y"), _thought("x", "nobody")))
        )

    assert await store.get_session_thoughts("s") == []


async def test_an_edge_that_closes_a_cycle_is_refused(store: SqlStorage) -> None:
    await _session(store)
    graph = Graph(session_id="s", config={})
    nodes = [GraphNode(graph_id=graph.id, session_id="s", content=n, id=n) for n in "ab"]
    await store.write(Changes(graphs=(graph,), nodes=(*nodes,)))
    there = GraphEdge(graph_id=graph.id, session_id="s", from_node="a", to_node="b")
    await store.create_graph_edge(there)

    for source in "ba":
        back = replace(there, id=f"{source}a", from_node=source, to_node="a")
        with pytest.raises(ValueError, match="cycle"):
            await store.create_graph_edge(back)

    assert await store.get_graph_edges(graph.id) == [there]


async def test_a_thought_that_was_had_before_is_found(store: SqlStorage) -> None:
    await _session(store)
    await store.create_thought(_thought("Is it   raining?"))

    again = await store.get_same_thought("s", "is it raining?")

    assert again is not None
    assert again.content == "Is it   raining?"
    assert await store.get_same_thought("s", "is it snowing?") is None


async def test_sessions_are_listed_and_searched_and_pruned(store: SqlStorage) -> None:
    old, _ = await _session(store, "old"), await _session(store, "new")
    await store.create_thought(_thought("The 100% solution", "old"))
    await store.create_thought(_thought("another _matter_", "new"))
    await store.update_session(replace(old, updated_at="2020-01-01", status="concluded"))

    lines = await store.list_sessions()

    assert [(one.session.id, one.thoughts, one.title) for one in lines] == [
        ("new", 1, "another _matter_"),
        ("old", 1, "The 100% solution"),
    ]
    ids = [one.session.id for one in await store.list_sessions(status="concluded")]
    assert ids == ["old"]
    assert [one.session_id for one in await store.search_thoughts("100% SOL")] == ["old"]
    assert await store.search_thoughts("solution", session_id="new") == []
    assert await store.search_thoughts("100_") == []
    assert await store.delete_sessions_before("2021") == 1
    assert [one.session.id for one in await store.list_sessions()] == ["new"]


async def test_answers_wait_for_the_call_that_asked(store: SqlStorage) -> None:
    for run, text in (("run", "first"), ("run", "second"), ("other", "x")):
        await store.save_answer(run, "key", {"text": text})

    assert await store.get_answers("run") == {"key": {"text": "first"}}
    await store.delete_answers("run", before="2020")
    assert await store.get_answers("run") == {}
    assert await store.get_answers("other") == {"key": {"text": "x"}}


async def test_servers_of_one_database_share_a_key(store: SqlStorage) -> None:
    other = SqlStorage(store.database)

    key = await store.server_key("state")
    assert key == await other.server_key("state")
    assert key != await store.server_key("another")
    assert len(key) == 32
    await other.aclose()


async def test_many_writers_at_once_get_places_of_their_own(store: SqlStorage) -> None:
    await _session(store)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.create_thought, _thought(str(number)))

    found = await store.get_session_thoughts("s")
    assert [one.position for one in found] == [*range(1, 21)]


async def test_use_of_models_is_summed(store: SqlStorage) -> None:
    call = Invocation(tool_name="t", pipe_name="p", model="m", input={})
    for tokens, success in ((10, True), (5, False)):
        facts = {"latency_ms": tokens, "input_tokens": tokens}
        await store.log_invocation(replace(call, id=str(tokens), success=success, **facts))

    (use,) = await store.get_usage()

    assert (use.requests, use.failures, use.input_tokens, use.output_tokens) == (2, 1, 15, 0)
    assert use.average_latency_ms == 7.5
