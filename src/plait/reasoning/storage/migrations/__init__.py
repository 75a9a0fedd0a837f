"""The history of the tables; each step is run once, under a lock."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Column, ForeignKey, Table

from plait.reasoning.storage.tables import metadata


def create_tables(*tables: Table) -> None:
    """Create tables with the columns that they began with."""
    for table in tables:
        op.create_table(
            table.name,
            *(_first(column) for column in table.columns if "since" not in column.info),
        )


def _first(column: Column[Any]) -> Column[Any]:
    """Return a column as it was created, before it was renamed."""
    references = [
        ForeignKey(key.target_fullname, ondelete=key.ondelete) for key in column.foreign_keys
    ]
    return Column(
        column.info.get("first_name", column.name),
        column.type,
        *references,
        primary_key=column.primary_key,
        nullable=column.nullable,
        server_default=column.server_default,
        index=column.index,
    )


def rename_columns() -> None:
    """Give renamed columns, and their indexes, the names that they have today."""
    for table in metadata.tables.values():
        for column in table.columns:
            if (first := column.info.get("first_name")) is None:
                continue
            op.execute(f"ALTER TABLE {table.name} RENAME COLUMN {first} TO {column.name}")
            if column.index:
                op.drop_index(f"ix_{table.name}_{first}", table.name)
                op.create_index(f"ix_{table.name}_{column.name}", table.name, [column.name])


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
