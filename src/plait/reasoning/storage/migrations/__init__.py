"""The history of the tables; each step is run once, under a lock."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Table

from plait.reasoning.storage.tables import metadata


def create_tables(*tables: Table) -> None:
    """Create tables with the columns that they began with."""
    for table in tables:
        columns = [column for column in table.columns if "since" not in column.info]
        references = [key.constraint for column in columns for key in column.foreign_keys]
        op.create_table(table.name, *columns, *filter(None, references))


def add_columns(version: str) -> None:
    """Add the columns of a version."""
    for table in metadata.tables.values():
        for column in table.columns:
            if column.info.get("since") == version:
                op.add_column(table.name, column)


def add_indexes(version: str) -> None:
    """Add the indexes of a version."""
    for table in metadata.tables.values():
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.info.get("since") == version:
                op.create_index(str(index.name), table.name, [*index.columns.keys()])
