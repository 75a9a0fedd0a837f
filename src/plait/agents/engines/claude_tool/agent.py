"""The engine `claude_tool`: the tool runner of Anthropic's SDK."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, cast
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from anthropic.lib.tools import BetaAsyncStreamingToolRunner, BetaAsyncToolRunner
from anthropic.resources.beta.messages import AsyncMessages
from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaMessage, BetaToolUseBlock
from typing_extensions import override

from plait._support.gather import gather_or_cancel
from plait._support.http import seconds_from_retry_after
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun
from plait.agents.anthropic_api import (
    NO_KEY,
    TRUNCATED,
    UNFINISHED,
    advice_for,
    anthropic_url,
    truncated_call,
    usage_from_anthropic,
)
from plait.agents.config import AgentMiddlewareConfig, ModelConfig
from plait.agents.engines.claude_tool.messages import message_from_anthropic, messages_to_anthropic
from plait.agents.engines.claude_tool.tools import FetchingTool, Results, definition_of, tool_result
from plait.agents.live_agent import Ending, LiveAgent
from plait.errors import AgentExecutionError, ConfigError
from plait.models.endpoints import certificates, is_loopback, origin_of
from plait.traces.messages.content import ToolUseContent

_Runner: TypeAlias = "BetaAsyncToolRunner[None] | BetaAsyncStreamingToolRunner[None]"


class ClaudeToolAgent(LiveAgent):
    """Runs agents on Anthropic's tool runner, with calls through the toolbox."""

    engine: ClassVar[str] = "claude_tool"

    @override
    async def drive(self, run: AgentRun) -> Ending:
        config = self.model_config
        endpoint = AnthropicEndpoint.of(config)
        results: Results = {}
        request = request_for(run, results, threads=endpoint.is_official)
        try:
            async with endpoint.client(config) as client:
                return await _Conversation(run, client, request, results).run()
        except FAILURES as error:
            redact = run.redact.also(endpoint.secrets)
            raise execution_error(
                error, base_url=endpoint.base_url, config=config, redact=redact
            ) from error


