"""Simulated faults of the mock gateway."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from plait.errors import ConfigError

_SYNTAX = re.compile(
    r"(?P<target>[^=]+)=(?P<kind>\d{3}|slow|garbage|malformed|duplicate)"
    r"(?::(?P<seconds>\d+(?:\.\d+)?))?(?:x(?P<times>\d+))?"
)

FORMS = "TARGET=KIND[:SECONDS][xTIMES]"


@dataclass(frozen=True, slots=True)
class Fault:
    """A simulated fault."""

    target: str
    """`discovery`, `history`, or the name of a server."""
    kind: str
    """A status, `slow`, `garbage`, and for `discovery` `malformed` or `duplicate`."""
    seconds: float | None = None
    """The delay, or the value of `Retry-After`."""
    times: int | None = None
    """For how many requests; `None` means all."""


def fault_from(text: str) -> Fault:
    """Parse a fault: `discovery=429:1x2`, `history=slow:5`, `mcp_MailTools=500`.

    Raises:
        ConfigError: It has another form.
    """
    match = _SYNTAX.fullmatch(text.strip())
    if match is None:
        kinds = "a status, slow, garbage, malformed or duplicate"
        raise ConfigError(f"a fault is written {FORMS}, with {kinds} as the kind: {text!r}")
    seconds, times = match["seconds"], match["times"]
    return Fault(
        match["target"].strip(),
        match["kind"],
        None if seconds is None else float(seconds),
        None if times is None else int(times),
    )


class Faults:
    """The faults to simulate; may be changed from any thread."""

    def __init__(self, faults: Iterable[Fault | str] = ()) -> None:
        self._lock = threading.Lock()
        self.set(*faults)

    def set(self, *faults: Fault | str) -> None:
        """Simulate these faults from now on, and no others."""
        parsed = [fault_from(fault) if isinstance(fault, str) else fault for fault in faults]
        with self._lock:
            self._faults = parsed
            self._used: Counter[int] = Counter()

    def take(self, target: str) -> Fault | None:
        """Return the fault for a request, if there is one, and count it."""
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.target == target and (
                    fault.times is None or self._used[index] < fault.times
                ):
                    self._used[index] += 1
                    return fault
        return None
