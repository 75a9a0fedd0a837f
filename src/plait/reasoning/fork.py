"""Copying a session: what counts in it, under new ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Branch, Changes, Session, new_id, now


class _Names(dict[str, str]):
    """A new id for each old one."""

    def __missing__(self, key: str) -> str:
        self[key] = new_id()
        return self[key]

    def of(self, key: str | None) -> str | None:
        """Translate an id that may be missing."""
        return None if key is None else self[key]


async def fork_changes(store: Storage, session: Session, *, key: str | None) -> Changes:
    """Return the copy of a session; checkpoints and what was left behind stay in the original."""
    names = _Names()
    copy = Session(
        id=key or new_id(),
        mode=session.mode,
        metadata={**(session.metadata or {}), "forked_from": session.id, "forked_at": now()},
        active_branch_id=names.of(session.active_branch_id),
    )
    own = {"session_id": copy.id, "position": None}
    thoughts = await store.get_session_thoughts(session.id)
    kept = {thought.id for thought in thoughts}
    branches = _parents_first(await store.get_session_branches(session.id))
    return Changes(
        session=copy,
        branches=tuple(
            replace(one, id=names[one.id], parent_branch_id=names.of(one.parent_branch_id), **own)
            for one in branches
        ),
        cross_refs=tuple(
            replace(
                one,
                id=new_id(),
                from_branch_id=names[one.from_branch_id],
                to_branch_id=names[one.to_branch_id],
            )
            for one in await store.get_session_cross_refs(session.id)
        ),
        thoughts=tuple(
            replace(
                one,
                id=names[one.id],
                parent_id=names.of(one.parent_id) if one.parent_id in kept else None,
                branch_id=names.of(one.branch_id),
                **own,
            )
            for one in thoughts
        ),
        graphs=tuple(
            replace(one, id=names[one.id], session_id=copy.id)
            for one in await store.get_session_graphs(session.id)
        ),
        nodes=tuple(
            replace(one, id=names[one.id], graph_id=names[one.graph_id], **own)
            for one in await store.get_session_graph_nodes(session.id)
        ),
        edges=tuple(
            replace(
                one,
                id=new_id(),
                session_id=copy.id,
                graph_id=names[one.graph_id],
                from_node=names[one.from_node],
                to_node=names[one.to_node],
            )
            for one in await store.get_session_edges(session.id)
        ),
    )


def _parents_first(branches: Sequence[Branch]) -> list[Branch]:
    """Put each branch after its parent; a backtrack gives older branches a younger one."""
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
