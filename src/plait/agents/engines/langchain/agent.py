"""The engine `langchain`: LangGraph agents with any chat model of LangChain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from types import CoroutineType
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast
from uuid import UUID

import mcp_types as types
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, Interrupt
from typing_extensions import override

from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait._support.sanitize import well_formed_data
from plait.agents.agent_run import AgentRun, ToolAnswer, with_retries
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.engines.langchain.chat_models import ChatModels, import_provider
from plait.agents.engines.langchain.messages import (
    messages_to_langchain,
    model_name_of,
    usage_from_langchain,
)
from plait.agents.engines.langchain.middleware import answer_within, build_agent_middleware
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_failures import CutAnswerError, failure_of_model, provider_and_name
from plait.client.calls import tool_call
from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget import OWN_SERVER, READ_MORE
from plait.client.catalog.tool import Tool, prepare_schemas
from plait.client.config.read import read_options
from plait.client.toolbox import Toolbox
from plait.errors import PlaitError
from plait.langchain.client.client import Selection
from plait.langchain.client.deferred import deferred_tools, loaded_names
from plait.langchain.client.tool_list import read_more_tools
from plait.langchain.tools.blocks import standard_block, text_block
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.caller import ToolboxCaller
from plait.langchain.tools.interrupts import ELICITATION_INTERRUPT_TYPE
from plait.langchain.tools.model_support import profile_of
from plait.langchain.tools.runner import RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool
from plait.langchain.tools.written_calls import CallTexts, stop_reason_of
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.endpoints import context_tokens
from plait.models.schemas.for_provider import schema_for_provider
from plait.models.stop_reasons import UNFINISHED, cuts_calls, not_made, stop_kind
from plait.telemetry.agent_spans import describe_answer
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.from_mcp import text_from_mcp
from plait.traces.messages.message import TextContent, ThinkingContent
from plait.traces.recorder import Recorder

_CallModel: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
_ToolReply: TypeAlias = ToolMessage | Command[Any]
_CallTool: TypeAlias = Callable[[ToolCallRequest], Awaitable[_ToolReply]]


_turns_of_run: ContextVar[Turns] = ContextVar("plait_turns_of_run")


class TurnsMiddleware(AgentMiddleware[Any, Any, Any]):
    """The innermost middleware of a graph: passes each step to the `Turns` of its run.

    So several runs may share a graph, also at the same time. The hooks are plain functions that
    return coroutines: LangSmith wraps every coroutine function in a task and two thread switches,
    even if tracing is off.
    """

    @override
    def awrap_model_call(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> CoroutineType[Any, Any, ModelResponse[Any]]:
        return _turns_of_run.get().call_model(request, handler)

    @override
    def awrap_tool_call(
        self, request: ToolCallRequest, handler: _CallTool
    ) -> CoroutineType[Any, Any, _ToolReply]:
        return _turns_of_run.get().call_tool(request, handler)


class Turns:
    """The turns of one run.

    It checks the limit in place of LangChain's own middleware, which adds two steps of the graph to
    every turn.
    """

    def __init__(
        self, run: AgentRun, model: BaseChatModel, agent_tools: LangChainTools, *, max_turns: int
    ) -> None:
        self._run = run
        self._model = model
        self._tools = agent_tools
        self._max_turns = max_turns
        self._images = takes_images(model)
        self._turns = 0
        self._rejected: dict[str, str] = {}
        """Why calls are not made, by their ids."""
        self._called: set[str] = set()

    @contextmanager
    def active(self) -> Generator[None]:
        """Receive the steps of the graph that is run in the block."""
        token = _turns_of_run.set(self)
        try:
            yield
        finally:
            _turns_of_run.reset(token)

    async def call_model(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> ModelResponse[Any]:
        """Call the model of the run, and record its answer."""
        if request.model is not self._model:  # the graph was made for another run
            request = request.override(model=self._model)
        if self._tools.deferred:
            request = request.override(tools=list(self._tools.visible(request.messages)))
        paused: list[BaseMessage] = []
        while True:
            if self._turns >= self._max_turns or (self._turns and self._run.is_spent()):
                raise self._limit()
            began = time.monotonic()
            response = await with_retries(
                self._run,
                partial(self._answer, request, handler),
                passes=(GraphBubbleUp,),
            )
            response = self._recorded(response, began)
            last = response.result[0]
            if not isinstance(last, AIMessage):
                return response
            if last.tool_calls or stop_reason_of(last) not in UNFINISHED:
                break
            # The model goes on with what it has written so far.
            paused.append(last)
            request = request.override(messages=[*request.messages, last])
        if last.tool_calls and self._run.is_spent():
            raise self._limit()
        return replace(response, result=[*paused, *response.result]) if paused else response

    def _limit(self) -> ModelCallLimitExceededError:
        turns, limit = self._turns, self._max_turns
        return ModelCallLimitExceededError(turns, turns, thread_limit=None, run_limit=limit)

    async def _answer(
        self, request: ModelRequest[Any], handler: _CallModel, span: dict[str, Any] | None
    ) -> ModelResponse[Any]:
        """Request one answer, within the time for a request."""
        texts = CallTexts()
        async with answer_within(self._run.model_config.request_timeout):
            with texts.reading():
                response = await handler(request)
        if isinstance(first := response.result[0], AIMessage):
            metadata = first.response_metadata
            match metadata.get("model_provider"):
                case "anthropic":
                    is_whole = bool(metadata.get("stop_reason"))
                case "openai":
                    # An answer that was not streamed is whole; some endpoints send no reason.
                    is_whole = any(map(metadata.get, ("finish_reason", "status", "token_usage")))
                case _:
                    is_whole = True
            if not is_whole:
                raise CutAnswerError("it ended without a reason to stop")
            describe_answer(
                span,
                response_id=first.response_metadata.get("id") or first.id,
                model=model_name_of(first),
                stop_reason=stop_reason_of(first),
                usage=usage_from_langchain(first),
            )
            response = replace(response, result=[texts.as_written(first), *response.result[1:]])
        return response

    async def call_tool(self, request: ToolCallRequest, handler: _CallTool) -> _ToolReply:
        """Call a tool, and record the call; an unknown tool gets an answer too."""
        call = request.tool_call
        call_id = call["id"] or ""
        rejected = self._rejected.pop(call_id, None)
        if rejected is not None or not isinstance(request.tool, MCPTool):
            if rejected is None:
                answer = await self._run.call(call_id, call["name"], call["args"])
            else:
                answer = self._run.reject_call(call_id, call["name"], rejected)
            return message_from_answer(call, answer, images=self._images)
        tool = request.tool.tool
        if call_id not in self._called:  # else the graph resumes after an interrupt
            self._called.add(call_id)
            self._run.recorder.tool_called(
                call_id, call["name"], call["args"], server=tool.server, tool=tool.wire_name
            )
        outcome = CallOutcome()
        token = _outcome.set(outcome)
        try:
            message = await handler(request)
        finally:
            _outcome.reset(token)
        answer = outcome.answer
        if isinstance(message, ToolMessage) and answer is not None:
            artifact = message.artifact
            message = message_from_answer(call, answer, images=self._images, artifact=artifact)
        elif isinstance(message, ToolMessage):
            text = message_from_any(message).tool_results[0].content
            answer = ToolAnswer.of_text(text, is_error=message.status == "error")
        answer = answer or ToolAnswer.of_text("")
        self._run.record_answer(call_id, answer, attempts=outcome.attempts, notes=outcome.notes)
        return message

    def on_rejected(self, call: ToolCall, message: ToolMessage) -> None:
        """Record a call that other middleware rejects."""
        self._run.reject_call(call["id"] or "", call["name"], message.text)

    def on_summary(self, answer: AIMessage) -> None:
        """Record a summary, and what it used."""
        usage, model = usage_from_langchain(answer), model_name_of(answer)
        self._run.recorder.summary(answer.text, model=model, usage=usage)

    def _recorded(self, response: ModelResponse[Any], began: float) -> ModelResponse[Any]:
        first, *rest = response.result
        if not isinstance(first, AIMessage):
            return response
        seconds = time.monotonic() - began
        stop = stop_reason_of(first)
        # Texts must be encoded in the next request.
        well_formed: list[ToolCall] = [
            {**call, "args": well_formed_data(call["args"])} for call in first.tool_calls
        ]
        content = well_formed_data(first.content)
        message = first
        if content != first.content or well_formed != first.tool_calls:
            message = first.model_copy(update={"content": content, "tool_calls": well_formed})
        message = self._with_usable_calls(message, stop)
        usage = usage_from_langchain(message)
        self._turns += 1
        self._run.recorder.turn(
            replace(message_from_any(message), usage_metadata=None),
            model=model_name_of(message),
            usage=usage,
            seconds=round(seconds, 6),
            stop_reason=stop,
        )
        return response if message is first else replace(response, result=[message, *rest])

    def _with_usable_calls(self, message: AIMessage, stop: str | None) -> AIMessage:
        """Return a message in which every call has a unique id and arguments.

        The graph continues only after valid calls; so calls that are not made stay in the message,
        and are answered in place of the tool. A refused answer has no calls.
        """
        kind = stop_kind(stop)
        requested = (*message.tool_calls, *message.invalid_tool_calls)
        if kind == "refused":
            requested = ()
        ids = [call["id"] for call in message.tool_calls]
        is_valid = not message.invalid_tool_calls and all(ids) and len(set(ids)) == len(ids)
        arguments = (arguments_from(call["args"]) for call in message.tool_calls)
        is_valid = is_valid and not any(map(fault_of, arguments))
        is_cut = cuts_calls(stop)
        if is_valid and ((kind == "complete" and not is_cut) or not ids):
            return message
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for call in requested:
            call_id = call["id"]
            if not call_id or call_id in taken:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            taken.add(call_id)
            written = arguments_from(call["args"])
            if (fault := fault_of(written)) is not None:
                self._rejected[call_id] = fault
            name = call["name"] or ""
            calls.append(ToolCall(name=name, args=written, id=call_id, type="tool_call"))
            if is_cut:
                self._rejected[call_id] = not_made(stop, self._run.model_config.max_tokens)
        content: Any = message.content
        if isinstance(content, list):  # blocks of OpenAI's Responses API hold the arguments too
            texts = {call["id"]: json.dumps(call["args"]) for call in calls}
            content = [
                {**block, "arguments": texts[call_id]}
                if (call_id := entries_of(block).get("call_id")) in texts
                else block
                for block in cast("list[Any]", content)
            ]
        return message.model_copy(
            update={"content": content, "tool_calls": calls, "invalid_tool_calls": []}
        )


HOOKS: Final = frozenset({"tool_interceptors", "before_tool_call", "after_tool_call"})
"""The options of `AgentConfig.tool_options` that wrap tool calls on this engine."""


class ProgramTool(BaseTool):
    """The definition of a tool of the program; `Turns` answers its calls."""

    @override
    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self.name} can be called in its run only")


class LangChainTools:
    """The tools of a run, and those of them that the model sees at each turn.

    They are those of `MultiServerMCPClient`, so that interceptors, hooks, deferred tools and
    interrupts work in a run too.
    """

    def __init__(self, run: AgentRun, model: object) -> None:
        profile = profile_of(model)
        shown: list[BaseTool] = [
            ProgramTool(
                name=tool.name,
                description=tool.description,
                args_schema=schema_for_provider(tool.input_schema, profile).schema,
            )
            for tool in run.tools.values()
            if tool.listed is None
        ]
        self.deferred: dict[str, BaseTool] = {}
        """The tools for which the model must search, by name."""
        if run.toolbox is not None:
            tools, deferred = _server_tools(run, run.toolbox)
            shown += [tool.with_profile(profile) for tool in tools]
            self.deferred = {tool.name: tool.with_profile(profile) for tool in deferred}
        self._shown = shown

    @property
    def all(self) -> list[BaseTool]:
        """Every tool, including those that are deferred."""
        return [*self._shown, *self.deferred.values()]

    @property
    def listed(self) -> list[Tool]:
        """Those of servers that the model sees from the start, as they are listed."""
        return [tool.tool for tool in self._shown if isinstance(tool, MCPTool)]

    def visible(self, messages: Iterable[BaseMessage]) -> list[BaseTool]:
        """Return the tools that the model sees after these messages.

        The deferred ones that it has found come last, so that the prompt before them stays cached.
        """
        names = [name for name in loaded_names(messages) if name in self.deferred]
        return [*self._shown, *(self.deferred[name] for name in names)]


def _server_tools(run: AgentRun, toolbox: Toolbox) -> tuple[list[MCPTool], list[MCPTool]]:
    """Create the tools of the servers: those shown at once, and those that are deferred."""
    options = run.settings.tool_options
    hooks = read_options({name: options[name] for name in HOOKS & options.keys()})
    own = {"on_approval": options.get("on_approval"), "sanitize": toolbox.sanitizes}
    settings = RunnerSettings.of({**hooks, **own}, servers={})
    listed: dict[str, Tool] = {}
    for tool in run.tools.values():
        if tool.listed is not None and tool.listed.server != OWN_SERVER:
            has_text = tool.listed.description or tool.listed.title
            described = replace(tool.listed, description=tool.description)
            listed[tool.name] = tool.listed if has_text else described
    names = {tool.name for tool in run.tools.values() if tool.server != OWN_SERVER}
    readers = read_more_tools(toolbox, taken=names, settings=settings)
    caller = _RecordedCaller(toolbox, has_callback="on_elicitation" in options)
    runner = ToolRunner(caller, settings, reader=readers[0].name if readers else READ_MORE)
    split = toolbox.deferral.split(list(listed.values()))
    search = deferred_tools(split, runner, Selection(toolbox=toolbox), names, messages=())
    shown = [MCPTool(tool, runner) for tool in split.shown]
    return [*shown, *readers, *search], [MCPTool(tool, runner) for tool in split.deferred]


@dataclass(slots=True)
class CallOutcome:
    """The result of the tool call in progress, as the trace needs it."""

    answer: ToolAnswer | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()


_outcome: ContextVar[CallOutcome | None] = ContextVar("plait_call_outcome", default=None)


class _RecordedCaller(ToolboxCaller):
    """Makes calls with a toolbox, and notes each result in the `CallOutcome` of its call.

    It makes no direct calls, which would not be noted.
    """

    def __init__(self, toolbox: Toolbox, *, has_callback: bool) -> None:
        super().__init__(toolbox, toolbox.calls.execute)
        self._has_callback = has_callback
        self.access_for = toolbox.calls.access_for
        self.apply_overrides = toolbox.calls.apply_overrides

    async def execute(self, call: tool_call.ToolCall) -> ToolResult:
        """Make the call; an elicitation callback of the run is preferred to an interrupt."""
        result = await self._execute(replace(call, pause=None) if self._has_callback else call)
        if (outcome := _outcome.get()) is not None:
            outcome.attempts, outcome.notes = result.attempts, result.notes
        return result

    async def bounded(
        self, result: ToolResult, call: tool_call.ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Keep the result, which is the last one of the call, within its budget."""
        bounded = await self._toolbox.calls.bounded(result, call, reader=reader)
        if (outcome := _outcome.get()) is not None:
            outcome.answer = ToolAnswer.of_result(bounded, sanitize=self._toolbox.sanitizes)
        return bounded


