"""Solves problems in a process of its own, with limits of time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from plait._support.front_door import missing_extra
from plait.reasoning.solving.problem import (
    MAX_PROBLEM_CHARS,
    Answer,
    Mistake,
    Problem,
    Solution,
    malformed,
    read_problem,
)

DEFAULT_SECONDS: Final = 10.0
MAX_SECONDS: Final = 120.0
GRACE_SECONDS: Final = 3.0
"""How long a process may take to start and to notice that its time is over."""
MAX_PROCESSES: Final = 2
"""How many problems one event loop solves at the same time; each takes a core."""

_COMMAND: Final = (sys.executable, "-P", "-m", "plait.reasoning.solving.worker")


class _Job:
    """One process that solves one problem; it may be ended from another thread."""

    def __init__(self, problem: Problem, proposed: Solution | None, seconds: float) -> None:
        self._problem = problem
        self._proposed = proposed
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_cancelled = False

    def run(self) -> Answer:
        """Return the last answer of the process, and end it when its time is over."""
        # Written here, in a thread: it may be long.
        request = json.dumps(
            {
                "problem": self._problem.model_dump(mode="json", exclude_none=True),
                "proposed": self._proposed,
                "seconds": self._seconds,
            }
        )
        if len(request) > MAX_PROBLEM_CHARS:
            text = f"a problem has at most {MAX_PROBLEM_CHARS} characters"
            return malformed([Mistake(place="the problem", problem=text)])
        with self._lock:
            if self._is_cancelled:
                return Answer(status="undecided", text="It was cancelled.")
            self._process = process = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        with process:
            try:
                output, _ = process.communicate(request, self._seconds + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            finally:
                process.kill()
        return _last_answer(output)

    def cancel(self) -> None:
        """End the process, or do not start it."""
        with self._lock:
            self._is_cancelled = True
            if self._process is not None:
                self._process.kill()


def _last_answer(output: str) -> Answer:
    answer = Answer(status="undecided", text="The solver ended before it could say anything.")
    for line in output.splitlines():
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:  # it was ended while it wrote
            break
        if "answer" in message:
            answer = Answer.model_validate(message["answer"])
    return answer


def solve(
    problem: Problem | Mapping[str, Any] | str, *, seconds: float = DEFAULT_SECONDS
) -> Answer:
    """Solve a problem exactly, within a time; `asolve` does not block an event loop.

    A problem is an object, its JSON text, or a model. The answer to one that is malformed says so.

    Raises:
        ImportError: The extra `solve` is not installed.
    """
    read = _readable(problem)
    if isinstance(read, Answer):
        return read
    return _Job(read, None, _seconds(seconds)).run()


async def asolve(
    problem: Problem | Mapping[str, Any] | str, *, seconds: float = DEFAULT_SECONDS
) -> Answer:
    """Solve a problem as `solve` does, without blocking the event loop."""
    return await _answer(problem, None, seconds)


async def check_solution(
    problem: Problem | Mapping[str, Any] | str,
    proposed: Solution,
    *,
    seconds: float = DEFAULT_SECONDS,
) -> Answer:
    """Say whether a proposed solution holds, or which constraints fail."""
    return await _answer(problem, proposed, seconds)


_LIMITER: Final = RunVar[anyio.CapacityLimiter]("solver processes")


async def _answer(
    problem: Problem | Mapping[str, Any] | str, proposed: Solution | None, seconds: float
) -> Answer:
    read = _readable(problem)
    if isinstance(read, Answer):
        return read
    limiter = _LIMITER.get(None)
    if limiter is None:
        _LIMITER.set(limiter := anyio.CapacityLimiter(MAX_PROCESSES))
    job = _Job(read, proposed, _seconds(seconds))
    try:
        return await anyio.to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=limiter)
    finally:
        job.cancel()


def _readable(problem: Problem | Mapping[str, Any] | str) -> Problem | Answer:
    if find_spec("z3") is None:
        raise missing_extra("solving problems", ModuleNotFoundError(name="z3"))
    return read_problem(problem)


def _seconds(seconds: float) -> float:
    return min(max(float(seconds), 0.1), MAX_SECONDS)
