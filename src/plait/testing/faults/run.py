"""The state of one fault server process, and how it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from plait.testing.faults.options import Settings
from plait.testing.state import StateDir, append_line


@dataclass
class Run:
    """The running process; used in one event loop only."""

    settings: Settings
    counter: int = 0
    """Calls of `counter`."""
    calls: int = 0
    """Answered tool calls."""
    cancelled: int = 0
    """Cancelled calls of `hang`."""
    slow_now: int = 0
    slow_most: int = 0
    """Current and maximum concurrent calls of `slow`."""
    grown: int = 0
    """Tools added by `grow`."""
    followed: list[str] = field(default_factory=list[str])
    """The resources with subscriptions of legacy clients."""
    exit_due: bool = False
    """Whether the process exits after the pending answer is written."""
    cut: Callable[[], None] | None = None
    """Cuts every connection; `None` on stdio."""
    statuses: int = 0
    cuts: int = 0
    """HTTP statuses sent, and answers cut."""
    state: StateDir | None = field(init=False)
    """The durable state; `None` without a state folder."""

    def __post_init__(self) -> None:
        path = self.settings.state_dir
        self.state = None if path is None else StateDir(path)

    def log_start(self) -> None:
        """Record this start of the server, if there is a state folder."""
        if self.state is not None:
            self.state.path.mkdir(parents=True, exist_ok=True)
            self.state.append("starts", str(os.getpid()))

    def log_session(self, kind: str) -> None:
        """Write a line to the sessions log, if there is one."""
        if self.settings.sessions_file is not None:
            append_line(self.settings.sessions_file, f"{kind} {os.getpid()}")

    def count_call(self) -> None:
        """Count a tool call whose answer is about to be written."""
        self.calls += 1
        if self.calls == self.settings.exit_after:
            self.exit_due = True

    def wrote(self) -> None:
        """Exit if that is due; the transports call this after each message."""
        if self.exit_due:
            self.exit()

    def exit(self) -> None:
        """Exit immediately with the configured code."""
        code = self.settings.exit_code
        os._exit(1 if code is None else code)

    def die(self) -> None:
        """Die without an answer, as configured."""
        if self.settings.die_by == "drop" and self.cut is not None:
            self.cut()
        elif self.settings.exit_code is not None:
            self.exit()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
