"""Run the official MCP conformance suites against plait, one scenario at a time.

The suites are installed under `.cache/conformance` when they are not there yet. `--write` puts
the results on docs/conformance.md; `--check` runs nothing, and fails when that page leaves out a
scenario or calls one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
CLIENT = ROOT / "scripts" / "conformance_client.py"
CACHE = ROOT / ".cache" / "conformance"
BIN = Path(sys.executable).parent
"""Where Node is too: it comes as a Python package."""

PACKAGE = "@modelcontextprotocol/conformance"
NPM_FLAGS = shlex.split(
    "--no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error"
)

STABLE = "0.1.16"
NEXT = "0.2.0-alpha.12"
"""The first line of the suite that knows the modern wire."""

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
OLD = "2025-03-26"
DRAFT = "draft"
EXTENSION = "extension"
"""Not versions: how the suites file scenarios that belong to no version."""

CLIENT_SECONDS = 60
SUITE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Leg:
    """Scenarios that run under the same conditions."""

    suite: str
    wire: str
    """The protocol version the suite's servers speak."""

    protocol: str
    """The `protocol` setting of the server in plait's configuration."""

    scenarios: tuple[str, ...]

    def runs(self) -> Iterator[Run]:
        """Yield each scenario on its own."""
        for scenario in self.scenarios:
            yield Run(self.suite, self.wire, self.protocol, scenario)


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario under one set of conditions; a row of the table."""

    suite: str
    wire: str
    protocol: str
    scenario: str

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What names the run in a row."""
        return self.suite, self.wire, f"`{self.protocol}`", f"`{self.scenario}`"


@dataclass(frozen=True, slots=True)
class Result:
    """How a run went."""

    run: Run
    passed: int
    failed: int
    skipped: int
    """Checks for something that this client does not do, or that the wire does not have."""

    ok: bool
    report: str
    """What the suite had to say."""

    @property
    def cells(self) -> tuple[str, ...]:
        """What is printed of it, and stands in the table."""
        checks = f"{self.passed}/{self.passed + self.failed}"
        skipped = f" ({self.skipped} skipped)" if self.skipped else ""
        return *self.run.cells, checks + skipped, PASS if self.ok else FAIL


_AUTH = (
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
)
_AUTH_OLD = ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback")
_AUTH_NEW = (
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
)
_AUTH_MODERN = (
    *_AUTH_NEW,
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
)
_AUTH_EXTENSIONS = ("auth/client-credentials-jwt", "auth/client-credentials-basic")
_ON_STABLE = ("initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults")
_ON_LEGACY = (*_ON_STABLE, "json-schema-2020-12-preservation")
_ON_MODERN = (
    "tools_call",
    "request-metadata",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    "sep-2322-client-request-state",
)

LEGS = (
    Leg(STABLE, LEGACY, "auto", _ON_STABLE),
    Leg(STABLE, LEGACY, "legacy", _ON_STABLE),
    Leg(NEXT, LEGACY, "auto", _ON_LEGACY),
    Leg(NEXT, LEGACY, "legacy", _ON_LEGACY),
    Leg(NEXT, MODERN, "auto", _ON_MODERN),
    Leg(NEXT, MODERN, MODERN, _ON_MODERN),
    Leg(STABLE, LEGACY, "auto", _AUTH),
    Leg(STABLE, OLD, "auto", _AUTH_OLD[1:]),
    Leg(STABLE, DRAFT, "auto", _AUTH_NEW),
    Leg(STABLE, EXTENSION, "auto", (*_AUTH_EXTENSIONS, "auth/cross-app-access-complete-flow")),
    Leg(NEXT, LEGACY, "auto", _AUTH),
    Leg(NEXT, OLD, "auto", _AUTH_OLD),
    Leg(NEXT, MODERN, "auto", (*_AUTH, *_AUTH_MODERN)),
    Leg(NEXT, EXTENSION, "auto", (*_AUTH_EXTENSIONS, "auth/enterprise-managed-authorization")),
)
"""Everything that is run; a scenario that exists on both wires proves nothing about the other."""

