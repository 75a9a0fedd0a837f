"""What a run has measured, and the numbers computed from it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Visit:
    """The samples of one row that a contender gave in one round."""

    contender: str
    row: str
    round: int
    samples: tuple[float, ...]
    """Seconds or bytes of each operation."""
    cpu: float | None
    """CPU seconds of an operation in the client's process; `None` where it has no meaning."""


@dataclass(frozen=True)
class Summary:
    """All rounds of a contender in one row."""

    p50: float
    p99: float
    cpu: float | None


@dataclass(frozen=True)
class Ratio:
    """How many times more than another contender; `None` where it cannot be computed."""

    wall: float | None
    cpu: float | None


@dataclass
class Results:
    """Everything one run has measured."""

    visits: list[Visit] = field(default_factory=list[Visit])
    dashes: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Why a contender has no number in a row, by contender and row."""
    lost: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Contender and row where the connection was lost for good."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Contenders whose environment could not be made, with the reason."""
    versions: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def add(self, contender: str, round_: int, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the reply of a worker."""
        for row, sample in rows.items():
            if sample["samples"]:
                samples = tuple(float(value) for value in sample["samples"])
                self.visits.append(Visit(contender, row, round_, samples, sample["cpu"]))
            else:
                self.lost.add((contender, row))
                self.dashes[contender, row] = str(sample["lost"])

    def of(self, contender: str, row: str) -> list[Visit]:
        """Return the visits of a contender in a row."""
        return [visit for visit in self.visits if visit.contender == contender and visit.row == row]

    def summary(self, contender: str, row: str) -> Summary | None:
        """Summarize all rounds, or return `None` where there is no number."""
        visits = self.of(contender, row)
        if not visits:
            return None
        samples = [value for visit in visits for value in visit.samples]
        cpu = [visit.cpu for visit in visits if visit.cpu is not None]
        return Summary(
            p50=statistics.median(samples),
            p99=percentile(samples, 0.99),
            cpu=statistics.median(cpu) if cpu else None,
        )

    def ratio(self, contender: str, reference: str, row: str) -> Ratio:
        """Compare two contenders round by round, and take the median of the rounds.

        What slows a machine down for a while slows both sides of a round, and cancels out.
        """
        walls: list[float] = []
        cpus: list[float] = []
        for ours, theirs in self._pairs(contender, reference, row):
            base = statistics.median(theirs.samples)
            if base > 0:
                walls.append(statistics.median(ours.samples) / base)
            if ours.cpu is not None and theirs.cpu:
                cpus.append(ours.cpu / theirs.cpu)
        return Ratio(
            wall=statistics.median(walls) if walls else None,
            cpu=statistics.median(cpus) if cpus else None,
        )

    def cpu_ratio_of_best(self, contender: str, reference: str, row: str) -> float | None:
        """Compare the least CPU of any round; what else a machine does only ever adds to it."""
        ours = [visit.cpu for visit in self.of(contender, row) if visit.cpu]
        theirs = [visit.cpu for visit in self.of(reference, row) if visit.cpu]
        return min(ours) / min(theirs) if ours and theirs else None

    def _pairs(self, contender: str, reference: str, row: str) -> Iterator[tuple[Visit, Visit]]:
        theirs = {visit.round: visit for visit in self.of(reference, row)}
        for ours in self.of(contender, row):
            if ours.round in theirs:
                yield ours, theirs[ours.round]

    def to_json(self) -> dict[str, Any]:
        """Return everything, for a file."""
        return {
            "versions": self.versions,
            "missing": self.missing,
            "dashes": [
                {"contender": contender, "row": row, "reason": reason}
                for (contender, row), reason in sorted(self.dashes.items())
            ],
            "lost": sorted(self.lost),
            "visits": [asdict(visit) for visit in self.visits],
        }


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that `share` of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
