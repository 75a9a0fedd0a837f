"""Requests to the gateway: at once, with retries, or in order from a SQLite file."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx2

from plait._support.clock import Clock
from plait._support.durations import checked_seconds
from plait._support.files import make_private, try_lock
from plait._support.http_requests import (
    HttpReply,
    seconds_from_retry_after,
    send_request,
    with_retries,
)
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.config.secrets import secrets_in_headers
from plait.client.config.servers import ReconnectPolicy
from plait.client.config.urls import public_url
from plait.errors import ConfigError, DiscoveryError, GatewayError, OutboxError, PlaitError
from plait.models.endpoints import certificates

_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""


async def get_with_retries(
    url: str,
    headers: Mapping[str, str],
    *,
    policy: ReconnectPolicy,
    timeout_seconds: float,
    clock: Clock,
) -> HttpReply:
    """Send a GET request, with retries until the timeout; `Retry-After` is respected."""
    deadline = clock.monotonic() + timeout_seconds

    async def attempt() -> HttpReply:
        try:
            return await send(
                "GET",
                url,
                headers,
                None,
                max(0.1, deadline - clock.monotonic()),
                error=DiscoveryError,
                on_connect="Failed to connect to MCP configuration endpoint",
                on_status="Failed to read MCP servers from endpoint",
            )
        except DiscoveryError as error:
            if is_refused(error):
                error.retry = "never"
            raise

    def give_up(error: PlaitError, attempts: int) -> PlaitError:
        error.add_note(f"tried {attempts} times")
        return error

    return await with_retries(
        attempt, delays=policy.delays(), clock=clock, give_up=give_up, deadline=deadline
    )


async def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    seconds: float,
    *,
    error: type[GatewayError],
    on_connect: str,
    on_status: str,
    limit: int = 200,
) -> HttpReply:
    """Send a request once; the texts begin an `error` without a reply, or with a bad status."""
    shown = public_url(url)
    redact = Redactor(secrets_in_headers(headers))
    context = await in_thread(certificates)
    try:
        async with httpx2.AsyncClient(verify=context, timeout=None) as client:
            reply = await send_request(
                client, method, url, headers=headers, content=body, timeout_seconds=seconds
            )
    except (httpx2.RequestError, TimeoutError) as fault:
        reason = reason_of(fault, seconds, redact)
        raise error(f"{on_connect}: {shown}: {reason}", url=shown) from fault
    if reply.is_success:
        return reply
    reason = status_text(reply.status, reply.text, redact, limit)
    details = {"status": reply.status, "retry_after": reply.retry_after}
    raise error(f"{on_status}: {shown}: {reason}", url=shown, **details)


def reason_of(error: BaseException, seconds: float, redact: Redactor | None = None) -> str:
    """Describe why there was no reply."""
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"no answer in {seconds:g} s"
    text = (redact or Redactor()).excerpt(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def status_text(status: int, body: str, redact: Redactor | None = None, limit: int = 200) -> str:
    """Describe an HTTP error by its status and the start of its body."""
    detail = (redact or Redactor()).excerpt(body, limit)
    return f"HTTP {status}: {detail}" if detail else f"HTTP {status}"


def is_refused(error: GatewayError) -> bool:
    """Return whether the gateway answered with a status that a retry does not change."""
    return error.status is not None and error.status not in _RETRYABLE


logger = logging.getLogger("plait.gateway")

Step = Literal["stored", "sending", "answered", "removed", "postponed", "refused"]
"""What happened to an entry."""

OnStep = Callable[[Step, int], None]
"""Gets every step with the id of the entry, in the thread that sends it."""

_POLL_SECONDS = 1.0
"""How often to check for entries of other processes."""

MAX_RETRY_AFTER_SECONDS = 3600.0
"""The longest `Retry-After` that is respected."""

DEFAULT_RETRY = ReconnectPolicy(first_delay_seconds=1.0, longest_delay_seconds=300.0)

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
        """Store an entry; it is on disk when this returns."""
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
        with self._writing() as db:
            db.execute(
                "UPDATE outbox SET attempts = attempts + 1, not_before = ?, last_error = ? "
                "WHERE id = ?",
                (until, error, entry.id),
            )

    def refuse(self, entry: OutboxEntry, error: str) -> None:
        """Mark an entry as refused, so that the next of its conversation can be sent."""
        statement = "UPDATE outbox SET attempts = attempts + 1, refused = 1, last_error = ? "
        with self._writing() as db:
            db.execute(f"{statement} WHERE id = ?", (error, entry.id))

    def retry(self) -> None:
        """Make all entries due now, also refused ones."""
        with self._writing() as db:
            db.execute("UPDATE outbox SET refused = 0, not_before = 0")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _select(self, rest: str, values: tuple[Any, ...] = ()) -> list[OutboxEntry]:
        with self._using() as db:
            rows = db.execute(f"SELECT * FROM outbox {rest}", values).fetchall()  # noqa: S608
        entries: list[OutboxEntry] = []
        for row in rows:
            columns = dict(row)
            columns["headers"] = json.loads(columns["headers"])
            columns["refused"] = bool(columns["refused"])
            entries.append(OutboxEntry(**columns))
        return entries

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
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        make_private(descriptor)
    finally:
        os.close(descriptor)
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


class Outbox:
    """Stores chat history in a file, and sends it in the background.

    Entries of one conversation are sent in order, those of several in parallel. Of the processes
    that share a file, one sends. An entry is removed from the file when the gateway has accepted
    it; one that the gateway refused is kept for inspection.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 64 * 1024 * 1024,
        timeout_seconds: float = 30.0,
        retry: ReconnectPolicy = DEFAULT_RETRY,
        workers: int = 4,
        on_step: OnStep | None = None,
    ) -> None:
        """Take the file, its limits and the retry policy; `on_step` follows each entry."""
        self.store = OutboxStore(Path(path), max_bytes=max_bytes)
        self._timeout_seconds = checked_seconds(timeout_seconds, "timeout_seconds")
        self._retry = retry
        self._workers = workers
        self._on_step = on_step
        self._changed = threading.Condition()
        self._busy: set[str] = set()
        self._woken = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._last_problem = ""
        self.current_url: Callable[[], str] | None = None
        """Returns the address that entries are sent to now, instead of the stored one."""

    def put(self, conversation: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Store an entry; it is on disk when this returns, and sent later.

        Raises:
            OutboxError: The outbox is full, or the file cannot be used.
        """
        entry = self.store.put(conversation, url, headers, body)
        self._notify("stored", entry)
        self.start()

    def resume(self) -> None:
        """Start sending what an earlier process left, if anything."""
        if self.store.path.exists():
            self.start()

    def start(self) -> None:
        """Send stored entries now, in a thread that is started if there is none."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="plait outbox", daemon=True)
                self._thread.start()

    def retry(self) -> None:
        """Send all entries again now, also refused ones."""
        self.store.retry()
        self.start()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything is sent; return whether it is."""
        self.start()
        ends_at = time.monotonic() + timeout_seconds
        with self._changed:
            while self._busy or self.store.waiting():
                left = ends_at - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, _POLL_SECONDS))
        return True

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Stop sending after the requests in progress; the rest stays in the file."""
        with self._changed:
            self._stopping = True
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_seconds)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self) -> None:
        """Submit entries until the outbox is closed."""
        path = self.store.path.with_name(f"{self.store.path.name}.lock")
        lock: int | None = None
        client = httpx2.Client(verify=certificates(), timeout=self._timeout_seconds)
        with client, ThreadPoolExecutor(self._workers, "plait outbox") as pool:
            try:
                while not self._stopping:
                    pause = _POLL_SECONDS
                    try:
                        if lock is None:
                            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                        # One process sends; the system releases the lock when it dies.
                        if try_lock(lock):
                            self._submit(pool, client)
                        now = time.time()
                        if (due := self.store.next_time(now)) is not None:
                            pause = min(_POLL_SECONDS, due - now)
                    except (OutboxError, OSError) as error:
                        self._warn_once(f"the outbox cannot be read: {error}")
                    with self._changed:
                        if not self._stopping and not self._woken:
                            self._changed.wait(pause)
                        self._woken = False
            finally:
                pool.shutdown(wait=True)
                if lock is not None:
                    os.close(lock)

    def _submit(self, pool: ThreadPoolExecutor, client: httpx2.Client) -> None:
        with self._changed:
            # Before the file is read, so that an entry removed meanwhile is not sent again.
            busy = set(self._busy)
        for entry in self.store.due(time.time(), self._workers + len(busy)):
            with self._changed:
                if entry.conversation in busy or len(self._busy) >= self._workers:
                    continue
                self._busy.add(entry.conversation)
            pool.submit(self._deliver, client, entry)

    def _deliver(self, client: httpx2.Client, entry: OutboxEntry) -> None:
        try:
            self._attempt(client, entry)
        except Exception:
            logger.exception("entry %d of the outbox could not be handled", entry.id)
        finally:
            with self._changed:
                self._busy.discard(entry.conversation)
            self.start()

    def _attempt(self, client: httpx2.Client, entry: OutboxEntry) -> None:
        self._notify("sending", entry.id)
        try:
            url = entry.url if self.current_url is None else self.current_url()
            response = client.post(url, headers=dict(entry.headers), content=entry.body)
        except (ConfigError, httpx2.RequestError, httpx2.InvalidURL) as fault:
            is_ours = isinstance(fault, ConfigError)
            reason = str(fault) if is_ours else reason_of(fault, self._timeout_seconds)
            self._postpone(entry, reason, None)
            return
        self._notify("answered", entry.id)
        if response.is_success:
            self.store.remove(entry.id)
            self._notify("removed", entry.id)
            return
        reason = status_text(response.status_code, response.text)
        # What is missing or not permitted today may be there tomorrow.
        if response.status_code in _RETRYABLE | {401, 403, 404}:
            after = seconds_from_retry_after(response.headers.get("retry-after"))
            self._postpone(entry, reason, after)
        else:
            logger.warning("chat history was refused, and is kept in the outbox: %s", reason)
            self.store.refuse(entry, reason)
            self._notify("refused", entry.id)

    def _postpone(self, entry: OutboxEntry, reason: str, after: float | None) -> None:
        pause = self._retry.delay_seconds(entry.attempts)
        if after is not None:
            pause = min(after, MAX_RETRY_AFTER_SECONDS)
        self._warn_once(f"chat history waits in the outbox: {reason}")
        self.store.postpone(entry, time.time() + pause, reason)
        self._notify("postponed", entry.id)

    def _notify(self, step: Step, entry: int) -> None:
        if self._on_step is None:
            return
        try:
            self._on_step(step, entry)
        except Exception:  # boundary: a failing callback must not affect the entry
            logger.exception("on_step of the outbox failed")

    def _warn_once(self, problem: str) -> None:
        """Log a warning, unless it was the last one."""
        if problem != self._last_problem:
            self._last_problem = problem
            logger.warning("%s", problem)
