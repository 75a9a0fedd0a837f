"""The providers whose keys say that a model can be had, and the model to take of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of models."""

    name: str
    """As LangChain spells it: the first half of `provider:model`."""

    key_variable: str
    """The environment variable that holds the key."""

    model: str
    """The model to use when none is named: a small one, since it is asked often."""

    package: str | None
    """The package without which LangChain cannot reach it; `None` where plait can by itself."""


ANTHROPIC: Final = Provider(
    name="anthropic",
    key_variable="ANTHROPIC_API_KEY",
    model="claude-haiku-5-5",
    package="langchain_anthropic",
)

OPENAI: Final = Provider(
    name="openai", key_variable="OPENAI_API_KEY", model="gpt-4o-mini", package=None
)

PROVIDERS: Final = (ANTHROPIC, OPENAI)
"""In the order in which their keys count."""

OPENROUTER_KEY: Final = "OPENROUTER_API_KEY"

_SECRETS: Final = (
    *(one.key_variable for one in PROVIDERS),
    "ANTHROPIC_AUTH_TOKEN",
    OPENROUTER_KEY,
    "PLAIT_MODEL_API_KEY",
)


def keys_in(environ: Mapping[str, str]) -> list[str]:
    """Return the keys of providers that an environment holds, so that they can be hidden."""
    return [key for name in _SECRETS if (key := environ.get(name, "").strip())]


def installed_packages() -> frozenset[str]:
    """Return the packages that providers need and this environment has."""
    needed = {one.package for one in PROVIDERS if one.package is not None}
    return frozenset(package for package in needed if find_spec(package) is not None)
