"""What backends over HTTP do when the provider fails: what is tried again, and what is said."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Protocol

import anyio
import pytest

from plait.errors import BackendError
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.port import Completer
from plait.testing import LangbaseServer, OpenAIServer, eventually, free_port
from plait.testing.llm.model_server import ProviderServer
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn
from tests.clock import FakeClock
from tests.integration.reasoning.backends.support import (
    langbase,
    openai,
    opened,
    prompt,
)

pytestmark = pytest.mark.anyio

KEY = "key-canary-5f1e77"


class Scene:
    """A provider, a backend that uses it, and the pauses that it made."""

    def __init__(self, server: ProviderServer, completer: Completer, pauses: list[float]) -> None:
        self.server = server
        self.completer = completer
        self.pauses = pauses
        self._before = len(server.requests)

    @property
    def attempts(self) -> int:
        """How often the model was asked."""
        return len(self.server.requests) - self._before

    async def failure(self) -> BackendError:
        """Ask, and return the error."""
        with pytest.raises(BackendError) as failed:
            await self.completer.complete(prompt())
        return failed.value


class Setup(Protocol):
    """Opens a backend on a provider with this script."""

    def __call__(
        self, turns: Script, retry: RetryPolicy = ...
    ) -> AbstractAsyncContextManager[Scene]: ...


@pytest.fixture(scope="module", params=[LangbaseServer, OpenAIServer], ids=["langbase", "openai"])
def server(request: pytest.FixtureRequest) -> Generator[LangbaseServer | OpenAIServer]:
    with request.param(key=KEY) as server:
        yield server


@pytest.fixture
def setup(server: LangbaseServer | OpenAIServer) -> Setup:
    @asynccontextmanager
    async def scene(turns: Script, retry: RetryPolicy | None = None) -> AsyncGenerator[Scene]:
        server.play(turns)
        clock = FakeClock()
        completer = (
            langbase(server.url, KEY, retry=retry, clock=clock)
            if isinstance(server, LangbaseServer)
            else openai(server.base_url, key=KEY, retry=retry, clock=clock)
        )
        async with opened(completer):
            yield Scene(server, completer, clock.pauses)

    return scene


async def test_a_request_is_repeated_after_the_pause_that_the_provider_asks_for(
    setup: Setup,
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    refusals = [Refuse(status=429, retry_after="7"), Refuse(status=503, retry_after=later)]

    async with setup([*refusals, "at last"]) as scene:
        completion = await scene.completer.complete(prompt())

    assert (completion.text, scene.attempts, scene.pauses[0]) == ("at last", 3, 7.0)
    assert 0 < scene.pauses[1] <= 40


async def test_pauses_double_where_the_provider_asks_for_none(setup: Setup) -> None:
    turns = [Refuse(status=500), Cut(), Refuse(status=502), "at last"]
    async with setup(turns, RetryPolicy(jitter=0)) as scene:
        completion = await scene.completer.complete(prompt())

    assert (completion.text, scene.pauses) == ("at last", [1.0, 2.0, 4.0])


async def test_a_provider_that_stays_down_is_an_error_with_the_attempts(setup: Setup) -> None:
    down = [Refuse(status=500, message="all is lost")] * 3
    async with setup(down, RetryPolicy(max_retries=2)) as scene:
        error = await scene.failure()

    assert "all is lost" in str(error)
    assert str(error).endswith("(after 3 attempts)")
    assert (scene.attempts, error.status) == (3, 500)
    assert (error.retryable, error.retry) == (True, "always")


ONCE = {
    "long pause": (Refuse(status=429, retry_after="3600"), 429, True),
    **{str(code): (Refuse(status=code), code, False) for code in (401, 403, 404, 409, 302)},
    **{
        f"answer {body[:9]!r}": (Raw(body), 200, False)
        for body in (
            *("", "<html>", '"text"', "[]", "null", "{}", '{"completion": 1}'),
            *('{"choices": []}', "[" * 9999),
        )
    },
}
"""What is not asked again: the turn, and the status and outlook of the error."""


@pytest.mark.parametrize(("turn", "status", "retryable"), ONCE.values(), ids=ONCE)
async def test_what_waiting_does_not_cure_is_not_repeated(
    setup: Setup, turn: Turn, status: int, retryable: bool
) -> None:
    async with setup([turn]) as scene:
        error = await scene.failure()

    assert (scene.attempts, scene.pauses) == (1, [])
    assert (error.status, error.retryable) == (status, retryable)
    assert error.retry_after == (3600.0 if status == 429 else None)


async def test_the_key_is_in_no_text_though_the_provider_repeats_it(setup: Setup) -> None:
    async with setup([Refuse(status=403, message="bad"), Raw(f"<b>{KEY}</b>")]) as scene:
        refused, garbled = await scene.failure(), await scene.failure()
        said = scene.completer.describe()

    assert scene.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "you sent" in str(refused)
    assert "<b>" in str(garbled)
    assert KEY not in f"{refused} {garbled} {said} {refused.to_dict()}"


async def test_a_provider_that_does_not_answer_is_given_up_and_asked_again(setup: Setup) -> None:
    turns: Iterator[Turn] = itertools.chain([Hang()], itertools.repeat("at last"))
    retry = RetryPolicy(timeout_seconds=0.3, max_retries=20)

    async with setup(lambda _: next(turns), retry) as scene:
        completion = await scene.completer.complete(prompt())
        await eventually(lambda: scene.server.abandoned >= 1, timeout_seconds=30)

    assert completion.text == "at last"
    assert scene.pauses


async def test_a_provider_that_never_answers_is_an_error_that_may_pass(setup: Setup) -> None:
    async with setup([Hang(), Hang()], RetryPolicy(timeout_seconds=0.2, max_retries=1)) as scene:
        error = await scene.failure()

    assert "no answer in 0.2 s (after 2 attempts)" in str(error)
    assert (error.status, error.retryable) == (None, True)


async def test_cancelling_closes_the_connection_and_repeats_nothing(setup: Setup) -> None:
    async with setup([Hang()]) as scene:
        before = scene.server.abandoned
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(scene.completer.complete, prompt())
                await eventually(lambda: scene.attempts == 1, timeout_seconds=30)
                group.cancel_scope.cancel()
            # A client of the test before may be counted late.
            await eventually(lambda: scene.server.abandoned > before, timeout_seconds=30)

    assert (scene.attempts, scene.pauses) == (1, [])


@pytest.mark.parametrize("kind", ["langbase", "openai"])
async def test_a_provider_that_is_not_there_is_tried_and_named(kind: str) -> None:
    url, clock = f"http://127.0.0.1:{free_port()}", FakeClock()
    make = langbase if kind == "langbase" else openai
    completer = make(url, clock=clock, retry=RetryPolicy(max_retries=3))

    with pytest.raises(BackendError, match=url) as failed:
        await completer.complete(prompt())
    await completer.aclose()

    assert len(clock.pauses) == 3
    assert (failed.value.backend, failed.value.status, failed.value.retryable) == (kind, None, True)
