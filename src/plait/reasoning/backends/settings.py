"""The settings of the reasoning server, from environment variables and a `.env` file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
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

_Url = Annotated[str, BeforeValidator(lambda text: text.rstrip("/"))]
_Unless1 = Annotated[bool, BeforeValidator(lambda value: value in (True, "0"))]
"""True unless a variable forbids it."""


def _from(variable: str, default: Any = None, **options: Any) -> Any:
    """Describe a field that is read from an environment variable."""
    return Field(default=default, validation_alias=variable, **options)


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class BackendPreference(_Settings):
    """The backend that the user names; what is `None` is chosen automatically."""

    backend: Annotated[BackendName, BeforeValidator(str.lower)] | None = _from(
        "PLAIT_REASONING_BACKEND"
    )
    model: str | None = _from("PLAIT_REASONING_MODEL")
    """`provider:name` for LangChain; the plain name for an endpoint."""
    base_url: str | None = _from("PLAIT_REASONING_BASE_URL")
    """An endpoint with OpenAI's protocol."""
    key: str | None = _from("PLAIT_REASONING_API_KEY", repr=False)
    """The key for that endpoint; no other key is ever sent there."""
    script: str | None = _from("PLAIT_REASONING_SCRIPT")
    """The file with the replies of the scripted backend."""


class ApiKeys(_Settings):
    """The keys of providers."""

    langbase: str | None = _from("LANGBASE_API_KEY", repr=False)
    anthropic: str | None = _from("ANTHROPIC_API_KEY", repr=False)
    openai: str | None = _from("OPENAI_API_KEY", repr=False)


class GotLimits(_Settings):
    """The limits of a graph of thoughts that sets none of its own."""

    max_nodes: int = _from("GOT_MAX_NODES", 100, ge=10, le=1000)
    max_depth: int = _from("GOT_MAX_DEPTH", 10, ge=1, le=20)
    default_k: int = _from("GOT_DEFAULT_K", 3, ge=1, le=10)
    prune_threshold: float = _from("GOT_PRUNE_THRESHOLD", 0.3, ge=0, le=1)


class RequestTimes(_Settings):
    """How long requests to a model may take, and how often they are repeated."""

    timeout_ms: Annotated[int, Field(ge=1, le=_DAY_MS)] | None = _from("REQUEST_TIMEOUT_MS")
    """For one attempt; `None` is 30 s for Langbase and 120 s for other models."""
    max_retries: int = _from("MAX_RETRIES", 3, ge=0, le=20)
    retry_delay_ms: int = _from("RETRY_DELAY_MS", 1000, ge=0, le=_DAY_MS)


class ReasoningSettings(_Settings):
    """The settings of a reasoning server."""

    preference: BackendPreference = BackendPreference()
    keys: ApiKeys = ApiKeys()
    times: RequestTimes = RequestTimes()
    got: GotLimits = GotLimits()
    pipes: PipeNames = PipeNames()
    langbase_url: _Url = _from("LANGBASE_BASE_URL", BASE_URL)
    openai_url: _Url | None = _from("OPENAI_BASE_URL")
    ollama_host: str | None = _from("OLLAMA_HOST")
    detect_ollama: _Unless1 = _from("PLAIT_NO_OLLAMA", default=True)
    """Whether an Ollama that is not configured may be used."""
    detect_local: _Unless1 = _from("PLAIT_NO_LOCAL", default=True)
    """Whether a local model that is not configured may be used."""
    database: str | None = _from("DATABASE_PATH", repr=False)
    """A file, or a URL that may contain a password; `None` is the default file."""
    database_connections: int = _from("DATABASE_MAX_CONNECTIONS", 5, ge=1, le=1000)
    profile: Annotated[Profile, BeforeValidator(str.lower)] = _from(
        "PLAIT_REASONING_PROFILE", "full"
    )
    include_snapshots: bool = _from("PLAIT_REASONING_SNAPSHOTS", default=True)
    """Whether results show the states of checkpoints unless a call says otherwise."""
    output_schemas: bool = _from("PLAIT_REASONING_OUTPUT_SCHEMAS", default=True)
    """Whether tools of the full profile list the schemas of their results: 43 of 67 kB."""
    log_level: Annotated[LogLevel, BeforeValidator(str.lower)] = _from("LOG_LEVEL", "info")
    log_format: Annotated[LogFormat, BeforeValidator(str.lower)] = _from("LOG_FORMAT", "pretty")
    notes: tuple[str, ...] = ()
    """What came from the `.env` file, by name, and what of it was not used."""

    def retry_policy(self, default_timeout_seconds: float) -> RetryPolicy:
        """Return the retry policy, with the timeout that is set or else the default."""
        times = self.times
        return RetryPolicy(
            timeout_seconds=times.timeout_ms / 1000
            if times.timeout_ms
            else default_timeout_seconds,
            max_retries=times.max_retries,
            first_delay_seconds=times.retry_delay_ms / 1000,
        )


_NESTED: Final[Mapping[str, type[_Settings]]] = {
    "preference": BackendPreference,
    "keys": ApiKeys,
    "times": RequestTimes,
    "got": GotLimits,
}
"""The fields of `ReasoningSettings` that read variables of their own."""

VARIABLES: Final[Mapping[str, Mapping[str, Any]]] = {
    variable: schema
    for kind in (*_NESTED.values(), ReasoningSettings)
    for variable, schema in kind.model_json_schema()["properties"].items()
    if variable.isupper()
}
"""The schema of each variable that is read."""


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
    for name, value in (preference or BackendPreference()).model_dump().items():
        variable = "PLAIT_REASONING_API_KEY" if name == "key" else f"PLAIT_REASONING_{name.upper()}"
        values[variable] = value or values.get(variable, "")
    # A blank value counts as unset.
    values = {name: text for name, value in values.items() if (text := value.strip())}
    messages: dict[str, str] = {}
    for name, has_key in (
        ("PLAIT_REASONING_BASE_URL", "PLAIT_REASONING_API_KEY" in values),
        ("LANGBASE_BASE_URL", True),
        ("OPENAI_BASE_URL", "OPENAI_API_KEY" in values),
    ):
        if name in values and (fault := endpoint_fault(values[name], secret=has_key)):
            messages[name] = fault
    pipes = PipeNames()
    for mode in (pipe.name for pipe in fields(PipeNames)):
        # The four steps of a graph may share a pipe.
        shared = values.get("PIPE_GOT") if mode.startswith("got_") else None
        if name := values.get(f"PIPE_{mode.upper()}", shared):
            pipes = replace(pipes, **{mode: name})
    settings = None
    known = {name: text for name, text in values.items() if name in VARIABLES}
    nested = dict.fromkeys(_NESTED, known)
    try:
        settings = ReasoningSettings.model_validate(
            {**known, **nested, "pipes": pipes, "notes": notes}
        )
    except ValidationError as error:
        for name in dict.fromkeys(str(detail["loc"][-1]) for detail in error.errors()):
            messages[name] = _fault(VARIABLES[name], values[name])
    if settings is None or messages:
        raise ConfigError.from_problems(
            Problem(file=None, path=name, code="bad_value", message=message)
            for name, message in messages.items()
        )
    return settings


def _fault(schema: Mapping[str, Any], text: str) -> str:
    """Describe the expected value, and the kind of the one that is there without quoting it."""
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    if "enum" in schema:
        return f"must be one of {', '.join(schema['enum'])}, and is another word"
    if schema["type"] == "boolean":
        return "must be 0 or 1, and is another word"
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
        if (name in VARIABLES or name in _KEY_OF_URL or name.startswith("PIPE_"))
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
