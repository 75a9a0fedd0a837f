"""Stores reasoning sessions in SQLite or PostgreSQL."""

# ruff: noqa: D102 - `Storage` documents the methods

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Float, Select, Table, and_, cast, delete, func, or_, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from plait._support.redact import Redactor
from plait.errors import ConfigError
from plait.reasoning import values
from plait.reasoning.graphs import closes_cycle
from plait.reasoning.storage import tables
from plait.reasoning.storage.engine import WRITES, Database, make_engine
from plait.reasoning.storage.migrate import migrate
from plait.reasoning.storage.port import SessionLine, Storage, Usage
from plait.reasoning.storage.rows import TABLES, Value, ValueT, value_from_row
from plait.reasoning.storage.write_changes import Insert, insert_into, write_changes

_sessions = tables.sessions
_thoughts = tables.thoughts
_branches = tables.branches
_nodes = tables.graph_nodes
_invocations = tables.invocations
_answers = tables.answers
_keys = tables.server_keys


class SqlStorage(Storage):
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

    async def write(self, changes: values.Changes) -> None:
        async with self.writer.begin() as connection:
            await write_changes(connection, changes)

    async def get_session(self, key: str) -> values.Session | None:
        return await self._read_id(values.Session, key)

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
                    session=value_from_row(values.Session, row),
                    thoughts=row["count"],
                    title=" ".join(row["title"].split())[:80],
                )
                for row in rows
            ]

    async def delete_sessions_before(self, time: str) -> int:
        return await self._delete_sessions(_sessions.c.updated_at < time)

    async def get_thought(self, key: str) -> values.Thought | None:
        return await self._read_id(values.Thought, key)

    async def get_session_thoughts(
        self,
        session_id: str,
        *,
        abandoned: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[values.Thought]:
        own = _select(values.Thought, abandoned=abandoned, session_id=session_id)
        return await self.read_all(values.Thought, own.limit(limit).offset(offset))

    async def count_session_thoughts(self, session_id: str) -> int:
        live = _thoughts_of(session_id).order_by(None).with_only_columns(func.count())
        async with self.engine.connect() as connection:
            return int(await connection.scalar(live) or 0)

    async def get_recent_thoughts(self, session_id: str, limit: int) -> list[values.Thought]:
        newest = _thoughts_of(session_id, newest=True).limit(limit)
        return [*reversed(await self.read_all(values.Thought, newest))]

    async def get_first_thought(self, session_id: str) -> values.Thought | None:
        return await self._read_first(values.Thought, _thoughts_of(session_id))

    async def get_latest_thought(self, session_id: str) -> values.Thought | None:
        return await self._read_first(values.Thought, _thoughts_of(session_id, newest=True))

    async def get_same_thought(self, session_id: str, content: str) -> values.Thought | None:
        newest = _thoughts_of(session_id, newest=True)
        same = newest.where(_thoughts.c.fingerprint == values.fingerprint(content))
        return await self._read_first(values.Thought, same)

    async def get_thought_chain(self, thought: values.Thought, limit: int) -> list[values.Thought]:
        chain: list[values.Thought] = []
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
    ) -> list[values.Thought]:
        contains = func.lower(_thoughts.c.content).contains(text.lower(), autoescape=True)
        statement = select(_thoughts).where(contains)
        if session_id is not None:
            statement = statement.where(_thoughts.c.session_id == session_id)
        newest = statement.order_by(_thoughts.c.created_at.desc(), _thoughts.c.position.desc())
        return await self.read_all(values.Thought, newest.limit(limit))

    async def get_branch(self, key: str) -> values.Branch | None:
        return await self._read_id(values.Branch, key)

    async def get_session_branches(self, session_id: str) -> list[values.Branch]:
        return await self.read_all(values.Branch, _select(values.Branch, session_id=session_id))

    async def get_session_cross_refs(self, session_id: str) -> list[values.CrossRef]:
        branches = select(_branches.c.id).where(_branches.c.session_id == session_id)
        own = _select(values.CrossRef).where(tables.cross_refs.c.from_branch_id.in_(branches))
        return await self.read_all(values.CrossRef, own)

    async def get_checkpoint(self, key: str) -> values.Checkpoint | None:
        return await self._read_id(values.Checkpoint, key)

    async def get_session_checkpoints(self, session_id: str) -> list[values.Checkpoint]:
        newest = _select(values.Checkpoint, newest=True, session_id=session_id)
        return await self.read_all(values.Checkpoint, newest)

    async def get_graph(self, key: str) -> values.Graph | None:
        return await self._read_id(values.Graph, key)

    async def get_session_graphs(self, session_id: str) -> list[values.Graph]:
        return await self.read_all(values.Graph, _select(values.Graph, session_id=session_id))

    async def get_latest_graph(self, session_id: str) -> values.Graph | None:
        live = select(_nodes.c.id).where(
            _nodes.c.graph_id == tables.graphs.c.id, _nodes.c.abandoned_by.is_(None)
        )
        newest = _select(values.Graph, newest=True, session_id=session_id).where(live.exists())
        return await self._read_first(values.Graph, newest)

    async def get_graph_node(self, key: str) -> values.GraphNode | None:
        return await self._read_id(values.GraphNode, key)

    async def get_graph_nodes(self, graph_id: str) -> list[values.GraphNode]:
        own = _select(values.GraphNode, abandoned=False, graph_id=graph_id)
        return await self.read_all(values.GraphNode, own)

    async def get_session_graph_nodes(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[values.GraphNode]:
        own = _select(values.GraphNode, abandoned=abandoned, session_id=session_id)
        return await self.read_all(values.GraphNode, own)

    async def delete_graph_node(self, key: str) -> bool:
        async with self.writer.begin() as connection:
            return (await connection.execute(delete(_nodes).where(_nodes.c.id == key))).rowcount > 0

    async def create_graph_edge(self, edge: values.GraphEdge) -> None:
        async with self.writer.begin() as connection:
            live = _select(values.GraphEdge, abandoned=False, graph_id=edge.graph_id)
            rows = (await connection.execute(live)).mappings()
            if closes_cycle([value_from_row(values.GraphEdge, row) for row in rows], edge):
                raise ValueError(f"an edge to {edge.to_node} would close a cycle")
            await write_changes(connection, values.Changes(edges=(edge,)))

    async def get_graph_edges(self, graph_id: str) -> list[values.GraphEdge]:
        own = _select(values.GraphEdge, abandoned=False, graph_id=graph_id)
        return await self.read_all(values.GraphEdge, own)

    async def get_session_edges(
        self, session_id: str, *, abandoned: bool = False
    ) -> list[values.GraphEdge]:
        own = _select(values.GraphEdge, abandoned=abandoned, session_id=session_id)
        return await self.read_all(values.GraphEdge, own)

    async def get_usage(self, *, session_id: str | None = None) -> list[Usage]:
        table = _invocations
        groups = (table.c.tool_name, table.c.backend, table.c.pipe_name, table.c.model)
        statement = select(
            *groups,
            func.count().label("requests"),
            func.count().filter(table.c.success.is_(False)).label("failures"),
            cast(func.avg(table.c.latency_ms), Float).label("average_latency_ms"),
            func.coalesce(func.sum(table.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(table.c.output_tokens), 0).label("output_tokens"),
        )
        if session_id is not None:
            statement = statement.where(table.c.session_id == session_id)
        grouped = statement.group_by(*groups).order_by(*groups)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(grouped)).mappings().all()
        return [Usage(**row) for row in rows]

    async def save_answer(self, run_id: str, key: str, answer: Mapping[str, Any]) -> None:
        row = {"run_id": run_id, "key": key, "answer": dict(answer), "created_at": values.now()}
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

    async def _delete_sessions(self, where: ColumnElement[bool]) -> int:
        async with self.writer.begin() as connection:
            return (await connection.execute(delete(_sessions).where(where))).rowcount

    def _insert(self, table: Table) -> Insert:
        return insert_into(table, self.engine.dialect.name)


def _select(
    kind: type[Value], *, abandoned: bool = True, newest: bool = False, **where: str
) -> Select[Any]:
    """Select rows by columns, in order of creation or the newest first."""
    table = TABLES[kind]
    statement = select(table).filter_by(**where)
    if not abandoned:
        statement = statement.where(table.c.abandoned_by.is_(None))
    order = table.c.position if "position" in table.c else table.c.created_at
    statement = statement.order_by(order.desc() if newest else order)
    return statement if "position" in table.c else statement.order_by(table.c.id)


def _thoughts_of(session_id: str, *, newest: bool = False) -> Select[Any]:
    return _select(values.Thought, abandoned=False, newest=newest, session_id=session_id)
