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


async def _session(store: Storage, key: str | None = None) -> Session:
    new = Session(mode="linear") if key is None else Session(mode="linear", id=key)
    await store.create_session(new)
    found = await store.get_session(new.id)
    assert found is not None
    return found


def _thought(session: Session, content: str, **facts: object) -> Thought:
    return replace(
        Thought(session_id=session.id, content=content, mode="linear"),
        **facts,  # pyright: ignore[reportArgumentType]
    )


async def test_every_value_comes_back_as_it_was_given(store: SqlStorage) -> None:
    session = await _session(store)
    branch = Branch(session_id=session.id, name=ODD, metadata={"a": [1, None, ODD]})
    other = Branch(session_id=session.id, name="b", parent_branch_id=branch.id)
    thought = _thought(session, ODD, branch_id=branch.id, metadata={"deep": {"er": True}})
    ref = CrossRef(from_branch_id=branch.id, to_branch_id=other.id, ref_type="extends")
    point = Checkpoint(session_id=session.id, name="here", snapshot={"thoughts": [ODD]})
    snapshot = StateSnapshot(session_id=session.id, snapshot_type="full", state_data={"x": 1})
    graph = Graph(session_id=session.id, config={"max_nodes": 3})
    one = GraphNode(graph_id=graph.id, session_id=session.id, content=ODD, is_root=True)
    two = replace(one, id="two", is_root=False, score=0.25, is_active=False)
    edge = GraphEdge(graph_id=graph.id, session_id=session.id, from_node=one.id, to_node=two.id)
    record = Invocation(session_id=session.id, tool_name="t", input={"q": ODD}, success=False)

    await store.write(
        Changes(
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
    )

    assert await store.get_branch(branch.id) == replace(branch, position=1)
    assert await store.get_thought(thought.id) == replace(thought, position=1)
    assert await store.get_session_cross_refs(session.id) == [ref]
    assert await store.get_checkpoint(point.id) == point
    every = select(tables.state_snapshots)
    assert await store.read_all(StateSnapshot, every) == [snapshot]
    assert await store.get_graph(graph.id) == graph
    assert await store.get_graph_nodes(graph.id) == [
        replace(one, position=1),
        replace(two, position=2),
    ]
    assert await store.get_graph_edges(graph.id) == [edge]
    assert await store.read_all(Invocation, select(tables.invocations)) == [record]
    assert await store.get_thought("nobody") is None


async def test_deleting_a_session_deletes_all_that_is_in_it(store: SqlStorage) -> None:
    session = await _session(store)
    branch = Branch(session_id=session.id, name="Root")
    graph = Graph(session_id=session.id, config={})
    node = GraphNode(graph_id=graph.id, session_id=session.id, content="n")
    record = Invocation(session_id=session.id, tool_name="t", input={})
    thought = _thought(session, "x", branch_id=branch.id)
    await store.write(
        Changes(
            session=replace(session, active_branch_id=branch.id),
            branches=(branch,),
            thoughts=(thought,),
            graphs=(graph,),
            nodes=(node,),
            invocations=(record,),
        )
    )

    assert await store.delete_session(session.id)

    assert await store.get_branch(branch.id) is None
    assert await store.get_thought(thought.id) is None
    assert await store.get_graph_node(node.id) is None
    assert await store.get_graph(graph.id) is None
    invocations = await store.read_all(Invocation, select(tables.invocations))
    assert [one.session_id for one in invocations] == [None]
    assert not await store.delete_session(session.id)


async def test_thoughts_keep_their_order_when_their_times_are_the_same(store: SqlStorage) -> None:
    session = await _session(store)
    same = "2026-01-01T00:00:00.000000+00:00"
    for text in "abcdef":
        await store.create_thought(_thought(session, text, created_at=same))

    found = await store.get_session_thoughts(session.id)

    assert [one.content for one in found] == [*"abcdef"]
    assert [one.position for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.content for one in await store.get_recent_thoughts(session.id, 2)] == ["e", "f"]
    latest, first = (
        await store.get_latest_thought(session.id),
        await store.get_first_thought(session.id),
    )
    assert latest is not None
    assert first is not None
    assert (first.content, latest.content) == ("a", "f")


async def test_what_a_backtrack_left_behind_is_listed_only_when_asked_for(
    store: SqlStorage,
) -> None:
    session = await _session(store)
    await store.create_thought(_thought(session, "kept"))
    await store.create_thought(_thought(session, "left", abandoned_by="s"))

    assert [one.content for one in await store.get_session_thoughts(session.id)] == ["kept"]
    every = await store.get_session_thoughts(session.id, abandoned=True)
    assert [one.content for one in every] == ["kept", "left"]
    latest = await store.get_latest_thought(session.id)
    assert latest is not None
    assert latest.content == "kept"


async def test_a_session_that_changed_in_between_is_not_overwritten(store: SqlStorage) -> None:
    read = await _session(store)
    await store.update_session(replace(read, mode="tree"))

    with pytest.raises(ConflictError):
        await store.write(Changes(session=read, thoughts=(_thought(read, "late"),)))

    assert await store.get_session_thoughts(read.id) == []
    found = await store.get_session(read.id)
    assert found is not None
    assert (found.mode, found.version) == ("tree", 2)


async def test_a_session_is_made_once(store: SqlStorage) -> None:
    await _session(store, "mine")

    with pytest.raises(ConflictError):
        await store.create_session(Session(mode="got", id="mine"))


async def test_nothing_is_written_when_a_part_cannot_be(store: SqlStorage) -> None:
    session = await _session(store)
    orphan = _thought(session, "x", session_id="nobody")

    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await store.write(Changes(session=session, thoughts=(_thought(session, "y"), orphan)))

    assert await store.get_session_thoughts(session.id) == []


async def test_an_edge_that_closes_a_cycle_is_refused(store: SqlStorage) -> None:
    session = await _session(store)
    graph = Graph(session_id=session.id, config={})
    a, b = (
        GraphNode(graph_id=graph.id, session_id=session.id, content=name, id=name)
        for name in ("a", "b")
    )
    await store.write(Changes(graphs=(graph,), nodes=(a, b)))
    there = GraphEdge(graph_id=graph.id, session_id=session.id, from_node="a", to_node="b")
    await store.create_graph_edge(there)

    for source, target in (("b", "a"), ("a", "a")):
        back = replace(there, id=source + target, from_node=source, to_node=target)
        with pytest.raises(ValueError, match="cycle"):
            await store.create_graph_edge(back)

    assert await store.get_graph_edges(graph.id) == [there]


async def test_branches_and_nodes_come_in_order_and_checkpoints_newest_first(
    store: SqlStorage,
) -> None:
    session = await _session(store)
    branches = [
        Branch(session_id=session.id, name=name, priority=priority)
        for name, priority in (("low", 1.0), ("high", 2.0), ("late", 1.0))
    ]
    points = [
        Checkpoint(session_id=session.id, name=name, snapshot={}, created_at=name) for name in "12"
    ]
    graph = Graph(session_id=session.id, config={})
    nodes = [
        GraphNode(graph_id=graph.id, session_id=session.id, content=content, depth=depth)
        for content, depth in (("deep", 2), ("bare", 1), ("top", 1))
    ]
    await store.write(
        Changes(branches=(*branches,), checkpoints=(*points,), graphs=(graph,), nodes=(*nodes,))
    )

    listed = await store.get_session_branches(session.id)
    assert [one.name for one in listed] == ["low", "high", "late"]
    assert [one.name for one in await store.get_session_checkpoints(session.id)] == ["2", "1"]
    assert [one.content for one in await store.get_graph_nodes(graph.id)] == ["deep", "bare", "top"]


async def test_a_thought_that_was_had_before_is_found(store: SqlStorage) -> None:
    session = await _session(store)
    await store.create_thought(_thought(session, "Is it   raining?"))

    again = await store.get_same_thought(session.id, "is it raining?")

    assert again is not None
    assert again.content == "Is it   raining?"
    assert await store.get_same_thought(session.id, "is it snowing?") is None


async def test_sessions_are_listed_and_searched_and_pruned(store: SqlStorage) -> None:
    old, new = await _session(store, "old"), await _session(store, "new")
    await store.create_thought(_thought(old, "The 100% solution"))
    await store.create_thought(_thought(new, "another _matter_"))
    await store.update_session(replace(old, updated_at="2020-01-01", status="concluded"))

    lines = await store.list_sessions()

    assert [(one.session.id, one.thoughts, one.title) for one in lines] == [
        ("new", 1, "another _matter_"),
        ("old", 1, "The 100% solution"),
    ]
    ids = [one.session.id for one in await store.list_sessions(status="concluded")]
    assert ids == ["old"]
    assert [one.session_id for one in await store.search_thoughts("100% SOL")] == ["old"]
    assert await store.search_thoughts("100_") == []
    assert await store.delete_sessions_before("2021") == 1
    assert [one.session.id for one in await store.list_sessions()] == ["new"]


async def test_answers_wait_for_the_call_that_asked(store: SqlStorage) -> None:
    await store.save_answer("run", "key", {"text": "first"})
    await store.save_answer("run", "key", {"text": "second"})
    await store.save_answer("other", "key", {"text": "x"})

    assert await store.get_answers("run") == {"key": {"text": "first"}}
    await store.delete_answers("run", before="2020")
    assert await store.get_answers("run") == {}
    assert await store.get_answers("other") == {"key": {"text": "x"}}


async def test_servers_of_one_database_share_a_key(store: SqlStorage) -> None:
    other = SqlStorage(store.database)

    assert await store.server_key("state") == await other.server_key("state")
    assert await store.server_key("state") != await store.server_key("another")
    assert len(await store.server_key("state")) == 32
    await other.aclose()


async def test_many_writers_at_once_get_places_of_their_own(store: SqlStorage) -> None:
    session = await _session(store)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.create_thought, _thought(session, str(number)))

    found = await store.get_session_thoughts(session.id)
    assert [one.position for one in found] == [*range(1, 21)]


async def test_use_of_models_is_summed(store: SqlStorage) -> None:
    for tokens, success in ((10, True), (5, False)):
        await store.log_invocation(
            Invocation(
                tool_name="t",
                pipe_name="p",
                model="m",
                input={},
                success=success,
                latency_ms=tokens,
                input_tokens=tokens,
            )
        )

    (use,) = await store.get_usage()

    assert (use.requests, use.failures, use.input_tokens, use.output_tokens) == (2, 1, 15, 0)
    assert use.average_latency_ms == 7.5
