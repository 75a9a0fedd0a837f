"""Name columns as the contract does, number checkpoints and graphs, and chain linear thoughts.

A linear thought without a parent gets the one before it, so that earlier sessions have paths too.
"""

from __future__ import annotations

from alembic import op

from plait.reasoning.storage.migrations import add_columns, rename_columns

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Rename and add the columns, then fill them."""
    rename_columns()
    add_columns(revision)
    for table in ("checkpoints", "graphs"):
        op.execute(
            f"UPDATE {table} SET position = ranked.place FROM ("  # noqa: S608 - our own names
            "SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY created_at, id) "
            f"AS place FROM {table}) AS ranked WHERE ranked.id = {table}.id"
        )
    op.execute(
        "UPDATE thoughts SET parent_id = chained.before FROM ("
        "SELECT id, lag(id) OVER (PARTITION BY session_id ORDER BY position) AS before "
        "FROM thoughts WHERE abandoned_by IS NULL AND branch_id IS NULL) AS chained "
        "WHERE chained.id = thoughts.id AND thoughts.parent_id IS NULL "
        "AND thoughts.mode = 'linear'"
    )
