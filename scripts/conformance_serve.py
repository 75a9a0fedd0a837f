"""Run the official MCP conformance suites against `plait serve`, and against the server behind it.

`plait serve --names plain --http` stands in front of tests/servers/conforming.py, which it reaches
on stdio and over HTTP. A scenario that passes without `plait serve` has to pass with it; scenarios
that check nothing are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance import LEGACY, MODERN, NEXT, ROOT, STABLE, install
from conformance_server import Found, execute

from plait.testing import ServerProcess

BEHIND = ROOT / "tests" / "servers" / "conforming.py"
READY = r"serving (?P<url>http://\S+)"

_BOTH = (
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "dns-rebinding-protection",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
)
_HANDSHAKE = (
    "server-initialize",
    "logging-set-level",
    "ping",
    "tools-call-with-logging",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-sse-polling",
    "resources-subscribe",
    "resources-unsubscribe",
)
_MODERN = (
    "server-stateless",
    "caching",
    "http-header-validation",
    "http-custom-header-server-validation",
    "sep-2164-resource-not-found",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-basic-list-roots",
    "input-required-result-request-state",
    "input-required-result-multiple-input-requests",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-non-tool-request",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
)
SCENARIOS = {
    (STABLE, LEGACY): (*_HANDSHAKE, *_BOTH),
    (NEXT, LEGACY): (*_HANDSHAKE, "server-session-lifecycle", *_BOTH),
    (NEXT, MODERN): (*_MODERN, *_BOTH),
}


def every_run(only: str | None) -> Iterator[tuple[str, str, str]]:
    """Name all runs, or those of one scenario."""
    for (suite, wire), scenarios in SCENARIOS.items():
        for scenario in scenarios:
            if only in {None, scenario}:
                yield suite, wire, scenario


def serving(folder: Path, entry: dict[str, object]) -> ServerProcess:
    """Return `plait serve` in front of one server."""
    folder.mkdir()
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"behind": entry}}))
    command = [sys.executable, "-m", "plait", "serve", "--config", str(config)]
    env = {"PLAIT_CACHE_DIR": str(folder / "cache")}
    return ServerProcess(
        [*command, "--names", "plain", "--http", "127.0.0.1:0"], ready=READY, env=env
    )


def main() -> int:
    """Run every scenario three times, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", help="run only this one")
    options = parser.parse_args()
    for suite in (STABLE, NEXT):
        install(suite)
    stdio: dict[str, object] = {"command": sys.executable, "args": [str(BEHIND), "stdio"]}
    worse = counted = 0
    with (
        tempfile.TemporaryDirectory() as name,
        ServerProcess([sys.executable, str(BEHIND), "http"], env=dict(os.environ)) as behind,
        serving(Path(name) / "stdio", stdio) as over_stdio,
        serving(Path(name) / "http", {"url": behind.url}) as over_http,
    ):
        for run in every_run(options.scenario):
            alone = execute(behind.url, *run)
            served = [execute(one.url, *run) for one in (over_stdio, over_http)]
            counted += alone.ok
            lost = [one for one in served if alone.ok and not one.ok]
            worse += bool(lost)
            print(*run, *(_shown(one) for one in (alone, *served)), sep="  ", flush=True)
            for one in lost if options.scenario is None else served:
                print(one.report, file=sys.stderr, flush=True)
    print(f"{counted - worse} of {counted} scenarios that pass without plait serve pass with it")
    return bool(worse)


def _shown(found: Found) -> str:
    return f"{'pass' if found.ok else 'FAIL'} {found.passed}/{found.passed + found.failed}"


if __name__ == "__main__":
    sys.exit(main())
