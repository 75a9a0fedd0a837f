"""The options of `plait run` that concern the model and the message: settings and images."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from plait.agents.config import ModelConfig
from plait.traces.messages.content import ImageContent

_IMAGES: Final = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp"}

_MOST_IMAGE_BYTES: Final = 10_000_000


def read_image(path: str) -> ImageContent:
    """Read an image file that models accept."""
    kind = _IMAGES.get(Path(path).suffix.lower().lstrip("."))
    if kind is None:
        raise click.BadParameter(f"{path} is not PNG, JPEG, GIF or WebP", param_hint="--image")
    data = Path(path).read_bytes()
    if len(data) > _MOST_IMAGE_BYTES:
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
    if (url := options["base_url"]) is not None:
        if is_anthropic:
            changes["anthropic_base_url"] = url
        elif config.interface == "langchain":
            extra["base_url"] = url
        else:
            changes["endpoint_base_url"] = url
    if extra:
        changes["extra_kwargs"] = extra
    return ModelConfig.model_validate({**_fields_of(config), **changes}) if changes else config


def _fields_of(config: ModelConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.model_fields_set}
