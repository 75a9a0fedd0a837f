"""Chat models of LangChain as a backend."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from langchain_core import exceptions as langchain
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from typing_extensions import override

from plait.agents.engines.langchain.scripted_model import Turn
from plait.errors import BackendError, ConfigError
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.langchain_model import LangChainCompleter
from plait.reasoning.backends.port import Completion, Prompt
from plait.testing import ScriptedChatModel

pytestmark = pytest.mark.anyio

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
            refusal = langchain.ModelInvalidRequestError("no temperature")
            return refusal if refuses else next(self._turns)

        return ScriptedChatModel(turn)


class OddModel(ScriptedChatModel):
    """Says nothing about tokens or its name; without turns it never answers."""

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if not self.turns:
            await anyio.sleep_forever()
        result = self._generate(messages)
        result.generations[0].message = AIMessage(result.generations[0].text)
        return result


async def test_model_and_usage_are_those_that_the_model_reports_or_none() -> None:
    message = AIMessage(
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        usage_metadata={"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
        response_metadata={"model_name": "scripted-2"},
    )
    model = ScriptedChatModel([message])

    completion = await LangChainCompleter(model).complete(prompt())

    assert completion == Completion(text="ab", model="scripted-2", input_tokens=11, output_tokens=7)
    (messages,) = model.seen
    texts = [(one.type, one.content) for one in messages]
    assert texts == [("system", "System."), ("human", "User.")]
    silent = LangChainCompleter(OddModel(turns=["yes"]))
    assert await silent.complete(prompt()) == Completion(text="yes")


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


async def test_a_temperature_that_is_refused_is_left_out_for_good() -> None:
    maker = Maker(["one", "two"], takes_temperature=False)
    completer = LangChainCompleter("groq:x", make=maker)

    said = [(await completer.complete(prompt())).text for _ in range(2)]

    assert said == ["one", "two"]
    assert maker.made == [{"max_tokens": 2000, "temperature": 0.7}, {"max_tokens": 2000}]


async def test_a_request_that_is_refused_for_another_reason_is_an_error() -> None:
    maker = Maker([langchain.ModelInvalidRequestError("too long")] * 2)

    with pytest.raises(BackendError, match="too long") as failed:
        await LangChainCompleter("groq:x", make=maker).complete(prompt())

    assert (failed.value.status, failed.value.retryable) == (400, False)


class _StatusError(Exception):
    """As the libraries of providers raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"Error code: {status_code}, key {KEY}")
        self.status_code = status_code


ERRORS = [
    (langchain.ModelAuthenticationError("x"), 401, False),
    (langchain.ModelRateLimitError("x"), 429, True),
    (langchain.ModelAPIError("x"), None, True),
    (langchain.ModelConnectionError("x"), None, True),
    (langchain.ModelTimeoutError("x"), None, True),
    (langchain.ContextOverflowError("x"), None, False),
    (_StatusError(401), 401, False),
    (_StatusError(429), 429, True),
    (_StatusError(529), 529, True),
    (ConnectionResetError("x"), None, True),
    (TimeoutError("x"), None, True),
    (ValueError("x"), None, False),
]


@pytest.mark.parametrize(("error", "status", "retryable"), ERRORS, ids=lambda one: repr(one)[:30])
async def test_errors_of_providers_become_one_error_of_ours(
    error: Exception, status: int | None, retryable: bool
) -> None:
    completer = LangChainCompleter("groq:x", key=KEY, make=Maker([error]))

    with pytest.raises(BackendError) as failed:
        await completer.complete(prompt())

    assert (failed.value.backend, failed.value.__cause__) == ("model", error)
    assert (failed.value.status, failed.value.retryable) == (status, retryable)
    assert failed.value.retry == ("always" if retryable else "never")
    assert type(error).__name__ in str(failed.value)
    assert KEY not in str(failed.value)


async def test_a_model_that_never_answers_is_given_up() -> None:
    completer = LangChainCompleter(OddModel(turns=[]), retry=RetryPolicy(timeout_seconds=0.05))

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
async def test_a_model_that_cannot_be_had_is_found_out_when_the_backend_is_opened(
    model: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        await LangChainCompleter(model, key=KEY).open()

    assert f"{model!r}" in str(refused.value)
    assert KEY not in str(refused.value)
    unused = ScriptedChatModel([])
    await LangChainCompleter(unused).open()
    assert unused.seen == []  # opening sends nothing
