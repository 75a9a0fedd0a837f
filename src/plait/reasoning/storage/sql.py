"""Stores reasoning sessions in SQLite or PostgreSQL; columns and fields have the same names."""

# ruff: noqa: D102 - `Storage` documents the methods

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from sqlalchemy import (
    Executable,
    Float,
    RowMapping,
    Select,
    Table,
    and_,
    cast,
    delete,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from plait._support.redact import Redactor
from plait.errors import ConfigError
from plait.reasoning import values
from plait.reasoning.graphs import leads_to
from plait.reasoning.storage import tables
from plait.reasoning.storage.database import (
    WRITES,
    Database,
    make_engine,
    migrate,
)
from plait.reasoning.storage.port import ConflictError, SessionLine, Storage, Usage
from plait.reasoning.values import Branch, Changes, GraphNode, Thought, Value, ValueT

Insert: TypeAlias = sqlite.dml.Insert | postgresql.dml.Insert

TABLES: Mapping[type[Value], Table] = {
    values.Session: tables.sessions,
    values.Thought: tables.thoughts,
    values.Branch: tables.branches,
    values.CrossRef: tables.cross_refs,
    values.Checkpoint: tables.checkpoints,
    values.StateSnapshot: tables.state_snapshots,
    values.Graph: tables.graphs,
    values.GraphNode: tables.graph_nodes,
    values.GraphEdge: tables.graph_edges,
    values.Invocation: tables.invocations,
}

_NAMES: Mapping[type[Value], Sequence[str]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in TABLES
}

_POSITIONED = (Branch, Thought, GraphNode, values.Checkpoint, values.Graph)

_ROWS = [field.name for field in fields(Changes) if field.name not in {"session", "removed_nodes"}]
"""The fields of `Changes` that hold rows, referenced rows first."""


_sessions = tables.sessions
_thoughts = tables.thoughts
_branches = tables.branches
_nodes = tables.graph_nodes
_answers = tables.answers
_keys = tables.server_keys


def _row_from_value(value: Value) -> dict[str, Any]:
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    if isinstance(value, Thought):
        row["fingerprint"] = values.fingerprint(value.content)
    return row


def _value_from_row(kind: type[ValueT], row: RowMapping) -> ValueT:
    return kind(**{name: row[name] for name in _NAMES[kind]})


async def _write_changes(connection: AsyncConnection, changes: Changes) -> None:
    """Write every row, referenced rows first."""
    if (session := changes.session) is not None:
        row = _row_from_value(replace(session, version=session.version + 1))
        if session.version == 0:
            try:
                await connection.execute(_sessions.insert().values(row))
            except IntegrityError as error:
                raise ConflictError(session.id) from error
        else:
            del row["id"]  # else SQLite checks every row that refers to it
            same = (_sessions.c.id == session.id) & (_sessions.c.version == session.version)
            result = await connection.execute(update(_sessions).where(same).values(row))
            if result.rowcount != 1:
                raise ConflictError(session.id)
    groups: list[Sequence[Value]] = [getattr(changes, name) for name in _ROWS]
    dialect = connection.dialect.name
    ids = {row.session_id for rows in groups for row in rows if isinstance(row, _POSITIONED)}
    if dialect == "postgresql" and ids:
        # So that no other writer assigns the same positions; SQLite has one writer anyway.
        locked = select(_sessions.c.id).where(_sessions.c.id.in_(ids)).order_by(_sessions.c.id)
        await connection.execute(locked.with_for_update())
    for rows in filter(None, groups):
        table = TABLES[type(rows[0])]
        next_positions: dict[str, int] = {}
        placed: list[dict[str, Any]] = []
        for row in rows:
            data = _row_from_value(row)
            if isinstance(row, _POSITIONED) and row.position is None:
                key = row.session_id
                if key not in next_positions:
                    last = select(func.max(table.c.position)).where(table.c.session_id == key)
                    next_positions[key] = (await connection.scalar(last) or 0) + 1
                data["position"] = next_positions[key]
                next_positions[key] += 1
            placed.append(data)
        statement = _insert_into(table, dialect)
        # A position never changes.
        names = [column.key for column in table.columns if column.name not in {"id", "position"}]
        new = {name: statement.excluded[name] for name in names}
        upsert = statement.on_conflict_do_update(index_elements=[table.c.id], set_=new)
        await connection.execute(upsert, placed)
    if changes.removed_nodes:
        await connection.execute(delete(_nodes).where(_nodes.c.id.in_(changes.removed_nodes)))


def _insert_into(table: Table, dialect: str) -> Insert:
    """Return an insert that can handle conflicts, in the dialect of a database."""
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)


