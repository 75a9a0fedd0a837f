"""Values as rows of tables, and the changes of one call as one transaction.

Columns and fields have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from sqlalchemy import RowMapping, Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from plait.reasoning import values
from plait.reasoning.storage import tables
from plait.reasoning.storage.port import ConflictError
from plait.reasoning.values import Branch, Changes, GraphNode, Session, Thought, Value, ValueT

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


def row_from_value(value: Value) -> dict[str, Any]:
    """Return a value as a row of its table."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    if isinstance(value, Thought):
        row["fingerprint"] = values.fingerprint(value.content)
    return row


def value_from_row(kind: type[ValueT], row: RowMapping) -> ValueT:
    """Return the value that a row of the table of this kind holds."""
    return kind(**{name: row[name] for name in _NAMES[kind]})


async def write_changes(connection: AsyncConnection, changes: Changes) -> None:
    """Write every row, referenced rows first.

    Raises:
        ConflictError: The session is not at the version that was read.
    """
    if changes.session is not None:
        await _write_session(connection, changes.session)
    positioned = (*changes.branches, *changes.thoughts, *changes.nodes)
    await _lock_sessions(connection, {value.session_id for value in positioned})
    for rows in (
        changes.branches,
        changes.cross_refs,
        changes.snapshots,
        changes.thoughts,
        changes.checkpoints,
        changes.graphs,
        changes.nodes,
        changes.edges,
        changes.invocations,
    ):
        if rows:
            statement = _upsert(TABLES[type(rows[0])], connection.dialect.name)
            placed = await _with_positions(connection, rows)
            await connection.execute(statement, [row_from_value(row) for row in placed])
    if changes.removed_nodes:
        table = tables.graph_nodes
        await connection.execute(delete(table).where(table.c.id.in_(changes.removed_nodes)))


async def _write_session(connection: AsyncConnection, session: Session) -> None:
    table = tables.sessions
    row = row_from_value(replace(session, version=session.version + 1))
    if session.version == 0:
        try:
            await connection.execute(table.insert().values(row))
        except IntegrityError as error:
            raise ConflictError(session.id) from error
        return
    unchanged = (table.c.id == session.id) & (table.c.version == session.version)
    del row["id"]  # else SQLite checks every row that refers to it
    result = await connection.execute(update(table).where(unchanged).values(row))
    if result.rowcount != 1:
        raise ConflictError(session.id)


async def _lock_sessions(connection: AsyncConnection, ids: set[str]) -> None:
    """Lock rows so that no other writer assigns positions; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql" and ids:
        table = tables.sessions
        rows = select(table.c.id).where(table.c.id.in_(ids)).order_by(table.c.id)
        await connection.execute(rows.with_for_update())


async def _with_positions(connection: AsyncConnection, rows: Sequence[Value]) -> list[Value]:
    """Assign each new value that has a position the next one in its session."""
    next_positions: dict[str, int] = {}
    placed: list[Value] = []
    for row in rows:
        if not isinstance(row, Branch | Thought | GraphNode) or row.position is not None:
            placed.append(row)
            continue
        if row.session_id not in next_positions:
            table = TABLES[type(row)]
            last = select(func.max(table.c.position)).where(table.c.session_id == row.session_id)
            next_positions[row.session_id] = (await connection.scalar(last) or 0) + 1
        placed.append(replace(row, position=next_positions[row.session_id]))
        next_positions[row.session_id] += 1
    return placed


def _upsert(table: Table, dialect: str) -> Insert:
    statement = insert_into(table, dialect)
    new = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        # A position never changes.
        if column.name not in {"id", "position"}
    }
    return statement.on_conflict_do_update(index_elements=[table.c.id], set_=new)


def insert_into(table: Table, dialect: str) -> Insert:
    """Return an insert that can handle conflicts, in the dialect of a database."""
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)
