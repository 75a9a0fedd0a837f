"""A whole session, as it is drawn and exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.reasoning import values
from plait.reasoning.storage.port import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDocument:
    """A session with everything in it, abandoned thoughts and nodes included."""

    session: values.Session
    thoughts: Sequence[values.Thought]
    branches: Sequence[values.Branch]
    cross_refs: Sequence[values.CrossRef]
    checkpoints: Sequence[values.Checkpoint]
    graphs: Sequence[values.Graph]
    nodes: Sequence[values.GraphNode]
    edges: Sequence[values.GraphEdge]

    @property
    def parents(self) -> dict[str, str | None]:
        """What each thought follows; the first branch follows the last thought before it."""
        known = {thought.id for thought in self.thoughts}
        found: dict[str, str | None] = {}
        before: str | None = None
        for thought in self.thoughts:
            parent = thought.parent_id if thought.parent_id in known else None
            found[thought.id] = before if parent is None and thought.branch_id else parent
            if thought.branch_id is None and thought.abandoned_by is None:
                before = thought.id
        return found


async def read_document(store: Storage, session: values.Session) -> SessionDocument:
    """Read a whole session."""
    key = session.id
    return SessionDocument(
        session=session,
        thoughts=await store.get_session_thoughts(key, abandoned=True),
        branches=await store.get_session_branches(key),
        cross_refs=await store.get_session_cross_refs(key),
        checkpoints=await store.get_session_checkpoints(key),
        graphs=await store.get_session_graphs(key),
        nodes=await store.get_session_graph_nodes(key, abandoned=True),
        edges=await store.get_session_edges(key, abandoned=True),
    )
