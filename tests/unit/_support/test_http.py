"""Retries: which attempts are repeated, after which pause, and how they end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from plait._support.clock import SystemClock
from plait._support.http import HttpReply, with_retries
from plait.errors import BackendError, PlaitError


class ManualClock(SystemClock):
    """Notes pauses in place of making them."""

    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds


class Server:
    """Fails with some errors, one after the other, then answers."""

    def __init__(self, *errors: BackendError) -> None:
        self.errors = [*errors]
        self.clock = ManualClock()

    async def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def ask(
        self,
        delays: Sequence[float],
        *,
        deadline: float | None = None,
        max_retry_after_seconds: float | None = None,
    ) -> str:
        return await with_retries(
            self,
            delays=delays,
            clock=self.clock,
            give_up=_counted,
            deadline=deadline,
            max_retry_after_seconds=max_retry_after_seconds,
        )


def _counted(error: PlaitError, attempts: int) -> PlaitError:
    return BackendError(f"{error.message}, {attempts} times")


def _busy(retry_after: float | None = None) -> BackendError:
    return BackendError("busy", retry="always", retry_after=retry_after)


@pytest.mark.anyio
async def test_an_attempt_is_repeated_after_the_pauses_of_the_policy() -> None:
    server = Server(_busy(), _busy())

    assert await server.ask([1, 2, 4]) == "answer"
    assert server.clock.pauses == [1, 2]


@pytest.mark.anyio
async def test_the_last_error_is_raised_with_the_number_of_attempts() -> None:
    server = Server(_busy(), _busy(), _busy())

    with pytest.raises(BackendError, match="busy, 3 times"):
        await server.ask([1, 2])


@pytest.mark.anyio
async def test_an_error_that_a_retry_cannot_change_is_raised_at_once() -> None:
    refused = BackendError("refused", retry="never", retry_after=1)
    server = Server(refused)

    with pytest.raises(BackendError) as raised:
        await server.ask([1, 2])

    assert raised.value is refused
    assert server.clock.pauses == []


@pytest.mark.anyio
async def test_the_server_decides_about_the_pause_but_not_about_a_long_one() -> None:
    server = Server(_busy(retry_after=0.5), _busy(retry_after=60), _busy(retry_after=61))

    with pytest.raises(BackendError, match="3 times"):
        await server.ask([2, 2, 2], max_retry_after_seconds=60)

    assert server.clock.pauses == [0.5, 60]


@pytest.mark.anyio
async def test_no_attempt_starts_after_the_deadline() -> None:
    server = Server(_busy(), _busy(), _busy())

    with pytest.raises(BackendError, match="2 times"):
        await server.ask([1, 2, 4], deadline=3)

    assert server.clock.pauses == [1]


def test_a_reply_has_an_object_only_if_it_is_one() -> None:
    assert HttpReply(200, b'{"a": 1}').json_object() == {"a": 1}
    assert HttpReply(200, b"[1]").json_object() is None
    assert HttpReply(200, b"\xff{").json_object() is None
    assert HttpReply(200, b"[" * 100_000).json_object() is None
    assert HttpReply(200, b"a\xffb").text == "a\ufffdb"
    assert [HttpReply(status, b"").is_success for status in (199, 200, 299, 300)] == [
        False,
        True,
        True,
        False,
    ]
