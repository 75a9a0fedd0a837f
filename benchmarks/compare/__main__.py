"""Compares plait with its peers in one run, and prints ratios.

Run: `make bench`, or `make bench-quick` for the key scenarios in two minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.compare.contenders import CONTENDERS
from benchmarks.compare.environments import BENCH
from benchmarks.compare.plot import svg
from benchmarks.compare.processes import net_server, pin_clients
from benchmarks.compare.report import summary, write_between_markers, write_files
from benchmarks.compare.run import Plan, Run
from benchmarks.compare.scenarios import SCENARIOS, Location
from benchmarks.compare.table import plait_table, ratio_table, reasons

QUICK = Plan(is_quick=True, most_calls=512, call_seconds=0.25, budget_seconds=75)
"""A round that begins within the budget ends within two minutes."""


def main() -> int:
    """Run the comparison; return 1 when a contender is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="key scenarios in two minutes")
    parser.add_argument("--minutes", type=float, help="begin no further round after this time")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    parser.add_argument("--only", nargs="+", choices=[c.id for c in CONTENDERS], default=[])
    known = [row.id for scenario in SCENARIOS for row in scenario.rows]
    parser.add_argument(
        "--rows", nargs="+", metavar="ROW", choices=known, default=[], help="only these rows"
    )
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    if options.minutes is not None:
        plan = replace(plan, budget_seconds=60 * options.minutes)
    contenders = [
        contender
        for contender in CONTENDERS
        if (
            contender.id in options.only
            if options.only
            else contender.is_quick or not plan.is_quick
        )
    ]
    scenarios = [
        scenario
        for scenario in SCENARIOS
        if plan.rounds(scenario)
        and (not options.rows or any(row.id in options.rows for row in scenario.rows))
    ]
    if not scenarios:
        parser.error("--quick has none of these rows")
    rows = [row for scenario in scenarios for row in scenario.rows]
    core = pin_clients()
    with net_server(core) as port:
        run = Run(plan, contenders, Location(port, core), lambda text: print(text, file=sys.stderr))
        run.make_environments()
        run.run(scenarios)
    results = run.results
    print(ratio_table(results, rows, contenders).to_text(), end="\n\n")
    print(plait_table(results, rows).to_text(), end="\n\n")
    print("\n".join(reasons(results, rows, contenders)))
    command = " ".join(["python -m benchmarks.compare", *sys.argv[1:]])
    write_files(results, rows, contenders, command, BENCH / "results")
    print(f"plot, report and raw numbers: {os.path.relpath(BENCH / 'results')}")
    if options.write:
        plot = options.write.with_suffix(".svg")
        plot.write_text(svg(results, rows, contenders), "utf-8")
        text = summary(results, rows, contenders, command, plot.name)
        write_between_markers(options.write, text)
    return 1 if results.missing else 0


if __name__ == "__main__":
    sys.exit(main())
