"""The protocol and base class of every engine, their results, and batches of tasks."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

from plait._support.mappings import entries_of
from plait.agents.agent_run import OutputType
from plait.agents.config import AgentConfig
from plait.agents.program_tools import ToolLike
from plait.agents.servers import AgentServers
from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError, ConfigError, PlaitError, TraceFormatError
from plait.models.call_arguments import arguments_from
from plait.traces.events import Status, TraceEvent
from plait.traces.file import read_traces
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import Message, UsageMetadata, to_prompt_string
from plait.traces.recorder import hash_question
from plait.traces.trace import Trace

Conversation: TypeAlias = str | Sequence[object]
"""The messages of a run: a text of the user; or messages of plait or LangChain, or as dicts with
`role` and `content`, or as pairs of these two."""

Settings: TypeAlias = AgentConfig | Mapping[str, Any]
"""The settings of a run: an `AgentConfig`, or its fields by name."""

_KINDS: Final = {"user": "human", "assistant": "ai", "developer": "system", "function": "tool"}
"""LangChain's names for the roles of OpenAI's messages."""


def read_messages(messages: Conversation) -> list[Message]:
    """Read the messages of a run.

    Raises:
        ConfigError: One of them is not a message.
    """
    listed: Sequence[object] = messages
    if isinstance(messages, str | Message | Mapping):
        listed = [messages]
    try:
        numbered = list(enumerate(listed, 1))
    except TypeError as error:
        text = f"the messages of a run are a text or a list: {error}"
        raise ConfigError(text) from error
    read: list[Message] = []
    for place, message in numbered:
        try:
            read.append(_message_of(message))
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"message {place}, a {type(message).__name__}, cannot be read: {error}; pass a "
                'text, Message.user(text), or {"role": "user", "content": text}'
            ) from error
    return read


def _message_of(message: object) -> Message:
    if isinstance(message, str):
        return Message.user(message)
    if isinstance(message, tuple):
        role, content = cast("tuple[object, object]", message)
        message = {"role": role, "content": content}
    data = entries_of(message)
    if "role" not in data or "block_index" in data:  # of LangChain, or of `Message.to_dict`
        return message_from_any(message)
    calls: list[dict[str, Any]] = []
    for call in data.get("tool_calls") or ():  # as OpenAI writes them
        function = call["function"]
        arguments = arguments_from(function["arguments"])
        calls.append({"id": call["id"], "name": function["name"], "args": arguments})
    fields = {key: value for key, value in data.items() if key != "role"}
    kind = _KINDS.get(data["role"], data["role"])
    return message_from_any({**fields, "type": kind, "tool_calls": calls})


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The answer of an agent, with the steps that led to it."""

    final_response: str
    raw_trace: str
    """The messages of the model and the tools, as one text."""
    trace_messages: list[Message]
    """The same messages, without those of user and system."""
    usage: UsageMetadata
    turns: int
    """How often the model answered."""
    limit_reached: bool
    """Whether the run ended at its turn limit; the response is then partial."""
    session_id: str | None = None
    """The engine's id of the conversation."""
    actual_model: str | None = None
    """The model that answered, as the provider names it."""
    timeout_reached: bool = False
    """Whether the run ended at its timeout; the response is then partial."""
    status: Status | Literal["unfinished"] = "completed"
    """How the run ended; a last answer that was cut or refused is not `completed`."""
    stop_reason: str | None = None
    """Why the model stopped in its last answer, as the provider names it."""
    output: Any = None
    """The answer as `output_type` describes it; `None` without one, or if the run did not end with
    an answer."""


def result_from_trace(trace: Trace) -> AgentResult:
    """Create the result of a run from its trace, which may be incomplete."""
    ended = trace.ended
    messages = trace.messages
    return AgentResult(
        final_response=trace.final_response,
        raw_trace=trace.raw_trace_of(messages),
        trace_messages=messages,
        usage=trace.usage,
        turns=trace.turns,
        limit_reached=trace.limit_reached,
        session_id=ended.session_id if ended else None,
        actual_model=trace.actual_model,
        timeout_reached=trace.timeout_reached,
        status=trace.status,
        stop_reason=trace.stop_reason,
    )


MAX_BLOCKING_SECONDS = 600.0
"""How long a blocking run without a timeout may take."""

_GRACE_SECONDS = 30.0
"""Added to the timeout of a run, so that it can return its partial result."""


@dataclass(frozen=True, slots=True)
class AgentCapabilities:
    """What an engine supports."""

    supports_system_prompt: bool = True
    supports_structured_output: bool = False
    supports_streaming: bool = False
    supports_file_tools: bool = False
    supports_code_execution: bool = False
    uses_sandboxed_execution: bool = False


