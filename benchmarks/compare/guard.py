"""Fails when plait needs much more CPU than before, compared with `mcp.Client` in the same run.

CPU of the client process hardly depends on what else the machine does, and the ratio of two
clients hardly depends on the machine. The bounds are about twice what was measured, so that noise
passes and a regression by a factor of two fails.

Run: `make bench-guard`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.compare.contenders import OWN_LOOP, PLAIT, SDK
from benchmarks.compare.processes import net_server, pin_clients
from benchmarks.compare.results import Results
from benchmarks.compare.run import Plan, Run
from benchmarks.compare.scenarios import SCENARIOS, Location

PLAN = Plan(is_quick=True, most_calls=100, call_seconds=10)
"""Counts calls rather than seconds, so that a busy machine measures the same."""


@dataclass(frozen=True)
class Bound:
    """The largest CPU ratio to `mcp.Client` in a row."""

    rounds: int
    callers_loop: float
    own_loop: float


BOUNDS: dict[str, Bound] = {
    "stdio": Bound(3, callers_loop=1.1, own_loop=1.5),
    "http": Bound(3, callers_loop=0.55, own_loop=0.6),
    "at-once-stdio": Bound(3, callers_loop=0.6, own_loop=1.2),
    "at-once-http": Bound(3, callers_loop=0.28, own_loop=0.35),
    "payload-256k": Bound(3, callers_loop=1.3, own_loop=1.3),
    "tools-1000": Bound(2, callers_loop=1.1, own_loop=1.1),
    "import": Bound(2, callers_loop=1.7, own_loop=1.7),
}
"""By row of the comparison."""


def cpu_ratios(results: Results) -> dict[tuple[str, str], float | None]:
    """Return the CPU ratio to `mcp.Client` by row and contender."""
    return {
        (row, contender.id): results.cpu_ratio_of_best(contender.id, SDK.id, row)
        for row in BOUNDS
        for contender in (PLAIT, OWN_LOOP)
    }


def violations(
    ratios: Mapping[tuple[str, str], float | None], bounds: Mapping[str, Bound]
) -> list[str]:
    """Name every row above its bound, or without a number."""
    found: list[str] = []
    for (row, contender), ratio in ratios.items():
        bound = bounds[row].callers_loop if contender == PLAIT.id else bounds[row].own_loop
        if ratio is None:
            found.append(f"{row}, {contender}: not measured, bound {bound:.2f}")
        elif ratio > bound:
            found.append(f"{row}, {contender}: measured {ratio:.2f}, bound {bound:.2f}")
    return found


def measure() -> Results:
    """Run the scenarios of the bounds with plait and `mcp.Client` of this environment."""
    scenarios = [
        replace(scenario, quick_rounds=BOUNDS[row.id].rounds)
        for scenario in SCENARIOS
        for row in scenario.rows
        if row.id in BOUNDS
    ]
    core = pin_clients()
    with net_server(core) as port:
        run = Run(
            PLAN,
            [replace(SDK, environment=None), PLAIT, OWN_LOOP],
            Location(port, core),
            lambda text: print(text, file=sys.stderr),
        )
        run.run(scenarios)
    return run.results


def main() -> int:
    """Print the ratios; return 1 and name the rows when a bound is exceeded."""
    ratios = cpu_ratios(measure())
    for (row, contender), ratio in ratios.items():
        shown = "not measured" if ratio is None else f"{ratio:.2f}"
        print(f"{row:<14} {contender:<10} CPU ratio to mcp.Client {shown}")
    failed = violations(ratios, BOUNDS)
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