class _Conversation:
    """The turns of one run, and the messages so far."""

    def __init__(
        self, run: AgentRun, client: AsyncAnthropic, request: dict[str, Any], results: Results
    ) -> None:
        self._run, self._client = run, client
        self._request, self._results = request, results
        self._keeps_thread = request.get("thread") is not False
        self._messages: list[Any] = list(messages_to_anthropic(run.messages))
        self._turns_left = run.settings.max_turns

    async def run(self) -> Ending:
        """Run turns until the model answers, or the turn limit."""
        ending: Ending | None = None
        while ending is None:
            ending = await self._run_turns()
        return ending

    async def _run_turns(self) -> Ending | None:
        """Run turns with one runner; `None` if another one must continue.

        A runner warns of an unknown tool, and answers with its own text. So another one continues
        with our answer in the messages. It does, too, if the API stores no thread: a runner keeps
        answers as pydantic models, and serialises all of them in each turn.
        """
        runner = self._runner()
        try:
            # Not `async for`: at a `return` it would leave the generator to the event loop.
            while True:
                began = time.monotonic()
                item = await anext(runner, None)
                if item is None:
                    return "completed"
                message = item if isinstance(item, BetaMessage) else await item.get_final_message()
                self._turns_left -= 1
                calls = self._record(message, time.monotonic() - began)
                if not calls and message.stop_reason not in UNFINISHED:
                    return "completed"
                if calls:
                    await self._answer(calls)
                if not self._turns_left:
                    return "limit"
                is_unknown = any(call.name not in self._run.tools for call in calls)
                if is_unknown or not self._keeps_thread:
                    return None
        finally:
            await runner.close()

    def _runner(self) -> _Runner:
        make = cast("Callable[..., _Runner]", self._client.beta.messages.tool_runner)
        runner = make(messages=list(self._messages), **self._request)
        if not self._request["tools"]:
            # Some endpoints reject an empty list of tools.
            runner.set_messages_params(_without_tools)
        return runner

    def _record(self, message: BetaMessage, seconds: float) -> Sequence[BetaToolUseBlock]:
        """Record an answer, and return the calls to make."""
        stop = message.stop_reason
        if stop is None:
            raise AgentExecutionError("the answer of the model is incomplete: run it again")
        requested = [block for block in message.content if isinstance(block, BetaToolUseBlock)]
        calls = requested if stop == "tool_use" else []
        for call in calls:
            if not isinstance(call.input, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
                call.input = {}  # some endpoints send null for no arguments
        answer = message_from_anthropic(message)
        if not calls:  # the arguments of calls that are not made may be incomplete
            answer.content[:] = [
                block for block in answer.content if not isinstance(block, ToolUseContent)
            ]
        self._run.actual_model = message.model
        self._run.recorder.turn(
            answer,
            model=message.model,
            usage=usage_from_anthropic(message.usage),
            seconds=round(seconds, 6),
        )
        if requested and stop in TRUNCATED:
            raise AgentExecutionError(truncated_call(stop, self._request["max_tokens"]))
        content = [block.to_dict() for block in message.content]
        self._messages.append({"role": message.role, "content": content})
        return calls

    async def _answer(self, calls: Sequence[BetaToolUseBlock]) -> None:
        """Make the calls of a turn in parallel."""
        answers = await gather_or_cancel(
            self._run.call(call.id, call.name, cast("dict[str, Any]", call.input)) for call in calls
        )
        ids = [call.id for call in calls]
        results = [tool_result(*pair) for pair in zip(ids, answers, strict=True)]
        self._results.clear()
        self._results.update(zip((id(call.input) for call in calls), results, strict=True))
        self._messages.append({"role": "user", "content": results})


def _without_tools(params: Mapping[str, Any]) -> Any:
    return {name: value for name, value in params.items() if name != "tools"}


_UNSTREAMED_TOKENS: Final = 8192
"""Longer answers are streamed: proxies often close a connection that is idle for minutes, and the
SDK rejects such requests."""

_RESERVED: Final = ("messages", "max_iterations", "run_tools_eagerly")
"""Arguments that the run sets itself."""

_PARAMETERS: Final = frozenset(inspect.signature(AsyncMessages.tool_runner).parameters) - {"self"}

_FIXED_TEMPERATURE: Final = ("claude-fable-5", "claude-sonnet-5-5")
"""The models that accept only their default temperature."""


def request_for(run: AgentRun, results: Results, *, threads: bool) -> dict[str, Any]:
    """Build the arguments of the tool runner; `extra_kwargs` of the model win.

    `threads` says whether the endpoint can store the messages. Unknown names in `extra_kwargs` go
    into the body of requests.
    """
    config = run.model_config
    extra = dict(config.extra_kwargs or {})
    if taken := [name for name in _RESERVED if name in extra]:
        raise ConfigError(
            f"extra_kwargs must not set {', '.join(taken)}: the run sets them; the number of "
            "turns is AgentConfig.max_turns"
        )
    cache_control = _cache_control(config)
    body = {name: extra.pop(name) for name in list(extra) if name not in _PARAMETERS}
    body |= extra.pop("extra_body", None) or {}
    if config.temperature is not None and _sends_temperature(config, extra):
        body.setdefault("temperature", config.temperature)
    definitions = [definition_of(tool) for tool in run.tools.values()]
    if definitions and cache_control and run.settings.extra.get("cache_tools") is not False:
        # All tools up to the marked one are cached.
        definitions[-1]["cache_control"] = cache_control
    own_tools = [FetchingTool(definition, results) for definition in definitions]
    request: dict[str, Any] = {
        "model": config.model_name,
        "max_tokens": config.max_tokens,
        "tools": [*own_tools, *(extra.pop("tools", None) or ())],
    }
    if run.system_prompt and run.system_prompt.strip():
        cached = {} if cache_control is None else {"cache_control": cache_control}
        request["system"] = [{"type": "text", "text": run.system_prompt, **cached}]
    if not threads:
        request["thread"] = False
    request |= extra
    request.setdefault("stream", request["max_tokens"] > _UNSTREAMED_TOKENS)
    return {**request, "extra_body": body} if body else request


def _cache_control(config: ModelConfig) -> BetaCacheControlEphemeralParam | None:
    caching = (config.agent_middleware or AgentMiddlewareConfig()).prompt_caching
    if not caching.enabled:
        return None
    # Five minutes is the default of the API.
    return {"type": "ephemeral"} if caching.ttl == "5m" else {"type": "ephemeral", "ttl": "1h"}


def _sends_temperature(config: ModelConfig, extra: Mapping[str, Any]) -> bool:
    """Check whether to send the temperature: a default must not make the request fail."""
    if "temperature" in config.model_fields_set:
        return True
    fixed = (config.model_name or "").startswith(_FIXED_TEMPERATURE)
    return not fixed and extra.get("thinking") is None


OFFICIAL: Final = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicEndpoint:
    """A URL, with its credentials."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, model_config: ModelConfig, environment: Mapping[str, str] = os.environ
    ) -> AnthropicEndpoint:
        """Read the configuration, or else the environment."""
        base_url = anthropic_url(model_config, environment) or OFFICIAL
        configured = model_config.anthropic_api_key
        if configured is not None and configured.get_secret_value():
            return cls(base_url=base_url, api_key=configured.get_secret_value())
        if key := environment.get("ANTHROPIC_API_KEY"):
            return cls(base_url=base_url, api_key=key)
        if token := environment.get("ANTHROPIC_AUTH_TOKEN"):
            return cls(base_url=base_url, auth_token=token)
        if is_loopback(base_url):
            return cls(base_url=base_url, api_key=NO_KEY)
        raise AgentExecutionError(
            "there is no key for Anthropic's API: set ANTHROPIC_API_KEY, or anthropic_api_key of "
            "the ModelConfig"
        )

    @property
    def is_official(self) -> bool:
        """Whether it is Anthropic's own API, which stores threads of messages."""
        return urlsplit(self.base_url).hostname == urlsplit(OFFICIAL).hostname

    @property
    def secrets(self) -> list[str]:
        """The credentials, for redaction."""
        return [secret for secret in (self.api_key, self.auth_token) if secret]

    def client(self, config: ModelConfig) -> AsyncAnthropic:
        """Create a client; the caller closes it."""
        uses_proxies = not is_loopback(self.base_url)
        timeout = config.request_timeout
        client = AsyncAnthropic(
            api_key=self.api_key,
            auth_token=self.auth_token,
            base_url=self.base_url,
            max_retries=config.max_retries,
            http_client=DefaultAsyncHttpxClient(verify=certificates(), trust_env=uses_proxies),
        )
        return client if timeout is None else client.with_options(timeout=timeout)


FAILURES = (anthropic.APIError, httpx2.HTTPError)
"""The exceptions of the SDK, also in the middle of an answer."""


def execution_error(
    error: Exception, *, base_url: str, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Translate a failure of the API to an error with advice."""
    where = origin_of(base_url)
    if isinstance(error, anthropic.APIStatusError):
        fault = entries_of(entries_of(error.body).get("error"))
        reason = redact.excerpt(str(fault.get("message") or error.message))
        status = error.status_code
        is_temperature = status == 400 and "temperature" in reason
        advice = "set temperature=None" if is_temperature else advice_for(status, config)
        return AgentExecutionError(
            f"{where} answered {status}: {reason}; {advice}",
            status=status,
            retry_after=seconds_from_retry_after(error.response.headers.get("retry-after")),
        )
    if isinstance(error, anthropic.APITimeoutError):
        limit = config.request_timeout
        waited = "in time" if limit is None else f"in {limit:g} s"
        return AgentExecutionError(
            f"{where} did not answer {waited}: raise request_timeout, or look at the endpoint"
        )
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    reason = redact.excerpt(str(cause or error)) or type(cause or error).__name__
    if isinstance(error, anthropic.APIConnectionError):
        advice = "check anthropic_base_url and the network"
        return AgentExecutionError(f"{where} cannot be reached: {reason}; {advice}")
    return AgentExecutionError(f"the answer of {where} is incomplete: {reason}; run it again")