def takes_images(model: object) -> bool:
    """Check whether a chat model accepts images in tool messages.

    OpenAI's chat protocol accepts only text there.
    """
    if any(kind.__name__ == "BaseChatOpenAI" for kind in type(model).__mro__):
        return False
    able: dict[str, Any] = getattr(model, "profile", None) or {}
    return able.get("image_inputs") is not False and able.get("image_tool_message") is not False


def message_from_answer(
    call: ToolCall, answer: ToolAnswer, *, images: bool, artifact: Any = None
) -> ToolMessage:
    """Create the message for the model; without `images`, a line of text describes an image."""
    content: Any = answer.text
    if images and any(isinstance(block, types.ImageContent) for block in answer.content):
        content = [
            standard_block(block)
            if isinstance(block, types.TextContent | types.ImageContent)
            else text_block(text_from_mcp([block]))
            for block in answer.content
        ]
    return ToolMessage(
        content=content,
        artifact=artifact,
        tool_call_id=call["id"] or "",
        name=call["name"],
        status="error" if answer.is_error else "success",
    )


_STEPS_OF_A_TURN = 20
"""More graph steps than a turn with all middleware takes."""


class LangChainAgent(LiveAgent):
    """Runs agents on LangGraph; also for the engines `openrouter` and `openai_endpoint`.

    `model` is called in place of the one that the configuration names.

    Raises:
        EngineUnavailableError: The package of the provider is missing.
    """

    engine = "langchain"
    runs_local_models = True
    defers_tools = True

    def __init__(self, model_config: ModelConfig, model: BaseChatModel | None = None) -> None:
        super().__init__(model_config)
        self._model = model
        self._graph: _Graph | None = None
        """The last graph that another run may use."""
        if model is None:  # now, because importing takes time from the first run
            import_provider(model_config)

    @override
    def toolbox_options(self, settings: AgentConfig) -> Mapping[str, Any]:
        """Leave out the hooks, which wrap the tools, and declare elicitation for interrupts."""
        options = {key: value for key, value in settings.tool_options.items() if key not in HOOKS}
        if settings.on_interrupt is not None:
            options.setdefault("on_elicitation", Callbacks().elicitation_callback)
        return options

    @override
    async def drive(self, run: AgentRun) -> Ending:
        config = run.model_config
        try:
            async with contextlib.aclosing(ChatModels(config)) as models:
                model = self._model or await asyncio.to_thread(models.make)
                return await self._converse(run, model, models)
        except (ModelCallLimitExceededError, ToolCallLimitExceededError):
            return "limit"
        except PlaitError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: providers may raise anything
            failure = failure_of_model(error, config, run.redact)
        raise failure

    async def _converse(self, run: AgentRun, model: BaseChatModel, models: ChatModels) -> Ending:
        middleware = run.model_config.agent_middleware
        max_turns = run.turns_left
        if middleware is not None:
            max_turns = min(max_turns, middleware.limits.model_call_limit)
        graph, turns = await self._graph_for(run, model, models, max_turns)
        run.session_id = str(uuid.uuid4())
        configurable: dict[str, Any] = run.settings.extra.get("configurable") or {}
        settings: RunnableConfig = {
            "configurable": {**configurable, "thread_id": run.session_id},
            "recursion_limit": _STEPS_OF_A_TURN * (max_turns + 1),
        }
        if run.settings.stream:
            settings["callbacks"] = [TokenHandler(run.recorder)]
        step: object = {"messages": messages_to_langchain(run.messages)}
        # The state is needed only where the graph stops: it is not saved after each step.
        durability = None if graph.compiled.checkpointer is None else "exit"
        with turns.active():
            while True:
                interrupts: list[Interrupt] = []
                updates = graph.compiled.astream(
                    step, settings, stream_mode="updates", durability=durability
                )
                async with contextlib.aclosing(updates):
                    async for update in updates:
                        interrupts += update.get("__interrupt__", ())
                if not interrupts:
                    return "completed"
                step = Command(resume=await _answers(run, interrupts))

    async def _graph_for(
        self, run: AgentRun, model: BaseChatModel, models: ChatModels, max_turns: int
    ) -> tuple[_Graph, Turns]:
        """Return the graph of the last run, if it fits, or make one."""
        last = self._graph
        if last is not None and last.fits(run, model):
            return last, Turns(run, model, last.tools, max_turns=max_turns)
        tools = LangChainTools(run, model)
        await prepare_schemas(tools.listed, profile_of(model))
        turns = Turns(run, model, tools, max_turns=max_turns)
        graph = _Graph(run, model, tools, await _middleware(run, model, models, turns))
        if _is_plain(run) and (run.toolbox is None or self.keeps_servers):
            self._graph = graph
        return graph, turns


