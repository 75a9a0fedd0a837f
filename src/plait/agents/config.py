"""The configuration of models and runs, and what requests to models cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from plait._support.durations import checked_seconds, is_finite_number
from plait._support.mappings import entries_of
from plait._support.suggestions import suggest_names
from plait.errors import ConfigError
from plait.traces.events import TraceEvent
from plait.traces.messages.message import UsageMetadata
from plait.traces.trace import Trace

CostOf: TypeAlias = Callable[[str, UsageMetadata], float | None]
"""Takes the name of a model and a usage; returns US dollars, or `None` if they are not known."""

PriceTable: TypeAlias = Mapping[str, Mapping[str, float]]
"""US dollars for a million tokens, by model: `input`, `output`, `cache_read`, `cache_creation`."""

_COUNTS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_creation": "cache_creation_tokens",
}


def cost_function(prices: PriceTable | CostOf | None, provider: str | None = None) -> CostOf:
    """Return what computes costs; without `prices` it is `genai-prices`, if that is installed."""
    if callable(prices):
        return prices
    if prices is None:
        return lambda model, usage: _from_package(model, usage, provider)

    def from_table(model: str, usage: UsageMetadata) -> float | None:
        price = prices.get(model)
        counts = {name: getattr(usage, field) or 0 for name, field in _COUNTS.items()}
        if price is None or any(count and name not in price for name, count in counts.items()):
            return None
        return sum(count * price.get(name, 0.0) for name, count in counts.items()) / 1_000_000

    return from_table


def _from_package(model: str, usage: UsageMetadata, provider: str | None) -> float | None:
    try:
        package: Any = import_module("genai_prices")
    except ImportError:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    # Anthropic counts cached tokens separately; the package counts them as input.
    cached = read + written if provider == "anthropic" else 0
    counted = package.Usage(
        input_tokens=usage.input_tokens + cached,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read or None,
        cache_write_tokens=written or None,
    )
    try:
        price = package.calc_price(counted, model_ref=model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


_Seconds = Annotated[float, BeforeValidator(lambda value: checked_seconds(value, "a timeout"))]
_Delay = Annotated[
    float, BeforeValidator(lambda value: checked_seconds(value, "a delay", may_be_zero=True))
]
_Factor = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The settings of a run; they mean the same on every engine."""

    max_turns: int = 25
    """How often the model may answer."""
    system_prompt: str | None = None
    """Used if the messages contain none."""
    timeout: float | None = None
    """Seconds for the whole run; a partial result is kept."""
    question_hash: str | None = None
    """The MD5 of the question, by which the manual engine finds its recording."""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of one engine; `task_id` names a recording."""
    workspace_path: Path | None = None
    """The working folder, on engines that have one."""
    trace: str | Path | None = None
    """The file to which the trace is appended while the run proceeds."""
    tool_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How tools are listed and called: the options of a `Toolbox`, such as `policy`,
    `on_approval` and `result_budget`. On the langchain engine `tool_interceptors`,
    `before_tool_call` and `after_tool_call` wrap each call of a server's tool."""
    on_event: Callable[[TraceEvent], None] | None = None
    """Called with each event of the trace as it happens."""
    max_tokens_total: int | None = None
    """How many tokens the run may use, input and output; it ends at the limit."""
    max_cost_usd: float | None = None
    """How many US dollars the run may cost, if the price of the model is known."""
    prices: PriceTable | CostOf | None = None
    """The prices of models, or a function of a model and a usage; by default `genai-prices`."""
    stream: bool = False
    """Whether parts of answers are events too, as they arrive: `Delta`."""
    continues: Trace | None = None
    """The run whose conversation the messages continue; the trace refers to it."""
    on_interrupt: Callable[[Any], Awaitable[Any] | Any] | None = None
    """Answers the interrupts of a graph on the langchain engine, such as those for elicitation,
    approval and sign-in: takes the value of the interrupt, and returns the value to resume with.
    Without it, elicitations are declined, and calls that need approval or sign-in fail."""

    output_type: Any = None
    """A pydantic model, or the JSON Schema of an object, for `AgentResult.output`: the model is
    told its schema. An answer that does not fit is returned to it with what is wrong."""
    output_retries: int = 2
    """How often; then the run fails with `ParseError`."""

    @classmethod
    def of(
        cls, config: AgentConfig | Mapping[str, Any] | None, output_type: Any = None
    ) -> AgentConfig:
        """Read settings: `None` means the defaults, and a mapping has fields by name.

        `output_type` wins over the one in `config`.

        Raises:
            ConfigError: There is no such setting, or a value is wrong.
        """
        if isinstance(config, AgentConfig):
            return config if output_type is None else replace(config, output_type=output_type)
        values, names = entries_of(config), [each.name for each in fields(cls)]
        if config is not None and config != values:
            raise ConfigError(f"config is a {type(config).__name__}: pass an AgentConfig or a dict")
        for name in (name for name in values if name not in names):
            hint = suggest_names(name, names)
            raise ConfigError(f"{name!r} is not a setting of a run: {hint}")
        settings = cls(**values)
        return settings if output_type is None else replace(settings, output_type=output_type)

    def __post_init__(self) -> None:
        if type(self.max_turns) is not int:
            raise ConfigError(f"max_turns is {self.max_turns!r}: use a whole number")
        if self.max_turns < 1:
            raise ConfigError(f"max_turns is {self.max_turns}: an agent needs at least one turn")
        if self.timeout is not None:
            checked_seconds(self.timeout, "timeout")
        if self.max_tokens_total is not None and self.max_tokens_total < 1:
            raise ConfigError(f"max_tokens_total is {self.max_tokens_total}: use at least 1")
        cost = self.max_cost_usd
        if cost is not None and not (is_finite_number(cost) and cost > 0):
            raise ConfigError(f"max_cost_usd is {self.max_cost_usd}: use a positive number")

    @property
    def task_id(self) -> str | None:
        """The name of the task, if it has one."""
        task = self.extra.get("task_id")
        return None if task is None else str(task)


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
    backoff_factor: _Factor = 2.0
    initial_delay: _Delay = 2.0
    max_delay: _Delay = 10.0
    jitter: bool = True
    """Whether each delay varies by up to 25 %."""
    on_failure: Literal["continue", "raise"] = "continue"


