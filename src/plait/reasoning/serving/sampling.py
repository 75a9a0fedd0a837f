"""Asking the model of the connected client, in both eras of the protocol.

A client of the older era is asked in the middle of the call. One of the newer era gets the
question as the answer of its call, and makes the call again with what its model said; what it
said so far is kept in the store, so that any server of the same store can go on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from plait.errors import BackendError
from plait.reasoning.backends.port import Completion, Prompt
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import new_id

_KEPT = timedelta(days=1)
"""How long answers of calls that were never finished are kept."""


class SamplingNeededError(Exception):
    """The call can go on when the client has answered."""

    def __init__(self, key: str, prompt: Prompt) -> None:
        super().__init__(key)
        self.key = key
        self.prompt = prompt


@dataclass(slots=True)
class Round:
    """One round of a call that may need several."""

    run_id: str = field(default_factory=new_id)
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


def offers_sampling(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Say whether the client of this request can be asked."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        return False
    return _is_modern(ctx) or ctx.session.can_send_request


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def start_round(params: types.CallToolRequestParams, store: Storage) -> Round:
    """Take up what the client answered in this round, and what it answered before."""
    if params.request_state is None:
        return Round()
    run_id = params.request_state
    for key, answer in (params.input_responses or {}).items():
        await store.save_answer(run_id, key, answer.model_dump(mode="json", by_alias=True))
    return Round(run_id=run_id, answers=await store.get_answers(run_id))


async def forget(done: Round, store: Storage) -> None:
    """Throw away the answers of a call that is finished, and old ones nobody came back for."""
    if done.answers:
        before = (datetime.now(UTC) - _KEPT).isoformat(timespec="microseconds")
        await store.delete_answers(done.run_id, before=before)


class ClientSampler:
    """Asks the client of one request; `sample` is what `SamplingCompleter` takes."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], now: Round) -> None:
        self._ctx = ctx
        self._round = now

    async def sample(self, prompt: Prompt) -> Completion:
        """Ask, or take the answer that is there.

        Raises:
            AnswerNeededError: The client has to be asked by the answer to its call.
            BackendError: The client refused, or said something that is no text.
        """
        if not _is_modern(self._ctx):
            return await self._ask(prompt)
        key = _key_of(prompt)
        answer = self._round.answers.get(key)
        if answer is None:
            raise SamplingNeededError(key, prompt)
        try:
            return _completion(types.CreateMessageResult.model_validate(answer))
        except ValidationError:
            raise BackendError("the client answered with no message", backend="sampling") from None

    async def _ask(self, prompt: Prompt) -> Completion:
        related = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        try:
            result = await self._ctx.session.send_request(
                request_for(prompt), types.CreateMessageResult, metadata=related
            )
        except (MCPError, ValidationError) as error:
            raise BackendError(
                f"the client did not answer: {type(error).__name__}", backend="sampling"
            ) from error
        return _completion(result)


def request_for(prompt: Prompt) -> types.CreateMessageRequest:
    """Write a prompt as the protocol has it."""
    said = types.SamplingMessage(role="user", content=types.TextContent(text=prompt.user))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[said],
            system_prompt=prompt.system,
            temperature=prompt.temperature,
            max_tokens=prompt.max_tokens,
        )
    )


def input_required(needed: SamplingNeededError, now: Round) -> types.InputRequiredResult:
    """Answer a call with the question that has to be answered first."""
    return types.InputRequiredResult(
        input_requests={needed.key: request_for(needed.prompt)}, request_state=now.run_id
    )


def _key_of(prompt: Prompt) -> str:
    """Name a question by what it asks, so that its answer is found again."""
    said = "\0".join((prompt.pipe, prompt.system, prompt.user))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _completion(result: types.CreateMessageResult) -> Completion:
    content = result.content
    if not isinstance(content, types.TextContent):
        raise BackendError("the client answered with something else than text", backend="sampling")
    return Completion(text=content.text, model=result.model)
