"""The engine `claude_tool`: Anthropic's Messages API, through its SDK."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic
from anthropic.resources.beta.messages import AsyncMessages
from anthropic.types.beta import BetaCacheControlEphemeralParam
from typing_extensions import override

from plait._support.causes import without_secrets
from plait._support.gather import gather_or_cancel
from plait._support.http import seconds_from_retry_after
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait._support.unicode import well_formed_data
from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.anthropic_api import (
    NO_KEY,
    advice_for,
    anthropic_url,
    usage_from_anthropic,
)
from plait.agents.config import AgentMiddlewareConfig, ModelConfig
from plait.agents.engines.claude_tool.messages import message_from_anthropic, messages_to_anthropic
from plait.agents.engines.claude_tool.stream import message_from_stream
from plait.agents.engines.claude_tool.tools import definition_of, tool_result
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_retry import CutAnswerError, is_transient, with_retries
from plait.agents.provider_http import WrongPageError, model_client
from plait.errors import AgentExecutionError, ConfigError
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.endpoints import is_loopback, origin_of
from plait.models.stop_reasons import UNFINISHED, cuts_calls, not_made
from plait.traces.agent_spans import describe_answer


class ClaudeToolAgent(LiveAgent):
    """Runs agents on Anthropic's API, with calls through the toolbox."""

    engine: ClassVar[str] = "claude_tool"

    @property
    @override
    def sent_temperature(self) -> float | None:
        """The configured one, where the model accepts it."""
        return _temperature(self.model_config)

    @override
    async def drive(self, run: AgentRun) -> Ending:
        config = self.model_config
        endpoint = AnthropicEndpoint.of(config)
        request = request_for(run)
        async with endpoint.client(config) as client:
            return await _Conversation(run, client, request, endpoint).run()


