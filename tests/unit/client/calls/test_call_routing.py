"""What a server says during a call reaches the one who made it, and nobody else."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from mcp_types import ElicitRequestFormParams, ElicitResult, LoggingMessageNotificationParams

from plait.client.calls.call_routing import ActiveCall, CallRouter, with_schema_defaults
from plait.client.protocol.session import McpSession, RequestContext

pytestmark = pytest.mark.anyio


class FakeSession:
    """Stands for a session; only which one it is matters."""


def session() -> McpSession:
    return cast("McpSession", FakeSession())


def question(text: str) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=text, requested_schema={"type": "object"})


def listener(name: str, *, pausing: bool = True) -> ActiveCall:
    async def ask(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"by": name})

    return ActiveCall("server", name, on_elicitation=ask, pausing=pausing)


async def declined(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="decline")


class Calls:
    """Calls under way, each in a task of its own, until they are ended."""

    def __init__(self, router: CallRouter) -> None:
        self._router = router
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, one: ActiveCall, on: McpSession) -> None:
        begun, end = asyncio.Event(), asyncio.Event()

        async def call() -> None:
            with self._router.active(one, on):
                begun.set()
                await end.wait()

        self._ends[one.tool] = end
        self._tasks[one.tool] = asyncio.ensure_future(call())
        await begun.wait()

    async def end(self, name: str) -> None:
        self._ends.pop(name).set()
        await self._tasks.pop(name)

    async def cancel(self, name: str) -> None:
        self._ends.pop(name)
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def end_all(self) -> None:
        for name in list(self._ends):
            await self.end(name)


def asked(router: CallRouter, on: McpSession, text: str = "?") -> asyncio.Task[Any]:
    context = RequestContext(session=on, request_id=1)
    return asyncio.ensure_future(router.answer_elicitation(context, question(text), declined))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_question_goes_to_the_only_call_on_its_session() -> None:
    router, here, there = CallRouter(), session(), session()
    calls = Calls(router)
    await calls.begin(listener("a"), here)
    await calls.begin(listener("b"), there)

    answers = [await asked(router, here), await asked(router, there)]
    await calls.end_all()

    assert [answer.content for answer in answers] == [{"by": "a"}, {"by": "b"}]


@pytest.mark.parametrize("same_tool", [False, True])
async def test_of_two_calls_the_one_that_ends_did_not_ask(same_tool: bool) -> None:
    router, here = CallRouter(), session()
    first, second = Calls(router), Calls(router)
    await first.begin(listener("a", pausing=False), here)
    await second.begin(listener("a" if same_tool else "b", pausing=False), here)

    answer = asked(router, here)
    await settled()
    waited = not answer.done()
    await first.end_all()
    assert (await answer).content == {"by": "a" if same_tool else "b"}
    await second.end_all()
    assert waited


async def test_when_every_call_may_have_asked_a_question_is_declined_not_swapped() -> None:
    router, here = CallRouter(), session()
    calls = Calls(router)
    await calls.begin(listener("a"), here)
    await calls.begin(listener("b"), here)

    first = asked(router, here)
    await settled()
    second = await asked(router, here)
    await calls.end("a")
    assert second.action == "decline"
    assert (await first).content == {"by": "b"}
    await calls.end_all()


async def test_the_question_of_a_call_that_was_given_up_goes_to_no_other() -> None:
    router, here = CallRouter(), session()
    calls = Calls(router)
    await calls.begin(listener("ann", pausing=False), here)
    await calls.begin(listener("bob", pausing=False), here)

    answer = asked(router, here)
    await settled()
    await calls.cancel("ann")
    assert (await answer).action == "decline"
    await calls.end_all()


async def test_a_log_message_that_may_be_of_two_calls_goes_to_neither() -> None:
    router, here, there = CallRouter(), session(), session()
    heard: list[str] = []
    calls = Calls(router)
    for name, place, source in (("ann", here, "one"), ("bob", here, "one"), ("cy", there, "two")):
        call = ActiveCall("server", name, on_log=lambda _, name=name: heard.append(name))
        call.source = source
        await calls.begin(call, place)
    message = LoggingMessageNotificationParams(level="info", data="?")

    taken = [router.dispatch_log("server", source, message) for source in ("one", "two", "three")]
    await calls.end_all()

    assert (taken, heard) == ([False, True, False], ["cy"])


async def test_without_a_call_nobody_is_asked() -> None:
    assert (await asked(CallRouter(), session())).action == "decline"


def test_an_accepted_form_is_filled_in_with_the_defaults_of_its_schema() -> None:
    form = ElicitRequestFormParams(
        message="?",
        requested_schema={
            "type": "object",
            "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}},
        },
    )
    given = with_schema_defaults(form, ElicitResult(action="accept", content={"b": 1}))
    kept = with_schema_defaults(form, ElicitResult(action="accept", content={"a": "y"}))
    refused = with_schema_defaults(form, ElicitResult(action="decline"))

    assert (given.content, kept.content, refused.content) == ({"a": "x", "b": 1}, {"a": "y"}, None)
