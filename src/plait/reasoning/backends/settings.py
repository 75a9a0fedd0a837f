"""The settings of the reasoning server, from environment variables and a `.env` file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from plait._support.dotenv import DotenvError, parse_dotenv
from plait.errors import ConfigError, Problem
from plait.models.endpoints import endpoint_fault
from plait.models.providers import ANTHROPIC, OPENAI
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.langbase import BASE_URL
from plait.reasoning.backends.pipes import PipeNames
from plait.reasoning.backends.variables import Variables

BackendName: TypeAlias = Literal[
    "langbase", "model", "openai", "sampling", "local", "host", "scripted"
]

LogLevel: TypeAlias = Literal["trace", "debug", "info", "warn", "error"]

LogFormat: TypeAlias = Literal["pretty", "json"]

MODEL_TIMEOUT_SECONDS: Final = 120.0
"""What models other than Langbase's pipes get: local ones are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user asks for; everything else is found out."""

    backend: BackendName | None = None

    model: str | None = None
    """`provider:name` for LangChain; the plain name for an endpoint."""

    base_url: str | None = None
    """An endpoint that speaks OpenAI's protocol."""

    key: str | None = field(default=None, repr=False)
    """The key for that endpoint; no other key is ever sent there."""

    script: str | None = None
    """The file with the replies of the scripted backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of providers."""

    langbase: str | None = field(default=None, repr=False)

    anthropic: str | None = field(default=None, repr=False)

    openai: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GotLimits:
    """What a graph of thoughts may grow to, unless it is started with limits of its own."""

    max_nodes: int = 100
    max_depth: int = 10
    default_k: int = 3
    prune_threshold: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningSettings:
    """Everything that can be set from outside."""

    wish: Wish = field(default_factory=Wish)

    keys: Keys = field(default_factory=Keys)

    langbase_url: str = BASE_URL

    openai_url: str | None = None
    """`OPENAI_BASE_URL`."""

    ollama_host: str | None = None
    """`OLLAMA_HOST`."""

    look_for_ollama: bool = True
    """Whether an Ollama that nobody named may be used; `PLAIT_NO_OLLAMA` says no."""

    timeout_seconds: float | None = None
    """For one attempt; `None` is 30 s for Langbase and 120 s for other models."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """Retries and pauses; `retry_policy` has the timeout too."""

    pipes: PipeNames = field(default_factory=PipeNames)

    got: GotLimits = field(default_factory=GotLimits)

    database: str | None = field(default=None, repr=False)
    """`DATABASE_PATH`: a file or a URL, which may hold a password; `None` is the usual place."""

    database_connections: int = 5

    log_level: LogLevel = "info"

    log_format: LogFormat = "pretty"

    def retry_policy(self, default_seconds: float) -> RetryPolicy:
        """Return how long to wait, with the timeout that is set, or else the given one."""
        return RetryPolicy(
            timeout_seconds=self.timeout_seconds or default_seconds,
            max_retries=self.retry.max_retries,
            first_delay_seconds=self.retry.first_delay_seconds,
        )


def read_settings(
    environ: Mapping[str, str], *, dotenv: Path | None = None, wish: Wish | None = None
) -> ReasoningSettings:
    """Read every variable; those of the environment win over those of the file.

    A file that is not there is no error. What `wish` says wins over the variables for the same.

    Raises:
        ConfigError: A value cannot be used; the text names the variable, and never quotes it.
    """
    given = Variables({**_dotenv(dotenv), **environ})
    settings = ReasoningSettings(
        wish=_wish(given, wish or Wish()),
        keys=Keys(
            langbase=given.text("LANGBASE_API_KEY"),
            anthropic=given.text(ANTHROPIC.key_variable),
            openai=given.text(OPENAI.key_variable),
        ),
        langbase_url=_url(given, "LANGBASE_BASE_URL", secret=True) or BASE_URL,
        openai_url=_url(given, "OPENAI_BASE_URL", secret=given.text("OPENAI_API_KEY") is not None),
        ollama_host=given.text("OLLAMA_HOST"),
        look_for_ollama=given.text("PLAIT_NO_OLLAMA") in (None, "0"),
        timeout_seconds=given.milliseconds("REQUEST_TIMEOUT_MS", lowest=1),
        retry=RetryPolicy(
            max_retries=given.whole("MAX_RETRIES", 3, lowest=0, highest=20),
            first_delay_seconds=_or(given.milliseconds("RETRY_DELAY_MS", lowest=0), 1.0),
        ),
        pipes=_pipes(given),
        got=GotLimits(
            max_nodes=given.whole("GOT_MAX_NODES", 100, lowest=10, highest=1000),
            max_depth=given.whole("GOT_MAX_DEPTH", 10, lowest=1, highest=20),
            default_k=given.whole("GOT_DEFAULT_K", 3, lowest=1, highest=10),
            prune_threshold=given.share("GOT_PRUNE_THRESHOLD", 0.3),
        ),
        database=given.text("DATABASE_PATH"),
        database_connections=given.whole("DATABASE_MAX_CONNECTIONS", 5, lowest=1, highest=1000),
        log_level=given.one_of("LOG_LEVEL", get_args(LogLevel)) or "info",
        log_format=given.one_of("LOG_FORMAT", get_args(LogFormat)) or "pretty",
    )
    given.raise_problems()
    return settings


def _wish(given: Variables, wish: Wish) -> Wish:
    base_url = wish.base_url or given.text("PLAIT_REASONING_BASE_URL")
    key = wish.key or given.text("PLAIT_REASONING_API_KEY")
    if base_url is not None and (fault := endpoint_fault(base_url, secret=key is not None)):
        given.refuse("PLAIT_REASONING_BASE_URL", fault)
    return Wish(
        backend=wish.backend or given.one_of("PLAIT_REASONING_BACKEND", get_args(BackendName)),
        model=wish.model or given.text("PLAIT_REASONING_MODEL"),
        base_url=base_url,
        key=key,
        script=wish.script or given.text("PLAIT_REASONING_SCRIPT"),
    )


def _pipes(given: Variables) -> PipeNames:
    """Read the names of pipes; `PIPE_GOT` is the one for all four steps of a graph."""
    usual = PipeNames()
    got = given.text("PIPE_GOT")
    return PipeNames(
        linear=given.text("PIPE_LINEAR") or usual.linear,
        tree=given.text("PIPE_TREE") or usual.tree,
        divergent=given.text("PIPE_DIVERGENT") or usual.divergent,
        reflection=given.text("PIPE_REFLECTION") or usual.reflection,
        auto=given.text("PIPE_AUTO") or usual.auto,
        backtracking=given.text("PIPE_BACKTRACKING") or usual.backtracking,
        got_generate=given.text("PIPE_GOT_GENERATE") or got or usual.got_generate,
        got_score=given.text("PIPE_GOT_SCORE") or got or usual.got_score,
        got_aggregate=given.text("PIPE_GOT_AGGREGATE") or got or usual.got_aggregate,
        got_refine=given.text("PIPE_GOT_REFINE") or got or usual.got_refine,
    )


def _url(given: Variables, name: str, *, secret: bool) -> str | None:
    url = given.text(name)
    if url is not None and (fault := endpoint_fault(url, secret=secret)):
        given.refuse(name, fault)
    return url.rstrip("/") if url is not None else None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _dotenv(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return parse_dotenv(path.read_text("utf-8-sig"))
    except (FileNotFoundError, IsADirectoryError):
        return {}
    except DotenvError as error:
        message, code = str(error), "bad_env_file"
    except (OSError, UnicodeDecodeError) as error:
        message, code = f"cannot be read: {type(error).__name__}", "file_unreadable"
    raise ConfigError.from_problems([Problem(file=str(path), path="", code=code, message=message)])
