"""The engine `claude_tool`: Anthropic's Messages API, through its SDK."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic
from anthropic.resources.beta.messages import AsyncMessages
from typing_extensions import override

from plait._support.causes import without_secrets
from plait._support.gather import gather_or_cancel
from plait._support.http import seconds_from_retry_after
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait._support.unicode import well_formed_data
from plait.agents.agent_run import AgentRun, CutAnswerError, with_retries
from plait.agents.anthropic_api import NO_KEY, advice_for, anthropic_url, usage_from_anthropic
from plait.agents.config import AgentMiddlewareConfig, ModelConfig
from plait.agents.engines.claude_tool.messages import (
    convert_from_anthropic_message,
    convert_to_anthropic,
    definition_of,
    tool_result,
)
from plait.agents.live_agent import Ending, LiveAgent
from plait.errors import AgentExecutionError, ConfigError
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.endpoints import WrongPageError, is_loopback, is_transient, origin_of, sdk_client
from plait.models.stop_reasons import UNFINISHED, cuts_calls, not_made
from plait.telemetry.agent_spans import describe_answer


class ClaudeToolAgent(LiveAgent):
    """Runs agents on Anthropic's API, with calls through the toolbox."""

    engine: ClassVar[str] = "claude_tool"

    @property
    @override
    def sent_temperature(self) -> float | None:
        """The configured one; a default is not sent to models that reject it."""
        config = self.model_config
        if "temperature" in config.model_fields_set:
            return config.temperature
        is_fixed = (config.model_name or "").startswith(_FIXED_TEMPERATURE)
        is_thinking = (config.extra_kwargs or {}).get("thinking") is not None
        return None if is_fixed or is_thinking else config.temperature

    @override
    async def drive(self, run: AgentRun) -> Ending:
        endpoint, request = AnthropicEndpoint.of(run.model_config), request_for(run)
        failure_of = partial(
            execution_error,
            base_url=endpoint.base_url,
            config=run.model_config,
            redact=run.redact.also(endpoint.secrets),
        )
        messages: list[Any] = list(convert_to_anthropic(run.messages))
        async with endpoint.client(run.model_config) as client:
            for _ in range(run.settings.max_turns):
                began = time.monotonic()
                message = await with_retries(
                    run,
                    lambda span: _answer(run, client, {**request, "messages": messages}, span),
                    failure_of,
                )
                stop: str = message["stop_reason"]
                calls = [block for block in message["content"] if block["type"] == "tool_use"]
                if stop != "tool_use" and not cuts_calls(stop):  # a refused answer has no calls
                    message["content"] = [one for one in message["content"] if one not in calls]
                    calls = []
                for call in calls:
                    call["input"] = arguments_from(call.get("input"))
                run.actual_model = message.get("model")
                run.recorder.turn(
                    convert_from_anthropic_message(message),
                    model=message.get("model"),
                    usage=usage_from_anthropic(message.get("usage")),
                    seconds=round(time.monotonic() - began, 6),
                    stop_reason=stop,
                )
                if message["content"]:
                    messages.append({"role": "assistant", "content": message["content"]})
                if not calls and stop not in UNFINISHED:
                    return "completed"
                if run.is_spent():
                    break
                if calls:
                    cut = not_made(stop, request["max_tokens"]) if cuts_calls(stop) else None
                    results = await gather_or_cancel(_result(run, call, cut) for call in calls)
                    messages.append({"role": "user", "content": results})
        return "limit"


async def _answer(
    run: AgentRun, client: AsyncAnthropic, request: dict[str, Any], span: dict[str, Any] | None
) -> dict[str, Any]:
    """Request an answer; as plain data, because the SDK's objects reject broken arguments."""
    create = cast("Callable[..., Awaitable[Any]]", client.beta.messages.create)
    answer = await create(**request)
    if not request["stream"]:
        message: dict[str, Any] = answer.to_dict(warnings=False)
    else:
        async with contextlib.aclosing(aiter(answer)) as events:
            on_part = run.recorder.delta if run.settings.stream else None
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


