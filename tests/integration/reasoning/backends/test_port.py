"""Every backend does what a backend must."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from typing_extensions import override

from plait.errors import BackendError
from plait.reasoning.backends.http import LangbaseCompleter, OpenAICompatibleCompleter
from plait.reasoning.backends.langchain_model import LangChainCompleter
from plait.reasoning.backends.port import (
    Completer,
    Completion,
    Prompt,
    SamplingCompleter,
    ScriptedCompleter,
)
from plait.testing import LangbaseServer, OpenAIServer, ScriptedChatModel
from plait.testing.llm.turns import Hang, Refuse
from tests.integration.reasoning.backends.completer_suite import (
    ONE_PIPE,
    CompleterSuite,
    Play,
    Stage,
    StageTurn,
    WaitingCompleterSuite,
)


class _Recorder:
    """Notes what reached the model, and takes its turns."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def turns(self, play: Play) -> Callable[[str, str], StageTurn]:
        turns = None if callable(play) else iter(play)

        def take(system: str, user: str) -> StageTurn:
            self.requests.append((system, user))
            return play(user) if callable(play) else next(turns or iter(()))

        return take

    def from_body(self, play: Play) -> Callable[[Mapping[str, Any]], StageTurn]:
        take = self.turns(play)

        def turn(body: Mapping[str, Any]) -> StageTurn:
            assert [message["role"] for message in body["messages"]] == ["system", "user"]
            return take(*(message["content"] for message in body["messages"]))

        return turn


@pytest.fixture(scope="module")
def langbase() -> Generator[LangbaseServer]:
    with LangbaseServer(key="key-of-langbase") as server:
        yield server


@pytest.fixture(scope="module")
def openai() -> Generator[OpenAIServer]:
    with OpenAIServer(key="key-of-openai") as server:
        yield server


class LangbaseStage(_Recorder):
    def __init__(self, server: LangbaseServer) -> None:
        super().__init__()
        self._server = server

    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        self._server.play(self.from_body(play))
        completer = LangbaseCompleter("key-of-langbase", base_url=self._server.url, pipes=ONE_PIPE)
        await completer.open()
        yield completer
        await completer.aclose()


class OpenAIStage(_Recorder):
    def __init__(self, server: OpenAIServer) -> None:
        super().__init__()
        self._server = server

    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        self._server.play(self.from_body(play))
        completer = OpenAICompatibleCompleter(self._server.base_url, key="key-of-openai")
        await completer.open()
        yield completer
        await completer.aclose()


class _HangingModel(ScriptedChatModel):
    """A scripted model that can also never answer."""

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = self._generate(messages)
        if result.generations[0].text == "HANG":
            await anyio.sleep_forever()
        return result


class _ProviderRefusedError(Exception):
    """Has the status where the libraries of providers have it."""

    def __init__(self, status_code: int) -> None:
        super().__init__("refused")
        self.status_code = status_code


class LangChainStage(_Recorder):
    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        take = self.turns(play)

        def turn(messages: list[BaseMessage]) -> str | Exception:
            assert [message.type for message in messages] == ["system", "human"]
            said = take(*(str(message.content) for message in messages))
            match said:
                case Refuse(status=status):
                    return _ProviderRefusedError(status)
                case Hang():
                    return "HANG"
                case _:
                    return said

        completer = LangChainCompleter(_HangingModel(turns=turn))
        await completer.open()
        yield completer
        await completer.aclose()


class SamplingStage(_Recorder):
    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        take = self.turns(play)

        async def sample(prompt: Prompt) -> Completion:
            match take(prompt.system, prompt.user):
                case Refuse():
                    raise BackendError("the client said no", backend="sampling")
                case Hang():
                    await anyio.sleep_forever()
                    raise AssertionError
                case text:
                    return Completion(text=text)

        completer = SamplingCompleter(sample)
        await completer.open()
        yield completer
        await completer.aclose()


class ScriptedStage(_Recorder):
    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        take = self.turns(play)

        def reply(prompt: Prompt) -> str | Exception:
            said = take(prompt.system, prompt.user)
            assert not isinstance(said, Hang)
            if isinstance(said, Refuse):
                return BackendError("the script says no", backend="scripted")
            return said

        completer = ScriptedCompleter(reply)
        await completer.open()
        yield completer
        await completer.aclose()


class TestLangbase(WaitingCompleterSuite):
    @pytest.fixture
    def stage(self, langbase: LangbaseServer) -> Stage:
        return LangbaseStage(langbase)


class TestOpenAICompatible(WaitingCompleterSuite):
    @pytest.fixture
    def stage(self, openai: OpenAIServer) -> Stage:
        return OpenAIStage(openai)


class TestLangChainModel(WaitingCompleterSuite):
    @pytest.fixture
    def stage(self) -> Stage:
        return LangChainStage()


class TestSampling(WaitingCompleterSuite):
    @pytest.fixture
    def stage(self) -> Stage:
        return SamplingStage()


class TestScripted(CompleterSuite):
    @pytest.fixture
    def stage(self) -> Stage:
        return ScriptedStage()
