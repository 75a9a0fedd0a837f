"""Every backend does what a backend must."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from typing_extensions import override

from plait.errors import BackendError, ReplyError
from plait.reasoning.arguments import Params
from plait.reasoning.backends.ask_json import ask_json
from plait.reasoning.backends.langchain_model import LangChainCompleter
from plait.reasoning.backends.port import (
    Completer,
    Completion,
    Prompt,
    SamplingCompleter,
    ScriptedCompleter,
)
from plait.testing import LangbaseServer, OpenAIServer, ScriptedChatModel, eventually
from plait.testing.llm.turns import Hang, Refuse
from tests.integration.reasoning.backends.support import langbase, openai, opened, prompt

pytestmark = pytest.mark.anyio

StageTurn: TypeAlias = "str | Refuse | Hang"
"""The model returns a text, refuses, or never answers."""
Play: TypeAlias = Sequence[StageTurn] | Callable[[str], StageTurn]
"""Turns in order, or a function of the user text."""

SECONDS = 30.0
"""Timeout of a test, on a busy machine."""


class Thought(Params):
    thought: str
    confidence: float


GOOD = '{"thought": "water boils", "confidence": 0.9}'


class HangingModel(ScriptedChatModel):
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


class ProviderRefusedError(Exception):
    """Has the status where the libraries of providers have it."""

    status_code = 403


class Stage:
    """Opens a backend of one kind with a scripted model, and notes what reaches that."""

    def __init__(self, kind: str, server: LangbaseServer | OpenAIServer | None) -> None:
        self.kind = kind
        self.server = server
        self.requests: list[tuple[str, str]] = []
        """The system text and the user text of each request to the model."""

    @asynccontextmanager
    async def completer(self, play: Play) -> AsyncGenerator[Completer]:
        """Open the backend whose model plays these turns."""
        turns = None if callable(play) else iter(play)

        def take(system: str, user: str) -> StageTurn:
            self.requests.append((system, user))
            return play(user) if callable(play) else next(turns or iter(()))

        async with opened(self._completer(take)) as completer:
            yield completer

    def _completer(self, take: Callable[[str, str], StageTurn]) -> Completer:
        def from_body(body: Mapping[str, Any]) -> StageTurn:
            assert [message["role"] for message in body["messages"]] == ["system", "user"]
            return take(*(message["content"] for message in body["messages"]))

        def from_messages(messages: list[BaseMessage]) -> str | Exception:
            assert [message.type for message in messages] == ["system", "human"]
            said = take(*(str(message.content) for message in messages))
            if isinstance(said, Refuse):
                return ProviderRefusedError("refused")
            return "HANG" if isinstance(said, Hang) else said

        async def sample(prompt: Prompt) -> Completion:
            said = take(prompt.system, prompt.user)
            if isinstance(said, Refuse):
                raise BackendError("the client said no", backend="sampling")
            if isinstance(said, Hang):
                await anyio.sleep_forever()
            return Completion(text=str(said))

        def reply(prompt: Prompt) -> str | Exception:
            said = take(prompt.system, prompt.user)
            refused = BackendError("the script says no", backend="scripted")
            return refused if isinstance(said, Refuse) else str(said)

        match self.server:
            case LangbaseServer() as server:
                server.play(from_body)
                return langbase(server.url, "key-of-the-test")
            case OpenAIServer() as server:
                server.play(from_body)
                return openai(server.base_url, model=None, key="key-of-the-test")
            case None:
                return {
                    "langchain": lambda: LangChainCompleter(HangingModel(turns=from_messages)),
                    "sampling": lambda: SamplingCompleter(sample),
                    "scripted": lambda: ScriptedCompleter(reply),
                }[self.kind]()


@pytest.fixture(scope="module", params=["langbase", "openai", "langchain", "sampling", "scripted"])
def kind(
    request: pytest.FixtureRequest,
) -> Generator[tuple[str, LangbaseServer | OpenAIServer | None]]:
    servers = {"langbase": LangbaseServer, "openai": OpenAIServer}
    if request.param not in servers:
        yield request.param, None
        return
    with servers[request.param](key="key-of-the-test") as server:
        yield request.param, server


@pytest.fixture
def stage(kind: tuple[str, LangbaseServer | OpenAIServer | None]) -> Stage:
    return Stage(*kind)


async def test_texts_reach_the_model_and_come_back_unchanged(stage: Stage) -> None:
    text = "  `fenced`, “quoted”, \\n, 日本語 and 🧵\n\tlast line  "
    system, user = 'Be "brief".\n\n- one', "{not: json}\n``` \u2028 ü"

    async with stage.completer([text]) as completer:
        completion = await completer.complete(prompt(user, system=system))

    assert isinstance(completion, Completion)
    assert completion.text == text
    assert stage.requests == [(system, user)]


async def test_prompts_at_the_same_time_get_their_own_answers(stage: Stage) -> None:
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = (await completer.complete(prompt(f"number {number}"))).text

    async with stage.completer(lambda user: f"you said {user}") as completer:
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(ask, number)

    assert answers == {number: f"you said number {number}" for number in range(8)}


async def test_a_refusal_names_the_backend_and_ends_only_its_call(stage: Stage) -> None:
    async with stage.completer([Refuse(status=403), "better"]) as completer:
        with pytest.raises(BackendError) as refused:
            await completer.complete(prompt())
        completion = await completer.complete(prompt())

    assert refused.value.backend == completer.name
    assert (refused.value.retryable, refused.value.retry) == (False, "never")
    assert completion.text == "better"


async def test_json_in_a_code_fence_is_read_and_bad_answers_are_shown_to_the_model_once(
    stage: Stage,
) -> None:
    fenced = f"Here it is:\n\n```json\n{GOOD}\n```\nAnything else?"
    thought = Thought(thought="water boils", confidence=0.9)
    async with stage.completer([fenced]) as completer:
        found, completion = await ask_json(completer, prompt(), Thought)
    assert (found, completion.text) == (thought, fenced)

    for bad in ("", "no idea", "[1]", '{"thought": 1}', GOOD[:25]):
        stage.requests.clear()
        async with stage.completer([bad, GOOD]) as completer:
            assert (await ask_json(completer, prompt("What boils?"), Thought))[0] == thought
        first, second = (user for _, user in stage.requests)
        assert first == "What boils?"
        assert second.startswith("What boils?\n")
        assert bad in second

    stage.requests.clear()
    async with stage.completer(["no idea", "still none"]) as completer:
        with pytest.raises(ReplyError, match="still none"):
            await ask_json(completer, prompt(), Thought)
    assert len(stage.requests) == 2


async def test_it_describes_itself_in_a_line_and_may_be_opened_and_closed_twice(
    stage: Stage,
) -> None:
    async with stage.completer(["yes"]) as completer:
        text = completer.describe()
        await completer.open()
        assert (await completer.complete(prompt())).text == "yes"
        await completer.aclose()

    assert text.strip() == text != ""
    assert "\n" not in text


@pytest.mark.parametrize("kind", ["langbase", "openai", "langchain", "sampling"], indirect=True)
async def test_a_cancelled_call_leaves_the_backend_usable(stage: Stage) -> None:
    async with stage.completer(lambda user: Hang() if user == "hang" else "here") as completer:
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(completer.complete, prompt("hang"))
                await eventually(lambda: len(stage.requests) == 1, timeout_seconds=SECONDS)
                group.cancel_scope.cancel()
            assert (await completer.complete(prompt("go on"))).text == "here"
