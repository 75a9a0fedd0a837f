"""Migrates the tables of a database to the version that this package needs."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from plait.errors import ConfigError
from plait.reasoning.storage.engine import WRITES

VERSIONS = ("0001", "0002", "0003", "0004", "0005")
"""Every version of the tables, oldest first."""

_LOCK = 0x706C616974
"""The number of the PostgreSQL advisory lock of migrations."""


async def migrate(engine: AsyncEngine, *, to: str = VERSIONS[-1]) -> tuple[str | None, str]:
    """Run the missing migrations, one process at a time; return the versions before and after.

    Raises:
        ConfigError: A newer version of the package made the database.
    """
    writer = engine.execution_options(**{WRITES: True})
    async with engine.connect() as connection:
        version = await connection.run_sync(_version)
    if version != to:
        async with writer.begin() as connection:
            if engine.dialect.name == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            version = await connection.run_sync(_version)
            if version is not None and version not in VERSIONS:
                raise ConfigError(
                    f"the database has version {version} and this program knows up to "
                    f"{VERSIONS[-1]}: use the newer plait that made it"
                )
            if version != to:
                await connection.run_sync(_upgrade, to)
    return version, to


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(text("SELECT version_num FROM alembic_version"))


def _upgrade(connection: Connection, to: str) -> None:
    # Slow to import, and needed once per database.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
