"""JSON paths as models write them: `$.rows[100:200].name`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from plait.client.config.raw_value import describe

_NAME = re.compile(r"[^\W\d]\w*")
_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\s"'*]+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<first>-?\d*)\s*:\s*(?P<last>-?\d*)\s*\]
      | (?P<all>\[\s*\*\s*\]|\.\*)
      | \[\s*(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""",
    re.VERBOSE,
)

Step = str | int | slice


class PathError(ValueError):
    """A path is invalid, or has no value."""


def path_to(path: str | None, step: str | int) -> str | None:
    """Return the path of an item or key of a value."""
    if path is None:
        return None
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _NAME.fullmatch(step):
        return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"


def steps_of(path: str) -> list[Step]:
    """Parse a path, perhaps without its leading `$`; raise `PathError` if it is invalid."""
    rest = path.strip()
    if rest.startswith("$"):
        rest = rest[1:]
    elif rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise PathError(
                f"the path cannot be read from {rest[position : position + 20]!r} on; "
                'it is made of .name, ["name"], [0], [10:20] and [*]'
            )
        steps.append(_step(match))
        position = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return match["name"]
    if match["index"] is not None:
        return int(match["index"])
    if (quoted := match["key"]) is None:
        first, last = match["first"], match["last"]
        return slice(int(first) if first else None, int(last) if last else None)
    if quoted.startswith("'"):
        return re.sub(r"\\(.)", r"\1", quoted[1:-1])
    try:
        return json.loads(quoted)
    except ValueError as error:
        raise PathError(f"{quoted} is not a string") from error


def is_single(path: str) -> bool:
    """Return whether a path selects one value, not a list of several."""
    return not any(isinstance(step, slice) for step in steps_of(path))


def select(value: Any, path: str) -> Any:
    """Return the value of a path, or the list of values after a range or `[*]`.

    Items without a value for the rest of the path are left out of the list.

    Raises:
        PathError: The path is invalid, or has no value.
    """
    return _select(value, steps_of(path), "$")


def _select(value: Any, steps: Sequence[Step], at: str) -> Any:
    for number, step in enumerate(steps):
        if isinstance(step, slice):
            return _from_each(_items(value, at)[step], steps[number + 1 :], at)
        value = _inside(value, step, at)
        at = path_to(at, step) or at
    return value


def _from_each(items: Sequence[Any], steps: Sequence[Step], at: str) -> list[Any]:
    if not steps:
        return list(items)
    selected: list[Any] = []
    last: PathError | None = None
    for number, item in enumerate(items):
        try:
            selected.append(_select(item, steps, f"{at}[{number}]"))
        except PathError as error:
            last = error
    if last is not None and not selected:
        raise last
    return selected


def _items(value: Any, at: str) -> Sequence[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, Mapping):
        return list(cast("Mapping[str, Any]", value).values())
    raise PathError(f"{at} is {describe(value)}, not a list")


def _inside(value: Any, step: str | int, at: str) -> Any:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        if step in entries:
            return entries[cast("str", step)]
        near = ", ".join(list(entries)[:10])
        raise PathError(f"{at} has no {step!r}; it has {len(entries)} keys: {near}"[:300])
    if isinstance(value, list) and isinstance(step, int):
        items = cast("list[Any]", value)
        if -len(items) <= step < len(items):
            return items[step]
        raise PathError(f"{at} has {len(items)} items; there is no [{step}]")
    expected = "a list" if isinstance(step, int) else "an object"
    raise PathError(f"{at} is {describe(cast('object', value))}, not {expected}")
