"""Results of operations say how they ended."""

from __future__ import annotations

from plait.gateway import OperationError, OperationResult


def test_all_successes_are_the_same() -> None:
    assert OperationResult.success() is OperationResult.success()
    assert OperationResult.success().succeeded
    assert OperationResult.success().errors == []
    assert str(OperationResult.success()) == "Succeeded"


def test_a_failure_has_its_errors() -> None:
    error = ValueError("broken")
    result = OperationResult.failed(OperationError(error), OperationError(OSError("gone")))

    assert not result.succeeded
    assert result.errors[0].exception is error
    assert result.errors[0].message == "broken"
    assert str(result) == "Failed: broken, gone"
    assert str(OperationResult.failed()) == "Failed"


def test_errors_are_handed_out_as_a_copy() -> None:
    result = OperationResult.failed(OperationError(ValueError("x")))

    result.errors.clear()

    assert len(result.errors) == 1
