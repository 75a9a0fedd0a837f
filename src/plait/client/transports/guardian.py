"""Runs the watchdog, so that children end with this process even when it is killed."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

logger = logging.getLogger("plait.client.transports")

_WATCHDOG = Path(__file__).with_name("_watchdog.py")


class Guardian:
    """Runs one watchdog process while there are children to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner_pid = os.getpid()

    def watch(self, group: int) -> None:
        """Have a process group stopped when this process ends."""
        with self._lock:
            if self._owner_pid != os.getpid():
                # In a forked process the watchdog belongs to the parent.
                self._groups, self._watchdog, self._owner_pid = set(), None, os.getpid()
            self._groups.add(group)
            if self._watchdog is not None and self._send(f"+{group}\n"):
                return
            self._start()

    def unwatch(self, group: int) -> None:
        """Stop watching a process group; the last one ends the watchdog."""
        with self._lock:
            self._groups.discard(group)
            if self._watchdog is None:
                return
            if not self._groups:
                self._stop()
            elif not self._send(f"-{group}\n"):
                self._start()

    def _start(self) -> None:
        self._stop()
        try:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WATCHDOG), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("children will not be stopped if this process is killed: %s", error)
            return
        self._send("".join(f"+{group}\n" for group in sorted(self._groups)))

    def _send(self, text: str) -> bool:
        watchdog = self._watchdog
        if watchdog is None or watchdog.stdin is None or watchdog.poll() is not None:
            return False
        try:
            watchdog.stdin.write(text.encode())
            watchdog.stdin.flush()
        except OSError:
            return False
        return True

    def _stop(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None:
            return
        # Killed at once: it has nothing left to do, and a new one must not run beside it.
        watchdog.kill()
        if watchdog.stdin is not None:
            with contextlib.suppress(OSError):
                watchdog.stdin.close()
        watchdog.wait()


guardian = Guardian()
"""The one guardian of this process."""