class SqlStorage(Storage):
    """A `Storage` in SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, connections: int = 5) -> None:
        self.database = database
        self.engine: AsyncEngine = make_engine(database, connections=connections)
        self.writer = self.engine.execution_options(**{WRITES: True})

    async def open(self) -> None:
        try:
            await migrate(self.engine, self.database.schema)
        except (SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            reason = Redactor().excerpt(str(cause)) or type(cause).__name__
            raise ConfigError(f"the database {self.database} cannot be used: {reason}") from error

    async def aclose(self) -> None:
        await self.engine.dispose()

    async def write(self, changes: values.Changes) -> None:
        async with self.writer.begin() as connection:
            await _write_changes(connection, changes)

    async def get(self, kind: type[ValueT], key: str) -> ValueT | None:
        found = await self.read_all(kind, select(TABLES[kind]).filter_by(id=key))
        return found[0] if found else None

    async def find(
        self, kind: type[ValueT], *, limit: int | None = None, offset: int | None = None, **by: Any
    ) -> list[ValueT]:
        return await self.read_all(kind, _select(kind, **by).limit(limit).offset(offset))

    async def delete_session(self, key: str) -> bool:
        return await self._write_rows(delete(_sessions).where(_sessions.c.id == key)) > 0

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
        return [
            SessionLine(
                session=_value_from_row(values.Session, row),
                thoughts=row["count"],
                title=" ".join(row["title"].split())[:80],
            )
            for row in await self._read_rows(statement.limit(limit).offset(offset))
        ]

    async def delete_sessions_before(self, time: str) -> int:
        return await self._write_rows(delete(_sessions).where(_sessions.c.updated_at < time))

    async def count_session_thoughts(self, session_id: str) -> int:
        live = _select(values.Thought, abandoned=False, session_id=session_id).order_by(None)
        async with self.engine.connect() as connection:
            return int(await connection.scalar(live.with_only_columns(func.count())) or 0)

    async def get_thought_chain(self, thought: values.Thought, limit: int) -> list[values.Thought]:
        steps = (
            select(_thoughts.c.id, _thoughts.c.parent_id, literal(1).label("distance"))
            .where(_thoughts.c.id == thought.parent_id)
            .cte("steps", recursive=True)
        )
        further = select(_thoughts.c.id, _thoughts.c.parent_id, steps.c.distance + 1)
        steps = steps.union_all(
            further.where(_thoughts.c.id == steps.c.parent_id, steps.c.distance < limit)
        )
        chain = select(_thoughts).join(steps, steps.c.id == _thoughts.c.id)
        return await self.read_all(values.Thought, chain.order_by(steps.c.distance.desc()))

    async def get_best_thoughts(self, session_id: str, limit: int) -> list[values.Thought]:
        left = select(_branches.c.id).where(
            _branches.c.session_id == session_id, _branches.c.state == "abandoned"
        )
        live = select(_thoughts).where(
            _thoughts.c.session_id == session_id,
            _thoughts.c.abandoned_by.is_(None),
            or_(_thoughts.c.branch_id.is_(None), _thoughts.c.branch_id.not_in(left)),
        )
        # Defaults are not compared with what somebody judged.
        columns = (_thoughts.c.is_judged, _thoughts.c.confidence, _thoughts.c.position)
        best = live.order_by(*(column.desc() for column in columns))
        return await self.read_all(values.Thought, best.limit(limit))

    async def get_short_ids(self, keys: Collection[str]) -> dict[str, str]:
        parts = [
            select(table.c.id, literal(letter).label("letter"), table.c.position).where(
                table.c.id.in_(keys)
            )
            for letter, table in ((one, TABLES[kind]) for one, kind in values.LETTERS.items())
        ]
        rows = await self._read_rows(union_all(*parts)) if keys else ()
        return {row["id"]: f"{row['letter']}{row['position']}" for row in rows}

    async def search_thoughts(
        self, text: str, *, session_id: str | None = None, limit: int = 20
    ) -> list[values.Thought]:
        contains = func.lower(_thoughts.c.content).contains(text.lower(), autoescape=True)
        statement = select(_thoughts).where(contains)
        if session_id is not None:
            statement = statement.where(_thoughts.c.session_id == session_id)
        newest = statement.order_by(_thoughts.c.created_at.desc(), _thoughts.c.position.desc())
        return await self.read_all(values.Thought, newest.limit(limit))

    async def get_session_cross_refs(self, session_id: str) -> list[values.CrossRef]:
        branches = select(_branches.c.id).where(_branches.c.session_id == session_id)
        own = _select(values.CrossRef).where(tables.cross_refs.c.from_branch_id.in_(branches))
        return await self.read_all(values.CrossRef, own)

    async def get_latest_graph(self, session_id: str) -> values.Graph | None:
        live = select(_nodes.c.id).where(
            _nodes.c.graph_id == tables.graphs.c.id, _nodes.c.abandoned_by.is_(None)
        )
        newest = _select(values.Graph, newest=True, session_id=session_id).where(live.exists())
        return next(iter(await self.read_all(values.Graph, newest.limit(1))), None)

    async def delete_graph_node(self, key: str) -> bool:
        return await self._write_rows(delete(_nodes).where(_nodes.c.id == key)) > 0

    async def create_graph_edge(self, edge: values.GraphEdge) -> None:
        async with self.writer.begin() as connection:
            live = _select(values.GraphEdge, abandoned=False, graph_id=edge.graph_id)
            rows = (await connection.execute(live)).mappings()
            arrows = [(row["from_node"], row["to_node"]) for row in rows]
            if leads_to(arrows, edge.to_node, edge.from_node):
                raise ValueError(f"an edge to {edge.to_node} would close a cycle")
            await _write_changes(connection, values.Changes(edges=(edge,)))

    async def get_usage(self, *, session_id: str | None = None) -> list[Usage]:
        table = tables.invocations
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
        return [Usage(**row) for row in await self._read_rows(grouped)]

    async def save_answer(self, run_id: str, key: str, answer: Mapping[str, Any]) -> None:
        row = {"run_id": run_id, "key": key, "answer": dict(answer), "created_at": values.now()}
        insert = _insert_into(_answers, self.engine.dialect.name).values(row)
        await self._write_rows(insert.on_conflict_do_nothing())

    async def get_answers(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        statement = select(_answers.c.key, _answers.c.answer).where(_answers.c.run_id == run_id)
        return {row["key"]: row["answer"] for row in await self._read_rows(statement)}

    async def delete_answers(self, run_id: str, *, before: str) -> None:
        expired = or_(_answers.c.run_id == run_id, _answers.c.created_at < before)
        await self._write_rows(delete(_answers).where(expired))

    async def server_key(self, name: str) -> bytes:
        row = {"name": name, "value": secrets.token_bytes(32)}
        insert = _insert_into(_keys, self.engine.dialect.name).values(row)
        await self._write_rows(insert.on_conflict_do_nothing())
        (stored,) = await self._read_rows(select(_keys.c.value).where(_keys.c.name == name))
        return bytes(stored["value"])

    async def read_all(self, kind: type[ValueT], statement: Select[Any]) -> list[ValueT]:
        """Run a statement over the table of a kind, and return its rows as values."""
        return [_value_from_row(kind, row) for row in await self._read_rows(statement)]

    async def _read_rows(self, statement: Executable) -> Sequence[RowMapping]:
        async with self.engine.connect() as connection:
            return (await connection.execute(statement)).mappings().all()

    async def _write_rows(self, statement: Executable) -> int:
        """Run a statement in a transaction of its own, and return how many rows it changed."""
        async with self.writer.begin() as connection:
            return (await connection.execute(statement)).rowcount


def _select(
    kind: type[values.Value],
    *,
    abandoned: bool = True,
    newest: bool = False,
    **where: str | int | None,
) -> Select[Any]:
    """Select rows by columns, in order of creation or the newest first."""
    table = TABLES[kind]
    statement = select(table).filter_by(**where)
    if not abandoned:
        statement = statement.where(table.c.abandoned_by.is_(None))
    order = table.c.position if "position" in table.c else table.c.created_at
    statement = statement.order_by(order.desc() if newest else order)
    return statement if "position" in table.c else statement.order_by(table.c.id)
