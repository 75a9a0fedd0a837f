"""What each backend must do: the tests that `test_port.py` runs for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Protocol, TypeAlias

import anyio
import pytest

from plait.errors import BackendError, ReplyError
from plait.reasoning.backends.ask_json import ask_json
from plait.reasoning.backends.http import PipeNames
from plait.reasoning.backends.port import Completer, Completion, Prompt
from plait.reasoning.fields import Params
from plait.testing.llm.turns import Hang, Refuse
from plait.testing.processes import eventually

ONE_PIPE = PipeNames(**dict.fromkeys(asdict(PipeNames()), "linear-reasoning-v1"))
"""One pipe for all modes."""

_SECONDS = 30.0
"""Timeout of a test, on a busy machine."""

StageTurn: TypeAlias = "str | Refuse | Hang"
"""The model returns a text, refuses, or never answers."""

Play: TypeAlias = Sequence[StageTurn] | Callable[[str], StageTurn]
"""Turns in order, or a function of the user text."""


class Stage(Protocol):
    """Sets up a backend with a scripted model."""

    requests: list[tuple[str, str]]
    """The system text and the user text of each request to the model."""

    def completer(self, play: Play) -> AbstractAsyncContextManager[Completer]:
        """Open a completer whose model plays these turns; closed with the context."""
        ...


class _Thought(Params):
    thought: str
    confidence: float


_GOOD = '{"thought": "water boils", "confidence": 0.9}'
_FENCED = f"Here it is:\n\n```json\n{_GOOD}\n```\nAnything else?"
_CUT_OFF = _GOOD[:25]


def prompt(user: str = "What boils?", *, system: str = "Answer in JSON.") -> Prompt:
    """Make a prompt for a test."""
    return Prompt(
        pipe="linear-reasoning-v1", system=system, user=user, temperature=0.7, max_tokens=2000
    )


@pytest.mark.anyio
class CompleterSuite:
    """For every backend; a subclass has a fixture `stage`."""

    async def test_an_answer_is_returned_as_it_was_said(self, stage: Stage) -> None:
        """Nothing is trimmed, repaired or re-encoded."""
        text = "  `fenced`, “quoted”, \\n, 日本語 and 🧵\n\tlast line  "

        async with stage.completer([text]) as completer:
            completion = await completer.complete(prompt())

        assert isinstance(completion, Completion)
        assert completion.text == text

    async def test_the_texts_reach_the_model_unchanged(self, stage: Stage) -> None:
        """The system text stays the system's, the user's the user's."""
        system, user = 'Be "brief".\n\n- one', "{not: json}\n``` \u2028 ü"

        async with stage.completer(["yes"]) as completer:
            await completer.complete(prompt(user, system=system))

        assert stage.requests == [(system, user)]

    async def test_prompts_at_the_same_time_get_their_own_answers(self, stage: Stage) -> None:
        """One completer serves many calls."""
        answers: dict[int, str] = {}

        async def ask(number: int) -> None:
            answers[number] = (await completer.complete(prompt(f"number {number}"))).text

        async with stage.completer(lambda user: f"you said {user}") as completer:
            with anyio.fail_after(_SECONDS):
                async with anyio.create_task_group() as group:
                    for number in range(8):
                        group.start_soon(ask, number)

        assert answers == {number: f"you said number {number}" for number in range(8)}

    async def test_a_refusal_names_the_backend_and_ends_only_its_call(self, stage: Stage) -> None:
        """The next prompt is answered."""
        async with stage.completer([Refuse(status=403), "better"]) as completer:
            with pytest.raises(BackendError) as refused:
                await completer.complete(prompt())
            completion = await completer.complete(prompt())

        assert refused.value.backend == completer.name
        assert (refused.value.retryable, refused.value.retry) == (False, "never")
        assert completion.text == "better"

    async def test_json_in_a_code_fence_is_read(self, stage: Stage) -> None:
        """The text around it is ignored."""
        async with stage.completer([_FENCED]) as completer:
            thought, completion = await ask_json(completer, prompt(), _Thought)

        assert thought == _Thought(thought="water boils", confidence=0.9)
        assert completion.text == _FENCED

    @pytest.mark.parametrize("bad", ["", "no idea", "[1]", '{"thought": 1}', _CUT_OFF])
    async def test_a_bad_answer_is_shown_to_the_model_once(self, stage: Stage, bad: str) -> None:
        """The second prompt holds what was wrong with the first answer."""
        async with stage.completer([bad, _GOOD]) as completer:
            thought, _ = await ask_json(completer, prompt("What boils?"), _Thought)

        first, second = (user for _, user in stage.requests)
        assert thought.thought == "water boils"
        assert first == "What boils?"
        assert second.startswith("What boils?\n")
        assert bad in second

    async def test_two_bad_answers_are_an_error_that_quotes_the_last(self, stage: Stage) -> None:
        """Nothing is made up in place of an answer."""
        async with stage.completer(["no idea", "still none"]) as completer:
            with pytest.raises(ReplyError, match="still none"):
                await ask_json(completer, prompt(), _Thought)

        assert len(stage.requests) == 2

    async def test_it_describes_itself_in_a_line(self, stage: Stage) -> None:
        """The line goes into the first line of the server's log."""
        async with stage.completer([]) as completer:
            text = completer.describe()

        assert text.strip() == text != ""
        assert "\n" not in text

    async def test_opening_and_closing_twice_does_no_harm(self, stage: Stage) -> None:
        """Servers close what they have, whatever happened before."""
        async with stage.completer(["yes"]) as completer:
            await completer.open()
            assert (await completer.complete(prompt())).text == "yes"
            await completer.aclose()
            await completer.aclose()


@pytest.mark.anyio
class WaitingCompleterSuite(CompleterSuite):
    """For backends that wait for a model or a client."""

    async def test_a_cancelled_call_leaves_the_backend_usable(self, stage: Stage) -> None:
        """Other calls are not affected."""
        async with stage.completer(
            lambda user: Hang() if user == "hang" else "still here"
        ) as completer:
            with anyio.fail_after(_SECONDS):
                async with anyio.create_task_group() as group:
                    group.start_soon(completer.complete, prompt("hang"))
                    await eventually(lambda: len(stage.requests) == 1, timeout_seconds=_SECONDS)
                    group.cancel_scope.cancel()
                completion = await completer.complete(prompt("go on"))

        assert completion.text == "still here"
