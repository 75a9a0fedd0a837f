"""Sampling: requests to the model of the connected client, in both protocol eras.

In the older era the server sends a request during the call. In the newer era the call ends with
an input-required result, and the client repeats it with its model's answer. Answers are kept in
the store, so that any server of the same store can continue.
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
"""How long answers of unfinished calls are kept."""


class SamplingNeededError(Exception):
    """The call can continue after the client has answered a sampling request."""

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
    """Return whether the client of this request offers sampling."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        return False
    return _is_modern(ctx) or ctx.session.can_send_request


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def start_round(params: types.CallToolRequestParams, store: Storage) -> Round:
    """Return the client's answers of this round and of earlier ones."""
    if params.request_state is None:
        return Round()
    run_id = params.request_state
    for key, answer in (params.input_responses or {}).items():
        await store.save_answer(run_id, key, answer.model_dump(mode="json", by_alias=True))
    return Round(run_id=run_id, answers=await store.get_answers(run_id))


async def delete_answers(finished: Round, store: Storage) -> None:
    """Delete the answers of a finished call, and expired ones."""
    if finished.answers:
        before = (datetime.now(UTC) - _KEPT).isoformat(timespec="microseconds")
        await store.delete_answers(finished.run_id, before=before)


class ClientSampler:
    """Sends sampling requests to the client of one request."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], now: Round) -> None:
        self._ctx = ctx
        self._round = now

    async def sample(self, prompt: Prompt) -> Completion:
        """Return the client's answer to a prompt.

        Raises:
            SamplingNeededError: The call has to end with a request for the answer.
            BackendError: The client refused, or its answer is not text.
        """
        if not _is_modern(self._ctx):
            return await self._request(prompt)
        key = _key_of(prompt)
        answer = self._round.answers.get(key)
        if answer is None:
            raise SamplingNeededError(key, prompt)
        try:
            return _completion(types.CreateMessageResult.model_validate(answer))
        except ValidationError:
            raise BackendError("the client answered with no message", backend="sampling") from None

    async def _request(self, prompt: Prompt) -> Completion:
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
    """Return the sampling request for a prompt."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt.user))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[message],
            system_prompt=prompt.system,
            temperature=prompt.temperature,
            max_tokens=prompt.max_tokens,
        )
    )


def input_required(needed: SamplingNeededError, now: Round) -> types.InputRequiredResult:
    """Return the result that asks the client for an answer."""
    return types.InputRequiredResult(
        input_requests={needed.key: request_for(needed.prompt)}, request_state=now.run_id
    )


def _key_of(prompt: Prompt) -> str:
    """Return a key by which the answer to a prompt is found again."""
    text = "\0".join((prompt.pipe, prompt.system, prompt.user))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _completion(result: types.CreateMessageResult) -> Completion:
    content = result.content
    if not isinstance(content, types.TextContent):
        raise BackendError("the client answered with something else than text", backend="sampling")
    return Completion(text=content.text, model=result.model)
