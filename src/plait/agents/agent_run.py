"""One run of an engine: its tools, calls and answers, its trace, and its requests' retries."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Final, TypeVar, cast

import mcp_types as types
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from plait._support.redact import Redactor
from plait._support.sanitize import sanitize_text, well_formed
from plait.agents.config import AgentConfig, ModelConfig, ModelRetryConfig, cost_function
from plait.agents.model_failures import endpoint_of, failure_of_model, provider_and_name
from plait.agents.program_tools import PROGRAM, StaticTool, ToolLike, listed_tool, named_tools
from plait.client.calls.approval import OnApproval
from plait.client.calls.outcome import ToolResult, content_for_model
from plait.client.calls.pipeline import run_identity_of
from plait.client.calls.result_budget import OWN_SERVER, READ_MORE
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema
from plait.client.toolbox import Toolbox
from plait.errors import (
    AgentServerConnectError,
    AgentServerTimeoutError,
    ConfigError,
    ParseError,
    PlaitError,
)
from plait.models.stop_reasons import stop_kind
from plait.telemetry.agent_spans import chat_span
from plait.telemetry.spans import add_event, is_traced
from plait.traces.events import Status
from plait.traces.messages.from_mcp import line_from_mcp, text_from_mcp
from plait.traces.messages.message import Message, Role, UsageMetadata, extract_system_prompt
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace

logger = logging.getLogger("plait.agents")


class AgentRun:
    """The state of one run; engines call tools through `call`.

    An engine passes each answer of the model to `recorder.turn` before it calls the tools that the
    answer requests, and sets `session_id`, `usage`, `actual_model` and `final_response` as soon as
    it knows them: a run may be stopped at any time.
    """

    def __init__(
        self,
        model_config: ModelConfig,
        settings: AgentConfig,
        messages: Sequence[Message],
        recorder: Recorder,
        redact: Redactor,
        toolbox: Toolbox | None,
    ) -> None:
        self.model_config = model_config
        self.settings = settings
        self.recorder = recorder
        self.redact = redact
        """Hides the secrets of the run in texts."""
        self.toolbox = toolbox
        # A text that cannot be encoded would end the first request.
        messages = [message.well_formed() for message in messages]
        self.messages = [message for message in messages if message.role is not Role.SYSTEM]
        """The conversation so far, without system messages: see `system_prompt`."""
        prompt = (
            extract_system_prompt(messages) or settings.system_prompt or model_config.system_prompt
        )
        self.output = None if settings.output_type is None else OutputType(settings.output_type)
        """The form of the answer, if the run has one; the model reads it after the prompt."""
        if self.output is not None:
            prompt = "\n\n".join(filter(None, (prompt, self.output.rule)))
        self._retries_left, self._continued = settings.output_retries, 0
        self.system_prompt: str | None = None if prompt is None else well_formed(prompt)
        self.tools: dict[str, RunTool] = {}
        """The tools of the run, by their names for the model."""
        self.temperature: float | None = model_config.temperature
        """The temperature as the engine sends it; `None` if it sends none."""
        self.session_id: str | None = None
        self.usage: UsageMetadata | None = None
        """The usage of the run; if unset, the sum over its turns."""
        self.actual_model: str | None = None
        self.final_response: str | None = None
        """The answer; if unset, the last text of the model."""
        self.ends_at: float | None = None
        """The deadline, on the monotonic clock."""
        self.cost_of = cost_function(settings.prices, provider_and_name(model_config)[0])
        """Computes the cost of a usage of a model."""
        recorder.cost_of = self.cost_of
        self._reader = READ_MORE
        self._context: dict[str, Any] = {
            "run_id": recorder.run,
            "configurable": dict(settings.extra.get("configurable") or {}),
        }

    async def call(
        self,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_approval: OnApproval | None = None,
    ) -> ToolAnswer:
        """Call a tool for the model, and record the call; failures become answers.

        `on_approval` replaces the run's own callback for this call.

        Raises:
            ConfigError: The configuration must be corrected.
        """
        tool = self.tools.get(name)
        self.record_call(call_id, name, arguments)
        if tool is None or self.toolbox is None:
            text = f"there is no tool {name!r}; the tools are: {', '.join(self.tools) or 'none'}"
            answer = ToolAnswer.of_text(text, is_error=True)
            self.record_answer(call_id, answer)
            return answer
        try:
            if tool.listed is not None:
                result = await self.toolbox.call(
                    tool.listed.server,
                    tool.listed.wire_name,
                    arguments,
                    on_approval=on_approval,
                    run=self._context,
                    reader=self._reader,
                    call_id=call_id,
                )
            else:
                result = await self._call_program(call_id, tool, arguments, on_approval)
        except ConfigError:
            raise
        except PlaitError as error:
            answer, attempts, notes = ToolAnswer.of_text(self.text_of(error), is_error=True), 1, ()
        else:
            answer = ToolAnswer.of_result(result, sanitize=self.toolbox.sanitizes)
            attempts, notes = result.attempts, result.notes
        self.record_answer(call_id, answer, attempts=attempts, notes=notes)
        return answer

    async def _call_program(
        self,
        call_id: str,
        tool: RunTool,
        arguments: Mapping[str, Any],
        on_approval: OnApproval | None,
    ) -> ToolResult:
        static = tool.static
        assert static is not None  # noqa: S101  # a tool is one of a server or of the program
        assert self.toolbox is not None  # noqa: S101  # a run with tools has one
        call = ToolCall(
            server=PROGRAM,
            tool=static.name,
            arguments=arguments,
            call_id=call_id,
            on_approval=on_approval,
            run=run_identity_of(self._context),
        )

        async def result_of(permitted: ToolCall) -> ToolResult:
            return await static.result(permitted.arguments)

        return await self.toolbox.calls.run_local(
            call, listed_tool(tool.name, static), result_of, reader=self._reader
        )

    def record_answer(
        self, call_id: str, answer: ToolAnswer, *, attempts: int = 1, notes: tuple[str, ...] = ()
    ) -> None:
        """Record the answer to a call."""
        self.recorder.tool_returned(
            call_id,
            answer.text,
            is_error=answer.is_error,
            attempts=attempts,
            notes=notes,
            images=answer.images,
        )

    def text_of(self, error: PlaitError) -> str:
        """Return the text of an error for the model."""
        sanitizes = self.toolbox is not None and self.toolbox.sanitizes
        return sanitize_text(error.message) if sanitizes else error.message

    def record_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Record a call that is about to be made, or rejected."""
        tool = self.tools.get(name)
        self.recorder.tool_called(
            call_id, name, arguments, server=tool and tool.server, tool=tool and tool.wire_name
        )

    def reject_call(self, call_id: str, name: str, text: str) -> ToolAnswer:
        """Answer a call that is not made, and record the answer; returns it."""
        answer = ToolAnswer.of_text(text, is_error=True)
        self.recorder.tool_returned(call_id, answer.text, is_error=True, name=name)
        return answer

    def tool_option(self, name: str) -> Any:
        """Return an option of the run's tools; those of the run win over the configuration's."""
        if name in self.settings.tool_options or self.toolbox is None:
            return self.settings.tool_options.get(name)
        return self.toolbox.config.options.get(name)

    async def list_tools(self, program: Sequence[ToolLike], *, defers: bool = False) -> None:
        """List the tools of the run; `defers` says whether the engine defers tools.

        Raises:
            ConfigError: Two tools have the same name.
            AgentServerError: A required server cannot be used.
        """
        listed: list[Tool] = []
        if self.toolbox is not None:
            try:
                listed = await self.toolbox.tools(run=self._context)
            except ConfigError:
                raise
            except PlaitError as error:
                is_late = isinstance(error, TimeoutError)
                kind = AgentServerTimeoutError if is_late else AgentServerConnectError
                raise kind(str(error), error.server) from error
            hides = self.toolbox.calls.policy.hides
            own_tools = map(StaticTool.of, program)
            program = [own for own in own_tools if not hides(listed_tool(own.name, own))]
            deferred = () if defers else self.toolbox.deferral.split(listed).deferred
            if deferred:
                text = "this engine offers every tool: `defer` is not used for %d of them"
                logger.warning(text, len(deferred))
            taken = {*(tool.name for tool in listed), *named_tools(program)}
            own = self.toolbox.own_tools(taken=taken)
            self._reader = own[0].name if own else READ_MORE
            listed += own
        self.tools = tools_of_run(program, listed)

    def begin(self, engine: str) -> None:
        """Record the start of the run."""
        config, settings, toolbox = self.model_config, self.settings, self.toolbox
        prompt = () if self.system_prompt is None else (Message.system(self.system_prompt),)
        tools = [tool for tool in self.tools.values() if tool.server != OWN_SERVER]
        servers = () if toolbox is None else toolbox.server_names
        statuses = toolbox.status().servers.values() if toolbox is not None and servers else ()
        policy = None if toolbox is None else toolbox.calls.policy.policy
        recorded: dict[str, Any] = {  # the trace redacts it
            "provider": config.model_provider,
            "endpoint": endpoint_of(config),
            "temperature": self.temperature,
            "max_tokens": config.max_tokens,
            "max_retries": config.max_retries,
            "request_timeout": config.request_timeout,
            "extra_kwargs": config.extra_kwargs,
            "max_tokens_total": settings.max_tokens_total,
            "max_cost_usd": settings.max_cost_usd,
            "stream": settings.stream or None,
            "policy": None
            if policy is None
            else {
                "default": policy.default,
                "rules": [f"{rule.do}: {rule}" for rule in policy.rules],
                "source": policy.source,
            },
            "result_budget": _budget_data(self.tool_option("result_budget")),
            "call_budget": _budget_data(self.tool_option("call_budget")),
        }
        self.recorder.run_started(
            [*prompt, *self.messages],
            interface=engine,
            model=config.model_name,
            question_hash=settings.question_hash,
            task_id=settings.task_id,
            continues=settings.continues,
            servers=servers,
            tools=[tool.full_name for tool in tools],
            max_turns=settings.max_turns,
            timeout_seconds=self.seconds,
            unreached={one.name: one.last_error for one in statuses if one.last_error},
            settings={name: value for name, value in recorded.items() if value is not None},
            definitions={
                tool.full_name: (tool.name, tool.description, tool.input_schema) for tool in tools
            },
        )

    def check_prices(self) -> None:
        """Check that a limit of costs can hold.

        Raises:
            ConfigError: The price of the model is not known.
        """
        name = (self.model_config.model_name or "").rpartition(":")[2]
        if self.settings.max_cost_usd is None:
            return
        if self.cost_of(name, UsageMetadata(1, 1, 2)) is None:
            raise ConfigError(
                f"max_cost_usd cannot hold: the price of {name} is not known; set "
                "AgentConfig.prices, or install 'plait[prices]'"
            )

    def is_spent(self) -> bool:
        """Check whether the run has used the tokens or the money that it may use."""
        tokens, cost = self.settings.max_tokens_total, self.settings.max_cost_usd
        if tokens is None and cost is None:
            return False
        spent = self.recorder.trace.usage_so_far
        if tokens is not None and spent.total_tokens >= tokens:
            return True
        return cost is not None and (spent.cost_usd is None or spent.cost_usd >= cost)

    @property
    def seconds(self) -> float | None:
        """The time limit of the run."""
        return self.settings.timeout or self.model_config.agent_timeout

    @property
    def turns_left(self) -> int:
        """How often the model may still answer."""
        return self.settings.max_turns - self.recorder.trace.turns

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline; `None` if there is none."""
        return None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    @property
    def conversation(self) -> list[Message]:
        """The messages of the run, and what the model and the tools have added."""
        return [*self.messages, *self.recorder.trace.messages[self._continued :]]

    @property
    def answer(self) -> str:
        """The answer so far."""
        return self.final_response or self.recorder.trace.final_response

    @property
    def is_complete(self) -> bool:
        """Whether the last answer was neither cut nor refused."""
        return stop_kind(self.recorder.trace.stop_reason) == "complete"

    def ask_again(self, problem: str) -> None:
        """Return an answer that does not fit to the model, which goes on from there.

        Raises:
            ParseError: That happened too often, or the run has no further turn.
        """
        if self._retries_left < 1 or self.turns_left < 1 or self.is_spent():
            raise ParseError(f"the answer does not fit: {problem}", raw_response=self.answer)
        self._retries_left -= 1
        feedback = f"That does not fit: {problem}. Reply with the corrected JSON object alone."
        self.messages = [*self.conversation, Message.user(feedback)]
        self._continued = len(self.recorder.trace.messages)
        self.usage = self.final_response = None  # of the earlier part
        self.model_retry(2, f"the answer does not fit: {problem}", 0.0)

    def model_retry(
        self, attempt: int, reason: str, delay_seconds: float, status: int | None = None
    ) -> None:
        """Record that a request to the model is repeated, as attempt number `attempt`."""
        self.recorder.model_retry(
            attempt, reason=reason, delay_seconds=round(delay_seconds, 3), status=status
        )
        add_event("plait.model_retry", {"attempt": attempt})

    def chat_span(
        self, began: float | None = None
    ) -> AbstractContextManager[dict[str, Any] | None]:
        """Return the span of a request to the model, and what `describe_answer` takes.

        With `began`, a monotonic time, the request is already answered.
        """
        if not is_traced():
            return nullcontext()
        config = self.model_config
        settings = {"temperature": self.temperature, "max_tokens": config.max_tokens}
        return chat_span(*provider_and_name(config), began, **settings)

    def end(self, status: Status) -> Trace:
        """Record the end of the run, and return its trace.

        A run that ends with an incomplete answer is not `completed`.
        """
        if status == "completed":
            kind = stop_kind(self.recorder.trace.stop_reason)
            status = "completed" if kind == "complete" else kind
        return self.recorder.ended(
            status,
            final_response=None if status in ("limit", "timeout") else self.final_response,
            usage=self.usage,
            session_id=self.session_id,
            actual_model=self.actual_model,
        )


def _budget_data(budget: Any) -> Any:
    """Return a budget as plain data, without what it does not limit."""
    if is_dataclass(budget):
        budget = asdict(cast("Any", budget))
    if not isinstance(budget, Mapping):
        return budget
    pairs = cast("Mapping[str, Any]", budget).items()
    return {name: _budget_data(value) for name, value in pairs if value is not None}


_CLAUDE_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """A tool of a run: of a server, of the toolbox itself, or of the program."""

    name: str
    """The name for the model, unique in the run."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    listed: Tool | None = None
    """The tool in the catalogue; `None` for a tool of the program."""
    static: StaticTool | None = None
    """The tool of the program; `None` for a tool of a server."""

    @property
    def server(self) -> str | None:
        """The server that runs it, if one does."""
        return None if self.listed is None else self.listed.server

    @property
    def wire_name(self) -> str | None:
        """The name on the server."""
        return None if self.listed is None else self.listed.wire_name

    @property
    def full_name(self) -> str:
        """The name in traces: `server/tool`, or only the name."""
        return self.name if self.listed is None else self.listed.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call for the model."""

    content: tuple[types.ContentBlock, ...]
    """At least one block; structured content is text if there is no other text."""
    text: str
    """The content as one text, for traces."""
    is_error: bool = False
    structured_content: Any | None = None

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False) -> ToolAnswer:
        """Create an answer from a text."""
        content = content_for_model(
            [types.TextContent(text=well_formed(text))], is_error=is_error, sanitize=False
        )
        return cls(content=content, text=text_from_mcp(content), is_error=is_error)

    @classmethod
    def of_result(cls, result: ToolResult, *, sanitize: bool = True) -> ToolAnswer:
        """Convert a tool result; `sanitize` removes characters that hide text."""
        content = content_for_model(
            result.content, result.structured_content, is_error=result.is_error, sanitize=sanitize
        )
        if not sanitize:  # which replaces broken characters too
            content = tuple(
                block.model_copy(update={"text": well_formed(block.text)})
                if isinstance(block, types.TextContent)
                else block
                for block in content
            )
        return cls(
            content=content,
            text=text_from_mcp(content),
            is_error=result.is_error,
            structured_content=result.structured_content,
        )

    @classmethod
    def of_mcp(cls, result: types.CallToolResult) -> ToolAnswer:
        """Convert a result of the MCP SDK."""
        return cls.of_result(ToolResult.from_mcp("", "", result))

    @property
    def images(self) -> list[tuple[str, str]]:
        """The type and the bytes, in base64, of each image."""
        images = (block for block in self.content if isinstance(block, types.ImageContent))
        return [(image.mime_type, image.data) for image in images]

    def texts_and_images(self) -> list[types.TextContent | types.ImageContent]:
        """Return the content for Claude; a line of text describes what it does not accept.

        An image is shown if Claude reads its type, and never in an error.
        """
        readable: list[types.TextContent | types.ImageContent] = []
        for block in self.content:
            match block:
                case types.TextContent():
                    readable.append(block)
                case types.ImageContent(mime_type=kind) if (
                    kind in _CLAUDE_IMAGES and not self.is_error
                ):
                    readable.append(block)
                case _:
                    readable.append(types.TextContent(text=line_from_mcp(block)))
        return readable


def tools_of_run(program: Sequence[ToolLike], listed: Iterable[Tool]) -> dict[str, RunTool]:
    """Collect the tools of a run by name, those of the program first."""
    tools = {
        name: RunTool(
            name=name,
            description=sanitize_text(own.description),
            input_schema=own.input_schema,
            static=own,
        )
        for name, own in named_tools(program).items()
    }
    for tool in listed:
        if tool.name in tools:
            raise ConfigError(
                f"{tool.name!r} is a tool of the program and of {tool.server}: "
                "rename one, or leave one out with mcp_tool_filter",
                server=tool.server,
            )
        tools[tool.name] = RunTool(
            name=tool.name,
            description=tool.description or tool.title or f"Tool from {tool.server}",
            input_schema=tool.input_schema,
            listed=tool,
        )
    return tools


T = TypeVar("T")

_chance = random.Random()  # independent of the seed that a program sets

MAX_PAUSE_SECONDS: Final = 60.0
"""The longest pause of a run without a deadline; a provider may request hours."""


def retry_pause(
    config: ModelConfig, error: PlaitError, attempt: int, seconds_left: float | None
) -> float | None:
    """Return the seconds before the next attempt; `None` if there must be none."""
    retry = ModelRetryConfig(
        max_retries=config.max_retries, initial_delay=0.5, backoff_factor=2.0, max_delay=8.0
    )
    if config.agent_middleware is not None:
        retry = config.agent_middleware.model_retry
    if not error.retryable or attempt > retry.max_retries:
        return None
    delay = min(retry.max_delay, retry.initial_delay * retry.backoff_factor ** (attempt - 1))
    if retry.jitter:
        delay *= _chance.uniform(0.75, 1.25)
    if error.retry_after is not None:
        delay = error.retry_after
    return delay if delay < (MAX_PAUSE_SECONDS if seconds_left is None else seconds_left) else None


async def with_retries(
    run: AgentRun,
    request: Callable[[dict[str, Any] | None], Awaitable[T]],
    *,
    passes: tuple[type[Exception], ...] = (),
) -> T:
    """Make a request to the model, and repeat it while its failure is `retryable`.

    `request` passes its argument to `describe_answer`. Exceptions in `passes` are raised as they
    are.

    Raises:
        PlaitError: The last failure, which says whether a later attempt may succeed.
    """
    attempt = 1
    while True:
        try:
            with run.chat_span() as span:
                return await request(span)
        except passes:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: providers may raise anything
            failure = error
            if not isinstance(failure, PlaitError):
                failure = failure_of_model(error, run.model_config, run.redact)
            failure.attempts = attempt
        pause = retry_pause(run.model_config, failure, attempt, run.seconds_left())
        if pause is None:
            # Outside of the handler: otherwise the original error, with secrets, is its context.
            raise failure
        attempt += 1
        run.model_retry(attempt, str(failure), pause, failure.status)
        await asyncio.sleep(pause)


class OutputType:
    """A pydantic model that the answer fills, or a JSON Schema that it fits.

    Raises:
        ConfigError: It does not describe a JSON object.
    """

    def __init__(self, declared: object) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(declared, Mapping):
            self.schema = cast("Mapping[str, Any]", declared)
        else:
            try:
                self._adapter = TypeAdapter(cast("Any", declared))
                self.schema = self._adapter.json_schema()
            except PydanticUserError as error:
                text = f"output_type must be a pydantic model or a JSON Schema: {error}"
                raise ConfigError(text) from error
        self._validator = validator_for_schema(self.schema)
        if self._validator.broken is not None:
            raise ConfigError(f"the JSON Schema of output_type is broken: {self._validator.broken}")
        if self.schema.get("type", "object") != "object":
            raise ConfigError("output_type must describe a JSON object: make it a field of a model")
        form = json.dumps(self.schema, ensure_ascii=False)
        self.rule = (
            "When you have the answer, reply with one JSON object that fits this JSON Schema, and "
            f"nothing else:\n{form}"
        )
        """Tells the model the form of the answer."""

    def read(self, text: str) -> Any:
        """Return the value in an answer, which may have words around it.

        Raises:
            ValueError: There is none, or it does not fit; the text says why.
        """
        value = _json_object_in(text)
        if value is None:
            raise ValueError("there is no JSON object in the reply")
        if self._adapter is None:
            if (problem := self._validator.problem(value)) is not None:
                raise ValueError(problem)
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            places = (".".join(map(str, one["loc"])) or "the object" for one in faults)
            texts = (f"{place}: {one['msg']}" for place, one in zip(places, faults, strict=True))
            raise ValueError("; ".join(texts)) from error


def _json_object_in(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
            return cast("dict[str, Any]", value)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None
