"""Comparing the arguments of a call with the globs of a rule."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from plait.client.config.raw_value import UNSET, as_list, as_mapping

_SLASHES = re.compile(r"[\\/]+")


def value_at(arguments: Mapping[str, Any], path: str) -> object:
    """Return an argument by its name, or what a JSON pointer leads to; `UNSET` if there is none."""
    if not path.startswith("/"):
        return arguments.get(path, UNSET)
    found: object = arguments
    for step in path[1:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        entries, items = as_mapping(found), as_list(found)
        if entries is not None and name in entries:
            found = entries[name]
        elif items is not None and name.isdecimal() and int(name) < len(items):
            found = items[int(name)]
        else:
            return UNSET
    return found


def argument_fits(value: object, globs: Sequence[str], *, strict: bool) -> bool:
    """Say whether a value is like one of the globs; one that is absent or an object never is.

    With `strict`, every item of a list must be, and a path with `..` must be both as it stands
    and as it is meant. Otherwise one item, or one way to read a path, is enough: a rule that
    forbids must not be got around by spelling.
    """
    if value is UNSET or isinstance(value, Mapping):
        return False
    items = as_list(value)
    if items is not None:
        found = [argument_fits(item, globs, strict=strict) for item in items]
        return bool(found) and (all(found) if strict else any(found))
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    found = [any(fnmatchcase(one, glob) for glob in globs) for one in _readings(text, strict)]
    return all(found) if strict else any(found)


def _readings(text: str, strict: bool) -> set[str]:
    """Return a text as it stands and, if it can be a path, as it is meant."""
    if strict and ".." not in _SLASHES.split(text):
        return {text}
    return {text, posixpath.normpath(_SLASHES.sub("/", text))}
