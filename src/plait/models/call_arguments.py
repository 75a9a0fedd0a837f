"""The arguments of a call as a model wrote them: taken as they are, or not at all.

Nothing is completed: the first half of a command is another command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from plait._support.exception_groups import one_line
from plait._support.sanitize import well_formed_data

INVALID: Final = "plait/invalid_arguments"
"""The one argument of a call whose arguments are not a JSON object: what the model wrote."""


def arguments_from(value: object) -> dict[str, Any]:
    """Return the arguments of a call, with texts that can be encoded.

    Nothing and `null` are no arguments; JSON in a text, also twice, is parsed. What is not an
    object then is the value of `INVALID`.
    """
    parsed = value
    for _ in range(2):
        if isinstance(parsed, str) and parsed.strip():
            try:
                # Models write line breaks in texts as they are; nothing is missing then.
                parsed = json.loads(parsed, strict=False)
            except (ValueError, RecursionError):
                break
    if parsed is None or parsed == "":
        return {}
    if isinstance(parsed, Mapping):
        arguments = dict(cast("Mapping[str, Any]", parsed))
        try:
            # Python reads and writes NaN and infinite numbers; JSON has none.
            json.dumps(arguments, allow_nan=False, skipkeys=True, default=str)
        except (ValueError, RecursionError):
            pass
        else:
            return well_formed_data(arguments)
    return well_formed_data({INVALID: value if isinstance(value, str) else json.dumps(value)})


def fault_of(arguments: Mapping[str, Any]) -> str | None:
    """Return the error text for arguments that are not a JSON object; `None` if they are."""
    if INVALID not in arguments:
        return None
    written = one_line(str(arguments[INVALID]))
    return f"the call was not made: its arguments are not one complete JSON object: {written}"
