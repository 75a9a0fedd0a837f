"""Which content of a tool result goes to the model, and which to the artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, Self, cast

from plait._support.suggestions import did_you_mean
from plait.client.calls.content import StructuredRoute
from plait.errors import ConfigError

Route = Literal["content", "artifact"]
"""`content` is read by the model; `artifact` only by the program."""

HandlingLayer = Route | Mapping[str, StructuredRoute | None] | None
"""A route for everything, routes by content type, or `None` for the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHandling:
    """The route of every content type."""

    text: Route = "content"
    image: Route = "content"
    audio: Route = "content"
    resource: Route = "artifact"
    resource_link: Route = "content"
    structured_content: StructuredRoute = "auto"

    @classmethod
    def of(cls, *layers: HandlingLayer) -> Self:
        """Merge layers, of which later ones win; unknown types and routes raise `ConfigError`."""
        merged = cls()
        for layer in layers:
            merged = replace(merged, **_routes(layer))
        return merged


_TYPES = tuple(field.name for field in fields(OutputHandling))


def _routes(layer: HandlingLayer) -> dict[str, Route]:
    if layer is None:
        return {}
    if not isinstance(layer, Mapping):
        return {name: _checked(name, layer) for name in _TYPES}
    return {name: _checked(name, route) for name, route in layer.items() if route is not None}


def _checked(name: str, route: object) -> Route:
    if name not in _TYPES:
        hint = did_you_mean(name, _TYPES) or f"the types are {', '.join(_TYPES)}"
        raise ConfigError(f"output_handling has no type {name!r}: {hint}")
    allowed = ("content", "artifact", *(["auto"] if name == "structured_content" else []))
    if route not in allowed:
        raise ConfigError(f"output_handling of {name} is {route!r}: use {' or '.join(allowed)}")
    return cast("Route", route)


DEFAULT_HANDLING = OutputHandling()
"""Everything goes to the model except embedded resources, which may be large."""
