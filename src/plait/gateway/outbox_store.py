"""The SQLite file of an outbox."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.errors import OutboxError

_BUSY_SECONDS = 10.0
"""How long to wait while another process writes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    url TEXT NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    stored_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    last_error TEXT,
    refused INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS outbox_order ON outbox (refused, conversation, id);
"""

_FIRST = "id IN (SELECT min(id) FROM outbox WHERE refused = 0 GROUP BY conversation)"
"""Selects the first entry of each conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A request that is to be sent."""

    id: int
    conversation: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    stored_at: float
    attempts: int
    not_before: float
    last_error: str | None
    refused: bool
    """Whether the gateway refused it; it is kept until it is retried or removed."""


class OutboxStore:
    """The entries of an outbox; may be used from any thread."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Take the file, which is created on first use, and its size limit."""
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def put(self, conversation: str, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Store an entry; it is on disk when this returns.

        Raises:
            OutboxError: The outbox is full, or the file cannot be used.
        """
        with self._writing() as db:
            (held,) = db.execute("SELECT coalesce(sum(length(body)), 0) FROM outbox").fetchone()
            if held + len(body) > self._max_bytes:
                raise OutboxError(
                    f"the outbox {self.path} is full: it holds {held} bytes of at most "
                    f"{self._max_bytes}"
                )
            added = db.execute(
                "INSERT INTO outbox (conversation, url, headers, body, stored_at) "
                "VALUES (?, ?, ?, ?, ?)",
                (conversation, url, json.dumps(dict(headers)), body, time.time()),
            )
            return int(added.lastrowid or 0)

    def due(self, now: float, most: int) -> list[OutboxEntry]:
        """Return the first entry of each conversation if it may be sent now, at most `most`."""
        return self._select(f"WHERE {_FIRST} AND not_before <= ? ORDER BY id LIMIT ?", (now, most))

    def next_time(self, now: float) -> float | None:
        """Return when the next postponed entry may be sent; `None` if there is none."""
        with self._using() as db:
            statement = f"SELECT min(not_before) FROM outbox WHERE {_FIRST} AND not_before > ?"  # noqa: S608
            (due,) = db.execute(statement, (now,)).fetchone()
            return None if due is None else float(due)

    def entries(self) -> list[OutboxEntry]:
        """Return all entries, oldest first."""
        return self._select("ORDER BY id")

    def waiting(self) -> int:
        """Count the entries that are to be sent."""
        with self._using() as db:
            (count,) = db.execute("SELECT count(*) FROM outbox WHERE refused = 0").fetchone()
            return int(count)

    def remove(self, *ids: int) -> None:
        """Remove entries."""
        with self._writing() as db:
            db.executemany("DELETE FROM outbox WHERE id = ?", [(entry,) for entry in ids])

    def postpone(self, entry: OutboxEntry, until: float, error: str) -> None:
        """Record a failed attempt, and when to try again."""
        self._change(
            "UPDATE outbox SET attempts = attempts + 1, not_before = ?, last_error = ? "
            "WHERE id = ?",
            (until, error, entry.id),
        )

    def refuse(self, entry: OutboxEntry, error: str) -> None:
        """Mark an entry as refused, so that the next of its conversation can be sent."""
        self._change(
            "UPDATE outbox SET attempts = attempts + 1, refused = 1, last_error = ? WHERE id = ?",
            (error, entry.id),
        )

    def retry(self) -> None:
        """Make all entries due now, also refused ones."""
        self._change("UPDATE outbox SET refused = 0, not_before = 0", ())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _change(self, statement: str, values: Iterable[Any]) -> None:
        with self._writing() as db:
            db.execute(statement, tuple(values))

    def _select(self, rest: str, values: tuple[Any, ...] = ()) -> list[OutboxEntry]:
        with self._using() as db:
            rows = db.execute(f"SELECT * FROM outbox {rest}", values).fetchall()  # noqa: S608
        return [_entry(row) for row in rows]

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Open a transaction that takes the write lock first."""
        with self._using() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.commit()

    @contextmanager
    def _using(self) -> Generator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._open is None:
                    self._open = _opened(self.path)
                yield self._open
        except (sqlite3.Error, OSError) as error:
            raise OutboxError(f"the outbox {self.path} cannot be used: {error}") from error


def _opened(path: Path) -> sqlite3.Connection:
    # Created here, because SQLite would make it readable for everyone.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous = FULL")
        # Overwrites what is deleted.
        db.execute("PRAGMA secure_delete = ON")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _entry(row: sqlite3.Row) -> OutboxEntry:
    columns = dict(row)
    columns["headers"] = json.loads(columns["headers"])
    columns["refused"] = bool(columns["refused"])
    return OutboxEntry(**columns)
