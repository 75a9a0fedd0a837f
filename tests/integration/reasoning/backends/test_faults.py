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
from plait.reasoning.backends.http import (
    LangbaseCompleter,
    OpenAICompatibleCompleter,
    RetryPolicy,
)
from plait.reasoning.backends.port import Completer
from plait.testing import LangbaseServer, OpenAIServer, eventually, free_port
from plait.testing.llm.server import ProviderServer
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn
from tests.integration.reasoning.backends.completer_suite import ONE_PIPE, prompt

KEY = "key-canary-5f1e77"


class NotingClock:
    """Notes how long it should wait, and does not."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


class Scene:
    """A provider, a backend that uses it, and the pauses that it made."""

    def __init__(self, server: ProviderServer, completer: Completer, clock: NotingClock) -> None:
        self.server = server
        self.completer = completer
        self._clock = clock
        self._before = len(server.requests)

    @property
    def pauses(self) -> list[float]:
        return self._clock.pauses

    @property
    def attempts(self) -> int:
        """How often the model was asked."""
        return len(self.server.requests) - self._before


class Setup(Protocol):
    """Opens a backend on a provider with this script."""

    def __call__(
        self, turns: Script, retry: RetryPolicy = ...
    ) -> AbstractAsyncContextManager[Scene]: ...


@pytest.fixture(scope="module")
def langbase() -> Generator[LangbaseServer]:
    with LangbaseServer(key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def openai() -> Generator[OpenAIServer]:
    with OpenAIServer(key=KEY) as server:
        yield server


@pytest.fixture(params=["langbase", "openai"])
def setup(request: pytest.FixtureRequest, langbase: LangbaseServer, openai: OpenAIServer) -> Setup:
    server = langbase if request.param == "langbase" else openai

    @asynccontextmanager
    async def scene(turns: Script, retry: RetryPolicy | None = None) -> AsyncGenerator[Scene]:
        server.play(turns)
        clock = NotingClock()
        completer: Completer = (
            LangbaseCompleter(KEY, base_url=server.url, pipes=ONE_PIPE, retry=retry, clock=clock)
            if server is langbase
            else OpenAICompatibleCompleter(openai.base_url, key=KEY, retry=retry, clock=clock)
        )
        await completer.open()
        yield Scene(server, completer, clock)
        await completer.aclose()

    return scene


@pytest.mark.anyio
async def test_a_request_is_repeated_after_the_pause_that_the_provider_asks_for(
    setup: Setup,
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    refusals = [Refuse(status=429, retry_after="7"), Refuse(status=503, retry_after=later)]

    async with setup([*refusals, "at last"]) as scene:
        completion = await scene.completer.complete(prompt())

    assert completion.text == "at last"
    assert scene.attempts == 3
    assert scene.pauses[0] == 7.0
    assert 0 < scene.pauses[1] <= 40


@pytest.mark.anyio
async def test_pauses_double_where_the_provider_asks_for_none(setup: Setup) -> None:
    async with setup(
        [Refuse(status=500), Cut(), Refuse(status=502), "at last"], RetryPolicy(jitter=0)
    ) as scene:
        completion = await scene.completer.complete(prompt())

    assert completion.text == "at last"
    assert scene.pauses == [1.0, 2.0, 4.0]


@pytest.mark.anyio
async def test_a_provider_that_stays_down_is_an_error_with_the_attempts(setup: Setup) -> None:
    async with setup(
        [Refuse(status=500, message="all is lost")] * 3, RetryPolicy(max_retries=2)
    ) as s:
        with pytest.raises(BackendError, match=r"all is lost.*after 3 attempts") as failed:
            await s.completer.complete(prompt())

    assert s.attempts == 3
    assert (failed.value.status, failed.value.retryable, failed.value.retry) == (
        500,
        True,
        "always",
    )


@pytest.mark.anyio
async def test_a_provider_that_asks_for_a_long_pause_is_not_waited_for(setup: Setup) -> None:
    async with setup([Refuse(status=429, retry_after="3600")]) as scene:
        with pytest.raises(BackendError) as failed:
            await scene.completer.complete(prompt())

    assert scene.pauses == []
    assert (failed.value.status, failed.value.retry_after) == (429, 3600.0)
    assert failed.value.retryable


@pytest.mark.parametrize("status", [401, 403, 404, 409, 302])
@pytest.mark.anyio
async def test_a_refusal_that_will_not_pass_is_not_repeated(setup: Setup, status: int) -> None:
    async with setup([Refuse(status=status)]) as scene:
        with pytest.raises(BackendError) as failed:
            await scene.completer.complete(prompt())

    assert scene.attempts == 1
    assert (failed.value.status, failed.value.retryable) == (status, False)


@pytest.mark.anyio
async def test_the_key_is_in_no_text_though_the_provider_repeats_it(setup: Setup) -> None:
    async with setup([Refuse(status=403, message="bad"), Raw(f"<b>{KEY}</b>")]) as scene:
        with pytest.raises(BackendError) as refused:
            await scene.completer.complete(prompt())
        with pytest.raises(BackendError) as garbled:
            await scene.completer.complete(prompt())
        said = scene.completer.describe()

    assert scene.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "you sent" in str(refused.value)
    assert "<b>" in str(garbled.value)
    for text in (str(refused.value), str(garbled.value), said, str(refused.value.to_dict())):
        assert KEY not in text


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        '"text"',
        "[]",
        "null",
        "{}",
        '{"completion": 1}',
        '{"choices": []}',
        "[" * 9999,
    ],
    ids=lambda body: body[:20] or "empty",
)
@pytest.mark.anyio
async def test_an_answer_without_a_completion_is_an_error_and_not_repeated(
    setup: Setup, body: str
) -> None:
    async with setup([Raw(body)]) as scene:
        with pytest.raises(BackendError) as failed:
            await scene.completer.complete(prompt())

    assert scene.attempts == 1
    assert (failed.value.status, failed.value.retryable) == (200, False)


@pytest.mark.anyio
async def test_a_provider_that_does_not_answer_is_given_up_and_asked_again(setup: Setup) -> None:
    turns: Iterator[Turn] = itertools.chain([Hang()], itertools.repeat("at last"))

    async with setup(
        lambda _: next(turns), RetryPolicy(timeout_seconds=0.3, max_retries=20)
    ) as scene:
        completion = await scene.completer.complete(prompt())
        await eventually(lambda: scene.server.abandoned >= 1, timeout_seconds=30)

    assert completion.text == "at last"
    assert len(scene.pauses) >= 1


@pytest.mark.anyio
async def test_a_provider_that_never_answers_is_an_error_that_may_pass(setup: Setup) -> None:
    retry = RetryPolicy(timeout_seconds=0.2, max_retries=1)

    async with setup([Hang(), Hang()], retry) as scene:
        with pytest.raises(BackendError, match=r"no answer in 0\.2 s \(after 2 attempts\)") as late:
            await scene.completer.complete(prompt())

    assert (late.value.status, late.value.retryable) == (None, True)


@pytest.mark.anyio
async def test_cancelling_closes_the_connection_and_repeats_nothing(setup: Setup) -> None:
    async with setup([Hang()]) as scene:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(scene.completer.complete, prompt())
                await eventually(lambda: scene.attempts == 1, timeout_seconds=30)
                group.cancel_scope.cancel()
            await eventually(lambda: scene.server.abandoned == 1, timeout_seconds=30)

    assert scene.attempts == 1
    assert scene.pauses == []


@pytest.mark.parametrize("kind", ["langbase", "openai"])
@pytest.mark.anyio
async def test_a_provider_that_is_not_there_is_tried_and_named(kind: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    clock = NotingClock()
    completer = (
        LangbaseCompleter(KEY, base_url=url, clock=clock)
        if kind == "langbase"
        else OpenAICompatibleCompleter(url, model="any", key=KEY, clock=clock)
    )

    with pytest.raises(BackendError, match=url) as failed:
        await completer.complete(prompt())
    await completer.aclose()

    assert len(clock.pauses) == 3
    assert (failed.value.backend, failed.value.status, failed.value.retryable) == (kind, None, True)
