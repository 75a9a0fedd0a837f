"""The settings of the reasoning server, from environment variables and a `.env` file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from plait._support.dotenv import DotenvError, parse_dotenv
from plait.errors import ConfigError, Problem
from plait.models.endpoints import endpoint_fault
from plait.reasoning.backends.http import BASE_URL, PipeNames, RetryPolicy

BackendName: TypeAlias = Literal[
    "langbase", "model", "openai", "sampling", "local", "host", "scripted"
]
Profile: TypeAlias = Literal["full", "compact"]
"""Which tools the server offers."""

LogLevel: TypeAlias = Literal["trace", "debug", "info", "warn", "error"]
LogFormat: TypeAlias = Literal["pretty", "json"]

DEFAULT_DATABASE: Final = Path("~/.local/share/plait/reasoning.db")
"""Where sessions are stored by default."""

MODEL_TIMEOUT_SECONDS: Final = 120.0
"""The default timeout of models other than Langbase's pipes: local ones are slow."""

_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPreference:
    """The backend that the user names; what is `None` is chosen automatically."""

    backend: BackendName | None = None
    model: str | None = None
    """`provider:name` for LangChain; the plain name for an endpoint."""
    base_url: str | None = None
    """An endpoint with OpenAI's protocol."""
    key: str | None = field(default=None, repr=False)
    """The key for that endpoint; no other key is ever sent there."""
    script: str | None = None
    """The file with the replies of the scripted backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeys:
    """The keys of providers."""

    langbase: str | None = field(default=None, repr=False)
    anthropic: str | None = field(default=None, repr=False)
    openai: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GotLimits:
    """The limits of a graph of thoughts that sets none of its own."""

    max_nodes: int = 100
    max_depth: int = 10
    default_k: int = 3
    prune_threshold: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningSettings:
    """The settings of a reasoning server."""

    preference: BackendPreference = field(default_factory=BackendPreference)
    keys: ApiKeys = field(default_factory=ApiKeys)
    langbase_url: str = BASE_URL
    openai_url: str | None = None
    """`OPENAI_BASE_URL`."""
    ollama_host: str | None = None
    """`OLLAMA_HOST`."""
    detect_ollama: bool = True
    """Whether an Ollama that is not configured may be used; `PLAIT_NO_OLLAMA` forbids it."""
    detect_local: bool = True
    """Whether a local model that is not configured may be used; `PLAIT_NO_LOCAL` forbids it."""
    timeout_seconds: float | None = None
    """For one attempt; `None` is 30 s for Langbase and 120 s for other models."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """Retries and pauses; `retry_policy` has the timeout too."""
    pipes: PipeNames = field(default_factory=PipeNames)
    got: GotLimits = field(default_factory=GotLimits)
    database: str | None = field(default=None, repr=False)
    """`DATABASE_PATH`: a file, or a URL that may contain a password; `None` is the default file."""
    database_connections: int = 5
    profile: Profile = "full"
    include_snapshots: bool = True
    """Whether results show the states of checkpoints unless a call says otherwise."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "pretty"
    notes: tuple[str, ...] = ()
    """What came from the `.env` file, by name, and what of it was not used."""

    def retry_policy(self, default_timeout_seconds: float) -> RetryPolicy:
        """Return the retry policy, with the timeout that is set or else the default."""
        return replace(self.retry, timeout_seconds=self.timeout_seconds or default_timeout_seconds)


