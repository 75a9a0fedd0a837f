"""The configuration of a model: its engine, its credentials and its servers."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from plait.agents.middleware_config import AgentMiddlewareConfig

_ANTHROPIC_ENGINES = ("claude_tool", "claude_agent_sdk")
_ENDPOINT_ENGINES = ("openai_endpoint", "openrouter")
_ENGINES = ("langchain", *_ANTHROPIC_ENGINES, *_ENDPOINT_ENGINES, "manual")


class ModelConfig(BaseModel):
    """A model, and how an engine runs it as an agent."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = None
    """The name of this configuration."""
    model_provider: str | None = None
    """As LangChain spells it; only the engine `langchain` needs it."""
    model_name: str | None = None
    temperature: float | None = Field(default=0.1, ge=0)
    max_tokens: int = Field(default=8192, ge=1)
    interface: str = "langchain"
    """The engine: `langchain`, `openrouter`, `openai_endpoint`, `claude_tool`, `claude_agent_sdk`,
    `manual`, or one that another package registers."""
    system_prompt: str | None = None
    max_retries: int = Field(default=2, ge=0)
    """How often a request is retried after a transient failure of the provider."""
    mcp_urls_dict: dict[str, str] | None = None
    """Servers by name: a URL, a command line, or the path of a program."""
    mcp_tool_filter: list[str] | None = None
    """The tools that the agent may use; `None` means all, an empty list none."""
    mcp_tool_description_overrides: dict[str, str] | None = None
    """Descriptions by tool name, which replace those of the servers."""
    endpoint_base_url: str | None = None
    endpoint_api_key: SecretStr | None = None
    anthropic_base_url: str | None = None
    anthropic_api_key: SecretStr | None = None
    extra_kwargs: dict[str, Any] | None = None
    """Passed to the chat model unchanged."""
    manual_traces: Any = Field(default=None, exclude=True, repr=False)
    """The recordings of the manual engine: a file, or the input of `ManualTraces`."""
    agent_middleware: AgentMiddlewareConfig | None = None
    max_context_tokens: int | None = Field(default=None, ge=1)
    mcp_http_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one HTTP request to a server; `None` means 30."""
    mcp_sse_read_timeout: float | None = Field(default=None, gt=0)
    """Seconds without an event on an event stream of a server; `None` means 300."""
    agent_timeout: float | None = Field(default=None, gt=0)
    """Seconds for a run whose `AgentConfig` sets no timeout."""
    request_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one request to the model."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.interface != "manual":
            for name in ("id", "model_name"):
                if not getattr(self, name):
                    raise ValueError(f"{name} is required when interface={self.interface!r}")
            return self
        if self.manual_traces is None:
            raise ValueError("manual_traces is required when interface='manual'")
        if self.mcp_urls_dict is not None:
            raise ValueError(
                "MCP tools are not supported with manual interface: recordings call no tools"
            )
        self.id = self.id or "manual"
        self.model_name = self.model_name or "manual"
        return self

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        """Reject credentials that the engine would ignore."""
        if self.interface not in _ENGINES:
            return self
        named = (self.model_name or "").startswith("anthropic:")
        is_anthropic = self.model_provider == "anthropic" or (not self.model_provider and named)
        by_langchain = self.interface == "langchain" and is_anthropic
        if self.interface not in _ANTHROPIC_ENGINES and not by_langchain:
            self._refuse("anthropic_base_url", "anthropic_api_key")
        if self.interface not in _ENDPOINT_ENGINES:
            self._refuse("endpoint_base_url", "endpoint_api_key")
        return self

    def _refuse(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not used when interface={self.interface!r}")

    def secrets(self) -> list[str]:
        """Return the keys, for redaction."""
        keys = (self.endpoint_api_key, self.anthropic_api_key)
        return [key.get_secret_value() for key in keys if key is not None]
