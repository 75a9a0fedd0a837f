"""The agent that asks Claude through the tool runner of Anthropic's SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from anthropic import AsyncAnthropic
from anthropic.lib.streaming import BetaAsyncMessageStream
from anthropic.lib.tools import BetaAsyncStreamingToolRunner, BetaAsyncToolRunner
from anthropic.types.beta import BetaMessage, BetaToolUseBlock

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_tool.endpoint import AnthropicEndpoint
from plait.agents.engines.claude_tool.failures import FAILURES, execution_error
from plait.agents.engines.claude_tool.messages import (
    message_from_anthropic,
    messages_to_anthropic,
    usage_from_anthropic,
)
from plait.agents.engines.claude_tool.request import request_for
from plait.agents.engines.claude_tool.tools import Results, make_calls
from plait.agents.live_agent import Ending, LiveAgent
from plait.errors import AgentExecutionError
from plait.traces.messages.content import Content, ToolUseContent
from plait.traces.messages.message import Message

_Runner: TypeAlias = "BetaAsyncToolRunner[None] | BetaAsyncStreamingToolRunner[None]"

_UNFINISHED: Final = ("pause_turn", "compaction")
"""Reasons to stop after which the model goes on when it is asked again."""

_FULL: Final = ("max_tokens", "model_context_window_exceeded")


class ClaudeToolAgent(LiveAgent):
    """Runs agents on Anthropic's tool runner; every call goes through the toolbox."""

    engine: ClassVar[str] = "claude_tool"

    async def drive(self, run: AgentRun) -> Ending:
        """Ask the model, and make its calls, until there is an answer.

        Raises:
            AgentExecutionError: The API cannot be used.
            ConfigError: A developer must act.
        """
        config = self.model_config
        endpoint = AnthropicEndpoint.of(config)
        results = Results()
        request = request_for(run, results, threads=endpoint.is_official)
        try:
            async with endpoint.client(
                max_retries=config.max_retries, request_timeout=config.request_timeout
            ) as client:
                return await _Conversation(run, client, request, results).hold()
        except FAILURES as error:
            redact = run.redact.also(endpoint.secrets)
            raise execution_error(
                error, base_url=endpoint.base_url, config=config, redact=redact
            ) from error


class _Conversation:
    """One run of the model: its turns, and all that was said so far."""

    def __init__(
        self, run: AgentRun, client: AsyncAnthropic, request: dict[str, Any], results: Results
    ) -> None:
        self._run = run
        self._client = client
        self._request = request
        self._results = results
        self._keeps_thread = request.get("thread") is not False
        self._said: list[Any] = list(messages_to_anthropic(run.messages))
        self._turns_left = run.settings.max_turns

    async def hold(self) -> Ending:
        """Talk until the model is done, or its turns are used up."""
        ending: Ending | None = None
        while ending is None:
            ending = await self._talk()
        return ending

    async def _talk(self) -> Ending | None:
        """Talk through one runner; `None` if another has to go on.

        A runner warns of a tool that it does not know, and answers in its own words. So another
        one takes over, with our answer in what was said. Another one does, too, where the API
        keeps no thread: a runner holds answers as models, and writes all of them anew each turn.
        """
        runner = self._runner()
        try:
            # Not `async for`: what that leaves behind at a `return`, the loop has to clean up.
            while True:
                began = time.monotonic()
                item = await anext(runner, None)
                if item is None:
                    return "completed"
                message = await _whole(item)
                self._turns_left -= 1
                calls = self._heard(message, time.monotonic() - began)
                if not calls and message.stop_reason not in _UNFINISHED:
                    return "completed"
                if calls:
                    await self._answer(calls)
                if not self._turns_left:
                    return "limit"
                if not self._keeps_thread or self._asks_for_unknown(calls):
                    return None
        finally:
            await runner.close()

    def _asks_for_unknown(self, calls: Sequence[BetaToolUseBlock]) -> bool:
        return any(call.name not in self._run.tools for call in calls)

    def _runner(self) -> _Runner:
        make = cast("Callable[..., _Runner]", self._client.beta.messages.tool_runner)
        runner = make(messages=list(self._said), **self._request)
        if not self._request["tools"]:
            # An empty list of tools is refused by some endpoints.
            runner.set_messages_params(_without_tools)
        return runner

    def _heard(self, message: BetaMessage, seconds: float) -> Sequence[BetaToolUseBlock]:
        """Record an answer, and return the calls that are to be made."""
        if message.stop_reason is None:
            raise AgentExecutionError("the answer of the model was cut off: run it again")
        wishes = [block for block in message.content if isinstance(block, BetaToolUseBlock)]
        calls = wishes if message.stop_reason == "tool_use" else []
        for call in calls:
            if not isinstance(call.input, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
                call.input = {}  # some endpoints send null for no arguments
        said = message_from_anthropic(message)
        run = self._run
        run.actual_model = message.model
        run.recorder.turn(
            said if calls else _without_calls(said),
            model=message.model,
            usage=usage_from_anthropic(message.usage),
            seconds=round(seconds, 6),
        )
        if wishes and message.stop_reason in _FULL:
            raise AgentExecutionError(
                f"the answer of the model ended in the middle of a call ({message.stop_reason}): "
                f"raise max_tokens, which is {self._request['max_tokens']}, or give it less to read"
            )
        written = [block.to_dict() for block in message.content]
        self._said.append({"role": message.role, "content": written})
        return calls

    async def _answer(self, calls: Sequence[BetaToolUseBlock]) -> None:
        results = await make_calls(self._run, calls)
        self._results.keep(calls, results)
        self._said.append({"role": "user", "content": results})


def _without_tools(params: Mapping[str, Any]) -> Any:
    return {name: value for name, value in params.items() if name != "tools"}


async def _whole(item: BetaMessage | BetaAsyncMessageStream[Any]) -> BetaMessage:
    return item if isinstance(item, BetaMessage) else await item.get_final_message()


def _without_calls(message: Message) -> Message:
    """Leave out wishes that are not fulfilled: the arguments may be cut off."""
    kept: list[Content] = [
        block for block in message.content if not isinstance(block, ToolUseContent)
    ]
    return Message(message.role, kept)