@runtime_checkable
class AgentPort(Protocol):
    """An agent on one engine."""

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        return AgentCapabilities()

    @abstractmethod
    async def arun(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AgentResult:
        """Run the agent until it answers, or until the turn limit or the timeout.

        `output_type` is that of `AgentConfig`.

        Raises:
            AgentError: There is no result, not even a partial one.
        """

    def run(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AgentResult:
        """Run `arun`, and block until it returns."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the agent; it cannot be used afterwards."""


class BaseAgent(AgentPort):
    """An agent on one engine; subclasses implement `arun`."""

    def run(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AgentResult:
        """Run `arun`, and block until it returns; works inside a running event loop too.

        Raises:
            AgentTimeoutError: It took longer than 600 s, or 30 s more than its timeout.
        """
        conversation, settings = read_messages(messages), AgentConfig.of(config, output_type)
        timeout = self.seconds_for(settings)
        bound = MAX_BLOCKING_SECONDS if timeout is None else timeout + _GRACE_SECONDS
        late = AgentTimeoutError(f"the run took longer than {bound:g} s, and was stopped")
        return run_blocking(
            lambda: self.arun(conversation, tools, mcp_servers, settings),
            seconds=bound,
            timeout_error=late,
        )

    async def astream(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AsyncGenerator[TraceEvent | AgentResult]:
        """Run `arun`, and yield its events as they happen; the last item is the result.

        Parts of answers are `Delta` events; turns, tool calls and results are the other events of
        the trace. Closing the generator stops the run. Failures are raised as by `arun`.
        """
        settings = AgentConfig.of(config, output_type)
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[TraceEvent | None] = asyncio.Queue()

        def on_event(event: TraceEvent) -> None:
            if settings.on_event is not None:
                settings.on_event(event)
            loop.call_soon_threadsafe(items.put_nowait, event)

        streamed = replace(settings, stream=True, on_event=on_event)
        run = asyncio.create_task(self.arun(messages, tools, mcp_servers, streamed))
        run.add_done_callback(lambda _: loop.call_soon(items.put_nowait, None))
        try:
            while (event := await items.get()) is not None:
                yield event
            yield await run
        finally:
            run.cancel()
            await asyncio.wait([run])

    async def abatch(
        self,
        tasks: Sequence[Conversation],
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
        max_concurrency: int = 4,
        traces: str | Path | None = None,
    ) -> list[BatchOutcome]:
        """Run several tasks at the same time, at most `max_concurrency`.

        A failure ends only its own task. With the folder `traces` each task has a trace there, and
        one that is done is not repeated.
        """
        named = [
            BatchTask(id=f"{number:04d}", messages=read_messages(messages))
            for number, messages in enumerate(tasks, 1)
        ]
        settings = AgentConfig.of(config, output_type)
        return await run_batch(
            self,
            named,
            tools,
            mcp_servers,
            settings,
            max_concurrency=max_concurrency,
            traces=traces,
        )

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Return the time limit of a run; `None` if there is none."""
        return config.timeout


_DONE: Final = ("completed", "truncated", "refused", "limit")
"""The statuses of runs that are not repeated when a batch is resumed."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One task of a batch."""

    id: str
    """Unique in the batch; the trace has it as `task_id`, and its file as its name."""
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The result of one task, or the error that ended it."""

    id: str
    result: AgentResult | None = None
    error: PlaitError | None = None
    resumed: bool = False
    """Whether the result is that of an earlier batch."""
    trace: Path | None = None


async def run_batch(
    agent: AgentPort,
    tasks: Sequence[BatchTask],
    tools: Sequence[ToolLike] | None = None,
    mcp_servers: AgentServers | None = None,
    config: Settings | None = None,
    *,
    max_concurrency: int = 4,
    traces: str | Path | None = None,
    on_outcome: Callable[[BatchOutcome], None] | None = None,
) -> list[BatchOutcome]:
    """Run tasks at the same time, at most `max_concurrency`; a failed one ends no other.

    With the folder `traces`, each task has a trace of its own there, and one that has come to its
    end in it, with the same messages, is not run again. Outcomes are in the order of the tasks.

    Raises:
        ConfigError: Two tasks have the same id, or the cap is not positive.
    """
    if max_concurrency < 1:
        raise ConfigError(f"max_concurrency is {max_concurrency}: use at least 1")
    counts = Counter(task.id for task in tasks)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise ConfigError(f"the ids of tasks must be unique: {', '.join(twice)}")
    folder = None if traces is None else Path(traces)
    cap = asyncio.Semaphore(max_concurrency)
    settings = AgentConfig.of(config)

    async def run_one(task: BatchTask) -> BatchOutcome:
        file = None if folder is None else folder / f"{_ILLEGAL.sub('_', task.id)}.jsonl"
        async with cap:
            question = hash_question(to_prompt_string(task.messages))
            outcome = _earlier(task, question, file, settings.output_type)
            if outcome is None:
                own = replace(
                    settings,
                    trace=file,
                    question_hash=question,
                    extra={**settings.extra, "task_id": task.id},
                )
                try:
                    result = await agent.arun(task.messages, tools, mcp_servers, own)
                    outcome = BatchOutcome(id=task.id, result=result, trace=file)
                except PlaitError as error:
                    outcome = BatchOutcome(id=task.id, error=error, trace=file)
        if on_outcome is not None:
            on_outcome(outcome)
        return outcome

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(run_one(task)) for task in tasks]
    return [task.result() for task in running]


def _earlier(
    task: BatchTask, question: str, file: Path | None, output_type: Any
) -> BatchOutcome | None:
    """Return the outcome of an earlier batch, if the same task has come to its end there.

    An answer that does not fit `output_type` is that of another task.
    """
    if file is None or not file.exists():
        return None
    try:
        recorded = read_traces(file)
    except TraceFormatError:
        return None
    done = [
        trace
        for trace in recorded
        if trace.status in _DONE
        and trace.started
        and trace.started.task_id == task.id
        and trace.started.question_hash == question
    ]
    if not done:
        return None
    result = result_from_trace(done[-1])
    if output_type is not None and result.status == "completed":
        try:
            output = OutputType(output_type).read(result.final_response)
        except ValueError:
            return None
        result = replace(result, output=output)
    return BatchOutcome(id=task.id, result=result, resumed=True, trace=file)