KNOWN: Mapping[tuple[str, str], str] = {
    (STABLE, _AUTH_OLD[0]): "its server publishes metadata that names another issuer; fixed in "
    f"{NEXT}, where it passes",
    (NEXT, "auth/dpop"): "the SDK does not bind tokens to keys (DPoP)",
    (NEXT, "auth/dpop-nonce"): "the same",
    (NEXT, "auth/wif-jwt-bearer"): "the SDK has no grant for workload identities",
}
"""Scenarios that the MCP SDK itself does not pass, and why."""

LEFT_OUT: Mapping[str, str] = {
    "sep-2640-": "the skills extension",
}
"""Scenarios that are not run, by how their names begin, and what they are about."""

PASS = "pass"
FAIL = "**fail**"
HEAD = ("Suite", "Wire", "`protocol`", "Scenarios and their checks", "Result")


def node(suite: str, *arguments: str) -> list[str]:
    """Return the command line of an installed suite."""
    program = CACHE / suite / "node_modules" / PACKAGE / "dist" / "index.js"
    return [str(BIN / "node"), str(program), *arguments]


def install(suite: str) -> None:
    """Install a suite in a folder of its own, unless it is there already."""
    folder = CACHE / suite
    done = folder / ".installed"
    if done.exists():
        return
    print(f"installing {PACKAGE} {suite}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [BIN / "npm", "install", "--prefix", folder, *NPM_FLAGS, f"{PACKAGE}@{suite}"],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    done.touch()


def unknown_scenarios(suite: str) -> list[str]:
    """Name the client scenarios of a suite that are neither run nor left out."""
    listed = subprocess.run(
        node(suite, "list", "--client"), capture_output=True, text=True, check=True
    ).stdout
    run = {(leg.wire, scenario) for leg in LEGS if leg.suite == suite for scenario in leg.scenarios}
    wires = {leg.wire for leg in LEGS if leg.suite == suite}
    return [
        f"{suite} {wire} {scenario}"
        for scenario, versions in re.findall(r"^ +- (\S+) \[(.*)\]$", listed, re.MULTILINE)
        for wire in sorted(wires & set(versions.split(",")))
        if (wire, scenario) not in run
        and (suite, scenario) not in KNOWN
        and not scenario.startswith(tuple(LEFT_OUT))
    ]


def execute(run: Run) -> Result:
    """Have the suite run one scenario, and read what it found."""
    folder = CACHE / "results" / run.suite / run.wire / run.protocol / run.scenario
    shutil.rmtree(folder, ignore_errors=True)
    client = shlex.join([sys.executable, str(CLIENT), "--protocol", run.protocol])
    command = node(run.suite, "client", "--command", client, "--scenario", run.scenario)
    # For the oldest the suite has only pages about signing in, and speaks a newer protocol.
    if run.wire not in {OLD, DRAFT, EXTENSION}:
        command += ["--spec-version", run.wire]
    command += ["--timeout", str(CLIENT_SECONDS * 1000)]
    command += ["--output-dir", str(folder)]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(run, 0, 0, 0, ok=False, report=f"no end after {SUITE_SECONDS} s")
    found = Counter(check["status"] for check in checks_in(folder))
    # The suite fails a client that exits with an error or draws a warning; one that is not
    # looked at at all it lets pass.
    return Result(
        run,
        passed=found["SUCCESS"],
        failed=found["FAILURE"] + found["WARNING"],
        skipped=found["SKIPPED"],
        ok=done.returncode == 0 and found["SUCCESS"] > 0,
        report=done.stdout,
    )


def checks_in(folder: Path) -> list[dict[str, Any]]:
    """Read the checks of the one run whose results are in a folder."""
    return [
        check
        for file in folder.rglob("checks.json")
        for check in json.loads(file.read_text(encoding="utf-8"))
    ]


def page(results: Sequence[Result]) -> str:
    """Write the page."""
    left_out = "\n".join(f"- `{start}*`: {what}" for start, what in LEFT_OUT.items())
    known = "\n".join(
        f"- `{scenario}` of {suite}: {why}" for (suite, scenario), why in KNOWN.items()
    )
    return f"""\
# Conformance

<!-- Written by scripts/conformance.py; run it again, do not change this page. -->

plait {version("plait")} with the MCP SDK {version("mcp")}, \
under test by `{PACKAGE}` {STABLE} and {NEXT}.
The suite plays the server; the client is plait's `Toolbox`, in `scripts/conformance_client.py`.

```shell
make conformance                             # run everything
python scripts/conformance.py --write        # and write this page
python scripts/conformance.py --scenario tools_call
```

*Wire* is the protocol version of the suite's server; `{DRAFT}` and `{EXTENSION}` belong to none.
`auto`, the default of `protocol`, detects the version; the other values select it.
*Skipped* checks are about what the client does not declare, or the wire does not have.
A warning of the suite counts as a failed check.

{table(HEAD, grouped(result.cells for result in results))}
Not run, because the MCP SDK does not pass them either:

{known}

Not run:

{left_out}
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def grouped(rows: Iterable[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Join rows that differ only in scenario and checks, the last cells but the result."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for *conditions, scenario, checks, result in rows:
        cells.setdefault((*conditions, result), []).append(f"{scenario} {checks}")
    for (*conditions, result), scenarios in cells.items():
        yield *conditions, ", ".join(scenarios), result


def results_on(text: str) -> dict[tuple[str, ...], str]:
    """Return the result of each scenario on a page, by its conditions and its name."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {
        (*conditions, scenario): result
        for *conditions, scenarios, result in rows[2:]
        for scenario in re.findall(r"`[^`]+`", scenarios)
    }