class _Graph:
    """A compiled graph, and what it was compiled for: later runs with the same may use it."""

    def __init__(
        self,
        run: AgentRun,
        model: BaseChatModel,
        tools: LangChainTools,
        middleware: Sequence[AgentMiddleware[Any, Any, Any]],
    ) -> None:
        self._definition = _definition(run, model)
        self.tools = tools
        self.compiled: Any = create_agent(
            model,
            tools.all,
            system_prompt=run.system_prompt,
            middleware=[*middleware, TurnsMiddleware()],
            checkpointer=None if run.settings.on_interrupt is None else InMemorySaver(),
        )

    def fits(self, run: AgentRun, model: BaseChatModel) -> bool:
        """Check whether it is the graph that the run would compile."""
        return _is_plain(run) and self._definition == _definition(run, model)


def _is_plain(run: AgentRun) -> bool:
    """Check whether nothing in the graph of a run belongs to this run alone."""
    return not (
        run.model_config.agent_middleware
        or run.settings.on_interrupt
        or run.settings.tool_options
        or any(tool.static for tool in run.tools.values())
    )


def _definition(run: AgentRun, model: BaseChatModel) -> tuple[object, ...]:
    """Return what decides the graph of a plain run."""
    tools = tuple(run.tools.values())
    return (run.toolbox, type(model), profile_of(model), run.system_prompt, tools)


