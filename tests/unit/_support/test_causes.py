"""What stands behind an error is as safe to show as the error itself."""

from __future__ import annotations

import traceback
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from pydantic import BaseModel, ValidationError

from plait._support.causes import HiddenCauseError, without_secrets
from plait._support.redact import Redactor
from plait.errors import ConnectError

SECRET = "c4n4ry-Zx81"
redact = Redactor([SECRET])


def shown(error: BaseException) -> str:
    chain = "".join(traceback.format_exception(error))
    return f"{error} {error!r} {error.args} {chain}"


def test_an_error_without_secrets_stays_the_same_object() -> None:
    error = ValueError("nothing to hide")
    error.__cause__ = cause = KeyError("x")

    assert without_secrets(error, redact) is error
    assert error.__cause__ is cause


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError(f"bad {SECRET}"), httpx2.ConnectError(f"cannot reach {SECRET}")),
        *(OSError(2, "No such file", f"/home/{SECRET}"), KeyError(SECRET)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_type_where_it_can(error: Exception) -> None:
    safe = without_secrets(error, redact)

    assert type(safe) is type(error)
    assert SECRET not in shown(safe)


def test_an_answer_of_a_server_is_cleaned_with_its_data() -> None:
    data = {"quoted": [SECRET, 7, {"deep": (SECRET,)}], SECRET: None}
    safe = without_secrets(MCPError(-32050, f"no {SECRET}", data), redact)

    assert isinstance(safe, MCPError)
    assert (safe.code, safe.message) == (-32050, "no ***")
    assert safe.data == {"quoted": ["***", 7, {"deep": ["***"]}], "***": None}


def test_an_error_that_cannot_be_copied_is_stood_for() -> None:
    class Numbers(BaseModel):
        count: int

    with pytest.raises(ValidationError) as caught:
        Numbers.model_validate({"count": SECRET})
    safe = without_secrets(caught.value, redact)

    assert isinstance(safe, HiddenCauseError)
    assert str(safe).startswith("ValidationError: 1 validation error")
    assert SECRET not in shown(safe)
    assert safe.__traceback__ is caught.value.__traceback__


def test_an_error_of_ours_is_changed_where_it_stands() -> None:
    error = ConnectError(f"shop: no {SECRET}", server="shop", status=500)
    error.add_note(f"tried {SECRET}")

    assert without_secrets(error, redact) is error
    assert (error.message, error.args, error.status) == ("shop: no ***", ("shop: no ***",), 500)
    assert error.__notes__ == ["tried ***"]


def test_everything_that_led_to_an_error_is_cleaned_also_in_groups_and_circles() -> None:
    inner = ValueError(SECRET)
    group = ExceptionGroup("several", [RuntimeError("fine"), inner])
    outer = ConnectError("shop: failed")
    outer.__cause__ = group
    inner.__context__ = outer

    safe: Any = without_secrets(outer, redact)

    assert safe is outer
    assert [str(one) for one in safe.__cause__.exceptions] == ["fine", "***"]
    assert SECRET not in shown(safe)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("data", [None, ["token=abcdef123"] * 500_000])
def test_of_a_very_long_error_only_the_beginning_is_kept(data: Any) -> None:
    text = f"{SECRET} and token=abcdef123 at http://a:b@c " * 500_000
    error = ConnectError("failed")
    error.__cause__ = MCPError(code=-32000, message="short" if data else text, data=data)

    without_secrets(error, redact)

    cause = error.__cause__
    assert isinstance(cause, HiddenCauseError)
    assert str(cause).startswith("MCPError: ")
    assert len(shown(cause)) < 100_000
    assert SECRET not in shown(cause)


def test_a_very_long_error_is_not_written_out() -> None:
    class LongError(Exception):
        def __repr__(self) -> str:
            raise AssertionError("a text of megabytes holds up the event loop")

    error = ConnectError("failed")
    error.__cause__ = LongError({"data": ["x" * 100_000]})

    without_secrets(error, redact)

    assert isinstance(error.__cause__, HiddenCauseError)
