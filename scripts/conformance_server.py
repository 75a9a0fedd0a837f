"""Run the official MCP conformance suites against the reasoning server, one scenario at a time.

Scenarios that call tools, resources or prompts by names of the suite's own are left out: the
reasoning server has others. `--write` puts the results on docs/conformance-server.md; `--check`
runs nothing, and fails when that page leaves out a scenario or calls one failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from conformance import (
    CACHE,
    FAIL,
    LEGACY,
    MODERN,
    NEXT,
    PACKAGE,
    PASS,
    ROOT,
    STABLE,
    SUITE_SECONDS,
    checks_in,
    grouped,
    install,
    node,
    stale,
    table,
)

from plait.testing import ServerProcess

PAGE = ROOT / "docs" / "conformance-server.md"
HEAD = ("Suite", "Wire", "Scenarios and their checks", "Result")

_SHARED = (
    "completion-complete",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)
_OLD = ("server-initialize", "ping")

SCENARIOS = {
    (STABLE, LEGACY): (*_OLD, *_SHARED),
    (NEXT, LEGACY): (*_OLD, *_SHARED),
    (NEXT, MODERN): (
        *_SHARED,
        "server-sse-multiple-streams",
        "sep-2164-resource-not-found",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "input-required-result-ignore-extra-params",
    ),
}
"""The scenarios that need nothing by a name of the suite's own."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the suite says of one scenario."""

    suite: str
    wire: str
    scenario: str
    passed: int
    failed: int
    ok: bool
    report: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        checks = f"{self.passed}/{self.passed + self.failed}"
        name = f"`{self.scenario}`"
        return (self.suite, self.wire, name, checks, PASS if self.ok else FAIL)


def every_run() -> Iterator[tuple[str, str, str]]:
    """Name all runs, in the order of the table."""
    for (suite, wire), scenarios in SCENARIOS.items():
        for scenario in scenarios:
            yield suite, wire, scenario


def execute(url: str, suite: str, wire: str, scenario: str) -> Found:
    """Have the suite run one scenario against the server, and read what it found."""
    folder = CACHE / "results" / "server" / suite / wire / scenario
    shutil.rmtree(folder, ignore_errors=True)
    command = node(suite, "server", "--url", url, "--scenario", scenario)
    command += ["--output-dir", str(folder)]
    if suite == NEXT:
        command += ["--spec-version", wire]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    checks = Counter(check["status"] for check in checks_in(folder))
    failed = checks["FAILURE"] + checks["WARNING"]
    ok = done.returncode == 0 and checks["SUCCESS"] > 0 and not failed
    return Found(suite, wire, scenario, checks["SUCCESS"], failed, ok, done.stdout)


def page(results: Sequence[Found]) -> str:
    """Write the page."""
    return f"""\
# Conformance of the reasoning server

<!-- Written by scripts/conformance_server.py; run it again, do not change this page. -->

`plait reasoning serve --http` of plait {version("plait")} with the MCP SDK {version("mcp")}, \
under test by `{PACKAGE}` {STABLE} and {NEXT}.
The suite plays the client.
Not run: scenarios about tools, resources and prompts of the suite's own, and about session ids, \
because any replica may answer.

```shell
make conformance                                    # run everything
python scripts/conformance_server.py --write        # and write this page
```

{table(HEAD, grouped(result.cells for result in results))}"""


def main() -> int:
    """Run, write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", help="run only this one")
    parser.add_argument("--page", type=Path, default=PAGE)
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--write", action="store_true", help="write the page")
    doing.add_argument("--check", action="store_true", help="only look at the page")
    options = parser.parse_args()
    if options.check:
        wanted = [(suite, wire, f"`{scenario}`") for suite, wire, scenario in every_run()]
        wrong = stale(options.page.read_text(encoding="utf-8"), wanted)
        for line in wrong:
            print(f"{options.page.name}: {line}", file=sys.stderr)
        return bool(wrong)
    for suite in (STABLE, NEXT):
        install(suite)
    results: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "plait.cli", "reasoning", "serve", "--backend", "host"]
        command += ["--http", "127.0.0.1:{port}", "--db", str(Path(folder) / "reasoning.db")]
        with ServerProcess(command) as server:
            for suite, wire, scenario in every_run():
                if options.scenario in {None, scenario}:
                    found = execute(server.url, suite, wire, scenario)
                    results.append(found)
                    print(*found.cells, sep="  ", flush=True)
                    if not found.ok:
                        print(found.report, file=sys.stderr, flush=True)
    if options.write:
        options.page.write_text(page(results), encoding="utf-8")
    failed = sum(not result.ok for result in results)
    print(f"{len(results) - failed} of {len(results)} scenarios passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
