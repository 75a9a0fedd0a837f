"""Counting the calls of a run, and refusing those that are too many."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Generator, Hashable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.config.budgets import CallBudget, is_named_by
from plait.errors import BudgetExceededError, InputNeededError

_MOST_RUNS = 10_000
"""Runs whose calls are remembered; nobody says when a run has ended."""


class RunCounter:
    """The calls of one run, and how many there may be."""

    def __init__(self, budget: CallBudget) -> None:
        self._budget = budget
        self._calls = 0
        self._by_pattern: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, call: ToolCall) -> None:
        """Count a call.

        Raises:
            BudgetExceededError: There were as many as there may be.
        """
        patterns = self._patterns(call)
        with self._lock:
            if self._budget.calls is not None and self._calls >= self._budget.calls:
                raise _exceeded(call, f"{self._budget.calls} tool calls")
            for pattern in patterns:
                if self._by_pattern[pattern] >= self._budget.tools[pattern]:
                    raise _exceeded(call, f"{self._budget.tools[pattern]} of {pattern}")
            self._calls += 1
            self._by_pattern.update(patterns)

    def give_back(self, call: ToolCall) -> None:
        """Take a call back, which is not over: it is made again."""
        with self._lock:
            self._calls -= 1
            self._by_pattern.subtract(self._patterns(call))

    def _patterns(self, call: ToolCall) -> list[str]:
        return [one for one in self._budget.tools if is_named_by(one, call.server, call.tool)]


def _exceeded(call: ToolCall, allowed: str) -> BudgetExceededError:
    return BudgetExceededError(
        f"{call.where}: the budget of this run is used up (at most {allowed}); nothing was sent, "
        "and calling it again will not help: go on with what there is",
        server=call.server,
        tool=call.tool,
    )


_blocks: ContextVar[tuple[RunCounter, ...]] = ContextVar("plait_run_budgets", default=())


@contextlib.contextmanager
def run_budget(
    calls: int | None = None, *, tools: Mapping[str, int] | None = None
) -> Generator[None]:
    """Let the block make so many calls: in all, and by `tool`, `server/tool` or glob.

    A call that is one too many is refused with `BudgetExceededError` and not sent. To the
    `call_budget` of a client the block is one run, unless a framework tells it of another. Of two
    blocks, one in the other, both count.
    """
    counter = RunCounter(CallBudget(calls=calls, tools=dict(tools or {})))
    token = _blocks.set((*_blocks.get(), counter))
    try:
        yield
    finally:
        _blocks.reset(token)


class RunCounters:
    """Counts the calls that are made through one client, run by run."""

    def __init__(self, budget: CallBudget | None) -> None:
        self._budget = budget
        self._runs: OrderedDict[Hashable, RunCounter] = OrderedDict()
        self._lock = threading.Lock()

    def counted(self, call: ToolCall) -> AbstractContextManager[None]:
        """Count the call that the block makes.

        Raises:
            BudgetExceededError: It is one too many, and must not be made.
        """
        counters = self._counters(call)
        return _counted(counters, call) if counters else contextlib.nullcontext()

    def _counters(self, call: ToolCall) -> list[RunCounter]:
        blocks = _blocks.get()
        if self._budget is None:
            return list(blocks)
        identity = call.run or RunIdentity()
        key = identity.key if identity.key is not None else next(iter(blocks), None)
        if key is None:
            return [*blocks, RunCounter(self._budget)]
        return [*blocks, self._of_run(key, identity, self._budget)]

    def _of_run(self, key: Hashable, identity: RunIdentity, budget: CallBudget) -> RunCounter:
        thread = None if identity.thread is None else ("thread", identity.thread)
        turn = None if thread is None or identity.turn is None else (*thread, identity.turn)
        before = (key, turn, thread if identity.goes_on else None)
        with self._lock:
            found = (self._runs[one] for one in before if one is not None and one in self._runs)
            counter = next(found, None) or RunCounter(budget)
            for known in (key, turn, thread):
                if known is not None:
                    self._runs[known] = counter
                    self._runs.move_to_end(known)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
            return counter


@contextlib.contextmanager
def _counted(counters: list[RunCounter], call: ToolCall) -> Generator[None]:
    taken: list[RunCounter] = []
    try:
        for counter in counters:
            counter.take(call)
            taken.append(counter)
        yield
    except InputNeededError:
        _give_back(taken, call)
        raise
    except BudgetExceededError:
        if len(taken) < len(counters):
            _give_back(taken, call)
        raise


def _give_back(counters: list[RunCounter], call: ToolCall) -> None:
    for counter in counters:
        counter.give_back(call)
