"""The engine `claude_tool`: Anthropic's Messages API, through its SDK."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, cast

from anthropic import AsyncAnthropic
from anthropic.resources.beta.messages import AsyncMessages
from typing_extensions import override

from plait._support.gather import gather_or_cancel
from plait._support.sanitize import well_formed_data
from plait.agents.agent_run import AgentRun, with_retries
from plait.agents.anthropic_api import NO_KEY, anthropic_url, usage_from_anthropic
from plait.agents.config import AgentMiddlewareConfig, ModelConfig
from plait.agents.engines.claude_tool.messages import (
    convert_from_anthropic_message,
    convert_to_anthropic,
    definition_of,
    tool_result,
)
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_failures import CutAnswerError
from plait.errors import AgentExecutionError, ConfigError
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.endpoints import is_loopback, sdk_client
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
        request = request_for(run)
        messages: list[Any] = list(convert_to_anthropic(run.messages))
        async with anthropic_client(run.model_config) as client:
            for _ in range(run.turns_left):
                began = time.monotonic()
                message = await with_retries(
                    run,
                    lambda span: _answer(run, client, {**request, "messages": messages}, span),
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


ClaudeToolAgentAdapter = ClaudeToolAgent
"""The same class, under the name of its original."""


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


def anthropic_client(
    config: ModelConfig, environment: Mapping[str, str] = os.environ
) -> AsyncAnthropic:
    """Create a client from the configuration, or else the environment; the caller closes it."""
    base_url = anthropic_url(config, environment) or OFFICIAL
    configured, token = config.anthropic_api_key, None
    key = None if configured is None else configured.get_secret_value()
    key = key or environment.get("ANTHROPIC_API_KEY") or None
    if key is None and (token := environment.get("ANTHROPIC_AUTH_TOKEN") or None) is None:
        if not is_loopback(base_url):
            raise AgentExecutionError(
                "there is no key for Anthropic's API: set ANTHROPIC_API_KEY, or anthropic_api_key "
                "of the ModelConfig"
            )
        key = NO_KEY
    client = AsyncAnthropic(
        api_key=key,
        auth_token=token,
        base_url=base_url,
        max_retries=0,  # the run itself retries, also in the middle of an answer
        http_client=sdk_client(base_url),
    )
    timeout = config.request_timeout
    return client if timeout is None else client.with_options(timeout=timeout)


OFFICIAL: Final = "https://api.anthropic.com"

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
