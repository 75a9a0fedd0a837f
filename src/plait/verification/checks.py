"""Checks that need no judge: the answer, the calls of a run, its limits, and the world after it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from plait._support.durations import is_finite_number
from plait._support.exception_groups import one_line
from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait._support.suggestions import suggest_names
from plait.traces.events import ToolCalled
from plait.traces.trace import Trace

ENTRY_POINTS = "plait.checks"
"""The group of entry points for checks of other packages."""

CallTool = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""Calls a tool of the case's servers after the run: server, tool, arguments."""

_DENIED = re.compile(r"\bIt was not sent\.")
"""What the model reads of a call that a policy or a person refused."""

SeenBefore = Callable[[str, str, Mapping[str, Any]], str | None]


class CheckPassesError(Exception):
    """Errors of this class pass through checks, which else fail with what they raise."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a check may look at."""

    answer: str
    """The final response."""
    trace: Trace
    seconds: float
    cost_usd: float | None = None
    """What the run cost, where it is known."""
    call_tool: CallTool | None = None
    """Calls a tool of the case's servers, as they are after the run."""
    seen_before: SeenBefore | None = None
    """Returns what a call of a `world` check with `changed` returned before the run."""
    parsed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields that a judge has read from the answer."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check passed, and why not."""

    name: str
    passed: bool
    message: str = ""
    score: float | None = None
    """From 0 to 1, where the check gives one."""


Finding = str | float | None
"""What is wrong, a score from 0 to 1, or `None` if nothing is wrong."""

Check = Callable[[Evidence, Any], Awaitable[Finding] | Finding]
"""Takes the evidence and the value in the suite, and returns what it found."""

_AT_LEAST = 0.5
"""The score that passes, where the suite does not say `at_least`."""


