"""The configuration of middleware on the langchain engine: limits, retries, summaries."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AgentLimitConfig(_Settings):
    """The limits of a run."""

    model_call_limit: int = Field(default=25, ge=1)
    tool_call_limit: int = Field(default=50, ge=1)
    exit_behavior: Literal["end", "continue"] = "end"


class ModelRetryConfig(_Settings):
    """How requests to the model are retried."""

    max_retries: int = Field(default=2, ge=0)
    backoff_factor: float = Field(default=2.0, ge=0)
    initial_delay: float = Field(default=2.0, ge=0)
    max_delay: float = Field(default=10.0, ge=0)
    jitter: bool = True
    """Whether each delay varies by up to 25 %."""
    on_failure: Literal["continue", "raise"] = "continue"


class ToolRetryConfig(_Settings):
    """How tool calls are retried."""

    max_retries: int = Field(default=3, ge=0)
    backoff_factor: float = Field(default=2.0, ge=0)
    initial_delay: float = Field(default=1.0, ge=0)
    on_failure: Literal["return_message", "raise"] = "return_message"


class SummarizationConfig(_Settings):
    """When a long conversation is summarised, and how many messages are kept."""

    enabled: bool = True
    model: str | None = None
    """The model that summarises; by default the one that answers."""
    trigger_fraction: float = Field(default=0.8, ge=0, le=1)
    trigger_tokens: int | None = Field(default=None, ge=1)
    keep_messages: int = Field(default=20, ge=1)


class PromptCachingConfig(_Settings):
    """Whether and how long the provider caches prompts."""

    enabled: bool = True
    ttl: Literal["5m", "1h"] = "5m"
    min_messages_to_cache: int = Field(default=0, ge=0)
    unsupported_model_behavior: Literal["ignore", "warn", "raise"] = "warn"


class AgentMiddlewareConfig(_Settings):
    """The middleware of an agent; each part has defaults."""

    limits: AgentLimitConfig = Field(default_factory=AgentLimitConfig)
    model_retry: ModelRetryConfig = Field(default_factory=ModelRetryConfig)
    tool_retry: ToolRetryConfig = Field(default_factory=ToolRetryConfig)
    summarization: SummarizationConfig = Field(default_factory=SummarizationConfig)
    prompt_caching: PromptCachingConfig = Field(default_factory=PromptCachingConfig)
