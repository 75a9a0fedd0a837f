"""What one process of the fault server knows and counts, and how it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from plait.testing.faults.options import Settings
from plait.testing.state import StateDir, append_line


@dataclass
class Run:
    """The running process; all of it happens in one event loop."""

    settings: Settings

    counter: int = 0
    """How often `counter` was called."""

    calls: int = 0
    """How many tool calls were answered, or are about to be."""

    cancelled: int = 0
    """How many calls of `hang` were cancelled."""

    slow_now: int = 0
    slow_most: int = 0
    """How many calls of `slow` run now, and ran at the same time at most."""

    grown: int = 0
    """How many tools `grow` has added."""

    followed: list[str] = field(default_factory=list[str])
    """The resources that clients of the older era are subscribed to."""

    exit_due: bool = False
    """Whether the process ends as soon as the answer on its way is written."""

    cut: Callable[[], None] | None = None
    """Cuts every connection; `None` where there is none but the process itself."""

    statuses: int = 0
    cuts: int = 0
    """How many HTTP statuses were answered, and answers cut."""

    state: StateDir | None = field(init=False)
    """The durable state; `None` when the server was started without a folder for it."""

    def __post_init__(self) -> None:
        path = self.settings.state_dir
        self.state = None if path is None else StateDir(path)

    def log_start(self) -> None:
        """Count this start of the server, where there is a place for it."""
        if self.state is not None:
            self.state.path.mkdir(parents=True, exist_ok=True)
            self.state.append("starts", str(os.getpid()))

    def log_session(self, kind: str) -> None:
        """Write a line to the sessions log, where there is one."""
        if self.settings.sessions_file is not None:
            append_line(self.settings.sessions_file, f"{kind} {os.getpid()}")

    def count_call(self) -> None:
        """Count a tool call whose answer is about to be written."""
        self.calls += 1
        if self.calls == self.settings.exit_after:
            self.exit_due = True

    def wrote(self) -> None:
        """Note that a message has left; the transports call this."""
        if self.exit_due:
            self.exit()

    def exit(self) -> None:
        """End the process at once with the configured code."""
        code = self.settings.exit_code
        os._exit(1 if code is None else code)

    def die(self) -> None:
        """Go away without an answer, in the way the settings say."""
        if self.settings.die_by == "drop" and self.cut is not None:
            self.cut()
        elif self.settings.exit_code is not None:
            self.exit()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
