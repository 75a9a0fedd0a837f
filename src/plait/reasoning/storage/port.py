"""The protocol of a store of reasoning sessions."""

# ruff: noqa: D102 - a method without a docstring does what its name says

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from plait.reasoning import values
from plait.reasoning.values import ValueT


class ConflictError(Exception):
    """Another process changed the session between reading and writing; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in a list."""

    session: values.Session
    thoughts: int
    """The number of its thoughts that are not abandoned."""
    title: str
    """The start of its first thought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The calls of one tool with one backend, pipe and model, summed up."""

    tool_name: str
    backend: str | None
    pipe_name: str | None
    """`None` for calls that sent no request to a model."""
    model: str | None
    requests: int
    failures: int
    average_latency_ms: float | None
    input_tokens: int
    output_tokens: int


class Storage(Protocol):
    """Stores sessions; every method that writes is one transaction.

    `create_…`, `update_…` and `log_…` write one row, and replace the row with the same id.
    Lists are in order of creation, except checkpoints, which come newest first.
    """

    async def open(self) -> None:
        """Create or migrate the tables.

        Raises:
            ConfigError: The database cannot be opened, or a newer version made it.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...

    async def write(self, changes: values.Changes) -> None:
        """Write all changes, or none of them.

        Raises:
            ConflictError: The session is not at the version that was read.
        """
        ...

    async def get(self, kind: type[ValueT], key: str) -> ValueT | None:
        """Return the value of a kind with this id."""
        ...

    async def find(
        self,
        kind: type[ValueT],
        *,
        abandoned: bool = True,
        newest: bool = False,
        limit: int | None = None,
        offset: int | None = None,
        **where: str | int | None,
    ) -> Sequence[ValueT]:
        """Return the values of a kind with these fields, in order of creation or newest first.

        Without `abandoned`, abandoned ones are left out.
        """
        ...

    async def create_session(self, session: values.Session) -> None:
        await self.write(values.Changes(session=session))

    async def get_session(self, key: str) -> values.Session | None:
        return await self.get(values.Session, key)

    update_session = create_session

    async def delete_session(self, key: str) -> bool:
        """Delete a session and everything in it; return whether it existed."""
        ...

    async def list_sessions(
        self, *, limit: int = 50, offset: int = 0, status: str | None = None
    ) -> Sequence[SessionLine]:
        """Return sessions, the most recently changed first."""
        ...

    async def delete_sessions_before(self, time: str) -> int:
        """Delete sessions last changed before a time, and return how many."""
        ...

    async def create_thought(self, thought: values.Thought) -> None:
        await self.write(values.Changes(thoughts=(thought,)))

    async def get_thought(self, key: str) -> values.Thought | None:
        return await self.get(values.Thought, key)

    async def get_session_thoughts(
        self, session_id: str, *, abandoned: bool = False, limit: int | None = None, offset: int = 0
    ) -> Sequence[values.Thought]:
        """Return the thoughts of a session; with `abandoned`, abandoned ones as well."""
        return await self.find(
            values.Thought, abandoned=abandoned, limit=limit, offset=offset, session_id=session_id
        )

    async def count_session_thoughts(self, session_id: str) -> int:
        """Count the thoughts that are not abandoned."""
        ...

    async def get_recent_thoughts(self, session_id: str, limit: int) -> Sequence[values.Thought]:
        """Return the last thoughts, oldest first, at a cost independent of the session's size."""
        found = await self.find(
            values.Thought, abandoned=False, newest=True, limit=limit, session_id=session_id
        )
        return found[::-1]

    async def get_first_thought(self, session_id: str) -> values.Thought | None:
        found = await self.find(values.Thought, abandoned=False, limit=1, session_id=session_id)
        return next(iter(found), None)

    async def get_latest_thought(self, session_id: str) -> values.Thought | None:
        return next(iter(await self.get_recent_thoughts(session_id, 1)), None)

    async def get_same_thought(self, session_id: str, content: str) -> values.Thought | None:
        """Return the last thought with the same text, ignoring case and spacing."""
        found = await self.find(
            values.Thought,
            abandoned=False,
            newest=True,
            limit=1,
            session_id=session_id,
            fingerprint=values.fingerprint(content),
        )
        return next(iter(found), None)

    async def get_thought_chain(
        self, thought: values.Thought, limit: int
    ) -> Sequence[values.Thought]:
        """Return at most `limit` ancestors of a thought, oldest first."""
        ...

    async def get_best_thoughts(self, session_id: str, limit: int) -> Sequence[values.Thought]:
        """Return the thoughts of highest confidence, except on abandoned branches."""
        ...

    async def get_short_ids(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return short ids such as `t12` by the long ids of the values that have one."""
        ...

    async def search_thoughts(
        self, text: str, *, session_id: str | None = None, limit: int = 20
    ) -> Sequence[values.Thought]:
        """Return thoughts that contain the text, ignoring case, newest first."""
        ...

    async def create_branch(self, branch: values.Branch) -> None:
        await self.write(values.Changes(branches=(branch,)))

    async def get_branch(self, key: str) -> values.Branch | None:
        return await self.get(values.Branch, key)

    async def get_session_branches(self, session_id: str) -> Sequence[values.Branch]:
        return await self.find(values.Branch, session_id=session_id)

    update_branch = create_branch

    async def get_session_cross_refs(self, session_id: str) -> Sequence[values.CrossRef]: ...

    async def create_checkpoint(self, checkpoint: values.Checkpoint) -> None:
        await self.write(values.Changes(checkpoints=(checkpoint,)))

    async def get_checkpoint(self, key: str) -> values.Checkpoint | None:
        return await self.get(values.Checkpoint, key)

    async def get_session_checkpoints(self, session_id: str) -> Sequence[values.Checkpoint]:
        return await self.find(values.Checkpoint, newest=True, session_id=session_id)

    async def create_snapshot(self, snapshot: values.StateSnapshot) -> None:
        await self.write(values.Changes(snapshots=(snapshot,)))

    async def get_graph(self, key: str) -> values.Graph | None:
        return await self.get(values.Graph, key)

    async def get_session_graphs(self, session_id: str) -> Sequence[values.Graph]:
        return await self.find(values.Graph, session_id=session_id)

    async def get_latest_graph(self, session_id: str) -> values.Graph | None:
        """Return the newest graph of a session that has nodes that are not abandoned."""
        ...

    async def create_graph_node(self, node: values.GraphNode) -> None:
        await self.write(values.Changes(nodes=(node,)))

    async def get_graph_node(self, key: str) -> values.GraphNode | None:
        return await self.get(values.GraphNode, key)

    async def get_graph_nodes(self, graph_id: str) -> Sequence[values.GraphNode]:
        return await self.find(values.GraphNode, abandoned=False, graph_id=graph_id)

    async def get_session_graph_nodes(
        self, session_id: str, *, abandoned: bool = False
    ) -> Sequence[values.GraphNode]:
        return await self.find(values.GraphNode, abandoned=abandoned, session_id=session_id)

    update_graph_node = create_graph_node

    async def delete_graph_node(self, key: str) -> bool:
        """Delete a node and its edges; return whether it existed."""
        ...

    async def create_graph_edge(self, edge: values.GraphEdge) -> None:
        """Add an edge.

        Raises:
            ValueError: It would close a cycle.
        """
        ...

    async def get_graph_edges(self, graph_id: str) -> Sequence[values.GraphEdge]:
        return await self.find(values.GraphEdge, abandoned=False, graph_id=graph_id)

    async def get_session_edges(
        self, session_id: str, *, abandoned: bool = False
    ) -> Sequence[values.GraphEdge]:
        return await self.find(values.GraphEdge, abandoned=abandoned, session_id=session_id)

    async def log_invocation(self, invocation: values.Invocation) -> None:
        await self.write(values.Changes(invocations=(invocation,)))

    async def get_usage(self, *, session_id: str | None = None) -> Sequence[Usage]:
        """Sum up calls by tool, backend, pipe and model."""
        ...

    async def save_answer(self, run_id: str, key: str, answer: Mapping[str, Any]) -> None:
        """Keep a client's answer to a sampling request until the call is repeated."""
        ...

    async def get_answers(self, run_id: str) -> Mapping[str, Mapping[str, Any]]: ...
    async def delete_answers(self, run_id: str, *, before: str) -> None:
        """Delete the answers of a run, and all that are older than a time."""
        ...

    async def server_key(self, name: str) -> bytes:
        """Return 32 random bytes that all servers of this database share."""
        ...
