"""The tables since 0.1.0: one function for each version, run once and under a lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from plait.reasoning.storage.tables import metadata


def upgrade(connection: sa.Connection, version: str | None, to: str) -> None:
    """Create the tables, or bring them from a version to today's, in a transaction."""
    op = Operations(MigrationContext.configure(connection))
    if version is None:
        # A copy: to add a reference to a table of PostgreSQL changes the description of the table.
        fresh = sa.MetaData()
        for table in metadata.sorted_tables:
            table.to_metadata(fresh)
        fresh.create_all(connection)
    for step, run in UPGRADES.items():
        if version is not None and version < step:
            run(op)
    # The table that Alembic's own command line keeps.
    op.execute(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    op.execute("DELETE FROM alembic_version")
    op.execute(f"INSERT INTO alembic_version VALUES ('{to}')")  # noqa: S608 - our own names


def _add_judgements(op: Operations) -> None:
    """Tell confidences that somebody gave from defaults; those of earlier rows count as given."""
    for table in ("branches", "thoughts"):
        given = sa.Column("is_judged", sa.Boolean, nullable=False, server_default="1")
        op.add_column(table, given)


UPGRADES: Final[Mapping[str, Callable[[Operations], None]]] = {"0007": _add_judgements}
"""The migrations by version, oldest first; one that was released never changes."""
