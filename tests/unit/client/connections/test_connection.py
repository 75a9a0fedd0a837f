"""When a request may be made again, and after which pause."""

from __future__ import annotations

import pytest

from plait.client.connections.connection import PAUSE_SECONDS, may_retry, pause_before_retry
from plait.errors import (
    AuthRequiredError,
    CallTimeoutError,
    CircuitOpenError,
    ConnectError,
    ConnectionLostError,
    HttpError,
    ListTimeoutError,
    OutcomeUnknownError,
    PlaitError,
    ProtocolError,
    RateLimitedError,
    SendError,
    ServerError,
    ToolFailedError,
)


@pytest.mark.parametrize(
    ("error", "idempotent", "otherwise"),
    [
        (ConnectionLostError("x"), True, True),
        (SendError("x"), True, True),
        (RateLimitedError("x", status=429), True, True),
        (ServerError("x", status=503, retry="always"), True, True),
        (ServerError("x", status=500), True, False),
        (OutcomeUnknownError("x"), True, False),
        (ConnectError("x"), False, False),
        (CircuitOpenError("x"), False, False),
        (CallTimeoutError("x"), False, False),
        (ListTimeoutError("x"), False, False),
        (ProtocolError("x"), False, False),
        (HttpError("x", status=418), False, False),
        (AuthRequiredError("x", status=401), False, False),
        (ToolFailedError("x"), False, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PlaitError) else None,
)
def test_a_repeat_must_help_and_do_no_harm(
    error: PlaitError, idempotent: bool, otherwise: bool
) -> None:
    assert may_retry(error, idempotent=True) is idempotent
    assert may_retry(error, idempotent=False) is otherwise


def test_a_server_that_names_a_pause_gets_it_if_there_is_time() -> None:
    error = RateLimitedError("x", status=429, retry_after=5.0)

    assert pause_before_retry(error, 6.0) == 5.0
    assert pause_before_retry(error, 5.0) is None
    assert pause_before_retry(error, 0.0) is None


def test_after_an_answer_there_is_a_short_pause_and_after_a_loss_none() -> None:
    assert pause_before_retry(ServerError("x", status=500), 60.0) == PAUSE_SECONDS
    assert pause_before_retry(ConnectionLostError("x"), 60.0) == 0.0