def stale(text: str, wanted: Sequence[tuple[str, ...]]) -> list[str]:
    """Say what is wrong with a page: scenarios it lacks, has too many, or calls failed."""
    found = results_on(text)
    missing = [f"missing: {' '.join(cells)}" for cells in wanted if cells not in found]
    unknown = [f"unknown: {' '.join(cells)}" for cells in found if cells not in wanted]
    failed = [f"failed: {' '.join(cells)}" for cells, result in found.items() if result != PASS]
    return missing + unknown + failed


def every_run() -> list[Run]:
    """Return all runs, in the order of the table."""
    return [run for leg in LEGS for run in leg.runs()]


def conduct(runs: Sequence[Run]) -> list[Result]:
    """Run scenarios one after the other, and tell about each."""
    results: list[Result] = []
    for run in runs:
        result = execute(run)
        results.append(result)
        print(*result.cells, sep="  ", flush=True)
        if not result.ok:
            print(result.report, file=sys.stderr, flush=True)
    return results


def main() -> int:
    """Run, write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", help="run only this one, under all its conditions")
    parser.add_argument("--page", type=Path, default=PAGE)
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--write", action="store_true", help="write the page")
    doing.add_argument("--check", action="store_true", help="only look at the page")
    options = parser.parse_args()

    if options.check:
        wanted = [run.cells for run in every_run()]
        wrong = stale(options.page.read_text(encoding="utf-8"), wanted)
        for line in wrong:
            print(f"{options.page.name}: {line}", file=sys.stderr)
        return bool(wrong)
    if options.scenario and options.write:
        parser.error("--write needs every scenario")
    runs = [run for run in every_run() if options.scenario in {None, run.scenario}]
    if not runs:
        parser.error(f"no scenario is called {options.scenario!r}")

    suites = sorted({run.suite for run in runs})
    for suite in suites:
        install(suite)
    unknown = [name for suite in suites for name in unknown_scenarios(suite)]
    results = conduct(runs)
    if options.write:
        options.page.write_text(page(results), encoding="utf-8")
    failed = sum(not result.ok for result in results)
    print(f"{len(results) - failed} of {len(results)} scenarios passed")
    for name in unknown:
        print(f"neither run nor left out: {name}", file=sys.stderr)
    return bool(failed or unknown)


if __name__ == "__main__":
    sys.exit(main())
