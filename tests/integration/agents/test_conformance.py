"""Four engines, one suite: what each of them must do with the same script and the same servers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest
from typing_extensions import override

from plait import AgentConfig, AgentResult, Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, OpenAIServer
from plait.traces import UsageMetadata, hash_question, to_prompt_string
from tests.integration.agents.agent_suite import (
    KEY,
    AgentStage,
    AgentSuite,
    LiveAgentSuite,
    Play,
    StageOptions,
)


class LiveStage:
    """An engine whose model is a stand-in of its provider's API."""

    def __init__(
        self,
        api: AnthropicServer | OpenAIServer,
        config: ModelConfig,
        *,
        slowness: float = 4.0,
        streams_by: str | None = "streaming",
    ) -> None:
        """Take the setting of the model that makes it stream; without one it always does."""
        self._api = api
        self._config = config
        self.slowness_seconds = slowness
        self._streams_by = streams_by

    @property
    def spent(self) -> UsageMetadata:
        return self._api.spent

    async def run(
        self,
        play: Play,
        messages: Sequence[Message],
        config: AgentConfig | None = None,
        **options: Unpack[StageOptions],
    ) -> AgentResult:
        self._api.play(list(play))
        model = self._config.model_copy(update={"max_retries": options.get("retries", 0)})
        streaming = options.get("streaming")
        if streaming is not None and self._streams_by is not None:
            model = model.model_copy(update={"extra_kwargs": {self._streams_by: streaming}})
        agent = get_agent(model, auto_fallback=False)
        return await agent.arun(
            messages, options.get("tools"), options.get("servers") or {}, config
        )


class ReplayStage(LiveStage):
    """The manual engine, with what another engine has just recorded."""

    def __init__(self, api: AnthropicServer, config: ModelConfig, folder: Path) -> None:
        super().__init__(api, config)
        self._folder = folder

    @override
    async def run(
        self,
        play: Play,
        messages: Sequence[Message],
        config: AgentConfig | None = None,
        **options: Unpack[StageOptions],
    ) -> AgentResult:
        config = config or AgentConfig()
        trace = Path(config.trace or self._folder / "recorded.jsonl")
        recorded = await super().run(play, messages, replace(config, trace=trace), **options)
        manual = get_agent(ModelConfig(interface="manual", manual_traces=str(trace)))
        question = AgentConfig(question_hash=hash_question(to_prompt_string(messages)))
        replays = [await manual.arun(messages, config=question) for _ in range(100)]
        assert all(replay == recorded for replay in replays)
        return replays[0]


def claude(interface: str, url: str, **more: Any) -> ModelConfig:
    return ModelConfig(
        id="claude",
        interface=interface,
        model_name="claude-test",
        anthropic_base_url=url,
        anthropic_api_key=KEY,  # pyright: ignore[reportArgumentType]  # pydantic makes it a secret
        max_retries=0,
        **more,
    )


class TestLangChain(LiveAgentSuite):
    @pytest.fixture
    def stage(self, anthropic: AnthropicServer) -> AgentStage:
        return LiveStage(anthropic, claude("langchain", anthropic.url, model_provider="anthropic"))


class TestOpenAIEndpoint(LiveAgentSuite):
    @pytest.fixture
    def stage(self) -> Generator[AgentStage]:
        with OpenAIServer(key=KEY) as api:
            config = ModelConfig(
                id="endpoint",
                interface="openai_endpoint",
                model_name="test-model",
                endpoint_base_url=api.base_url,
                endpoint_api_key=KEY,  # pyright: ignore[reportArgumentType]  # as above
                max_retries=0,
            )
            yield LiveStage(api, config)


class TestClaudeTool(LiveAgentSuite):
    @pytest.fixture
    def stage(self, anthropic: AnthropicServer) -> AgentStage:
        config = claude("claude_tool", anthropic.url)
        return LiveStage(anthropic, config, streams_by="stream")


class TestClaudeAgentSDK(LiveAgentSuite):
    @pytest.fixture
    def stage(self, anthropic: AnthropicServer) -> AgentStage:
        config = claude("claude_agent_sdk", anthropic.url)
        return LiveStage(anthropic, config, slowness=15.0, streams_by=None)


class TestManual(AgentSuite):
    @pytest.fixture
    def stage(self, anthropic: AnthropicServer, tmp_path: Path) -> AgentStage:
        return ReplayStage(anthropic, claude("claude_tool", anthropic.url), tmp_path)