class _Conversation:
    """The turns of one run, and the messages so far."""

    def __init__(
        self,
        run: AgentRun,
        client: AsyncAnthropic,
        request: dict[str, Any],
        endpoint: AnthropicEndpoint,
    ) -> None:
        self._run = run
        self._create = cast("Callable[..., Awaitable[Any]]", client.beta.messages.create)
        self._request = request
        self._failure_of = partial(
            execution_error,
            base_url=endpoint.base_url,
            config=run.model_config,
            redact=run.redact.also(endpoint.secrets),
        )
        self._messages: list[Any] = list(messages_to_anthropic(run.messages))

    async def run(self) -> Ending:
        """Run turns until the model answers, or the turn limit."""
        for _ in range(self._run.settings.max_turns):
            began = time.monotonic()
            message = await with_retries(self._run, self._answer, self._failure_of)
            calls = self._record(message, time.monotonic() - began)
            stop: str = message["stop_reason"]
            if not calls and stop not in UNFINISHED:
                return "completed"
            if self._run.is_spent():
                break
            if calls:
                await self._call(calls, stop)
        return "limit"

    async def _answer(self, span: dict[str, Any] | None) -> dict[str, Any]:
        """Request an answer; as plain data, because the SDK's objects reject broken arguments."""
        answer = await self._create(messages=self._messages, **self._request)
        if not self._request["stream"]:
            message: dict[str, Any] = answer.to_dict(warnings=False)
        else:
            async with contextlib.aclosing(aiter(answer)) as events:
                on_part = self._run.recorder.delta if self._run.settings.stream else None
                message = await message_from_stream(events, on_part)
        if message.get("stop_reason") is None:
            raise CutAnswerError("it ended without a reason to stop")
        describe_answer(
            span,
            response_id=message.get("id"),
            model=message.get("model"),
            stop_reason=message.get("stop_reason"),
            usage=usage_from_anthropic(message.get("usage")),
        )
        return well_formed_data(message)

    def _record(self, message: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        """Record an answer, and return the calls to answer."""
        stop: str = message["stop_reason"]
        content: list[dict[str, Any]] = message["content"]
        has_calls = stop == "tool_use" or cuts_calls(stop)
        calls = [block for block in content if has_calls and block["type"] == "tool_use"]
        if not calls:
            content = [block for block in content if block["type"] != "tool_use"]
        for call in calls:
            call["input"] = arguments_from(call.get("input"))
        self._run.actual_model = message.get("model")
        self._run.recorder.turn(
            message_from_anthropic({**message, "content": content}),
            model=message.get("model"),
            usage=usage_from_anthropic(message.get("usage")),
            seconds=round(seconds, 6),
            stop_reason=stop,
        )
        if content:
            self._messages.append({"role": "assistant", "content": content})
        return calls

    async def _call(self, calls: Sequence[dict[str, Any]], stop: str) -> None:
        """Make the calls of a turn in parallel; those of an answer that was cut are rejected."""
        cut = None
        if cuts_calls(stop):
            cut = not_made(stop, self._request["max_tokens"])

        async def answer_to(call: dict[str, Any]) -> ToolAnswer:
            call_id, name, arguments = call["id"], call["name"], call["input"]
            if (fault := cut or fault_of(arguments)) is not None:
                return self._run.reject_call(call_id, name, fault)
            return await self._run.call(call_id, name, arguments)

        answers = await gather_or_cancel(map(answer_to, calls))
        ids = [call["id"] for call in calls]
        results = [tool_result(*pair) for pair in zip(ids, answers, strict=True)]
        self._messages.append({"role": "user", "content": results})


_UNSTREAMED_TOKENS: Final = 8192
"""Longer answers are streamed: proxies often close a connection that is idle for minutes, and the
SDK rejects such requests."""

_RESERVED: Final = ("messages", "max_iterations", "run_tools_eagerly")
"""Arguments that the run sets itself."""

_PARAMETERS: Final = frozenset(inspect.signature(AsyncMessages.create).parameters) - {"self"}

_FIXED_TEMPERATURE: Final = ("claude-fable-5", "claude-sonnet-5-5")
"""The models that accept only their default temperature."""


def request_for(run: AgentRun) -> dict[str, Any]:
    """Build the arguments of `messages.create`; `extra_kwargs` of the model win.

    Unknown names in `extra_kwargs` go into the body of requests.
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
    if run.temperature is not None:
        body.setdefault("temperature", run.temperature)
    definitions = [definition_of(tool) for tool in run.tools.values()]
    if definitions and cache_control and run.settings.extra.get("cache_tools") is not False:
        # All tools up to the marked one are cached.
        definitions[-1]["cache_control"] = cache_control
    request: dict[str, Any] = {"model": config.model_name, "max_tokens": config.max_tokens}
    # Some endpoints reject an empty list of tools.
    if tools := [*definitions, *(extra.pop("tools", None) or ())]:
        request["tools"] = tools
    if run.system_prompt and run.system_prompt.strip():
        cached = {} if cache_control is None else {"cache_control": cache_control}
        request["system"] = [{"type": "text", "text": run.system_prompt, **cached}]
    request |= extra
    is_long = request["max_tokens"] > _UNSTREAMED_TOKENS
    request.setdefault("stream", is_long or run.settings.stream)
    return {**request, "extra_body": body} if body else request


def _cache_control(config: ModelConfig) -> BetaCacheControlEphemeralParam | None:
    caching = (config.agent_middleware or AgentMiddlewareConfig()).prompt_caching
    if not caching.enabled:
        return None
    # Five minutes is the default of the API.
    return {"type": "ephemeral"} if caching.ttl == "5m" else {"type": "ephemeral", "ttl": "1h"}


def _temperature(config: ModelConfig) -> float | None:
    """Return the temperature to send: a default must not make the request fail."""
    if "temperature" in config.model_fields_set:
        return config.temperature
    is_fixed = (config.model_name or "").startswith(_FIXED_TEMPERATURE)
    is_thinking = (config.extra_kwargs or {}).get("thinking") is not None
    return None if is_fixed or is_thinking else config.temperature


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
    def secrets(self) -> list[str]:
        """The credentials, for redaction."""
        return [secret for secret in (self.api_key, self.auth_token) if secret]

    def client(self, config: ModelConfig) -> AsyncAnthropic:
        """Create a client; the caller closes it."""
        timeout = config.request_timeout
        client = AsyncAnthropic(
            api_key=self.api_key,
            auth_token=self.auth_token,
            base_url=self.base_url,
            max_retries=0,  # the run itself retries, also in the middle of an answer
            http_client=model_client(self.base_url),
        )
        return client if timeout is None else client.with_options(timeout=timeout)


_STATUS_OF: Final = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
}
"""The HTTP status of an error in the middle of a stream, which has begun with 200."""


def execution_error(
    error: Exception, *, base_url: str, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Translate a failure of the API to an error with advice, without secrets."""
    failure = _translated(error, origin_of(base_url), config, redact)
    failure.__cause__ = error
    return cast("AgentExecutionError", without_secrets(failure, redact))


def _translated(
    error: Exception, where: str, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    if isinstance(page := error.__cause__, WrongPageError):
        return AgentExecutionError(f"{redact(str(page))} (anthropic_base_url)", status=page.status)
    if isinstance(error, anthropic.APIStatusError):
        fault = entries_of(entries_of(error.body).get("error"))
        reason = redact.excerpt(str(fault.get("message") or error.message))
        status = error.status_code
        if status < 400:
            status = _STATUS_OF.get(str(fault.get("type")), 500)
        is_temperature = status == 400 and "temperature" in reason
        advice = "set temperature=None" if is_temperature else advice_for(status, config)
        return AgentExecutionError(
            f"{where} answered {status}: {reason}; {advice}",
            status=status,
            retry_after=seconds_from_retry_after(error.response.headers.get("retry-after")),
            retryable=is_transient(status),
            retry="always" if is_transient(status) else "never",
        )
    if isinstance(error, anthropic.APITimeoutError):
        limit = config.request_timeout
        waited = "in time" if limit is None else f"in {limit:g} s"
        text = f"{where} did not answer {waited}: raise request_timeout, or look at the endpoint"
        return AgentExecutionError(text, retryable=True, retry="always")
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    reason = redact.excerpt(str(cause or error)) or type(cause or error).__name__
    if isinstance(error, anthropic.APIConnectionError):
        text = f"{where} cannot be reached: {reason}; check anthropic_base_url and the network"
        return AgentExecutionError(text, retryable=True, retry="always")
    if isinstance(error, CutAnswerError | httpx2.HTTPError):
        text = f"the answer of {where} is incomplete: {reason}; run it again"
        return AgentExecutionError(text, retryable=True, retry="always")
    return AgentExecutionError(f"claude_tool: {type(error).__name__}: {reason}")
