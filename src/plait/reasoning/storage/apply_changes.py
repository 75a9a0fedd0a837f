"""Writing what a call changed, inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from plait.reasoning.changes import Changes
from plait.reasoning.storage import tables
from plait.reasoning.storage.port import ConflictError
from plait.reasoning.storage.rows import TABLES, Value, row_from
from plait.reasoning.values import Branch, GraphNode, Session, Thought

Placed = Branch | Thought | GraphNode


async def write_changes(connection: AsyncConnection, changes: Changes) -> None:
    """Write every row, the ones others refer to first.

    Raises:
        ConflictError: The session is not at the version that was read.
    """
    if changes.session is not None:
        await _write_session(connection, changes.session)
    await _lock_sessions(connection, {one.session_id for one in _placed(changes)})
    await _write(connection, await _with_places(connection, changes.branches))
    await _write(connection, changes.cross_refs)
    await _write(connection, changes.snapshots)
    await _write(connection, await _with_places(connection, changes.thoughts))
    await _write(connection, changes.checkpoints)
    await _write(connection, changes.graphs)
    await _write(connection, await _with_places(connection, changes.nodes))
    await _write(connection, changes.edges)
    await _write(connection, changes.invocations)
    if changes.removed_nodes:
        table = tables.graph_nodes
        await connection.execute(delete(table).where(table.c.id.in_(changes.removed_nodes)))


def _placed(changes: Changes) -> Iterable[Placed]:
    return (*changes.branches, *changes.thoughts, *changes.nodes)


async def _write_session(connection: AsyncConnection, session: Session) -> None:
    table = tables.sessions
    row = row_from(replace(session, version=session.version + 1))
    if session.version == 0:
        try:
            await connection.execute(table.insert().values(row))
        except IntegrityError as error:
            raise ConflictError(session.id) from error
        return
    same = (table.c.id == session.id) & (table.c.version == session.version)
    # Without the id: SQLite would look at everything that refers to it.
    done = await connection.execute(update(table).where(same).values(_without_id(row)))
    if done.rowcount != 1:
        raise ConflictError(session.id)


def _without_id(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


async def _lock_sessions(connection: AsyncConnection, ids: set[str]) -> None:
    """Let nobody else give out places; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql" and ids:
        table = tables.sessions
        rows = select(table.c.id).where(table.c.id.in_(ids)).order_by(table.c.id)
        await connection.execute(rows.with_for_update())


async def _with_places(connection: AsyncConnection, values: Sequence[Placed]) -> list[Placed]:
    """Give each new value the next place in its session."""
    following: dict[str, int] = {}
    placed: list[Placed] = []
    for value in values:
        if value.position is not None:
            placed.append(value)
            continue
        if value.session_id not in following:
            table = TABLES[type(value)]
            last = select(func.max(table.c.position)).where(table.c.session_id == value.session_id)
            following[value.session_id] = (await connection.scalar(last) or 0) + 1
        placed.append(replace(value, position=following[value.session_id]))
        following[value.session_id] += 1
    return placed


async def _write(connection: AsyncConnection, values: Sequence[Value]) -> None:
    if not values:
        return
    table = TABLES[type(values[0])]
    await connection.execute(_upsert(table, connection.dialect.name), [*map(row_from, values)])


def _upsert(table: Table, dialect: str) -> sqlite.dml.Insert | postgresql.dml.Insert:
    kind = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = kind(table)
    new = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        # A place is given once.
        if column.name not in {"id", "position"}
    }
    return statement.on_conflict_do_update(index_elements=[table.c.id], set_=new)
