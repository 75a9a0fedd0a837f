"""Stores reasoning sessions in SQLite or PostgreSQL."""

# ruff: noqa: D102 - `Storage` documents the methods

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from plait._support.redact import Redactor
from plait.errors import ConfigError
from plait.reasoning.graphs import closes_cycle
from plait.reasoning.storage import tables
from plait.reasoning.storage.engine import WRITES, Database, make_engine
from plait.reasoning.storage.migrate import migrate
from plait.reasoning.storage.port import SessionLine, Usage
from plait.reasoning.storage.rows import TABLES, ValueT, value_from_row
from plait.reasoning.storage.write_changes import write_changes
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
    fingerprint,
    now,
)

_sessions = tables.sessions
_thoughts = tables.thoughts
_branches = tables.branches
_cross_refs = tables.cross_refs
_checkpoints = tables.checkpoints
_graphs = tables.graphs
_nodes = tables.graph_nodes
_edges = tables.graph_edges
_invocations = tables.invocations
_answers = tables.answers
_keys = tables.server_keys


class SqlStorage:
    """A `Storage` in SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, connections: int = 5) -> None:
        self.database = database
        self.engine: AsyncEngine = make_engine(database, connections=connections)
        self.writer = self.engine.execution_options(**{WRITES: True})

    async def open(self) -> None:
        try:
            await migrate(self.engine)
        except (SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            reason = Redactor().excerpt(str(cause)) or type(cause).__name__
            raise ConfigError(f"the database {self.database} cannot be used: {reason}") from error

    async def aclose(self) -> None:
        await self.engine.dispose()

    async def write(self, changes: Changes) -> None:
        async with self.writer.begin() as connection:
            await write_changes(connection, changes)

    async def create_session(self, session: Session) -> None:
        await self.write(Changes(session=session))

    async def get_session(self, key: str) -> Session | None:
        return await self._read_id(Session, key)

    async def update_session(self, session: Session) -> None:
        await self.write(Changes(session=session))

    async def delete_session(self, key: str) -> bool:
        return await self._delete_sessions(_sessions.c.id == key) > 0

    async def list_sessions(
        self, *, limit: int = 50, offset: int = 0, status: str | None = None
    ) -> list[SessionLine]:
        live = and_(_thoughts.c.session_id == _sessions.c.id, _thoughts.c.abandoned_by.is_(None))
        count = select(func.count()).select_from(_thoughts).where(live).scalar_subquery()
        first = select(_thoughts.c.content).where(live).order_by(_thoughts.c.position).limit(1)
        root = (
            select(_nodes.c.content)
            .where(_nodes.c.session_id == _sessions.c.id)
            .order_by(_nodes.c.position)
            .limit(1)
        )
        title = func.coalesce(first.scalar_subquery(), root.scalar_subquery(), "")
        statement = select(_sessions, count.label("count"), title.label("title")).order_by(
            _sessions.c.updated_at.desc(), _sessions.c.id
        )
        if status is not None:
            statement = statement.where(_sessions.c.status == status)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(statement.limit(limit).offset(offset))).mappings()
            return [
                SessionLine(
                    session=value_from_row(Session, row),
                    thoughts=row["count"],
                    title=" ".join(row["title"].split())[:80],
                )
                for row in rows
            ]

    async def delete_sessions_before(self, time: str) -> int:
        return await self._delete_sessions(_sessions.c.updated_at < time)

    async def create_thought(self, thought: Thought) -> None:
        await self.write(Changes(thoughts=(thought,)))

    async def get_thought(self, key: str) -> Thought | None:
        return await self._read_id(Thought, key)

    async def get_session_thoughts(
        self,
        session_id: str,
        *,
        abandoned: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[Thought]:
        statement = select(_thoughts).where(_thoughts.c.session_id == session_id)
        if not abandoned:
            statement = statement.where(_thoughts.c.abandoned_by.is_(None))
        ordered = statement.order_by(_thoughts.c.position).limit(limit).offset(offset)
        return await self.read_all(Thought, ordered)

    async def count_session_thoughts(self, session_id: str) -> int:
        live = _live_thoughts(session_id).with_only_columns(func.count())
        async with self.engine.connect() as connection:
            return int(await connection.scalar(live) or 0)

    async def get_recent_thoughts(self, session_id: str, limit: int) -> list[Thought]:
        newest = _live_thoughts(session_id).order_by(_thoughts.c.position.desc()).limit(limit)
        return [*reversed(await self.read_all(Thought, newest))]

    async def get_first_thought(self, session_id: str) -> Thought | None:
        oldest = _live_thoughts(session_id).order_by(_thoughts.c.position)
        return await self._read_first(Thought, oldest)

    async def get_latest_thought(self, session_id: str) -> Thought | None:
        newest = _live_thoughts(session_id).order_by(_thoughts.c.position.desc())
        return await self._read_first(Thought, newest)

    async def get_same_thought(self, session_id: str, content: str) -> Thought | None:
        same = _live_thoughts(session_id).where(_thoughts.c.fingerprint == fingerprint(content))
        return await self._read_first(Thought, same.order_by(_thoughts.c.position.desc()))

    async def get_thought_chain(self, thought: Thought, limit: int) -> list[Thought]:
        chain: list[Thought] = []
        parent_id = thought.parent_id
        while parent_id is not None and len(chain) < limit:
            parent = await self.get_thought(parent_id)
            if parent is None:
                break
            chain.insert(0, parent)
            parent_id = parent.parent_id
        return chain

    async def search_thoughts(
        self, text: str, *, session_id: str | None = None, limit: int = 20
    ) -> list[Thought]:
        contains = func.lower(_thoughts.c.content).contains(text.lower(), autoescape=True)
        statement = select(_thoughts).where(contains)
        if session_id is not None:
            statement = statement.where(_thoughts.c.session_id == session_id)
        newest = statement.order_by(_thoughts.c.created_at.desc(), _thoughts.c.position.desc())
        return await self.read_all(Thought, newest.limit(limit))

    async def create_branch(self, branch: Branch) -> None:
        await self.write(Changes(branches=(branch,)))

    async def get_branch(self, key: str) -> Branch | None:
        return await self._read_id(Branch, key)

    async def get_session_branches(self, session_id: str) -> list[Branch]:
        statement = select(_branches).where(_branches.c.session_id == session_id)
        return await self.read_all(Branch, statement.order_by(_branches.c.position))

    async def update_branch(self, branch: Branch) -> None:
        await self.write(Changes(branches=(branch,)))

    async def get_session_cross_refs(self, session_id: str) -> list[CrossRef]:
        own = select(_branches.c.id).where(_branches.c.session_id == session_id)
        statement = select(_cross_refs).where(_cross_refs.c.from_branch_id.in_(own))
        ordered = statement.order_by(_cross_refs.c.created_at, _cross_refs.c.id)
        return await self.read_all(CrossRef, ordered)

    async def create_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self.write(Changes(checkpoints=(checkpoint,)))

    async def get_checkpoint(self, key: str) -> Checkpoint | None:
        return await self._read_id(Checkpoint, key)

    async def get_session_checkpoints(self, session_id: str) -> list[Checkpoint]:
        statement = select(_checkpoints).where(_checkpoints.c.session_id == session_id)
        newest = statement.order_by(_checkpoints.c.created_at.desc(), _checkpoints.c.id)
        return await self.read_all(Checkpoint, newest)

    async def create_snapshot(self, snapshot: StateSnapshot) -> None:
        await self.write(Changes(snapshots=(snapshot,)))

    async def get_graph(self, key: str) -> Graph | None:
        return await self._read_id(Graph, key)

    async def get_session_graphs(self, session_id: str) -> list[Graph]:
        statement = select(_graphs).where(_graphs.c.session_id == session_id)
        return await self.read_all(Graph, statement.order_by(_graphs.c.created_at, _graphs.c.id))

    async def get_latest_graph(self, session_id: str) -> Graph | None:
        live = select(_nodes.c.id).where(
            _nodes.c.graph_id == _graphs.c.id, _nodes.c.abandoned_by.is_(None)
        )
        statement = select(_graphs).where(_graphs.c.session_id == session_id, live.exists())
        newest = statement.order_by(_graphs.c.created_at.desc(), _graphs.c.id)
        return await self._read_first(Graph, newest)

    async def create_graph_node(self, node: GraphNode) -> None:
        await self.write(Changes(nodes=(node,)))

    async def get_graph_node(self, key: str) -> GraphNode | None:
        return await self._read_id(GraphNode, key)

    async def get_graph_nodes(self, graph_id: str) -> list[GraphNode]:
        return await self._nodes(_nodes.c.graph_id == graph_id, abandoned=False)

    async def get_session_graph_nodes(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[GraphNode]:
        return await self._nodes(_nodes.c.session_id == session_id, abandoned=abandoned)

    async def update_graph_node(self, node: GraphNode) -> None:
        await self.write(Changes(nodes=(node,)))

    async def delete_graph_node(self, key: str) -> bool:
        async with self.writer.begin() as connection:
            return (await connection.execute(delete(_nodes).where(_nodes.c.id == key))).rowcount > 0

    async def create_graph_edge(self, edge: GraphEdge) -> None:
        async with self.writer.begin() as connection:
            live = and_(_edges.c.graph_id == edge.graph_id, _edges.c.abandoned_by.is_(None))
            rows = (await connection.execute(select(_edges).where(live))).mappings()
            if closes_cycle([value_from_row(GraphEdge, row) for row in rows], edge):
                raise ValueError(f"an edge to {edge.to_node} would close a cycle")
            await write_changes(connection, Changes(edges=(edge,)))

    async def get_graph_edges(self, graph_id: str) -> list[GraphEdge]:
        return await self._edges(_edges.c.graph_id == graph_id, abandoned=False)

    async def get_session_edges(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[GraphEdge]:
        return await self._edges(_edges.c.session_id == session_id, abandoned=abandoned)

    async def log_invocation(self, invocation: Invocation) -> None:
        await self.write(Changes(invocations=(invocation,)))

    async def get_usage(self, *, session_id: str | None = None) -> list[Usage]:
        table = _invocations
        groups = (table.c.tool_name, table.c.backend, table.c.pipe_name, table.c.model)
        statement = select(
            *groups,
            func.count().label("requests"),
            func.count().filter(table.c.success.is_(False)).label("failures"),
            func.avg(table.c.latency_ms).label("latency"),
            func.coalesce(func.sum(table.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(table.c.output_tokens), 0).label("output_tokens"),
        )
        if session_id is not None:
            statement = statement.where(table.c.session_id == session_id)
        grouped = statement.group_by(*groups).order_by(*groups)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(grouped)).all()
        return [
            Usage(
                tool_name=row.tool_name,
                backend=row.backend,
                pipe_name=row.pipe_name,
                model=row.model,
                requests=row.requests,
                failures=row.failures,
                average_latency_ms=None if row.latency is None else float(row.latency),
                input_tokens=int(row.input_tokens),
                output_tokens=int(row.output_tokens),
            )
            for row in rows
        ]

    async def save_answer(self, run_id: str, key: str, answer: Mapping[str, Any]) -> None:
        row = {"run_id": run_id, "key": key, "answer": dict(answer), "created_at": now()}
        async with self.writer.begin() as connection:
            await connection.execute(self._insert(_answers).values(row).on_conflict_do_nothing())

    async def get_answers(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        statement = select(_answers.c.key, _answers.c.answer).where(_answers.c.run_id == run_id)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(statement)).all()
        return {row.key: row.answer for row in rows}

    async def delete_answers(self, run_id: str, *, before: str) -> None:
        expired = or_(_answers.c.run_id == run_id, _answers.c.created_at < before)
        async with self.writer.begin() as connection:
            await connection.execute(delete(_answers).where(expired))

    async def server_key(self, name: str) -> bytes:
        row = {"name": name, "value": secrets.token_bytes(32)}
        async with self.writer.begin() as connection:
            await connection.execute(self._insert(_keys).values(row).on_conflict_do_nothing())
            value = await connection.scalar(select(_keys.c.value).where(_keys.c.name == name))
        if value is None:
            raise LookupError(name)
        return bytes(value)

    async def read_all(self, kind: type[ValueT], statement: Select[Any]) -> list[ValueT]:
        """Run a statement over the table of a kind, and return its rows as values."""
        async with self.engine.connect() as connection:
            rows = (await connection.execute(statement)).mappings().all()
        return [value_from_row(kind, row) for row in rows]

    async def _read_first(self, kind: type[ValueT], statement: Select[Any]) -> ValueT | None:
        values = await self.read_all(kind, statement.limit(1))
        return values[0] if values else None

    async def _read_id(self, kind: type[ValueT], key: str) -> ValueT | None:
        table = TABLES[kind]
        return await self._read_first(kind, select(table).where(table.c.id == key))

    async def _nodes(self, where: ColumnElement[bool], *, abandoned: bool) -> list[GraphNode]:
        statement = select(_nodes).where(where)
        if not abandoned:
            statement = statement.where(_nodes.c.abandoned_by.is_(None))
        return await self.read_all(GraphNode, statement.order_by(_nodes.c.position))

    async def _edges(self, where: ColumnElement[bool], *, abandoned: bool) -> list[GraphEdge]:
        statement = select(_edges).where(where)
        if not abandoned:
            statement = statement.where(_edges.c.abandoned_by.is_(None))
        ordered = statement.order_by(_edges.c.created_at, _edges.c.id)
        return await self.read_all(GraphEdge, ordered)

    async def _delete_sessions(self, where: ColumnElement[bool]) -> int:
        async with self.writer.begin() as connection:
            return (await connection.execute(delete(_sessions).where(where))).rowcount

    def _insert(self, table: Any) -> Any:
        dialect = self.engine.dialect.name
        return (postgresql if dialect == "postgresql" else sqlite).insert(table)


def _live_thoughts(session_id: str) -> Select[Any]:
    own = _thoughts.c.session_id == session_id
    return select(_thoughts).where(own, _thoughts.c.abandoned_by.is_(None))
