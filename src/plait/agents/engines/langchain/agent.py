"""The engine `langchain`: LangGraph agents with any chat model of LangChain."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import override

from plait.agents.agent_run import AgentRun
from plait.agents.engines.langchain.chat_models import (
    ChatModels,
    import_provider,
    provider_and_name,
)
from plait.agents.engines.langchain.failures import failure_of_model
from plait.agents.engines.langchain.messages import messages_to_langchain, usage_from_langchain
from plait.agents.engines.langchain.middleware import build_agent_middleware
from plait.agents.engines.langchain.tools import takes_images, tools_for
from plait.agents.engines.langchain.turns import Turns
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_config import ModelConfig
from plait.errors import PlaitError
from plait.models.connections import context_tokens

_STEPS_OF_A_TURN = 20
"""More steps of a graph than a turn with all middleware takes."""


class LangChainAgent(LiveAgent):
    """Runs agents on LangGraph; also those of the interfaces `openrouter` and `openai_endpoint`.

    With `model` it asks that chat model, and the configuration says only how.

    Raises:
        EngineUnavailableError: The package of the provider is missing.
    """

    engine = "langchain"
    runs_local_models = True

    def __init__(self, model_config: ModelConfig, model: BaseChatModel | None = None) -> None:
        super().__init__(model_config)
        self._model = model
        if model is None:  # now, since it would take its time from the first run
            import_provider(model_config)

    @override
    async def drive(self, run: AgentRun) -> Ending:
        """Ask the model, and call tools, until there is an answer."""
        config = run.model_config
        try:
            # With middleware, that asks again; both would multiply.
            retries = config.max_retries if config.agent_middleware is None else 0
            async with contextlib.aclosing(ChatModels(config, max_retries=retries)) as models:
                model = self._model or await asyncio.to_thread(models.make)
                return await _converse(run, model, models)
        except (ModelCallLimitExceededError, ToolCallLimitExceededError):
            return "limit"
        except PlaitError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: of providers there are many
            failure = failure_of_model(error, config, run.redact)
        raise failure


async def _converse(run: AgentRun, model: BaseChatModel, models: ChatModels) -> Ending:
    middleware = run.model_config.agent_middleware
    max_turns = run.settings.max_turns
    if middleware is not None:
        max_turns = min(max_turns, middleware.limits.model_call_limit)
    turns = Turns(run, max_turns=max_turns, images=takes_images(model))
    agent: Any = create_agent(
        model,
        tools_for(run.tools.values(), model),
        system_prompt=run.system_prompt,
        middleware=[*await _middleware(run, model, models, turns), turns],
        checkpointer=InMemorySaver(),
    )
    run.session_id = str(uuid.uuid4())
    settings: RunnableConfig = {
        "configurable": {
            **(run.settings.extra.get("configurable") or {}),
            "thread_id": run.session_id,
        },
        "recursion_limit": _STEPS_OF_A_TURN * (max_turns + 1),
    }
    asked = {"messages": messages_to_langchain(run.messages)}
    # Nobody continues the thread while the run goes on: saving each step would be for nothing.
    steps = agent.astream(asked, settings, stream_mode="updates", durability="exit")
    async with contextlib.aclosing(steps):
        async for _ in steps:
            pass
    return "completed"


async def _middleware(
    run: AgentRun, model: BaseChatModel, models: ChatModels, turns: Turns
) -> list[AgentMiddleware[Any, Any, Any]]:
    config = run.model_config
    if config.agent_middleware is None:
        return []

    def heard(answer: AIMessage) -> None:
        turns.spent(usage_from_langchain(answer))

    return await asyncio.to_thread(
        build_agent_middleware,
        config.agent_middleware,
        await _context_tokens(config),
        config.interface,
        model,
        provider_and_name(config)[0],
        max_turns=run.settings.max_turns,
        request_timeout=config.request_timeout,
        make_model=models.make,
        refused=turns.refused,
        heard=heard,
    )


async def _context_tokens(config: ModelConfig) -> int | None:
    summaries = config.agent_middleware and config.agent_middleware.summarization
    known = config.max_context_tokens or not summaries or summaries.trigger_tokens
    if known or not summaries or not summaries.enabled or config.interface != "openai_endpoint":
        return config.max_context_tokens
    key = config.endpoint_api_key
    return await context_tokens(
        config.endpoint_base_url or "",
        config.model_name or "",
        None if key is None else key.get_secret_value(),
    )
