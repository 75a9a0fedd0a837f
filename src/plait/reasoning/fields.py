"""The types of tool arguments: strict, without unknown names; a null counts as omitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

_MAX_TEXT = 100_000

_MAX_ID = 200


class Params(BaseModel):
    """The arguments of a tool, or an object inside them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset()
    """Arguments beyond the contract of the original server."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, arguments: object) -> object:
        """Treat a null as omitted where the argument is optional."""
        if not isinstance(arguments, Mapping):
            return arguments
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {
            name: value
            for name, value in cast("Mapping[str, object]", arguments).items()
            if value is not None or name in required
        }


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _clean(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "Text cannot hold NUL characters")
    if len(text) > _MAX_TEXT:
        raise PydanticCustomError(
            "long", "Text cannot be longer than {most} characters", {"most": _MAX_TEXT}
        )
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "cannot be empty")
    return text


def _short(text: str) -> str:
    if len(text) > _MAX_ID:
        raise PydanticCustomError(
            "long", "Id cannot be longer than {most} characters", {"most": _MAX_ID}
        )
    return text


Integer = Annotated[int, BeforeValidator(_whole)]
"""An integer; 3.0 counts as one."""

Number = Annotated[float, Field(allow_inf_nan=False)]

AnyText = Annotated[str, AfterValidator(_clean)]
"""A string that may be empty."""

Text = Annotated[str, AfterValidator(_clean), AfterValidator(_filled)]
"""A string that is not blank."""

Id = Annotated[str, AfterValidator(_clean), AfterValidator(_filled), AfterValidator(_short)]
"""The id of something."""


def clamped(low: float, high: float, description: str, **options: Any) -> Any:
    """Describe a number that is clamped to a range.

    The range is only advertised: pydantic's own bounds would reject other numbers.
    """
    limits: dict[str, Any] = {"minimum": low, "maximum": high}
    return Field(description=description, json_schema_extra=limits, **options)


def optional(description: str) -> Any:
    """Describe an argument that may be omitted."""
    return Field(default=None, description=description)
