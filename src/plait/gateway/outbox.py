"""Chat history that survives a restart: stored first, then sent, in order, until it arrives."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import httpx2

from plait._support.redact import Redactor
from plait._support.retry_after import seconds_from_retry_after
from plait.client.config.timing import ReconnectPolicy
from plait.errors import OutboxError
from plait.gateway.http import may_come_right, reason_of
from plait.gateway.outbox_store import Letter, OutboxStore
from plait.models.connections import certificates

try:
    import fcntl
except ImportError:  # Windows: one process alone may deliver
    fcntl = None

logger = logging.getLogger("plait.gateway")

Step = Literal["stored", "sending", "answered", "removed", "postponed", "refused"]
"""What has just happened to a letter."""

OnStep = Callable[[Step, int], None]
"""Hears of every step, with the number of the letter; runs in the thread that takes it."""

_POLL_SECONDS = 1.0
"""How often to look for letters of other processes."""

_LONGEST_WAIT_SECONDS = 3600.0
"""How long a gateway may put us off at a time."""

PATIENCE = ReconnectPolicy(first_delay_seconds=1.0, longest_delay_seconds=300.0)


class Outbox:
    """Stores chat history in a file, and sends it in the background.

    The letters of a conversation are sent one after another, those of several conversations side
    by side. Of the processes that share a file, one sends. A letter leaves the file only when the
    gateway has taken it; what it will not have is kept for somebody to look at.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 64 * 1024 * 1024,
        timeout_seconds: float = 30.0,
        retry: ReconnectPolicy = PATIENCE,
        workers: int = 4,
        on_step: OnStep | None = None,
    ) -> None:
        """Take the file, and how patient to be; `on_step` hears what happens to each letter."""
        self.store = OutboxStore(Path(path), max_bytes=max_bytes)
        self._timeout_seconds = timeout_seconds
        self._patience = retry
        self._workers = workers
        self._on_step: OnStep = on_step or _ignore
        self._changed = threading.Condition()
        self._busy: set[str] = set()
        self._news = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._last_problem = ""

    def put(self, conversation: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Store a letter; it is on disk when this returns, and sent when it can be.

        Raises:
            OutboxError: There is no room, or the file cannot be used.
        """
        letter = self.store.put(conversation, url, headers, body)
        self._tell("stored", letter)
        self.start()
        self._wake()

    def resume(self) -> None:
        """Begin to send what an earlier process has left, if it has left anything."""
        if self.store.path.exists():
            self.start()

    def start(self) -> None:
        """Begin to send what is stored."""
        with self._changed:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="plait outbox", daemon=True)
                self._thread.start()

    def retry(self) -> None:
        """Send everything again at once, also what was refused."""
        self.store.retry()
        self.start()
        self._wake()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything has been sent; say whether it has."""
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
        """Stop sending, after what is being sent now; the rest stays in the file."""
        with self._changed:
            self._stopping = True
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_seconds)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def _wake(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def _run(self) -> None:
        """Hand out letters until the outbox is closed."""
        lock = _Lock(self.store.path.with_name(f"{self.store.path.name}.lock"))
        client = httpx2.Client(verify=certificates(), timeout=self._timeout_seconds)
        with client, ThreadPoolExecutor(self._workers, "plait outbox") as pool:
            try:
                while not self._stopping:
                    try:
                        if lock.taken():
                            self._hand_out(pool, client)
                        pause = self._pause()
                    except (OutboxError, OSError) as error:
                        self._say(f"the outbox cannot be read: {error}")
                        pause = _POLL_SECONDS
                    self._rest(pause)
            finally:
                pool.shutdown(wait=True)
                lock.release()

    def _hand_out(self, pool: ThreadPoolExecutor, client: httpx2.Client) -> None:
        with self._changed:
            # Before the file is read: what is taken out of it meanwhile must not be sent again.
            busy = set(self._busy)
        for letter in self.store.due(time.time(), self._workers + len(busy)):
            with self._changed:
                if letter.conversation in busy or len(self._busy) >= self._workers:
                    continue
                self._busy.add(letter.conversation)
            pool.submit(self._deliver, client, letter)

    def _pause(self) -> float:
        now = time.time()
        due = self.store.next_time(now)
        return _POLL_SECONDS if due is None else min(_POLL_SECONDS, due - now)

    def _rest(self, seconds: float) -> None:
        with self._changed:
            if not self._stopping and not self._news:
                self._changed.wait(seconds)
            self._news = False

    def _deliver(self, client: httpx2.Client, letter: Letter) -> None:
        try:
            self._attempt(client, letter)
        except Exception:
            logger.exception("letter %d of the outbox could not be handled", letter.id)
        finally:
            with self._changed:
                self._busy.discard(letter.conversation)
            self._wake()

    def _attempt(self, client: httpx2.Client, letter: Letter) -> None:
        self._tell("sending", letter.id)
        try:
            response = client.post(letter.url, headers=dict(letter.headers), content=letter.body)
        except (httpx2.RequestError, httpx2.InvalidURL) as fault:
            self._postpone(letter, reason_of(fault, self._timeout_seconds), None)
            return
        self._tell("answered", letter.id)
        if response.is_success:
            self.store.remove(letter.id)
            self._tell("removed", letter.id)
            return
        said = Redactor().excerpt(response.text)
        reason = f"HTTP {response.status_code}{f': {said}' if said else ''}"
        if may_come_right(response.status_code):
            after = seconds_from_retry_after(response.headers.get("retry-after"))
            self._postpone(letter, reason, after)
        else:
            logger.warning("chat history was refused, and is kept in the outbox: %s", reason)
            self.store.refuse(letter, reason)
            self._tell("refused", letter.id)

    def _postpone(self, letter: Letter, reason: str, after: float | None) -> None:
        pause = self._patience.delay_seconds(letter.attempts)
        if after is not None:
            pause = min(after, _LONGEST_WAIT_SECONDS)
        self._say(f"chat history waits in the outbox: {reason}")
        self.store.postpone(letter, time.time() + pause, reason)
        self._tell("postponed", letter.id)

    def _tell(self, step: Step, letter: int) -> None:
        try:
            self._on_step(step, letter)
        except Exception:  # boundary: whoever listens must not decide about letters
            logger.exception("the listener of the outbox failed")

    def _say(self, problem: str) -> None:
        """Say something once, until something else is to be said."""
        if problem != self._last_problem:
            self._last_problem = problem
            logger.warning("%s", problem)


def _ignore(step: Step, letter: int) -> None:
    """Hear of a step, and do nothing."""
    del step, letter


class _Lock:
    """Whose turn it is to send; the system lets go of it when a process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def taken(self) -> bool:
        """Take the lock, unless another process has it."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
