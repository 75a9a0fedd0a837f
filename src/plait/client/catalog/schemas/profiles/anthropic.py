"""For Claude: JSON Schema 2020-12, but for alternatives at the top.

The tools API refuses `oneOf`, `allOf` and `anyOf` at the top level, references, and property
names other than `[a-zA-Z0-9_.-]{1,64}`:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
"""

from __future__ import annotations

import re
from typing import Any

from plait.client.catalog.schemas.keywords import map_children, step_into
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.roots import plain_root
from plait.client.catalog.schemas.values import Schema, as_schema, is_schema

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def convert(schema: Schema, notes: Notes) -> Schema:
    """Return the schema without alternatives at the top."""
    root = plain_root(schema, notes)
    _check_names(root, "", notes)
    return root


def _check_names(schema: Schema, path: str, notes: Notes) -> None:
    for name in as_schema(schema.get("properties")):
        if not _NAME.fullmatch(name):
            # The server knows the argument by no other name, so it stays.
            notes.add(path, f"the name {name!r} may be refused: letters, digits and _.- only")

    def visit(inner: Any, step: str) -> Any:
        if is_schema(inner):
            _check_names(inner, step_into(path, step), notes)
        return inner

    map_children(schema, visit)
