"""Whether a result keeps the promise of its output schema; if not, that is worth a note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mcp_types import CallToolResult

from plait._support.failures import one_line
from plait._support.threads import in_thread
from plait.catalog.tool import Tool

_prepared: set[str] = set()
"""The schemas that were compiled before."""


def output_notes(tool: Tool, result: CallToolResult) -> tuple[str, ...]:
    """Say what is wrong with the structured content of a successful result."""
    if tool.output_schema is None or result.is_error:
        return ()
    if result.structured_content is None:
        return ("the result has no structured content, though the tool has an output schema",)
    problem = _problem(_key(tool.output_schema), result.structured_content)
    return () if problem is None else (f"structured content breaks the output schema: {problem}",)


async def prepare_check(tool: Tool) -> None:
    """Compile a tool's output schema, away from the loop: the library reads files for it."""
    if tool.output_schema is not None and (key := _key(tool.output_schema)) not in _prepared:
        await in_thread(_problem, key, {})
        _prepared.add(key)


def _problem(schema: str, value: Any) -> str | None:
    try:
        first = next(_validator(schema).iter_errors(value), None)
    except Exception as error:  # noqa: BLE001  # boundary: a schema can be wrong in any way
        return f"the schema itself is broken: {one_line(str(error))}"
    return None if first is None else one_line(str(first.message))


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for  # noqa: PLC0415  # 0.1 s many never need
    from referencing import Registry  # noqa: PLC0415

    parsed = json.loads(schema)
    validator_class = validator_for(parsed)
    validator_class.check_schema(parsed)
    # An empty registry: a schema may not make this client fetch anything.
    return validator_class(parsed, registry=Registry())


def _key(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True)
