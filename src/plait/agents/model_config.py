"""Which model answers, through which engine, with which servers."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from plait.agents.middleware_config import AgentMiddlewareConfig

_TAKES_ANTHROPIC = ("claude_tool", "claude_agent_sdk")
_TAKES_ENDPOINT = ("openai_endpoint", "openrouter")
_KNOWN = ("langchain", *_TAKES_ANTHROPIC, *_TAKES_ENDPOINT, "manual")


class ModelConfig(BaseModel):
    """A model, and all that an engine needs to know to run it as an agent."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = None
    """The name of this configuration."""

    model_provider: str | None = None
    """As LangChain spells it; needed by the interface `langchain` only."""

    model_name: str | None = None
    temperature: float | None = Field(default=0.1, ge=0)
    max_tokens: int = Field(default=8192, ge=1)
    interface: str = "langchain"
    """The engine: `langchain`, `openrouter`, `openai_endpoint`, `claude_tool`, `claude_agent_sdk`,
    `manual`, or one that another package registers."""

    system_prompt: str | None = None
    max_retries: int = Field(default=2, ge=0)
    """How often the provider is asked again after a failure that may pass."""

    mcp_urls_dict: dict[str, str] | None = None
    """Servers by name: a URL, a command line, or the path of a program."""

    mcp_tool_filter: list[str] | None = None
    """The tools that the agent may use; `None` is all of them, an empty list none."""

    mcp_tool_description_overrides: dict[str, str] | None = None
    """Descriptions by the name of the tool, instead of the servers' own."""

    endpoint_base_url: str | None = None
    endpoint_api_key: SecretStr | None = None
    anthropic_base_url: str | None = None
    anthropic_api_key: SecretStr | None = None
    extra_kwargs: dict[str, Any] | None = None
    """Passed to the chat model as they are."""

    manual_traces: Any = Field(default=None, exclude=True, repr=False)
    """The recordings of the manual engine: a file, or what `ManualTraces` holds."""

    agent_middleware: AgentMiddlewareConfig | None = None
    max_context_tokens: int | None = Field(default=None, ge=1)
    mcp_http_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one exchange with a server over HTTP; `None` is 30."""

    mcp_sse_read_timeout: float | None = Field(default=None, gt=0)
    """Seconds without a word on a stream of a server; `None` is 300."""

    agent_timeout: float | None = Field(default=None, gt=0)
    """Seconds for a run whose `AgentConfig` sets none."""

    request_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one request to the model."""

    @model_validator(mode="after")
    def _check_manual(self) -> Self:
        if self.interface != "manual":
            return self
        if self.manual_traces is None:
            raise ValueError("manual_traces is required when interface='manual'")
        if self.mcp_urls_dict is not None:
            raise ValueError(
                "MCP tools are not supported with manual interface: recorded answers call no tools"
            )
        self.id = self.id or "manual"
        self.model_name = self.model_name or "manual"
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.interface == "manual":
            return self
        for name in ("id", "model_name"):
            if not getattr(self, name):
                raise ValueError(f"{name} is required when interface={self.interface!r}")
        return self

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        """Refuse credentials that the engine would not use: nobody would know why it fails."""
        if self.interface not in _KNOWN:
            return self
        named = (self.model_name or "").startswith("anthropic:")
        is_anthropic = self.model_provider == "anthropic" or (not self.model_provider and named)
        by_langchain = self.interface == "langchain" and is_anthropic
        if self.interface not in _TAKES_ANTHROPIC and not by_langchain:
            self._refuse("anthropic_base_url", "anthropic_api_key")
        if self.interface not in _TAKES_ENDPOINT:
            self._refuse("endpoint_base_url", "endpoint_api_key")
        return self

    def _refuse(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not used when interface={self.interface!r}")

    def secrets(self) -> list[str]:
        """Return what must not be shown: the keys."""
        keys = (self.endpoint_api_key, self.anthropic_api_key)
        return [key.get_secret_value() for key in keys if key is not None]
