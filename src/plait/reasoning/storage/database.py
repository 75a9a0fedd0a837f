"""Database URLs, connections with the settings that SQLite needs, and migrations."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.schema import CreateSchema

from plait.errors import ConfigError

BUSY_TIMEOUT_SECONDS = 30
"""How long a writer waits for another process."""

WRITES = "plait_writes"
"""The execution option of connections that write."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database to open."""

    url: URL
    schema: str | None = None
    """The schema of a PostgreSQL database; `None` is its default one."""

    def for_caller(self, name: str) -> Database:
        """Return the database that holds the sessions of one caller, and of no other."""
        if not self.is_sqlite:
            return replace(self, schema=f"plait_{name}")
        path = Path(str(self.url.database))
        own = path.with_name(f"{path.stem}-{name}{path.suffix}")
        return Database(self.url.set(database=str(own)))

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    def __str__(self) -> str:
        if self.is_sqlite:
            return str(self.url.database)
        text = self.url.render_as_string(hide_password=True)
        return f"{text} (schema {self.schema})" if self.schema else text


def database_from_text(text: str) -> Database:
    """Parse a path, or a URL of SQLite or PostgreSQL.

    Raises:
        ConfigError: It is a URL of another kind, or invalid.
    """
    if "://" not in text:
        return Database(URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser())))
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigError("the database is no path and no URL that can be read") from None
    match url.get_backend_name():
        case "sqlite" if url.database and url.database != ":memory:":
            return Database(url.set(drivername="sqlite+aiosqlite"))
        case "postgresql" | "postgres":
            schema = url.query.get("schema")
            plain = url.difference_update_query(["schema"]).set(drivername="postgresql+asyncpg")
            return Database(plain, schema if isinstance(schema, str) else None)
        case "sqlite":
            raise ConfigError("the database must be a file: sessions outlive the server")
        case other:
            raise ConfigError(f"no database of the kind {other!r}: use a path or postgresql://…")


def make_engine(database: Database, *, connections: int = 5) -> AsyncEngine:
    """Create the connection pool; a new SQLite file is readable for its owner only."""
    if not database.is_sqlite:
        settings = {"search_path": f'"{database.schema}"'} if database.schema else {}
        try:
            return create_async_engine(
                database.url,
                pool_size=connections,
                pool_pre_ping=True,
                connect_args={"server_settings": settings},
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                "PostgreSQL needs a package that is not installed: pip install 'plait[postgres]'"
            ) from error
    path = Path(str(database.url.database))
    if path.exists() and not os.access(path, os.W_OK):
        # Without the files of its journal, nothing else may be reading or writing it.
        journal = path.with_name(path.name + "-wal")
        mode = "mode=ro" if journal.exists() else "mode=ro&immutable=1"
        address = f"sqlite+aiosqlite:///file:{quote(str(path.absolute()))}?{mode}&uri=true"
        return create_async_engine(address, pool_size=connections)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Before SQLite does: it copies the mode to its journal files.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigError(f"the database {path} cannot be made: {error.strerror}") from error
    engine = create_async_engine(
        database.url, pool_size=connections, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _configure(connection: Any, _record: object) -> None:
    # The driver's own transactions begin too late to take the lock.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that reads and then writes fails at once, whatever its busy timeout,
    # when another one wrote in between.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


VERSIONS = ("0006", "0007")
"""Every version of the tables that was released, oldest first; 0.1.0 had the first."""

_LOCK = 0x706C616974
"""The number of the PostgreSQL advisory lock of migrations."""


async def migrate(engine: AsyncEngine, schema: str | None = None) -> tuple[str | None, str]:
    """Run the missing migrations, one process at a time; return the versions before and after.

    A missing schema of a PostgreSQL database is created.
    """
    if schema is not None:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            known = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
            if await connection.scalar(known, {"schema": schema}) is None:
                await connection.execute(CreateSchema(schema))
    async with engine.connect() as connection:
        version = await connection.run_sync(_version)
    to = VERSIONS[-1]
    if version == to:
        return version, to
    if "mode=ro" in (engine.url.database or "") or engine.url.query.get("mode") == "ro":
        raise ConfigError(
            f"the database has version {version} and cannot be written: "
            "run plait reasoning migrate where it can"
        )
    async with engine.execution_options(**{WRITES: True}).begin() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        # Another process may have done it while this one waited.
        version = await connection.run_sync(_version)
        if version is not None and version not in VERSIONS:
            raise ConfigError(
                f"the database has version {version} and this program knows "
                f"{VERSIONS[0]} to {to}: use the plait that made it"
            )
        if version != to:
            # Alembic is slow to import, and needed once per database.
            from plait.reasoning.storage.migrations import upgrade  # noqa: PLC0415

            await connection.run_sync(upgrade, version, to)
    return version, to


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(text("SELECT version_num FROM alembic_version"))
