"""The store in a database, put together from its parts."""

from __future__ import annotations

from plait.reasoning.storage.branches import BranchRows
from plait.reasoning.storage.graphs import GraphRows
from plait.reasoning.storage.records import RecordRows
from plait.reasoning.storage.sessions import SessionRows


class SqlStorage(SessionRows, BranchRows, GraphRows, RecordRows):
    """A `Storage` in SQLite or PostgreSQL."""
