"""Copies a session under new ids, without its abandoned parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Branch, Changes, Session, new_id, now


class _NewIds(dict[str, str]):
    """A new id for each old value."""

    def __missing__(self, key: str) -> str:
        self[key] = new_id()
        return self[key]

    def of(self, key: str | None) -> str | None:
        """Return the new id for an id that may be `None`."""
        return None if key is None else self[key]


async def fork_changes(store: Storage, session: Session, *, key: str | None) -> Changes:
    """Return the changes that copy a session; checkpoints and abandoned parts are not copied."""
    ids = _NewIds()
    copy = Session(
        id=key or new_id(),
        mode=session.mode,
        metadata={**(session.metadata or {}), "forked_from": session.id, "forked_at": now()},
        active_branch_id=ids.of(session.active_branch_id),
    )
    own = {"session_id": copy.id, "position": None}
    thoughts = await store.get_session_thoughts(session.id)
    kept = {thought.id for thought in thoughts}
    branches = _parents_first(await store.get_session_branches(session.id))
    return Changes(
        session=copy,
        branches=tuple(
            replace(value, id=ids[value.id], parent_branch_id=ids.of(value.parent_branch_id), **own)
            for value in branches
        ),
        cross_refs=tuple(
            replace(
                value,
                id=new_id(),
                from_branch_id=ids[value.from_branch_id],
                to_branch_id=ids[value.to_branch_id],
            )
            for value in await store.get_session_cross_refs(session.id)
        ),
        thoughts=tuple(
            replace(
                value,
                id=ids[value.id],
                parent_id=ids.of(value.parent_id) if value.parent_id in kept else None,
                branch_id=ids.of(value.branch_id),
                **own,
            )
            for value in thoughts
        ),
        graphs=tuple(
            replace(value, id=ids[value.id], session_id=copy.id)
            for value in await store.get_session_graphs(session.id)
        ),
        nodes=tuple(
            replace(value, id=ids[value.id], graph_id=ids[value.graph_id], **own)
            for value in await store.get_session_graph_nodes(session.id)
        ),
        edges=tuple(
            replace(
                value,
                id=new_id(),
                session_id=copy.id,
                graph_id=ids[value.graph_id],
                from_node=ids[value.from_node],
                to_node=ids[value.to_node],
            )
            for value in await store.get_session_edges(session.id)
        ),
    )


def _parents_first(branches: Sequence[Branch]) -> list[Branch]:
    """Sort branches after their parents; a backtrack can make a newer branch the parent."""
    waiting = {branch.id: branch for branch in branches}
    ordered: list[Branch] = []

    def take(branch: Branch) -> None:
        if waiting.pop(branch.id, None) is None:
            return
        parent = waiting.get(branch.parent_branch_id or "")
        if parent is not None:
            take(parent)
        ordered.append(branch)

    for branch in branches:
        take(branch)
    return ordered
