"""The coarse class of any error, by the table that fallback goes by."""

from __future__ import annotations

from types import SimpleNamespace

import mcp_types as types
import pytest
from mcp import MCPError

from plait.client.calls.failures import classify_error, should_retry
from plait.client.calls.outcome import ToolResult
from plait.errors import (
    AuthRequiredError,
    BlockingCallError,
    CallTimeoutError,
    CircuitOpenError,
    ClientClosedError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    ContentError,
    ErrorKind,
    ForbiddenError,
    HttpError,
    ListTimeoutError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PlaitError,
    ProtocolError,
    RateLimitedError,
    ResourceNotFoundError,
    RunDeadlineError,
    SendError,
    ServerError,
    ToolFailedError,
    ToolNotFoundError,
    UnknownServerError,
)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (-32700, "protocol", True),
        (-32600, "protocol", True),
        (-32601, "protocol", True),
        (-32602, "protocol", True),
        (-32603, "protocol", True),
        (-32000, "transport", True),
        (-32001, "transport", True),
        (-32002, "domain", False),
        (-32020, "protocol", False),
        (-32021, "protocol", False),
        (-32022, "protocol", False),
        (-32003, "unknown", False),
        (-32099, "unknown", False),
        (0, "unknown", False),
        (1234, "unknown", False),
    ],
)
def test_json_rpc_errors_go_by_their_code(code: int, kind: ErrorKind, retryable: bool) -> None:
    error = MCPError(code, "no")

    assert classify_error(error) == (kind, retryable, "no")
    assert should_retry(error) is retryable


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ConfigError("x"), "config", False),
        (UnknownServerError("x"), "config", False),
        (BlockingCallError("x"), "config", False),
        (ClientClosedError("x"), "config", False),
        (ConnectError("x"), "transport", True),
        (ConnectTimeoutError("x"), "transport", True),
        (CircuitOpenError("x"), "transport", True),
        (ConnectionLostError("x"), "transport", True),
        (SendError("x"), "transport", True),
        (ListTimeoutError("x"), "transport", True),
        (CallTimeoutError("x"), "transport", True),
        (RunDeadlineError("x"), "transport", False),
        (ProtocolError("x"), "protocol", True),
        (ProtocolError("x", retryable=False), "protocol", False),
        (ToolFailedError("x"), "domain", False),
        (ToolNotFoundError("x"), "domain", False),
        (ResourceNotFoundError("x"), "domain", False),
        (PermissionDeniedError("x"), "domain", False),
        (HttpError("x"), "transport", False),
        (AuthRequiredError("x"), "auth", False),
        (ForbiddenError("x"), "auth", False),
        (RateLimitedError("x"), "transport", True),
        (ServerError("x"), "transport", True),
        (OutcomeUnknownError("x"), "transport", False),
        (ContentError("x"), "unknown", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PlaitError) else None,
)
def test_errors_of_ours_say_it_themselves(
    error: PlaitError, kind: ErrorKind, retryable: bool
) -> None:
    assert classify_error(error) == (kind, retryable, "x")
    assert should_retry(error) is retryable


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("no"),
        ConnectionResetError("no"),
        BrokenPipeError("no"),
        TimeoutError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_lost_connections_and_timeouts_are_transport_errors(error: Exception) -> None:
    assert classify_error(error) == ("transport", True, "no")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("no"),
        FileNotFoundError("no"),
        "a text",
        None,
        7,
        SimpleNamespace(code="ECONNREFUSED"),
        SimpleNamespace(is_error=False),
        SimpleNamespace(code=None),
    ],
)
def test_what_nobody_knows_is_not_retried(error: object) -> None:
    kind, retryable, text = classify_error(error)

    assert (kind, retryable) == ("unknown", False)
    assert text


def test_an_error_without_a_text_is_named_after_its_class() -> None:
    assert classify_error(TimeoutError()) == ("transport", True, "TimeoutError")


def test_a_failed_result_is_the_tools_own_answer() -> None:
    result = types.CallToolResult(content=[], is_error=True)

    assert classify_error(result)[:2] == ("domain", False)
    assert not should_retry(result)


def test_the_text_of_a_failed_result_is_what_the_tool_said() -> None:
    said = types.TextContent(text="the card was declined")
    mine = ToolResult(server="shop", tool="pay", is_error=True, content=(said,))
    theirs = types.CallToolResult(content=[said], is_error=True)

    assert classify_error(mine) == ("domain", False, "the card was declined")
    assert classify_error(theirs) == ("domain", False, "the card was declined")


def test_a_result_that_did_not_fail_is_no_error() -> None:
    result = types.CallToolResult(content=[], is_error=False)

    assert classify_error(result)[:2] == ("unknown", False)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": -32601}, ("protocol", True, "{'code': -32601}")),
        ({"code": -32002, "message": "gone"}, ("domain", False, "gone")),
        (
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}},
            ("transport", True, "no"),
        ),
        (
            {"isError": True, "content": [{"type": "text", "text": "declined"}]},
            ("domain", False, "declined"),
        ),
        (
            {"result": {"isError": True, "content": [{"text": "declined"}]}},
            ("domain", False, "declined"),
        ),
        ({"content": []}, ("unknown", False, "{'content': []}")),
        ({"error": "no"}, ("unknown", False, "{'error': 'no'}")),
    ],
)
def test_json_is_classified_like_the_object_it_stands_for(error: object, expected: object) -> None:
    assert classify_error(error) == expected
