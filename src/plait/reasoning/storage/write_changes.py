"""Writes the changes of one call inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlalchemy import Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from plait.reasoning.storage import tables
from plait.reasoning.storage.port import ConflictError
from plait.reasoning.storage.rows import TABLES, Value, row_from_value
from plait.reasoning.values import Branch, Changes, GraphNode, Session, Thought

Insert: TypeAlias = sqlite.dml.Insert | postgresql.dml.Insert
Positioned = Branch | Thought | GraphNode


async def write_changes(connection: AsyncConnection, changes: Changes) -> None:
    """Write every row, referenced rows first.

    Raises:
        ConflictError: The session is not at the version that was read.
    """
    if changes.session is not None:
        await _write_session(connection, changes.session)
    positioned = (*changes.branches, *changes.thoughts, *changes.nodes)
    await _lock_sessions(connection, {value.session_id for value in positioned})
    await _write(connection, await _with_positions(connection, changes.branches))
    await _write(connection, changes.cross_refs)
    await _write(connection, changes.snapshots)
    await _write(connection, await _with_positions(connection, changes.thoughts))
    await _write(connection, changes.checkpoints)
    await _write(connection, changes.graphs)
    await _write(connection, await _with_positions(connection, changes.nodes))
    await _write(connection, changes.edges)
    await _write(connection, changes.invocations)
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


async def _with_positions(
    connection: AsyncConnection, values: Sequence[Positioned]
) -> list[Positioned]:
    """Assign each new value the next position in its session."""
    next_positions: dict[str, int] = {}
    positioned: list[Positioned] = []
    for value in values:
        if value.position is not None:
            positioned.append(value)
            continue
        if value.session_id not in next_positions:
            table = TABLES[type(value)]
            last = select(func.max(table.c.position)).where(table.c.session_id == value.session_id)
            next_positions[value.session_id] = (await connection.scalar(last) or 0) + 1
        positioned.append(replace(value, position=next_positions[value.session_id]))
        next_positions[value.session_id] += 1
    return positioned


async def _write(connection: AsyncConnection, values: Sequence[Value]) -> None:
    if not values:
        return
    table = TABLES[type(values[0])]
    await connection.execute(
        _upsert(table, connection.dialect.name), [*map(row_from_value, values)]
    )


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
