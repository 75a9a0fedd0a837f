"""Values of another MCP SDK as the types of `mcp_types`."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound=BaseModel)


def own_type(kind: type[ModelT], value: Any) -> ModelT:
    """Return a value of SDK 1.x as the type of this package; others, and mocks, stay."""
    is_foreign = isinstance(value, BaseModel) and not isinstance(value, kind)
    if is_foreign and kind.__name__ in {base.__name__ for base in type(value).__mro__}:
        dumped = value.model_dump(by_alias=True, mode="json", exclude_none=True)
        return kind.model_validate(dumped)
    return cast("ModelT", value)
