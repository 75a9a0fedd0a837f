"""Runs rounds: in each, every scenario visits all contenders in random order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.compare import environments
from benchmarks.compare.contenders import Contender
from benchmarks.compare.environments import BENCH, EnvironmentFailedError
from benchmarks.compare.processes import Worker, WorkerError
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import Location, Scenario

VERSIONS_SECONDS = 60


@dataclass(frozen=True)
class Plan:
    """How much a run measures."""

    is_quick: bool = False
    """Only scenarios with quick rounds, and as many of these."""
    most_calls: int | None = None
    """Calls of a visit, at most."""
    call_seconds: float | None = None
    """Time for the calls of a visit, instead of the scenario's."""
    budget_seconds: float | None = None
    """No round begins after this time, except the first."""

    def rounds(self, scenario: Scenario) -> int:
        """Return the rounds of a scenario; 0 leaves it out."""
        return scenario.quick_rounds if self.is_quick else scenario.rounds

    def request(self, scenario: Scenario, location: Location) -> dict[str, Any]:
        """Return the request to a worker."""
        request = {**scenario.request, "servers": scenario.servers(location)}
        if "n" in request and self.most_calls is not None:
            request["n"] = min(request["n"], self.most_calls)
        if "seconds" in request and self.call_seconds is not None:
            request["seconds"] = self.call_seconds
        return request


class Run:
    """One run over all contenders."""

    def __init__(
        self,
        plan: Plan,
        contenders: Sequence[Contender],
        location: Location,
        say: Callable[[str], None],
    ) -> None:
        self.results = Results()
        self._plan = plan
        self._contenders = list(contenders)
        self._location = location
        self._say = say
        self._workers: dict[str, Worker] = {}

    def make_environments(self) -> None:
        """Make every environment; who has none is left out, and named loudly."""
        for contender in list(self._contenders):
            try:
                environments.make(contender, self._say)
            except EnvironmentFailedError as error:
                self._say(f"FAILED: no environment for {contender.title}:\n{error}")
                self.results.missing[contender.id] = str(error).splitlines()[-1]
                self._contenders.remove(contender)

    def run(self, scenarios: Sequence[Scenario]) -> None:
        """Measure all rounds, then end the workers."""
        began = time.monotonic()
        budget = self._plan.budget_seconds
        try:
            self._read_versions()
            for scenario in scenarios:
                if scenario.includes_imports and self._plan.rounds(scenario):
                    self._write_bytecode(scenario)
            for number in range(max(self._plan.rounds(scenario) for scenario in scenarios)):
                if number and budget is not None and time.monotonic() - began > budget:
                    self._say(f"stopped after {number} rounds: the time is over")
                    break
                self._say(f"round {number + 1}, {time.monotonic() - began:.0f} s")
                for scenario in scenarios:
                    if number < self._plan.rounds(scenario):
                        self._visit_all(scenario, number)
        finally:
            for worker in self._workers.values():
                worker.close()
            self._workers.clear()

    def _read_versions(self) -> None:
        for contender in self._contenders:
            try:
                reply = self._resident(contender).ask({"run": "versions"}, VERSIONS_SECONDS)
            except WorkerError as error:
                self._drop(contender)
                self._say(f"FAILED: {contender.title}: {error}")
            else:
                self.results.versions[contender.id] = reply.get("versions", {})

    def _write_bytecode(self, scenario: Scenario) -> None:
        for contender in self._contenders:
            with suppress(WorkerError):  # the first round reports it
                self._visit(contender, scenario)

    def _visit_all(self, scenario: Scenario, number: int) -> None:
        for contender in random.sample(self._contenders, len(self._contenders)):
            if any((contender.id, row.id) in self.results.dashes for row in scenario.rows):
                continue
            try:
                reply = self._visit(contender, scenario)
            except WorkerError as error:
                reply = {"error": str(error)}
            self._record(contender, scenario, number, reply)

    def _visit(self, contender: Contender, scenario: Scenario) -> dict[str, Any]:
        request = self._plan.request(scenario, self._location)
        if not scenario.is_fresh:
            return self._resident(contender).ask(request, scenario.timeout_seconds)
        worker = self._start(contender)
        try:
            reply = worker.ask(request, scenario.timeout_seconds)
            took = time.perf_counter() - worker.started
        finally:
            worker.close()
        if scenario.is_from_start:
            for sample in reply.get("rows", {}).values():
                sample["samples"] = [took]
        return reply

    def _record(
        self, contender: Contender, scenario: Scenario, number: int, reply: Mapping[str, Any]
    ) -> None:
        rows: Mapping[str, Mapping[str, Any]] = reply.get("rows", {})
        self.results.add(contender.id, number, rows)
        if "error" in reply:
            self._say(f"FAILED: {contender.title}, {scenario.rows[0].title}: {reply['error']}")
            self._drop(contender)  # its connection may be lost for good
        reason = reply.get("unsupported") or reply.get("error") or "makes no LangChain tools"
        for row in scenario.rows:
            if row.id not in rows and not self.results.of(contender.id, row.id):
                self.results.dashes[contender.id, row.id] = reason

    def _resident(self, contender: Contender) -> Worker:
        if contender.id not in self._workers:
            self._workers[contender.id] = self._start(contender)
        return self._workers[contender.id]

    def _start(self, contender: Contender) -> Worker:
        return Worker(
            environments.command(contender),
            environments.directory(contender),
            BENCH / "logs" / f"{contender.id}.log",
            environments.RUNTIME,
        )

    def _drop(self, contender: Contender) -> None:
        worker = self._workers.pop(contender.id, None)
        if worker is not None:
            worker.close(timeout_seconds=1)