async def _answers(run: AgentRun, interrupts: Sequence[Interrupt]) -> dict[str, Any]:
    """Pass each interrupt to the callback of the run, and return the answers by interrupt."""
    on_interrupt = run.settings.on_interrupt
    assert on_interrupt is not None  # noqa: S101  # only then the graph has a checkpointer
    answers: dict[str, Any] = {}
    for interrupt in interrupts:
        answer = await resolve(on_interrupt(interrupt.value))
        answers[interrupt.id] = answer
        question = entries_of(interrupt.value)
        if question.get("type") == ELICITATION_INTERRUPT_TYPE:
            responses = entries_of(entries_of(answer).get("responses"))
            for request in question["requests"]:
                action = entries_of(responses.get(request["key"])).get("action")
                run.recorder.elicitation(question["server_name"], request["message"], action)
    return answers


async def _middleware(
    run: AgentRun, model: BaseChatModel, models: ChatModels, turns: Turns
) -> list[AgentMiddleware[Any, Any, Any]]:
    config = run.model_config
    if config.agent_middleware is None:
        return []
    tokens, summaries = config.max_context_tokens, config.agent_middleware.summarization
    is_known = tokens or summaries.trigger_tokens or not summaries.enabled
    if config.interface == "openai_endpoint" and not is_known:
        secret = config.endpoint_api_key
        key = None if secret is None else secret.get_secret_value()
        url, name = config.endpoint_base_url or "", config.model_name or ""
        tokens = await context_tokens(url, name, key)
    return await asyncio.to_thread(
        build_agent_middleware,
        config.agent_middleware,
        tokens,
        config.interface,
        model,
        provider_and_name(config)[0],
        max_turns=run.turns_left,
        retries_model=False,  # `Turns` does, within the deadline
        make_model=models.make,
        on_rejected=turns.on_rejected,
        on_summary=turns.on_summary,
    )


