"""The options that `plait run` and `plait chat` share, and what they mean for model and message."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from plait._support.suggestions import suggest_names
from plait.cli.base import Command, repeatable, timeout_option
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.agents.config import ModelConfig
    from plait.traces.messages.content import ImageContent

_IMAGES: Final = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp"}

MAX_IMAGE_BYTES: Final = 10_000_000
"""Providers refuse larger images."""


def _known_engine(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from plait.agents.registry import REGISTRY

    known = REGISTRY.names()
    if value not in known:
        raise click.BadParameter(f"there is no engine {value!r}: {suggest_names(value, known)}")
    return value


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    from plait.client.config.read import read_options

    budget = False if value == "off" else int(value) if value.isdecimal() else value
    try:
        read_options({"result_budget": budget})
    except ConfigError as error:
        raise click.BadParameter(f"{error.problems[0].message}; or write off") from error
    return budget


_OPTIONS: Final = (
    repeatable("--server", "servers", "NAME", "Use this server only"),
    click.option(
        "--model",
        metavar="MODEL",
        help="PROVIDER:NAME, ollama:NAME, URL#NAME, scripted:FILE or manual:FILE; "
        "by default $PLAIT_MODEL, or the first model found.",
    ),
    click.option(
        "--engine",
        metavar="ENGINE",
        callback=_known_engine,
        help="langchain, claude_tool, claude_agent_sdk, openai_endpoint, openrouter or manual; "
        "by default the one that fits the model.",
    ),
    click.option(
        "--max-turns",
        type=click.IntRange(min=1),
        default=25,
        show_default=True,
        metavar="N",
        help="Maximum number of model turns for one task.",
    ),
    timeout_option("Timeout of one task."),
    click.option("--policy", metavar="PATH", help="Use this policy instead of the configured one."),
    click.option(
        "--yes", is_flag=True, help="Approve calls for which the policy requires approval."
    ),
    click.option("--system", metavar="TEXT", help="System prompt."),
    repeatable("--image", "images", "FILE", "Show this image to the model"),
    click.option(
        "--temperature", type=click.FloatRange(min=0), metavar="NUMBER", help="Temperature."
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum tokens of one answer.",
    ),
    click.option(
        "--thinking",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens that a model of Anthropic may think.",
    ),
    click.option("--base-url", metavar="URL", help="URL of the model's API."),
    click.option(
        "--max-total-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum tokens of the whole run or conversation.",
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Maximum cost of the whole run or conversation in US dollars, if the price of the "
        "model is known.",
    ),
    click.option(
        "--continue",
        "continued",
        is_flag=False,
        flag_value="",
        metavar="[TRACE]",
        help="Continue the conversation of this trace, by default the newest: that of --trace, or "
        "of the last plait chat in this folder.",
    ),
    click.option("--trace", metavar="FILE", help="Append the trace to this file."),
    click.option(
        "--result-budget",
        metavar="SIZE",
        callback=_budget,
        help="Limit of one tool result: tokens, a size such as 200kB, or off; "
        "by default the configured one, or 20000.",
    ),
    click.option("--no-ollama", is_flag=True, help="Do not look for Ollama on this machine."),
)


def agent_options(command: Command) -> Command:
    """Add the options of a command that runs an agent."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_image(path: str) -> ImageContent:
    """Read an image file that models accept."""
    from plait.traces.messages.content import ImageContent

    kind = _IMAGES.get(Path(path).suffix.lower().lstrip("."))
    if kind is None:
        raise click.BadParameter(f"{path} is not PNG, JPEG, GIF or WebP", param_hint="--image")
    data = Path(path).read_bytes()
    if len(data) > MAX_IMAGE_BYTES:
        raise click.BadParameter(f"{path} is larger than 10 MB", param_hint="--image")
    return ImageContent(base64.b64encode(data).decode(), f"image/{kind}")


def with_model_options(config: ModelConfig, options: Mapping[str, Any]) -> ModelConfig:
    """Return the model with the settings of the command line."""
    changes: dict[str, Any] = {}
    extra = dict(config.extra_kwargs or {})
    if options["temperature"] is not None:
        changes["temperature"] = options["temperature"]
    if options["max_tokens"] is not None:
        changes["max_tokens"] = options["max_tokens"]
    is_claude = config.interface in ("claude_tool", "claude_agent_sdk")
    is_anthropic = is_claude or config.model_provider == "anthropic"
    if (tokens := options["thinking"]) is not None:
        if config.interface == "claude_agent_sdk":
            extra["max_thinking_tokens"] = tokens
        elif is_anthropic:
            extra["thinking"] = {"type": "enabled", "budget_tokens": tokens}
            changes.setdefault("temperature", None)
        else:
            text = "only models of Anthropic take a number of tokens to think"
            raise click.BadParameter(text, param_hint="--thinking")
    if (url := options["base_url"]) is not None and not is_anthropic:
        # The URL of Anthropic or of OpenAI's protocol is part of the choice of the model.
        if config.interface == "openrouter":
            _check_url(url)
            changes["endpoint_base_url"] = url
        elif config.interface != "openai_endpoint":
            _check_url(url)
            extra["base_url"] = url
    if extra:
        changes["extra_kwargs"] = extra
    fields = {name: getattr(config, name) for name in config.model_fields_set}
    return config.model_validate({**fields, **changes}) if changes else config


def _check_url(url: str) -> None:
    from plait.models.endpoints import endpoint_fault

    if (fault := endpoint_fault(url, secret=True)) is not None:
        raise click.BadParameter(fault, param_hint="--base-url")
