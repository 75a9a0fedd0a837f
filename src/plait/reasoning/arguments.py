"""Validates tool arguments: types are strict, numbers are clamped to their range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from plait._support.suggestions import nearest_names
from plait.errors import RefusedError, UnknownIdError
from plait.reasoning.fields import Id, Params

ParamsT = TypeVar("ParamsT", bound=Params)
UnknownIdT = TypeVar("UnknownIdT", bound=UnknownIdError)

_MAX_PROBLEMS = 5


class SessionParams(Params):
    """Arguments of a tool that works on one session."""

    session_id: Id


class Adjustment(BaseModel):
    """An argument that was brought into its range."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    given: int | float
    used: int | float


def read_arguments(
    kind: type[ParamsT], arguments: Mapping[str, Any] | None
) -> tuple[ParamsT, dict[str, Adjustment]]:
    """Return validated arguments, and those that were clamped."""
    try:
        params = kind.model_validate(dict(arguments or {}))
    except ValidationError as error:
        raise _refusal(kind, error) from None
    adjusted: dict[str, Adjustment] = {}
    return _clamp(params, "", adjusted), adjusted


def _clamp(params: ParamsT, path: str, adjusted: dict[str, Adjustment]) -> ParamsT:
    changes: dict[str, object] = {}
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        place = f"{path}{name}"
        if isinstance(value, Params):
            changes[name] = _clamp(value, f"{place}.", adjusted)
        elif isinstance(value, list) and any(
            isinstance(item, Params) for item in cast("list[object]", value)
        ):
            changes[name] = [
                _clamp(item, f"{place}[{index}].", adjusted)
                for index, item in enumerate(cast("list[Params]", value))
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
        for problem in error.errors(include_url=False)[:_MAX_PROBLEMS]
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
            # Extensions are listed only where one was meant: the list is part of the contract.
            meant = set(nearest_names(name, kind.EXTENSIONS))
            names = [one for one in kind.model_fields if one not in kind.EXTENSIONS - meant]
            known = ", ".join(names) if len(problem["loc"]) == 1 else ""
            return "is not a known argument" + (f"; there are: {known}" if known else "")
        case "literal_error":
            expected = problem.get("ctx", {}).get("expected", "another value")
            return f"must be one of {expected}"
        case kind_of_error:
            return _REASONS.get(kind_of_error, problem["msg"])


def invalid_argument(field: str, reason: str) -> RefusedError:
    """Return the error for an invalid argument."""
    return RefusedError(f"Validation failed: {field} - {reason}")


def unknown_id(kind: type[UnknownIdT], text: str, key: str, field: str | None = None) -> UnknownIdT:
    """Return the error for an id that does not exist; `field` is the argument that holds it."""
    where = "Session error: " if field is None else f"Validation failed: {field} - "
    return kind(f"{where}{text}", key=key)


def session_error(reason: str) -> RefusedError:
    """Return the error for a call that does not fit its session."""
    return RefusedError(f"Session error: {reason}")


def input_needed(parameter: str, shape: str) -> RefusedError:
    """Return the error that asks the caller for the text that a model would write."""
    return RefusedError(
        f"Input needed: {parameter} - No model is connected (backend: host), so you write this "
        f"part yourself. Call again with the same arguments and {parameter}={shape}"
    )
