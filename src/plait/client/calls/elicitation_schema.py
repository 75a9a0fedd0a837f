"""What an answer of the user to a question of a server must look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData

T = TypeVar("T", ElicitResult, ElicitResult | ErrorData)


def with_defaults(question: ElicitRequestParams, answer: T) -> T:
    """Fill in the fields that an accepted form leaves open and its schema has a default for."""
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return answer
    if not isinstance(question, ElicitRequestFormParams):
        return answer
    fields: Mapping[str, Any] = question.requested_schema.get("properties") or {}
    content = dict(answer.content or {})
    for name, field in fields.items():
        if name not in content and isinstance(field, Mapping) and "default" in field:
            content[name] = field["default"]
    return answer.model_copy(update={"content": content})
