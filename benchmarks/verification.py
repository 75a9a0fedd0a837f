"""What a case costs: CPU and memory of `plait verify`, and of inspect-ai, in one run.

Both run the same cases: a scripted model calls a tool that adds two numbers, and answers; the
answer is checked, and result and trace are on disk. plait calls the tool of a real MCP server on
stdio, in another process, with the servers and the graph of the langchain engine shared by all
cases (`scope: suite`). inspect-ai calls a Python function, with its mock model, whose outputs carry
their usage: else it downloads a tokenizer.

CPU is that of the process that runs the cases, from the start of the first to the end of the last,
without imports; that of the MCP server is a line of its own. Rounds of both take turns.

Run: `.venv/bin/python benchmarks/verification.py [--cases 1000] [--rounds 3]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONCURRENCY = 8
CALL = {"a": 20, "b": 22}
QUESTION = "What is 20 + 22?"
ANSWER = "It is 42."


class Meter:
    """Notes CPU time, and memory after some cases."""

    def __init__(self, cases: int) -> None:
        self._points = {cases // 10, cases // 2, cases}
        self._cases = cases
        self._began = time.process_time()
        self._wall = time.monotonic()
        self.rss: dict[int, float] = {}

    def count(self, done: int) -> None:
        """Note the memory, if this many cases are a point of the curve."""
        if done in self._points and done not in self.rss:
            self.rss[done] = _resident_mb()

    def facts(self) -> dict[str, Any]:
        """Return the figures."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "cpu_ms": (time.process_time() - self._began) * 1000 / self._cases,
            "server_cpu_ms": (children.ru_utime + children.ru_stime) * 1000 / self._cases,
            "wall_ms": (time.monotonic() - self._wall) * 1000 / self._cases,
            "rss": self.rss,
        }


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_plait(cases: int, folder: Path) -> dict[str, Any]:
    """Run the cases with plait."""
    from plait._version import __version__
    from plait.agents.engines.langchain import agent as _engine  # imports are not measured
    from plait.verification import RunOptions, SuiteRunner, read_suite

    del _engine
    script = [{"calls": [{"name": "add_numbers", "arguments": CALL}]}, ANSWER]
    (folder / "script.json").write_text(json.dumps(script))
    program = ["-m", "plait.testing.server", "--transport", "stdio"]
    server = {"command": sys.executable, "args": program}
    suite = {
        "defaults": {
            "model": "scripted:script.json",
            "engine": "langchain",
            "servers": {"sums": server},
            "scope": "suite",
        },
        "caps": {"total": CONCURRENCY, "per_model": CONCURRENCY},
        "cases": [
            {"name": f"case-{n}", "question": QUESTION, "checks": [{"contains": "42"}]}
            for n in range(cases)
        ],
    }
    path = folder / "suite.json"
    path.write_text(json.dumps(suite))
    loaded = read_suite(path)
    meter = Meter(cases)
    runner = SuiteRunner(
        loaded,
        RunOptions(report=folder / "report"),
        on_result=lambda _, progress: meter.count(progress.done),
    )
    results = asyncio.run(runner.run())
    facts = meter.facts()
    _check(cases, sum(result.outcome == "passed" for result in results))
    _check(cases, sum(result.agent_metrics["tool_calls"] == 1 for result in results))
    _check(cases, len(list((folder / "report" / "traces").glob("*.jsonl"))))
    return {"version": __version__, **facts}


def run_inspect(cases: int, folder: Path) -> dict[str, Any]:
    """Run the cases with inspect-ai."""
    inspect, dataset, model, scorer, solver, tools = (
        import_module(name)
        for name in (
            "inspect_ai",
            "inspect_ai.dataset",
            "inspect_ai.model",
            "inspect_ai.scorer",
            "inspect_ai.solver",
            "inspect_ai.tool",
        )
    )
    meter: Meter | None = None
    done = 0

    def add_numbers() -> Callable[..., Any]:
        async def execute(a: int, b: int) -> str:
            """Add two numbers.

            Args:
                a: The first.
                b: The second.
            """
            nonlocal done
            done += 1
            if meter is not None:
                meter.count(done)
            return str(a + b)

        return execute

    def output(messages: list[Any], *_: Any) -> Any:
        if messages[-1].role == "tool":
            made = model.ModelOutput.from_content("mockllm", ANSWER)
        else:
            made = model.ModelOutput.for_tool_call("mockllm", "add_numbers", CALL)
        made.usage = model.ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return made

    task = inspect.Task(
        dataset=[dataset.Sample(input=QUESTION, target="42", id=f"case-{n}") for n in range(cases)],
        solver=[solver.use_tools(tools.tool(add_numbers)()), solver.generate()],
        scorer=scorer.includes(),
    )
    meter = Meter(cases)
    (log,) = inspect.eval(
        task,
        model=model.get_model("mockllm/model", custom_outputs=output),
        log_dir=str(folder),
        display="none",
        max_samples=CONCURRENCY,
    )
    facts = meter.facts()
    scores = log.results.scores[0].metrics["accuracy"].value if log.results else 0
    _check(cases, round(scores * cases))
    _check(cases, done)
    return {"version": inspect.__version__, **facts}


def _check(expected: int, found: int) -> None:
    if expected != found:
        raise SystemExit(f"{found} of {expected} cases are as they should be")


_WORKERS: dict[str, Callable[[int, Path], dict[str, Any]]] = {
    "plait": run_plait,
    "inspect-ai": run_inspect,
}


def _measured(name: str, python: str, cases: int) -> dict[str, Any]:
    """Run one contender in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as folder:
        command = [python, __file__, "--worker", name, "--cases", str(cases), "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=list(_WORKERS))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(_WORKERS[options.worker](options.cases, options.folder)))
        return
    sys.path.insert(0, str(ROOT))
    from benchmarks.compare.contenders import Contender
    from benchmarks.compare.environments import BENCH, make

    other = "inspect-ai"
    make(Contender(other, other, other, other))
    pythons = {"plait": sys.executable, other: str(BENCH / other / "bin" / "python")}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            found[name].append(_measured(name, python, options.cases))
    for name, rounds in found.items():
        print(_line(f"{name} {rounds[0]['version']}", rounds))
    ratios = [a["cpu_ms"] / b["cpu_ms"] for a, b in zip(*found.values(), strict=True)]
    rounds_text = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    print(
        f"CPU per case, plait to {other}: {statistics.median(ratios):.2f} (rounds: {rounds_text})"
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {options.cases} cases")


def _line(name: str, rounds: list[dict[str, Any]]) -> str:
    cpu, server, wall = (
        statistics.median(one[key] for one in rounds)
        for key in ("cpu_ms", "server_cpu_ms", "wall_ms")
    )
    rss = ", ".join(
        f"{statistics.median(one['rss'][point] for one in rounds):.0f} MB after {point}"
        for point in rounds[0]["rss"]
    )
    return f"{name}: {cpu:.2f} ms CPU a case (server {server:.2f}), {wall:.2f} ms wall; {rss}"


if __name__ == "__main__":
    main()
