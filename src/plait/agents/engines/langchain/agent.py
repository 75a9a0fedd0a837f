"""The engine `langchain`: LangGraph agents with any chat model of LangChain."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from typing_extensions import override

from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait.agents.agent_run import AgentRun
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.engines.langchain.chat_models import ChatModels, import_provider
from plait.agents.engines.langchain.messages import messages_to_langchain
from plait.agents.engines.langchain.middleware import build_agent_middleware
from plait.agents.engines.langchain.turns import HOOKS, LangChainTools, Turns, TurnsMiddleware
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_failures import failure_of_model, provider_and_name
from plait.client.catalog.tool import prepare_schemas
from plait.errors import PlaitError
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.interrupts import ELICITATION_INTERRUPT_TYPE
from plait.langchain.tools.model_support import profile_of
from plait.models.endpoints import context_tokens
from plait.traces.messages.content import TextContent, ThinkingContent
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.recorder import Recorder

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
