"""Bringing the tables of a database to what this version needs."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from plait.errors import ConfigError
from plait.reasoning.storage.engine import WRITES

STEPS = ("0001", "0002", "0003", "0004", "0005")
"""Every version the tables have had, oldest first."""

_LOCK = 0x706C616974
"""The number of the advisory lock of PostgreSQL that one migration holds."""


async def migrate(engine: AsyncEngine, *, to: str = STEPS[-1]) -> tuple[str | None, str]:
    """Run the steps that are missing, one process at a time; return versions before and after.

    Raises:
        ConfigError: The database was made by a newer version.
    """
    writer = engine.execution_options(**{WRITES: True})
    async with engine.connect() as connection:
        found = await connection.run_sync(_version)
    if found != to:
        async with writer.begin() as connection:
            if engine.dialect.name == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            found = await connection.run_sync(_version)
            _check(found)
            if found != to:
                await connection.run_sync(_upgrade, to)
    return found, to


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(text("SELECT version_num FROM alembic_version"))


def _check(found: str | None) -> None:
    if found is not None and found not in STEPS:
        raise ConfigError(
            f"the database has version {found} and this program knows up to {STEPS[-1]}: "
            "use the newer plait that made it"
        )


def _upgrade(connection: Connection, to: str) -> None:
    # Slow to import, and needed once in the life of a database.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    place = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", place.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