class _Variables(BaseModel):
    """The environment variables that are read; fields have the names of variables."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    PLAIT_REASONING_BACKEND: Annotated[BackendName, BeforeValidator(str.lower)] | None = None
    PLAIT_REASONING_MODEL: str | None = None
    PLAIT_REASONING_BASE_URL: str | None = None
    PLAIT_REASONING_API_KEY: str | None = None
    PLAIT_REASONING_SCRIPT: str | None = None
    LANGBASE_API_KEY: str | None = None
    LANGBASE_BASE_URL: str = BASE_URL
    ANTHROPIC_API_KEY: str | None = None
    OPENAI_API_KEY: str | None = None
    OPENAI_BASE_URL: str | None = None
    OLLAMA_HOST: str | None = None
    PLAIT_NO_OLLAMA: str = "0"
    PLAIT_NO_LOCAL: str = "0"
    REQUEST_TIMEOUT_MS: Annotated[int, Field(ge=1, le=_DAY_MS)] | None = None
    MAX_RETRIES: int = Field(default=3, ge=0, le=20)
    RETRY_DELAY_MS: int = Field(default=1000, ge=0, le=_DAY_MS)
    GOT_MAX_NODES: int = Field(default=100, ge=10, le=1000)
    GOT_MAX_DEPTH: int = Field(default=10, ge=1, le=20)
    GOT_DEFAULT_K: int = Field(default=3, ge=1, le=10)
    GOT_PRUNE_THRESHOLD: float = Field(default=0.3, ge=0, le=1)
    DATABASE_PATH: str | None = None
    DATABASE_MAX_CONNECTIONS: int = Field(default=5, ge=1, le=1000)
    PLAIT_REASONING_PROFILE: Annotated[Profile, BeforeValidator(str.lower)] = "full"
    PLAIT_REASONING_SNAPSHOTS: Literal["0", "1"] = "1"
    LOG_LEVEL: Annotated[LogLevel, BeforeValidator(str.lower)] = "info"
    LOG_FORMAT: Annotated[LogFormat, BeforeValidator(str.lower)] = "pretty"


def read_settings(
    environ: Mapping[str, str],
    *,
    dotenv: Path | None = None,
    preference: BackendPreference | None = None,
) -> ReasoningSettings:
    """Read every variable; the environment wins over the file, `preference` over both.

    A missing file is no error.

    Raises:
        ConfigError: A value is invalid; the text names the variable and does not quote the value.
    """
    from_file, notes = _without_redirects(_dotenv(dotenv), environ, dotenv)
    values = {**from_file, **environ}
    for name, value in asdict(preference or BackendPreference()).items():
        variable = "PLAIT_REASONING_API_KEY" if name == "key" else f"PLAIT_REASONING_{name.upper()}"
        values[variable] = value or values.get(variable, "")
    # A blank value counts as unset.
    values = {name: text for name, value in values.items() if (text := value.strip())}
    variables = _validated(values)
    pipes = PipeNames()
    for mode in (pipe.name for pipe in fields(PipeNames)):
        # The four steps of a graph may share a pipe.
        shared = values.get("PIPE_GOT") if mode.startswith("got_") else None
        if name := values.get(f"PIPE_{mode.upper()}", shared):
            pipes = replace(pipes, **{mode: name})
    return ReasoningSettings(
        preference=BackendPreference(
            backend=variables.PLAIT_REASONING_BACKEND,
            model=variables.PLAIT_REASONING_MODEL,
            base_url=variables.PLAIT_REASONING_BASE_URL,
            key=variables.PLAIT_REASONING_API_KEY,
            script=variables.PLAIT_REASONING_SCRIPT,
        ),
        keys=ApiKeys(
            langbase=variables.LANGBASE_API_KEY,
            anthropic=variables.ANTHROPIC_API_KEY,
            openai=variables.OPENAI_API_KEY,
        ),
        langbase_url=variables.LANGBASE_BASE_URL.rstrip("/"),
        openai_url=variables.OPENAI_BASE_URL and variables.OPENAI_BASE_URL.rstrip("/"),
        ollama_host=variables.OLLAMA_HOST,
        detect_ollama=variables.PLAIT_NO_OLLAMA == "0",
        detect_local=variables.PLAIT_NO_LOCAL == "0",
        timeout_seconds=variables.REQUEST_TIMEOUT_MS and variables.REQUEST_TIMEOUT_MS / 1000,
        retry=RetryPolicy(
            max_retries=variables.MAX_RETRIES, first_delay_seconds=variables.RETRY_DELAY_MS / 1000
        ),
        pipes=pipes,
        got=GotLimits(
            max_nodes=variables.GOT_MAX_NODES,
            max_depth=variables.GOT_MAX_DEPTH,
            default_k=variables.GOT_DEFAULT_K,
            prune_threshold=variables.GOT_PRUNE_THRESHOLD,
        ),
        database=variables.DATABASE_PATH,
        database_connections=variables.DATABASE_MAX_CONNECTIONS,
        profile=variables.PLAIT_REASONING_PROFILE,
        include_snapshots=variables.PLAIT_REASONING_SNAPSHOTS == "1",
        log_level=variables.LOG_LEVEL,
        log_format=variables.LOG_FORMAT,
        notes=notes,
    )


def _validated(values: Mapping[str, str]) -> _Variables:
    messages: dict[str, str] = {}
    for name, has_key in (
        ("PLAIT_REASONING_BASE_URL", "PLAIT_REASONING_API_KEY" in values),
        ("LANGBASE_BASE_URL", True),
        ("OPENAI_BASE_URL", "OPENAI_API_KEY" in values),
    ):
        if name in values and (fault := endpoint_fault(values[name], secret=has_key)):
            messages[name] = fault
    variables = None
    try:
        variables = _Variables.model_validate(values)
    except ValidationError as error:
        properties = _Variables.model_json_schema()["properties"]
        for name in dict.fromkeys(str(detail["loc"][0]) for detail in error.errors()):
            messages[name] = _fault(properties[name], values[name])
    if variables is None or messages:
        raise ConfigError.from_problems(
            Problem(file=None, path=name, code="bad_value", message=message)
            for name, message in messages.items()
        )
    return variables


def _fault(schema: Mapping[str, Any], text: str) -> str:
    """Describe the expected value, and the kind of the one that is there without quoting it."""
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    if "enum" in schema:
        return f"must be one of {', '.join(schema['enum'])}, and is another word"
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    try:
        number = float(text)
    except ValueError:
        actual = "a text"
    else:
        actual = "a number outside of it" if number.is_integer() else "a fraction"
        if not math.isfinite(number):
            actual = "not a finite number"
    return f"must be {kind} from {schema['minimum']} to {schema['maximum']}, and is {actual}"


_KEY_OF_URL: Final = {
    "LANGBASE_BASE_URL": "LANGBASE_API_KEY",
    "OPENAI_BASE_URL": "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL": "ANTHROPIC_API_KEY",
    "PLAIT_REASONING_BASE_URL": "PLAIT_REASONING_API_KEY",
    "DATABASE_PATH": "PGPASSWORD",
}
"""The key that is sent to each address."""
_PASSWORD_IN_URL: Final = re.compile(r"://[^/@]*:[^/@]+@")


def _without_redirects(
    found: Mapping[str, str], environ: Mapping[str, str], path: Path | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Drop addresses to which a key from elsewhere would be sent; return notes about the file.

    The file may have come with a cloned repository.
    """
    known = {
        name: value
        for name, value in found.items()
        if (name in _Variables.model_fields or name in _KEY_OF_URL or name.startswith("PIPE_"))
        and not environ.get(name, "").strip()
    }
    stolen = [
        name
        for name, value in known.items()
        if environ.get(_KEY_OF_URL.get(name, ""), "").strip()
        # A database may be a file, or have a password of its own.
        and (name != "DATABASE_PATH" or ("://" in value and _PASSWORD_IN_URL.search(value) is None))
    ]
    kept = {name: value for name, value in known.items() if name not in stolen}
    notes = [f"{path} sets {', '.join(kept)}"] if kept else []
    for name in stolen:
        key = _KEY_OF_URL[name]
        notes.append(
            f"{name} in {path} is ignored, because {key} is not from there: "
            f"set {name} in the environment, or {key} in {path}"
        )
    return kept, tuple(notes)


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
