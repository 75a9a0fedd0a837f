"""The history of the tables: one function for each version, run once and under a lock."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from plait.reasoning.storage import tables


def upgrade(connection: sa.Connection, version: str | None, to: str) -> None:
    """Run the missing migrations on a connection, inside its transaction."""
    op = Operations(MigrationContext.configure(connection))
    # The table that Alembic's own command line keeps.
    op.execute(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    for step, run in UPGRADES.items():
        if (version or "") < step <= to:
            run(op)
    op.execute("DELETE FROM alembic_version")
    op.execute(f"INSERT INTO alembic_version VALUES ('{to}')")  # noqa: S608 - our own names


def _create_tables(op: Operations, *created: sa.Table) -> None:
    """Create tables with the columns that they began with, under the names that these had."""
    for table in created:
        columns: list[sa.Column[Any]] = []
        for column in table.columns:
            if "since" in column.info:
                continue
            references = [
                sa.ForeignKey(key.target_fullname, ondelete=key.ondelete)
                for key in column.foreign_keys
            ]
            first = sa.Column(
                column.info.get("first_name", column.name),
                column.type,
                *references,
                primary_key=column.primary_key,
                nullable=column.nullable,
                server_default=column.server_default,
                index=column.index,
            )
            columns.append(first)
        op.create_table(table.name, *columns)


def _add_columns(op: Operations, version: str) -> None:
    """Add the columns of a version."""
    for table in tables.metadata.tables.values():
        for column in table.columns:
            if column.info.get("since") == version:
                op.add_column(table.name, column)


def _number_rows(op: Operations, *names: str) -> None:
    """Give the rows of each session positions in the order of their times."""
    for name in names:
        op.execute(
            f"UPDATE {name} SET position = ranked.place FROM ("  # noqa: S608 - our own names
            "SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY created_at, id) "
            f"AS place FROM {name}) AS ranked WHERE ranked.id = {name}.id"
        )


def _add_sessions(op: Operations) -> None:
    _create_tables(op, tables.sessions, tables.thoughts, tables.invocations)
    op.create_index("ix_thoughts_session_id", "thoughts", ["session_id"])


def _add_branches(op: Operations) -> None:
    _create_tables(
        op, tables.branches, tables.cross_refs, tables.checkpoints, tables.state_snapshots
    )
    op.create_index("ix_branches_session_id", "branches", ["session_id"])
    # Written out, because SQLite can add a reference only together with its column.
    op.execute(
        "ALTER TABLE thoughts ADD COLUMN branch_id VARCHAR "
        "REFERENCES branches(id) ON DELETE SET NULL"
    )
    op.execute(
        "ALTER TABLE sessions ADD COLUMN active_branch_id VARCHAR "
        "REFERENCES branches(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"
    )
    op.create_index("ix_thoughts_branch_id", "thoughts", ["branch_id"])
    op.create_index("ix_sessions_active_branch_id", "sessions", ["active_branch_id"])


def _add_graphs(op: Operations) -> None:
    _create_tables(op, tables.graph_nodes, tables.graph_edges)


def _add_order(op: Operations) -> None:
    """Add positions, several graphs in a session, conclusions, token counts and sampling answers.

    Existing rows get positions in the order of their times; the nodes of a session become a graph.
    """
    _add_columns(op, "0004")
    _create_tables(op, tables.graphs, tables.answers, tables.server_keys)
    _number_rows(op, "branches", "thoughts", "graph_nodes")
    op.execute("UPDATE graph_nodes SET graph_id = session_id")
    op.execute("UPDATE graph_edges SET graph_id = session_id")
    config = {"max_nodes": 100, "max_depth": 10, "default_k": 3, "prune_threshold": 0.3}
    filled = sa.text(
        "INSERT INTO graphs (id, session_id, config, created_at) "
        "SELECT session_id, session_id, :config, min(created_at) "
        "FROM graph_nodes GROUP BY session_id"
    )
    op.execute(filled.bindparams(sa.bindparam("config", config, type_=tables.DATA)))
    bind = op.get_bind()
    for key, content in bind.execute(sa.text("SELECT id, content FROM thoughts")).all():
        # As `values.fingerprint` was in this version, which it may outlive.
        folded = " ".join(content.casefold().split())
        mark = hashlib.sha256(folded.encode()).hexdigest()[:32]
        marked = sa.text("UPDATE thoughts SET fingerprint = :mark WHERE id = :id")
        bind.execute(marked, {"mark": mark, "id": key})
    op.drop_index("ix_thoughts_session_id", "thoughts")
    op.drop_index("ix_branches_session_id", "branches")
    for table in tables.metadata.tables.values():
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.info.get("since") == "0004":
                op.create_index(str(index.name), table.name, [*index.columns.keys()])


def _add_backends(op: Operations) -> None:
    _add_columns(op, "0005")


def _add_paths(op: Operations) -> None:
    """Name columns as the contract does, number checkpoints and graphs, and chain linear thoughts.

    A linear thought without a parent gets the one before it, so that earlier sessions have paths.
    """
    for table in tables.metadata.tables.values():
        for column in table.columns:
            if (first := column.info.get("first_name")) is None:
                continue
            op.execute(f"ALTER TABLE {table.name} RENAME COLUMN {first} TO {column.name}")
            if column.index:
                op.drop_index(f"ix_{table.name}_{first}", table.name)
                op.create_index(f"ix_{table.name}_{column.name}", table.name, [column.name])
    _add_columns(op, "0006")
    _number_rows(op, "checkpoints", "graphs")
    op.execute(
        "UPDATE thoughts SET parent_id = chained.before FROM ("
        "SELECT id, lag(id) OVER (PARTITION BY session_id ORDER BY position) AS before "
        "FROM thoughts WHERE abandoned_by IS NULL AND branch_id IS NULL) AS chained "
        "WHERE chained.id = thoughts.id AND thoughts.parent_id IS NULL "
        "AND thoughts.mode = 'linear'"
    )


def _add_judgements(op: Operations) -> None:
    """Tell confidences that somebody gave from defaults; those of earlier rows count as given."""
    _add_columns(op, "0007")


UPGRADES: Final[Mapping[str, Callable[[Operations], None]]] = {
    "0001": _add_sessions,
    "0002": _add_branches,
    "0003": _add_graphs,
    "0004": _add_order,
    "0005": _add_backends,
    "0006": _add_paths,
    "0007": _add_judgements,
}
"""The migrations by version, oldest first; one that was released never changes."""