def check_problem(spec: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a check as it is written, if anything."""
    if len(spec) != 1:
        return "a check is an object with one key, its name"
    ((name, value),) = spec.items()
    check = _find(name)
    if check is None:
        return f"there is no check {name!r}: {suggest_names(name, [*_CHECKS, 'python'])}"
    for names, fits, wanted in _VALUES:
        if name in names and not fits(value):
            return f"{name} takes {wanted}, not {value!r}"
    least = entries_of(value).get("at_least", 0)
    if not is_finite_number(least):
        return f"at_least takes a number, not {least!r}"
    if name == "matches":
        try:
            re.compile(str(value))
        except re.error as error:
            return f"{value!r} is not a regular expression: {error}"
    return None


async def run_check(spec: Mapping[str, Any], evidence: Evidence) -> CheckResult:
    """Run one check; a check that raises has failed, with the error as its message."""
    ((name, value),) = spec.items()
    check = _find(name)
    if check is None:
        return CheckResult(name, passed=False, message=f"there is no check {name!r}")
    try:
        found = await resolve(check(evidence, value))
    except CheckPassesError:
        raise
    except Exception as error:  # noqa: BLE001  # boundary: checks may be anybody's code
        found = f"{type(error).__name__}: {error}"
    if not isinstance(found, int | float):
        return CheckResult(name, found is None, found or "")
    least = entries_of(value).get("at_least", _AT_LEAST)
    if not 0 <= found <= 1:
        return CheckResult(name, passed=False, message=f"the score {found} is not from 0 to 1")
    text = f"score {found:.2f}, and at least {least:g} passes"
    return CheckResult(name, found >= least, text, float(found))


def _find(name: str) -> Check | None:
    if name == "python":
        return _python
    if (known := _CHECKS.get(name)) is not None:
        return known
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        return cast("Check", entry.load())
    return None


async def _python(evidence: Evidence, value: Any) -> Finding:
    """Run `module:function`, or an object with `call` and `with`, arguments for it."""
    spec = cast("dict[str, Any]", value) if isinstance(value, dict) else {"call": value}
    module, _, name = str(spec["call"]).partition(":")
    function = getattr(import_module(module), name)
    result: object = await resolve(function(evidence, **(spec.get("with") or {})))
    if isinstance(result, bool):
        return None if result else f"{spec['call']} returned False"
    return result if result is None or isinstance(result, int | float) else str(result)


def _equals(evidence: Evidence, value: Any) -> str | None:
    same = evidence.answer.strip() == str(value).strip()
    return None if same else f"the answer is {_cut(evidence.answer)}"


def _matches(evidence: Evidence, value: str) -> str | None:
    return None if re.search(value, evidence.answer) else f"no match in {_cut(evidence.answer)}"


def _contains(evidence: Evidence, value: Any) -> str | None:
    answer = evidence.answer.casefold()
    missing = [text for text in _texts(value) if text.casefold() not in answer]
    return f"{missing[0]!r} is not in {_cut(evidence.answer)}" if missing else None


def _not_contains(evidence: Evidence, value: Any) -> str | None:
    answer = evidence.answer.casefold()
    found = [text for text in _texts(value) if text.casefold() in answer]
    return f"{found[0]!r} is in the answer" if found else None


def _texts(value: Any) -> list[str]:
    return [str(one) for one in (cast("list[Any]", value) if isinstance(value, list) else [value])]


def _json(evidence: Evidence, value: Mapping[str, Any]) -> str | None:
    fenced = re.search(r"```(?:json)?\s*\n(.*?)```", evidence.answer, re.DOTALL)
    try:
        data = json.loads(fenced[1] if fenced else evidence.answer)
    except ValueError:
        return f"the answer is not JSON: {_cut(evidence.answer)}"
    return _compare(data, value)


def _tool_called(evidence: Evidence, value: Any) -> str | None:
    spec = cast("dict[str, Any]", value) if isinstance(value, dict) else {"name": value}
    name = str(spec["name"])
    calls = [(call, result) for call, result in evidence.trace.calls if _is_tool(call, name)]
    if "arguments" in spec:
        calls = [one for one in calls if _includes(one[0].arguments, spec["arguments"])]
    if "result_contains" in spec:
        text = str(spec["result_contains"])
        calls = [one for one in calls if one[1] is not None and text in one[1].content]
    least = spec.get("at_least", spec.get("times", 0 if "at_most" in spec else 1))
    most = spec.get("at_most", spec.get("times"))
    count = len(calls)
    if count >= least and (most is None or count <= most):
        return None
    made: list[str] = []
    for call, result in evidence.trace.calls:
        arguments = _cut(json.dumps(dict(call.arguments), default=str, ensure_ascii=False))
        came = "no result" if result is None else _cut(result.content)
        failed = "error " if result is not None and result.is_error else ""
        made.append(f"{call.name}({arguments}) → {failed}{came}")
    return f"{name} was called {count} times as required; all calls: {', '.join(made) or 'none'}"


def _tool_not_called(evidence: Evidence, value: Any) -> str | None:
    calls = [call for call, _ in evidence.trace.calls]
    called = [name for name in _texts(value) for call in calls if _is_tool(call, name)]
    return f"{called[0]} was called" if called else None


def _tools_in_order(evidence: Evidence, value: Sequence[Any]) -> str | None:
    left = list(map(str, value))
    for call, _ in evidence.trace.calls:
        if left and _is_tool(call, left[0]):
            left.pop(0)
    made = ", ".join(call.name for call, _ in evidence.trace.calls) or "none"
    return f"{left[0]} did not come in its turn; the calls: {made}" if left else None


def _no_denied_tool(evidence: Evidence, value: Any) -> str | None:
    """Check that no call was refused by a policy, a lock, a budget, or for lack of such a tool."""
    del value
    for call, result in evidence.trace.calls:
        if call.server is None and call.tool is None:
            return f"{call.name} is no tool of the case"
        if result is not None and result.is_error and _DENIED.search(result.content):
            return f"{call.name} was denied: {_cut(result.content)}"
    return None


def _no_tool_errors(evidence: Evidence, value: Any) -> str | None:
    del value
    for call, result in evidence.trace.calls:
        if result is None:
            return f"{call.name} has no result"
        if result.is_error:
            return f"{call.name} failed: {_cut(result.content)}"
    return None


def _limit(amount_of: Callable[[Evidence], float | None], text: str, unknown: str = "") -> Check:
    """Make a check that an amount of a run is not above the value in the suite."""

    def check(evidence: Evidence, value: float) -> str | None:
        amount = amount_of(evidence)
        if amount is None:
            return unknown
        return None if amount <= value else text.format(amount)

    return check


async def _world(evidence: Evidence, value: Mapping[str, Any]) -> str | None:
    """Call a tool after the run, and compare its result."""
    if evidence.call_tool is None:
        return "the case has no servers"
    arguments: dict[str, Any] = value.get("arguments") or {}
    call = str(value["server"]), str(value["tool"]), arguments
    text = await evidence.call_tool(*call)
    if "changed" in value:
        before = None if evidence.seen_before is None else evidence.seen_before(*call)
        if before is None:
            return "there is no snapshot of it before the run"
        if (before != text) is bool(value["changed"]):
            return None
        return f"it is {_cut(text)}, and was {_cut(before)}"
    if "path" in value:
        try:
            return _compare(json.loads(text), value)
        except ValueError:
            return f"the result is not JSON: {_cut(text)}"
    if "contains" in value:
        return None if str(value["contains"]) in text else f"the result is {_cut(text)}"
    if "matches" in value:
        return None if re.search(str(value["matches"]), text) else f"the result is {_cut(text)}"
    same = text.strip() == str(value.get("equals", "")).strip()
    return None if same else f"the result is {_cut(text)}"


_CHECKS: dict[str, Check] = {
    "equals": _equals,
    "matches": _matches,
    "contains": _contains,
    "not_contains": _not_contains,
    "json": _json,
    "tool_called": _tool_called,
    "tool_not_called": _tool_not_called,
    "tools_in_order": _tools_in_order,
    "no_tool_errors": _no_tool_errors,
    "no_denied_tool": _no_denied_tool,
    "max_turns": _limit(lambda evidence: evidence.trace.turns, "it took {} turns"),
    "max_tokens": _limit(lambda evidence: evidence.trace.usage.total_tokens, "it took {} tokens"),
    "max_seconds": _limit(lambda evidence: evidence.seconds, "it took {:.1f} s"),
    "max_cost_usd": _limit(
        lambda evidence: evidence.cost_usd, "it cost {:.4f} USD", "the cost is not known"
    ),
    "world": _world,
}

_VALUES: tuple[tuple[set[str], Callable[[Any], bool], str], ...] = (
    ({"json", "world"}, lambda value: isinstance(value, dict), "an object"),
    ({"tools_in_order"}, lambda value: isinstance(value, list), "a list"),
    ({"max_turns", "max_tokens", "max_seconds", "max_cost_usd"}, is_finite_number, "a number"),
)
"""Checks that take values of one type only."""


def _compare(data: Any, spec: Mapping[str, Any]) -> str | None:
    path = str(spec.get("path", "$"))
    try:
        found = value_at(data, path)
    except LookupError:
        return f"there is nothing at {path}"
    if "equals" in spec and found != spec["equals"]:
        return f"{path} is {_cut(json.dumps(found, ensure_ascii=False))}"
    if "contains" in spec and spec["contains"] not in found:
        return f"{path} is {_cut(json.dumps(found, ensure_ascii=False))}"
    return None


def value_at(data: Any, path: str) -> Any:
    """Return the value at a path such as `$.orders[0].total`; raises `LookupError`."""
    for key, index in re.findall(r"\.?([^.\[\]$]+)|\[(-?\d+)\]", path.removeprefix("$")):
        if index and isinstance(data, list):
            data = cast("list[Any]", data)[int(index)]
        elif key and isinstance(data, dict):
            data = cast("dict[str, Any]", data)[key]
        else:
            raise LookupError(path)
    return data


def _is_tool(call: ToolCalled, name: str) -> bool:
    return name in {call.name, call.tool, f"{call.server}/{call.tool}"}


def _includes(actual: Any, expected: Any) -> bool:
    """Return whether a value has everything that is expected, objects in part."""
    if isinstance(expected, dict) and isinstance(actual, Mapping):
        found = cast("Mapping[str, Any]", actual)
        pairs = cast("dict[str, Any]", expected).items()
        return all(key in found and _includes(found[key], item) for key, item in pairs)
    return bool(actual == expected)


def _cut(text: str) -> str:
    return repr(one_line(text))
