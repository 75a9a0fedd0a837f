"""The connections of a store, and the few ways in which it reads and writes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, delete, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from plait._support.redact import Redactor
from plait.errors import ConfigError
from plait.reasoning.changes import Changes
from plait.reasoning.storage.apply_changes import write_changes
from plait.reasoning.storage.engine import WRITES, Database, make_engine
from plait.reasoning.storage.migrate import migrate
from plait.reasoning.storage.rows import TABLES, Value, ValueT, reader


class SqlBase:
    """Opens a database, and reads and writes values in it."""

    def __init__(self, database: Database, *, connections: int = 5) -> None:
        self.database = database
        self.engine: AsyncEngine = make_engine(database, connections=connections)
        self.writer = self.engine.execution_options(**{WRITES: True})

    async def open(self) -> None:
        """Make the tables, if they are missing or old.

        Raises:
            ConfigError: The database cannot be opened, or was made by a newer version.
        """
        try:
            await migrate(self.engine)
        except (SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            reason = Redactor().excerpt(str(cause)) or type(cause).__name__
            raise ConfigError(f"the database {self.database} cannot be used: {reason}") from error

    async def aclose(self) -> None:
        """Let go of every connection."""
        await self.engine.dispose()

    async def write(self, changes: Changes) -> None:
        """Write everything, or nothing."""
        async with self.writer.begin() as connection:
            await write_changes(connection, changes)

    async def read_one(self, kind: type[ValueT], statement: Select[Any]) -> ValueT | None:
        """Return the first value a statement finds."""
        async with self.engine.connect() as connection:
            row = (await connection.execute(statement.limit(1))).mappings().first()
        return None if row is None else reader(kind)({str(key): row[key] for key in row})

    async def read_many(self, kind: type[ValueT], statement: Select[Any]) -> list[ValueT]:
        """Return every value a statement finds."""
        async with self.engine.connect() as connection:
            rows = (await connection.execute(statement)).mappings().all()
        read = reader(kind)
        return [read({str(key): row[key] for key in row}) for row in rows]

    async def read_id(self, kind: type[ValueT], key: str) -> ValueT | None:
        """Return the value with this id."""
        table = TABLES[kind]
        return await self.read_one(kind, select(table).where(table.c.id == key))

    async def delete_where(self, kind: type[Value], where: ColumnElement[bool]) -> int:
        """Delete rows, and return how many."""
        async with self.writer.begin() as connection:
            return (await connection.execute(delete(TABLES[kind]).where(where))).rowcount
