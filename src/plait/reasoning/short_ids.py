"""Short ids such as `t12`: a letter for the kind, and the position in the session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from plait.reasoning.arguments import invalid_argument
from plait.reasoning.fields import Params
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import LETTERS

ParamsT = TypeVar("ParamsT", bound=Params)

_SHORT: Final = re.compile(r"[tbncg][1-9][0-9]{0,8}")

_FIELDS: Final[Mapping[str, str]] = {
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
"""The arguments that hold ids, and the letter of their kind."""


def position_in(text: str, letter: str) -> int | None:
    """Return the position that a short id of a kind names; `None` if it is none."""
    return int(text[1:]) if _SHORT.fullmatch(text) and text[0] == letter else None


async def with_long_ids(params: ParamsT, session_id: str | None, store: Storage) -> ParamsT:
    """Replace the short ids in arguments; one that does not exist is left for the tool to refuse.

    Raises:
        RefusedError: There is a short id, and no session that it could be of.
    """
    changes: dict[str, object] = {}
    for name in type(params).model_fields:
        value = getattr(params, name)
        letter = _FIELDS.get(name)
        if isinstance(value, list):
            items = cast("list[object]", value)
            long = [await _long(item, name, letter, session_id, store) for item in items]
            if long != items:
                changes[name] = long
        elif (long := await _long(value, name, letter, session_id, store)) is not value:
            changes[name] = long
    return params.model_copy(update=changes) if changes else params


async def _long(
    value: Any, field: str, letter: str | None, session_id: str | None, store: Storage
) -> Any:
    if isinstance(value, Params):
        return await with_long_ids(value, session_id, store)
    if letter is None or not isinstance(value, str):
        return value
    position = position_in(value, letter)
    if position is None:
        return value
    kind = LETTERS[letter]
    if (exact := await store.get(kind, value)) is not None:
        return exact.id
    if session_id is None:
        raise invalid_argument("session_id", f"is required with a short id ({field}: {value})")
    found = await store.find(kind, limit=1, session_id=session_id, position=position)
    return found[0].id if found else value