T = TypeVar("T")

_MODEL_NODE: Final = "model"
"""The node of an agent in which its model answers; summaries are written in others."""


class TokenHandler(AsyncCallbackHandler):
    """Records the parts of the agent's answers; with it, chat models stream.

    LangChain streams for a handler that has `tap_output_aiter` and `tap_output_iter`.
    """

    run_inline = True
    """In order, before the answer is complete."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._answers: dict[UUID, dict[int | str | None, tuple[str | None, str | None]]] = {}
        """The calls of each answer, by their index: id and name."""

    @override
    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if (metadata or {}).get("langgraph_node") == _MODEL_NODE:
            self._answers[run_id] = {}

    @override
    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: Any = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        message = getattr(chunk, "message", None)
        calls = self._answers.get(run_id)
        if calls is None or not isinstance(message, AIMessageChunk):
            return
        for block in message_from_any(message).content:
            match block:
                case TextContent(text) if text:
                    self._recorder.delta("text", text)
                case ThinkingContent(thinking) if thinking:
                    self._recorder.delta("thinking", thinking)
                case _:
                    pass
        for part in message.tool_call_chunks:
            known = calls.get(part["index"], (None, None))
            call_id, name = part["id"] or known[0], part["name"] or known[1]
            calls[part["index"]] = (call_id, name)
            self._recorder.delta("call", part["args"] or "", call_id=call_id, name=name)

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[T]) -> AsyncIterator[T]:
        """Return the output as it is."""
        del run_id
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[T]) -> Iterator[T]:
        """Return the output as it is."""
        del run_id
        return output
