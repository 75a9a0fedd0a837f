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
from typing import Any, Self

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

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__(result.request_state)
        self.result = result
        """Asks the client for the answer."""


def offers_sampling(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client of this request offers sampling."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        return False
    return _is_modern(ctx) or ctx.session.can_send_request


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSampler:
    """Sends sampling requests to the client of one request, which is a round of a call."""

    ctx: ServerRequestContext[Any, Any]
    run_id: str = field(default_factory=new_id)
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The client's answers of this round and of earlier ones."""

    @classmethod
    async def start(
        cls,
        ctx: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        store: Storage,
    ) -> Self:
        """Begin a call, or its next round."""
        run_id = params.request_state
        if run_id is None:
            return cls(ctx=ctx)
        for key, answer in (params.input_responses or {}).items():
            await store.save_answer(run_id, key, answer.model_dump(mode="json", by_alias=True))
        return cls(ctx=ctx, run_id=run_id, answers=await store.get_answers(run_id))

    async def finish(self, store: Storage) -> None:
        """Delete the answers of a finished call, and expired ones."""
        if self.answers:
            before = (datetime.now(UTC) - _KEPT).isoformat(timespec="microseconds")
            await store.delete_answers(self.run_id, before=before)

    async def sample(self, prompt: Prompt) -> Completion:
        """Return the client's answer to a prompt.

        Raises:
            SamplingNeededError: The call has to end with a request for the answer.
            BackendError: The client refused, or its answer is not text.
        """
        if not _is_modern(self.ctx):
            return await self._request(prompt)
        # The answer to a prompt is found again by this key.
        text = "\0".join((prompt.pipe, prompt.system, prompt.user))
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        answer = self.answers.get(key)
        if answer is None:
            requests: Any = {key: request_for(prompt)}
            raise SamplingNeededError(
                types.InputRequiredResult(input_requests=requests, request_state=self.run_id)
            )
        try:
            return _completion(types.CreateMessageResult.model_validate(answer))
        except ValidationError:
            raise BackendError("the client answered with no message", backend="sampling") from None

    async def _request(self, prompt: Prompt) -> Completion:
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        try:
            result = await self.ctx.session.send_request(
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


def _completion(result: types.CreateMessageResult) -> Completion:
    content = result.content
    if not isinstance(content, types.TextContent):
        raise BackendError("the client answered with something else than text", backend="sampling")
    return Completion(text=content.text, model=result.model)
