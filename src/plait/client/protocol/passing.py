"""What servers send beside the fields that are known here, for whoever passes it on.

`plait serve` stands between a server and another client. A request that was read as a type has lost
every field that the type does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, cast

sent_request: ContextVar[Mapping[str, Any] | None] = ContextVar("plait_sent_request", default=None)
"""What is answered in this context, as a server sent it: the params of a request.

For a call whose server asks several things at once, it is these requests by their keys.
"""


def params_in(requests: Any, key: str) -> Mapping[str, Any] | None:
    """Return the params of one of several requests, if they are there."""
    try:
        params = requests[key]["params"]
    except (KeyError, TypeError):
        return None
    return cast("dict[str, Any]", params) if isinstance(params, dict) else None


def with_unknown_fields(known: Any, sent: Any) -> Any:
    """Return what was read of a value, with the fields that were sent and not read.

    A field that is null stands for one that is missing.
    """
    if isinstance(known, dict) and isinstance(sent, Mapping):
        read, fields = cast("dict[str, Any]", known), cast("Mapping[str, Any]", sent)
        merged = {key: with_unknown_fields(value, fields.get(key)) for key, value in read.items()}
        others = ((key, value) for key, value in fields.items() if key not in read)
        return merged | {key: value for key, value in others if value is not None}
    if isinstance(known, list) and isinstance(sent, list):
        items, listed = cast("list[Any]", known), cast("list[Any]", sent)
        if len(items) == len(listed):
            return [with_unknown_fields(*pair) for pair in zip(items, listed, strict=True)]
    return cast("Any", known)
