"""Elicitations of servers that wait for a person at a page of the viewer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

if TYPE_CHECKING:
    from plait.client.protocol.inbound import OnElicitation, RequestContext

_LONGEST_WAIT_SECONDS = 600.0

Answer = Literal["accept", "decline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An elicitation that has no answer yet."""

    key: str
    server: str
    message: str
    schema: Mapping[str, Any] | None
    """What the answer must contain; `None` if the server wants a page to be visited."""
    url: str | None
    answer: asyncio.Future[ElicitResult] = field(repr=False)


class Questions:
    """Parks elicitations until a page answers them, or ten minutes have passed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._waiting: dict[str, Question] = {}

    def of(self, server: str) -> list[Question]:
        """Return the questions of a server, the oldest first."""
        waiting = self._waiting.values()
        return [one for one in waiting if one.server == server and not one.answer.done()]

    def find(self, key: str) -> Question | None:
        """Return a question that still waits."""
        question = self._waiting.get(key)
        return None if question is None or question.answer.done() else question

    def callback_for(self, server: str) -> OnElicitation:
        """Return the callback that waits for the answer to an elicitation of a server."""

        async def elicit(
            context: RequestContext,  # noqa: ARG001
            params: ElicitRequestParams,
        ) -> ElicitResult:
            return await self._wait(server, params)

        return elicit

    async def _wait(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        is_form = isinstance(params, ElicitRequestFormParams)
        question = Question(
            key=secrets.token_urlsafe(9),
            server=server,
            message=params.message,
            schema=params.requested_schema if is_form else None,
            url=None if is_form else params.url,
            answer=asyncio.get_running_loop().create_future(),
        )
        self._waiting[question.key] = question
        self._changed()
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                return await question.answer
        except TimeoutError:
            return ElicitResult(action="cancel")
        finally:
            del self._waiting[question.key]
            self._changed()

    @staticmethod
    def answer(question: Question, action: Answer, content: dict[str, Any] | None = None) -> None:
        """Answer a question that `find` returned."""
        question.answer.set_result(ElicitResult(action=action, content=content))
