"""Reading the arguments of a call: types are demanded, numbers are brought into their range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from plait.errors import RefusedError

ParamsT = TypeVar("ParamsT", bound="Params")

_LONGEST_TEXT = 100_000
"""Characters of one text; a thought is no document."""

_LONGEST_ID = 200

_MOST_PROBLEMS = 5
"""How many of the things that are wrong are named at once."""


class Params(BaseModel):
    """The arguments of a tool, or an object inside them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: object) -> object:
        """Take a null for something left out, where it may be left out."""
        if not isinstance(given, Mapping):
            return given
        found = cast("Mapping[str, object]", given)
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {
            name: value for name, value in found.items() if value is not None or name in required
        }


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _clean(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "Text cannot hold NUL characters")
    if len(text) > _LONGEST_TEXT:
        raise PydanticCustomError(
            "long", "Text cannot be longer than {most} characters", {"most": _LONGEST_TEXT}
        )
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "cannot be empty")
    return text


def _short(text: str) -> str:
    if len(text) > _LONGEST_ID:
        raise PydanticCustomError(
            "long", "Id cannot be longer than {most} characters", {"most": _LONGEST_ID}
        )
    return text


Integer = Annotated[int, BeforeValidator(_whole)]
"""An integer; 3.0 is one too."""

Number = Annotated[float, Field(allow_inf_nan=False)]

AnyText = Annotated[str, AfterValidator(_clean)]
"""A text that may be empty."""

Text = Annotated[str, AfterValidator(_clean), AfterValidator(_filled)]
"""A text that says something."""

Id = Annotated[str, AfterValidator(_clean), AfterValidator(_filled), AfterValidator(_short)]
"""The id of something."""


def clamped(low: float, high: float, description: str, **facts: Any) -> Any:
    """Describe a number that is brought into a range rather than refused.

    The range is only advertised: pydantic's own bounds would refuse.
    """
    limits: dict[str, Any] = {"minimum": low, "maximum": high}
    return Field(description=description, json_schema_extra=limits, **facts)


class Adjustment(BaseModel):
    """An argument that was brought into its range."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    given: int | float
    used: int | float


def read_arguments(
    kind: type[ParamsT], given: Mapping[str, Any] | None
) -> tuple[ParamsT, dict[str, Adjustment]]:
    """Read arguments, and say which of them were brought into their range.

    Raises:
        RefusedError: Something is missing, unknown, blank or of the wrong type.
    """
    try:
        read = kind.model_validate(dict(given or {}))
    except ValidationError as error:
        raise _refusal(kind, error) from None
    adjusted: dict[str, Adjustment] = {}
    return _in_range(read, "", adjusted), adjusted


def _in_range(params: ParamsT, path: str, adjusted: dict[str, Adjustment]) -> ParamsT:
    changes: dict[str, object] = {}
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        place = f"{path}{name}"
        if isinstance(value, Params):
            changes[name] = _in_range(value, f"{place}.", adjusted)
        elif isinstance(value, list) and any(
            isinstance(one, Params) for one in cast("list[object]", value)
        ):
            changes[name] = [
                _in_range(one, f"{place}[{index}].", adjusted)
                for index, one in enumerate(cast("list[Params]", value))
            ]
        elif isinstance(value, (int, float)) and isinstance(field.json_schema_extra, dict):
            limits = cast("Mapping[str, float]", field.json_schema_extra)
            used = min(max(value, limits["minimum"]), limits["maximum"])
            if used != value:
                adjusted[place] = Adjustment(given=value, used=used)
                changes[name] = used
    return params.model_copy(update=changes) if changes else params


_REASONS = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "finite_number": "must be a finite number",
}


def _refusal(kind: type[Params], error: ValidationError) -> RefusedError:
    first, *others = (
        (_place(problem), _reason(kind, problem))
        for problem in error.errors(include_url=False)[:_MOST_PROBLEMS]
    )
    more = "".join(f"; {place} - {reason}" for place, reason in others)
    return invalid_argument(first[0], first[1] + more)


def _place(problem: ErrorDetails) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return "".join(parts).lstrip(".") or "arguments"


def _reason(kind: type[Params], problem: ErrorDetails) -> str:
    name = str(problem["loc"][-1]) if problem["loc"] else "arguments"
    match problem["type"]:
        case "blank":
            label = name.replace("_", " ").capitalize() if not name.isdigit() else "Text"
            return f"{label} cannot be empty"
        case "extra_forbidden":
            known = ", ".join(kind.model_fields) if len(problem["loc"]) == 1 else ""
            return "is not a known argument" + (f"; there are: {known}" if known else "")
        case "literal_error":
            expected = problem.get("ctx", {}).get("expected", "another value")
            return f"must be one of {expected}"
        case found:
            return _REASONS.get(found, problem["msg"])


def invalid_argument(field: str, reason: str) -> RefusedError:
    """Refuse an argument."""
    return RefusedError(f"Validation failed: {field} - {reason}")


def session_error(reason: str) -> RefusedError:
    """Refuse a call that does not fit its session."""
    return RefusedError(f"Session error: {reason}")


def input_needed(parameter: str, shape: str) -> RefusedError:
    """Ask the caller for what a model would have written."""
    return RefusedError(
        f"Input needed: {parameter} - No model is connected (backend: host), so you write this "
        f"part yourself. Call again with the same arguments and {parameter}={shape}"
    )
