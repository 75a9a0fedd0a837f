"""Add the backend of invocations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; it is null in earlier rows."""
    op.add_column("invocations", sa.Column("backend", sa.String))
