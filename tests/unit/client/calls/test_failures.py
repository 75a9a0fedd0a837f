"""When a call may go to another server."""

from __future__ import annotations

import pytest

from plait import errors
from plait.client.calls.failures import backups_only, may_fall_back

NEVER_SENT = [
    errors.ConnectError("x"),
    errors.ConnectTimeoutError("x"),
    errors.CircuitOpenError("x"),
    errors.EndpointNotFoundError("x"),
    errors.ConnectionLostError("x"),
    errors.SendError("x"),
    errors.RateLimitedError("x", status=429),
    errors.ProtocolError("x", code=-32603),
    errors.CallTimeoutError("x", retry="always"),
]

MAY_HAVE_RUN = [
    errors.OutcomeUnknownError("x"),
    errors.CallTimeoutError("x"),
    errors.ServerError("x", status=502),
]

NOT_FOR_OTHERS = [
    errors.ToolFailedError("x"),
    errors.ToolNotFoundError("x"),
    errors.InvalidArgumentsError("x"),
    errors.PermissionDeniedError("x"),
    errors.ResourceNotFoundError("x"),
    errors.AuthRequiredError("x", status=401),
    errors.ForbiddenError("x", status=403),
    errors.ConfigError("x"),
    errors.ClientClosedError("x"),
    errors.RunDeadlineError("x"),
    errors.ProtocolError("x", code=-32020, retryable=False),
]


def named(error: errors.PlaitError) -> str:
    return type(error).__name__


@pytest.mark.parametrize("error", NEVER_SENT, ids=named)
def test_what_surely_has_not_run_may_go_to_the_backup(error: errors.PlaitError) -> None:
    assert may_fall_back(error, idempotent=False)


@pytest.mark.parametrize("error", MAY_HAVE_RUN, ids=named)
def test_what_may_have_run_goes_to_the_backup_only_if_it_may_run_twice(
    error: errors.PlaitError,
) -> None:
    assert not may_fall_back(error, idempotent=False)
    assert may_fall_back(error, idempotent=True)


@pytest.mark.parametrize("error", NOT_FOR_OTHERS, ids=named)
def test_an_answer_of_the_server_or_of_ours_never_goes_to_the_backup(
    error: errors.PlaitError,
) -> None:
    assert not may_fall_back(error, idempotent=False)
    assert not may_fall_back(error, idempotent=True)


def test_a_server_is_only_a_backup_if_nobody_stands_in_for_it() -> None:
    assert backups_only({"a": "b", "b": "c"}) == {"c"}
    assert backups_only({"a": "b", "b": "a"}) == frozenset()
