"""Faults of the mock gateway: what to do wrong, where, and how often."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from plait.errors import ConfigError

_SPELLING = re.compile(
    r"(?P<target>[^=]+)=(?P<kind>\d{3}|slow|garbage|malformed|duplicate)"
    r"(?::(?P<seconds>\d+(?:\.\d+)?))?(?:x(?P<times>\d+))?"
)

FORMS = "TARGET=KIND[:SECONDS][xTIMES]"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done wrong."""

    target: str
    """`discovery`, `history`, or the name of a server."""

    kind: str
    """A status, `slow`, `garbage`, and for `discovery` `malformed` or `duplicate`."""

    seconds: float | None = None
    """How slow, or what `Retry-After` says."""

    times: int | None = None
    """How often; always, if nothing is said."""


def fault_from(text: str) -> Fault:
    """Read a fault: `discovery=429:1x2`, `history=slow:5`, `mcp_MailTools=500`.

    Raises:
        ConfigError: It is not written like that.
    """
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        kinds = "a status, slow, garbage, malformed or duplicate"
        raise ConfigError(f"a fault is written {FORMS}, with {kinds} as the kind: {text!r}")
    seconds, times = found["seconds"], found["times"]
    return Fault(
        found["target"].strip(),
        found["kind"],
        None if seconds is None else float(seconds),
        None if times is None else int(times),
    )


class Faults:
    """The faults that are still to come; may be changed from any thread."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._left: list[list[Fault | int | None]] = []
        self.set(*faults)

    def set(self, *faults: Fault | str) -> None:
        """Do these wrong from now on, and nothing else."""
        read = [fault_from(one) if isinstance(one, str) else one for one in faults]
        with self._lock:
            self._left = [[one, one.times] for one in read]

    def take(self, target: str) -> Fault | None:
        """Return what to do wrong with a request, if anything, and count it."""
        with self._lock:
            for entry in self._left:
                fault, left = entry
                if isinstance(fault, Fault) and fault.target == target and left != 0:
                    if isinstance(left, int):
                        entry[1] = left - 1
                    return fault
        return None
