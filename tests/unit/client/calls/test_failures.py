"""What an error says of a call: its class, and where the call may be made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from plait import errors
from plait.client.calls.failures import backups_only, classify_error, may_fall_back, should_retry
from plait.client.calls.outcome import ToolResult
from plait.client.connections.connection import PAUSE_SECONDS, may_retry, pause_before_retry

CODES = {
    ("protocol", True): [-32700, -32600, -32601, -32602, -32603],
    ("transport", True): [-32000, -32001],
    ("domain", False): [-32002],
    ("protocol", False): [-32020, -32021, -32022],
    ("unknown", False): [-32003, -32099, 0, 1234],
}
SAID = types.TextContent(text="the card was declined")
FAILED = types.CallToolResult(content=[SAID], is_error=True)
OURS = ToolResult(server="shop", tool="pay", is_error=True, content=(SAID,))


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "text"),
    [
        *(
            (MCPError(code, "no"), kind, retryable, "no")
            for (kind, retryable), codes in CODES.items()
            for code in codes
        ),
        *(
            (error("no"), "transport", True, "no")
            for error in (
                ConnectionRefusedError,
                ConnectionResetError,
                BrokenPipeError,
                TimeoutError,
                errors.ServerError,
            )
        ),
        (TimeoutError(), "transport", True, "TimeoutError"),
        (errors.ProtocolError("x", retryable=False), "protocol", False, "x"),
        (OURS, "domain", False, "the card was declined"),
        (FAILED, "domain", False, "the card was declined"),
        (types.CallToolResult(content=[], is_error=True), "domain", False, None),
        (types.CallToolResult(content=[], is_error=False), "unknown", False, None),
        # The same as JSON objects, perhaps in a whole response.
        ({"code": -32601}, "protocol", True, "{'code': -32601}"),
        ({"code": -32002, "message": "gone"}, "domain", False, "gone"),
        ({"id": 1, "error": {"code": -32000, "message": "no"}}, "transport", True, "no"),
        ({"isError": True, "content": [{"text": "declined"}]}, "domain", False, "declined"),
        ({"result": {"isError": True, "content": [{"text": "no"}]}}, "domain", False, "no"),
        ({"content": []}, "unknown", False, "{'content': []}"),
        ({"error": "no"}, "unknown", False, "{'error': 'no'}"),
        *(
            (error, "unknown", False, None)
            for error in (
                ValueError("no"),
                KeyError("no"),
                FileNotFoundError("no"),
                "a text",
                None,
                7,
                SimpleNamespace(code="ECONNREFUSED"),
                SimpleNamespace(is_error=False),
                SimpleNamespace(code=None),
            )
        ),
    ],
)
def test_an_error_is_classified(error: Any, kind: str, retryable: bool, text: str | None) -> None:
    found = classify_error(error)

    assert found[:2] == (kind, retryable)
    assert found[2] == text if text is not None else found[2]
    assert should_retry(error) is retryable


AGAIN = {
    # Not sent or refused: any call may be made again, there or elsewhere.
    "there and elsewhere": [
        errors.ConnectionLostError("x"),
        errors.SendError("x"),
        errors.RateLimitedError("x", status=429),
        errors.ServerError("x", status=503, retry="always"),
    ],
    # The connection has tried again already, or the time is used up.
    "elsewhere": [
        errors.ConnectError("x"),
        errors.ConnectTimeoutError("x"),
        errors.CircuitOpenError("x"),
        errors.EndpointNotFoundError("x"),
        errors.ProtocolError("x", code=-32603),
        errors.CallTimeoutError("x", retry="always"),
    ],
    # It may have run.
    "there and elsewhere if idempotent": [
        errors.OutcomeUnknownError("x"),
        errors.ServerError("x", status=502),
    ],
    "elsewhere if idempotent": [errors.CallTimeoutError("x"), errors.ListTimeoutError("x")],
    "nowhere": [
        errors.ToolFailedError("x"),
        errors.ToolNotFoundError("x"),
        errors.InvalidArgumentsError("x"),
        errors.PermissionDeniedError("x"),
        errors.ResourceNotFoundError("x"),
        errors.HttpError("x", status=418),
        errors.AuthRequiredError("x", status=401),
        errors.ForbiddenError("x", status=403),
        errors.ConfigError("x"),
        errors.ClientClosedError("x"),
        errors.RunDeadlineError("x"),
        errors.ProtocolError("x", code=-32020, retryable=False),
    ],
}


@pytest.mark.parametrize(
    ("error", "where"),
    [
        pytest.param(error, where, id=f"{type(error).__name__} {where}")
        for where, found in AGAIN.items()
        for error in found
    ],
)
def test_a_call_is_made_again_where_that_helps_and_does_no_harm(
    error: errors.PlaitError, where: str
) -> None:
    for idempotent in (True, False):
        allowed = idempotent or "if idempotent" not in where
        assert may_retry(error, idempotent=idempotent) is (allowed and "there" in where.split())
        assert may_fall_back(error, idempotent=idempotent) is (allowed and "elsewhere" in where)


@pytest.mark.parametrize(
    ("error", "left", "pause"),
    [
        (errors.RateLimitedError("x", status=429, retry_after=5.0), 6.0, 5.0),
        (errors.RateLimitedError("x", status=429, retry_after=5.0), 5.0, None),
        (errors.RateLimitedError("x", status=429, retry_after=5.0), 0.0, None),
        (errors.ServerError("x", status=500), 60.0, PAUSE_SECONDS),
        (errors.ConnectionLostError("x"), 60.0, 0.0),
    ],
)
def test_a_pause_is_what_the_server_names_or_a_short_one_after_an_answer(
    error: errors.PlaitError, left: float, pause: float | None
) -> None:
    assert pause_before_retry(error, left) == pause


def test_a_server_is_only_a_backup_if_nobody_stands_in_for_it() -> None:
    assert backups_only({"a": "b", "b": "c"}) == {"c"}
    assert backups_only({"a": "b", "b": "a"}) == frozenset()