class ToolRetryConfig(_Settings):
    """How tool calls are retried."""

    max_retries: int = Field(default=3, ge=0)
    backoff_factor: _Factor = 2.0
    initial_delay: _Delay = 1.0
    on_failure: Literal["return_message", "raise"] = "return_message"


class SummarizationConfig(_Settings):
    """When a long conversation is summarised, and how many messages are kept."""

    enabled: bool = True
    model: str | None = None
    """The model that summarises; by default the one that answers."""
    trigger_fraction: float = Field(default=0.8, strict=True, ge=0, le=1)
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
    mcp_http_timeout: _Seconds | None = None
    """Seconds for one HTTP request to a server; `None` means 30."""
    mcp_sse_read_timeout: _Seconds | None = None
    """Seconds without an event on an event stream of a server; `None` means 300."""
    agent_timeout: _Seconds | None = None
    """Seconds for a run whose `AgentConfig` sets no timeout."""
    request_timeout: _Seconds | None = None
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
        unused: tuple[str, ...] = ()
        if self.interface not in _ANTHROPIC_ENGINES and not (
            self.interface == "langchain" and is_anthropic
        ):
            unused += ("anthropic_base_url", "anthropic_api_key")
        if self.interface not in _ENDPOINT_ENGINES:
            unused += ("endpoint_base_url", "endpoint_api_key")
        for name in unused:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not used when interface={self.interface!r}")
        return self

    def secrets(self) -> list[str]:
        """Return the keys, for redaction."""
        keys = (self.endpoint_api_key, self.anthropic_api_key)
        return [key.get_secret_value() for key in keys if key is not None]
