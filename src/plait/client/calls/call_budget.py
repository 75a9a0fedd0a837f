"""Counts the calls of a run, and refuses those over its budget."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Generator, Hashable, Mapping
from contextvars import ContextVar

from cachetools import LRUCache

from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.config.budgets import CallBudget, is_named_by
from plait.errors import BudgetExceededError, InputNeededError

_MAX_RUNS = 10_000
"""How many runs are remembered; the end of a run is not announced."""


class RunCounter:
    """Counts the calls of one run against a budget."""

    def __init__(self, budget: CallBudget) -> None:
        self._budget = budget
        self._calls = 0
        self._by_pattern: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, call: ToolCall) -> None:
        """Count a call, or raise `BudgetExceededError` if the budget is used up."""
        patterns = self._patterns(call)
        with self._lock:
            if self._budget.calls is not None and self._calls >= self._budget.calls:
                raise _exceeded_error(call, f"{self._budget.calls} tool calls")
            for pattern in patterns:
                if self._by_pattern[pattern] >= self._budget.tools[pattern]:
                    raise _exceeded_error(call, f"{self._budget.tools[pattern]} of {pattern}")
            self._calls += 1
            self._by_pattern.update(patterns)

    def remove(self, call: ToolCall) -> None:
        """Uncount a call that was paused and will be repeated."""
        with self._lock:
            self._calls -= 1
            self._by_pattern.subtract(self._patterns(call))

    def _patterns(self, call: ToolCall) -> list[str]:
        tools = self._budget.tools
        return [pattern for pattern in tools if is_named_by(pattern, call.server, call.tool)]


def _exceeded_error(call: ToolCall, allowed: str) -> BudgetExceededError:
    text = f"the budget of this run is used up (at most {allowed}); nothing was sent, "
    advice = "and calling it again will not help: go on with what there is"
    return call.error(BudgetExceededError, text + advice)


run_budgets: ContextVar[tuple[RunCounter, ...]] = ContextVar("plait_run_budgets", default=())
"""The budgets of the `run_budget` blocks around a call."""


@contextlib.contextmanager
def run_budget(
    calls: int | None = None, *, tools: Mapping[str, int] | None = None
) -> Generator[None]:
    """Limit the calls in the block: in total, and by `tool`, `server/tool` or glob.

    A call over the limit is refused with `BudgetExceededError` and not sent. For the `call_budget`
    of a client the block is one run, unless a framework names another. Nested blocks all count.
    """
    counter = RunCounter(CallBudget(calls=calls, tools=dict(tools or {})))
    token = run_budgets.set((*run_budgets.get(), counter))
    try:
        yield
    finally:
        run_budgets.reset(token)


class RunCounters:
    """Counts the calls of one client by run."""

    def __init__(self, budget: CallBudget | None) -> None:
        self._budget = budget
        self._runs: LRUCache[Hashable, RunCounter] = LRUCache(_MAX_RUNS)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def counted(self, call: ToolCall) -> Generator[None]:
        """Count the call that the block makes, or raise `BudgetExceededError` instead."""
        counters = self._counters(call)
        added: list[RunCounter] = []
        try:
            for counter in counters:
                counter.add(call)
                added.append(counter)
            yield
        except (InputNeededError, BudgetExceededError) as error:
            # A call that another budget refused, or that is paused and will be repeated.
            if isinstance(error, InputNeededError) or len(added) < len(counters):
                for counter in added:
                    counter.remove(call)
            raise

    def _counters(self, call: ToolCall) -> list[RunCounter]:
        blocks = run_budgets.get()
        if self._budget is None:
            return list(blocks)
        identity = call.run or RunIdentity()
        key = identity.key if identity.key is not None else next(iter(blocks), None)
        if key is None:
            return [*blocks, RunCounter(self._budget)]
        thread = None if identity.thread is None else ("thread", identity.thread)
        turn = None if thread is None or identity.turn is None else (*thread, identity.turn)
        earlier = (key, turn, thread if identity.resumed else None)
        with self._lock:
            known = (
                self._runs[name] for name in earlier if name is not None and name in self._runs
            )
            counter = next(known, None) or RunCounter(self._budget)
            for name in (key, turn, thread):
                if name is not None:
                    self._runs[name] = counter
        return [*blocks, counter]