async def _result(run: AgentRun, call: dict[str, Any], cut: str | None) -> dict[str, Any]:
    """Make a call, unless its answer was `cut` or its arguments are broken; return its result."""
    if (fault := cut or fault_of(call["input"])) is not None:
        answer = run.reject_call(call["id"], call["name"], fault)
    else:
        answer = await run.call(call["id"], call["name"], call["input"])
    return {**tool_result(call["id"], answer)}


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
    caching = (config.agent_middleware or AgentMiddlewareConfig()).prompt_caching
    # Five minutes is the default of the API.
    ttl = {} if caching.ttl == "5m" else {"ttl": caching.ttl}
    cached: dict[str, Any] = {"cache_control": {"type": "ephemeral", **ttl}}
    if not caching.enabled:
        cached = {}
    body = {name: extra.pop(name) for name in list(extra) if name not in _PARAMETERS}
    body |= extra.pop("extra_body", None) or {}
    if run.temperature is not None:
        body.setdefault("temperature", run.temperature)
    definitions: list[Any] = [
        definition_of(tool.name, tool.description, tool.input_schema) for tool in run.tools.values()
    ]
    if definitions and run.settings.extra.get("cache_tools") is not False:
        definitions[-1] |= cached  # all tools up to the marked one are cached
    request: dict[str, Any] = {"model": config.model_name, "max_tokens": config.max_tokens}
    # Some endpoints reject an empty list of tools.
    if tools := [*definitions, *(extra.pop("tools", None) or ())]:
        request["tools"] = tools
    if run.system_prompt and run.system_prompt.strip():
        request["system"] = [{"type": "text", "text": run.system_prompt, **cached}]
    request |= extra
    is_long = request["max_tokens"] > _UNSTREAMED_TOKENS
    request.setdefault("stream", is_long or run.settings.stream)
    return {**request, "extra_body": body} if body else request


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
            http_client=sdk_client(self.base_url),
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


OnPart = Callable[..., None]
"""Takes each part of the answer: `text`, `thinking` or `call`, its text, and the call."""

_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""The field of a block that a delta extends, by the type of the delta."""


async def message_from_stream(
    events: AsyncIterable[Any], on_part: OnPart | None = None
) -> dict[str, Any]:
    """Read a stream to its end; the stop reason is missing if the stream was cut.

    The arguments of calls are the texts that the model wrote, which may not be JSON.
    """
    message: dict[str, Any] = {"content": [], "usage": {}}
    blocks: dict[int, dict[str, Any]] = {}
    async for event in events:
        data: dict[str, Any] = event.to_dict(warnings=False)
        match data.get("type"):
            case "message_start":
                message |= {**data["message"], "content": []}
            case "content_block_start":
                blocks[data["index"]] = data["content_block"]
            case "content_block_delta":
                block, delta = blocks[data["index"]], data["delta"]
                kind = delta.get("type")
                if kind == "input_json_delta":
                    block["json"] = block.get("json", "") + delta["partial_json"]
                    if on_part is not None and block["type"] == "tool_use":
                        part = delta["partial_json"]
                        on_part("call", part, call_id=block["id"], name=block["name"])
                elif (name := _TEXTS.get(str(kind))) is not None:
                    block[name] = (block.get(name) or "") + delta[name]
                    if on_part is not None and name != "signature":
                        on_part(name, delta[name])
                elif kind == "citations_delta":
                    block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
                elif kind == "compaction_delta":
                    block["content"] = (block.get("content") or "") + (delta.get("content") or "")
            case "message_delta":
                message |= _known(data["delta"])
                message["usage"] = {**message["usage"], **_known(data.get("usage") or {})}
            case _:
                pass
    for _, block in sorted(blocks.items()):
        written = {"input": block.pop("json")} if "json" in block else {}
        message["content"].append({**block, **written})
    return message


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
