"""What every call of a soak came to, and whether that is what was promised."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

NEVER_RAN = frozenset({"ConnectError", "ConnectTimeoutError", "CircuitOpenError", "SendError"})
"""Errors that promise that the tool has not run."""
REFUSED = frozenset({"AuthRequiredError", "RateLimitedError", "ServerError"})
"""The server answered, and refused."""
_RETURN_SECONDS = 2.0
"""A server that is back for so long before the deadline of a call must have answered it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One call."""

    mode: str
    server: str
    tool: str
    question: str
    began: float
    seconds: float
    text: str | None
    """The answer; `None` if there was an error."""
    error: str | None = None
    detail: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether the answer is the one to this question."""
        return self.text == f"{self.tool}:{self.question}"


class Book:
    """Writes records to a file, so that they cost no memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w", buffering=1 << 16)
        self.modes: set[str] = set()
        """The modes that have made calls."""

    def add(self, record: Record) -> None:
        """Write a record."""
        self.modes.add(record.mode)
        self._file.write(json.dumps(asdict(record)) + "\n")

    def records(self) -> list[Record]:
        """Close the book, and read it."""
        self._file.close()
        return [Record(**json.loads(line)) for line in self.path.read_text().splitlines()]


@dataclass(frozen=True, slots=True)
class Outage:
    """When a server could not answer, on the monotonic clock."""

    server: str
    began: float
    ended: float


@dataclass(slots=True)
class Verdict:
    """The figures of a soak, and every promise that was broken."""

    problems: list[str]
    calls: int = 0
    answered: int = 0
    owed: int = 0
    """Calls whose deadline ended two seconds or more after the server's return."""
    owed_and_answered: int = 0
    errors: Counter[str] | None = None

    @property
    def share(self) -> float:
        """The share of the calls that had to be answered, and were."""
        return self.owed_and_answered / self.owed if self.owed else 1.0


def judge(
    records: Sequence[Record],
    ran: Mapping[str, int],
    outages: Sequence[Outage],
    *,
    spend_seconds: float,
    bound_seconds: float,
) -> Verdict:
    """Compare the answers with the ledger; `ran` counts how often each write was made."""
    verdict = Verdict([], errors=Counter())
    for record in records:
        _judge_one(record, ran, verdict, bound_seconds)
        if _is_owed(record, outages, spend_seconds):
            verdict.owed += 1
            verdict.owed_and_answered += record.is_answered
    written = {record.question for record in records if record.tool == "write"}
    verdict.problems += [f"{one} ran, and was never asked for" for one in set(ran) - written]
    return verdict


def _judge_one(
    record: Record, ran: Mapping[str, int], verdict: Verdict, bound_seconds: float
) -> None:
    times = ran.get(record.question, 0)
    name = f"{record.mode} {record.server} {record.tool} {record.question}"
    verdict.calls += 1
    verdict.answered += record.is_answered
    if record.error is not None and verdict.errors is not None:
        verdict.errors[f"{record.tool} {record.error}"] += 1
    if record.text is not None and not record.is_answered:
        verdict.problems.append(f"{name}: got the answer {record.text!r}")
    if times > 1:
        verdict.problems.append(f"{name}: ran {times} times")
    if record.tool == "write" and record.is_answered and times != 1:
        verdict.problems.append(f"{name}: was acknowledged, and is not in the ledger")
    if record.error in NEVER_RAN and times:
        verdict.problems.append(f"{name}: ran, and {record.error} says that it did not")
    if record.seconds > bound_seconds:
        verdict.problems.append(f"{name}: took {record.seconds:.1f} s")


def _is_owed(record: Record, outages: Sequence[Outage], spend_seconds: float) -> bool:
    """Return whether the server was there for long enough before the deadline of a call."""
    if record.error in REFUSED:
        return False
    deadline = record.began + spend_seconds
    return not any(
        outage.server == record.server
        and outage.began < deadline
        and outage.ended > deadline - _RETURN_SECONDS
        for outage in outages
    )
