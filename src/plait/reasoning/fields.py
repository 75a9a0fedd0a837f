"""The types of tool arguments: strict, without unknown names; a null counts as omitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MAX_TEXT_CHARS = 100_000
"""Longer than any thought; a session is kept in memory while it is drawn."""

MAX_ID_CHARS = 200
"""Ids are written into addresses and file names."""


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


class Adjustment(BaseModel):
    """An argument that was brought into its range."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    given: int | float
    used: int | float


ParamsT = TypeVar("ParamsT", bound=Params)


def clamp_numbers(params: ParamsT, path: str, adjusted: dict[str, Adjustment]) -> ParamsT:
    """Bring numbers into their range, in objects inside as well, and note what was changed."""
    changes: dict[str, object] = {}
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        place = f"{path}{name}"
        if isinstance(value, Params):
            changes[name] = clamp_numbers(value, f"{place}.", adjusted)
        elif isinstance(value, list):
            changes[name] = [
                clamp_numbers(item, f"{place}[{index}].", adjusted)
                if isinstance(item, Params)
                else item
                for index, item in enumerate(cast("list[object]", value))
            ]
        elif isinstance(value, (int, float)) and isinstance(field.json_schema_extra, dict):
            limits = cast("Mapping[str, float]", field.json_schema_extra)
            used = min(max(value, limits["minimum"]), limits["maximum"])
            if used != value:
                adjusted[place] = Adjustment(given=value, used=used)
                changes[name] = used
    return params.model_copy(update=changes) if changes else params


def _whole_number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _max_length(limit: int, kind: str) -> AfterValidator:
    def check(text: str) -> str:
        if len(text) > limit:
            problem = "{kind} cannot be longer than {limit} characters"
            raise PydanticCustomError("long", problem, {"kind": kind, "limit": limit})
        return text

    return AfterValidator(check)


def _check_nul(text: str) -> str:
    # PostgreSQL cannot store it.
    if "\0" in text:
        raise PydanticCustomError("nul", "Text cannot hold NUL characters")
    return text


def _check_filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "cannot be empty")
    return text


Integer = Annotated[int, BeforeValidator(_whole_number)]
"""An integer; 3.0 counts as one."""

Number = Annotated[float, Field(allow_inf_nan=False)]

AnyText = Annotated[str, AfterValidator(_check_nul), _max_length(MAX_TEXT_CHARS, "Text")]
"""A string that may be empty."""

Text = Annotated[AnyText, AfterValidator(_check_filled)]
"""A string that is not blank."""

Id = Annotated[Text, _max_length(MAX_ID_CHARS, "Id")]
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
