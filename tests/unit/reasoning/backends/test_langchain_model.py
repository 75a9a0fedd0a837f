"""Chat models of LangChain as a backend."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from typing_extensions import override

from plait.agents.engines.langchain.scripted_model import Turn
from plait.errors import BackendError, ConfigError
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.langchain_model import LangChainCompleter
from plait.reasoning.backends.port import Prompt
from plait.testing import ScriptedChatModel

KEY = "key-canary-90ab12"


def prompt(temperature: float = 0.7, max_tokens: int = 2000) -> Prompt:
    return Prompt(
        pipe="p", system="System.", user="User.", temperature=temperature, max_tokens=max_tokens
    )


class Maker:
    """Makes scripted models, and notes with which settings."""

    def __init__(self, turns: list[Turn], *, takes_temperature: bool = True) -> None:
        self._turns = iter(turns)
        self._takes_temperature = takes_temperature
        self.made: list[dict[str, Any]] = []

    def __call__(self, model: str, /, **settings: Any) -> BaseChatModel:
        self.made.append(settings)
        refuses = "temperature" in settings and not self._takes_temperature

        def turn(messages: list[BaseMessage]) -> Turn:
            return ModelInvalidRequestError("no temperature") if refuses else next(self._turns)

        return ScriptedChatModel(turn)


@pytest.mark.anyio
async def test_model_and_usage_are_those_that_the_model_reports() -> None:
    message = AIMessage(
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        usage_metadata={"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
        response_metadata={"model_name": "scripted-2"},
    )
    model = ScriptedChatModel([message])

    completion = await LangChainCompleter(model).complete(prompt())

    assert (completion.text, completion.model) == ("ab", "scripted-2")
    assert (completion.input_tokens, completion.output_tokens) == (11, 7)
    (messages,) = model.seen
    assert [(one.type, one.content) for one in messages] == [
        ("system", "System."),
        ("human", "User."),
    ]


class Silent(ScriptedChatModel):
    """Says nothing about tokens or its name."""

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = self._generate(messages)
        message = AIMessage(result.generations[0].text)
        result.generations[0].message = message
        return result


@pytest.mark.anyio
async def test_a_model_that_reports_nothing_will_do() -> None:
    completion = await LangChainCompleter(Silent(turns=["yes"])).complete(prompt())

    assert completion.text == "yes"
    assert (completion.model, completion.input_tokens, completion.output_tokens) == (
        None,
        None,
        None,
    )


@pytest.mark.anyio
async def test_a_named_model_is_made_once_for_each_pair_of_settings() -> None:
    maker = Maker(["one", "two", "three"])
    completer = LangChainCompleter("groq:x", key=KEY, make=maker)

    for asked in (prompt(0.7, 2000), prompt(0.9, 3000), prompt(0.7, 2000)):
        await completer.complete(asked)

    assert maker.made == [
        {"max_tokens": 2000, "temperature": 0.7, "api_key": KEY},
        {"max_tokens": 3000, "temperature": 0.9, "api_key": KEY},
    ]
    assert completer.describe() == "langchain model groq:x"


@pytest.mark.anyio
async def test_a_temperature_that_is_refused_is_left_out_for_good() -> None:
    maker = Maker(["one", "two"], takes_temperature=False)
    completer = LangChainCompleter("groq:x", make=maker)

    said = [(await completer.complete(prompt())).text for _ in range(2)]

    assert said == ["one", "two"]
    assert maker.made == [{"max_tokens": 2000, "temperature": 0.7}, {"max_tokens": 2000}]


@pytest.mark.anyio
async def test_a_request_that_is_refused_for_another_reason_is_an_error() -> None:
    maker = Maker([ModelInvalidRequestError("too long")] * 2)

    with pytest.raises(BackendError, match="too long") as failed:
        await LangChainCompleter("groq:x", make=maker).complete(prompt())

    assert (failed.value.status, failed.value.retryable) == (400, False)


class _StatusError(Exception):
    """As the libraries of providers raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"Error code: {status_code}, key {KEY}")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        (ModelAuthenticationError("x"), 401, False),
        (ModelRateLimitError("x"), 429, True),
        (ModelAPIError("x"), None, True),
        (ModelConnectionError("x"), None, True),
        (ModelTimeoutError("x"), None, True),
        (ContextOverflowError("x"), None, False),
        (_StatusError(401), 401, False),
        (_StatusError(429), 429, True),
        (_StatusError(529), 529, True),
        (ConnectionResetError("x"), None, True),
        (TimeoutError("x"), None, True),
        (ValueError("x"), None, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
@pytest.mark.anyio
async def test_errors_of_providers_become_one_error_of_ours(
    error: Exception, status: int | None, retryable: bool
) -> None:
    completer = LangChainCompleter("groq:x", key=KEY, make=Maker([error]))

    with pytest.raises(BackendError) as failed:
        await completer.complete(prompt())

    assert failed.value.backend == "model"
    assert (failed.value.status, failed.value.retryable) == (status, retryable)
    assert failed.value.retry == ("always" if retryable else "never")
    assert type(error).__name__ in str(failed.value)
    assert KEY not in str(failed.value)
    assert failed.value.__cause__ is error


class Endless(ScriptedChatModel):
    """Never answers."""

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.anyio
async def test_a_model_that_never_answers_is_given_up() -> None:
    completer = LangChainCompleter(Endless(turns=[]), retry=RetryPolicy(timeout_seconds=0.05))

    with pytest.raises(BackendError, match=r"no answer in 0\.05 s") as failed:
        await completer.complete(prompt())

    assert failed.value.retryable


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("nobody:x", "nobody"),
        ("mistralai:small", "langchain-mistralai"),
        ("llama3.2:3b", "llama3"),
    ],
)
@pytest.mark.anyio
async def test_a_model_that_cannot_be_had_is_found_out_when_the_backend_is_opened(
    model: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        await LangChainCompleter(model, key=KEY).open()

    assert f"{model!r}" in str(refused.value)
    assert KEY not in str(refused.value)


@pytest.mark.anyio
async def test_opening_sends_nothing() -> None:
    model = ScriptedChatModel([])

    await LangChainCompleter(model).open()

    assert model.seen == []
