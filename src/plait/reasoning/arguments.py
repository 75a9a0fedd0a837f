"""Reads tool arguments: validates them, clamps numbers to their range, and completes short ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from plait._support.suggestions import nearest_names
from plait.errors import RefusedError, UnknownIdError
from plait.reasoning.fields import Adjustment, Id, Params, clamp_numbers
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import LETTERS

ParamsT = TypeVar("ParamsT", bound=Params)
UnknownIdT = TypeVar("UnknownIdT", bound=UnknownIdError)

MAX_PROBLEMS = 5
"""How many invalid arguments an error names."""


class SessionParams(Params):
    """Arguments of a tool that works on one session."""

    session_id: Id


_REASONS: Final = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "finite_number": "must be a finite number",
}
"""What an error says, by pydantic's name of the problem."""


def read_arguments(
    kind: type[ParamsT], arguments: Mapping[str, Any] | None
) -> tuple[ParamsT, dict[str, Adjustment]]:
    """Return validated arguments, and those that were clamped.

    Raises:
        RefusedError: An argument is invalid.
    """
    try:
        params = kind.model_validate(dict(arguments or {}))
    except ValidationError as error:
        problems: list[tuple[str, str]] = []
        for problem in error.errors(include_url=False)[:MAX_PROBLEMS]:
            place = problem["loc"]
            parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
            name = str(place[-1]) if place else "arguments"
            match problem["type"]:
                case "blank":
                    label = name.replace("_", " ").capitalize() if not name.isdigit() else "Text"
                    reason = f"{label} cannot be empty"
                case "extra_forbidden":
                    # Extensions are listed only where one was meant: the list is contract.
                    meant = set(nearest_names(name, kind.EXTENSIONS))
                    known = [one for one in kind.model_fields if one not in kind.EXTENSIONS - meant]
                    reason = "is not a known argument"
                    reason += f"; there are: {', '.join(known)}" if len(place) == 1 else ""
                case "literal_error":
                    reason = f"must be one of {problem.get('ctx', {})['expected']}"
                case kind_of_problem:
                    reason = _REASONS.get(kind_of_problem, problem["msg"])
            problems.append(("".join(parts).lstrip(".") or "arguments", reason))
        (field, first), *others = problems
        more = "".join(f"; {place} - {reason}" for place, reason in others)
        raise invalid_argument(field, first + more) from None
    adjusted: dict[str, Adjustment] = {}
    return clamp_numbers(params, "", adjusted), adjusted


_SHORT_ID: Final = re.compile(r"[tbncg][1-9][0-9]{0,8}")

_LETTERS: Final[Mapping[str, str]] = {
    "thought_id": "t",
    "thought_ids": "t",
    "branch_id": "b",
    "to_branch": "b",
    "node_id": "n",
    "node_ids": "n",
    "terminal_node_ids": "n",
    "checkpoint_id": "c",
    "graph_id": "g",
}
"""The arguments that hold ids, and the letter of what they refer to."""


def position_in(text: str, letter: str) -> int | None:
    """Return the position that a short id of a kind names, such as `t12`; `None` if it is none."""
    return int(text[1:]) if _SHORT_ID.fullmatch(text) and text[0] == letter else None


async def with_long_ids(params: ParamsT, session_id: str | None, store: Storage) -> ParamsT:
    """Replace the short ids in arguments; one that does not exist is left for the tool to refuse.

    Raises:
        RefusedError: There is a short id, and no session that it could be of.
    """

    async def long_id(value: Any, field: str) -> Any:
        if isinstance(value, Params):
            return await with_long_ids(value, session_id, store)
        letter = _LETTERS.get(field)
        if letter is None or not isinstance(value, str):
            return value
        kind, position = LETTERS[letter], position_in(value, letter)
        # An id may look like a short one.
        if position is None or await store.get(kind, value) is not None:
            return value
        if session_id is None:
            raise invalid_argument("session_id", f"is required with a short id ({field}: {value})")
        found = await store.find(kind, limit=1, session_id=session_id, position=position)
        return found[0].id if found else value

    changes: dict[str, object] = {}
    for name in type(params).model_fields:
        value: object = getattr(params, name)
        if isinstance(value, list):
            long: object = [await long_id(item, name) for item in cast("list[object]", value)]
        else:
            long = await long_id(value, name)
        if long != value:
            changes[name] = long
    return params.model_copy(update=changes) if changes else params


def invalid_argument(field: str, reason: str) -> RefusedError:
    """Return the error for an invalid argument."""
    return RefusedError(f"Validation failed: {field} - {reason}")


def unknown_id(kind: type[UnknownIdT], text: str, key: str, field: str | None = None) -> UnknownIdT:
    """Return the error for an id that does not exist; `field` is the argument that holds it."""
    where = "Session error: " if field is None else f"Validation failed: {field} - "
    return kind(f"{where}{text}", key=key)


def session_error(reason: str) -> RefusedError:
    """Return the error for a call that does not fit its session."""
    return RefusedError(f"Session error: {reason}")
