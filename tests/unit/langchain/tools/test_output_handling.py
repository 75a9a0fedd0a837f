"""Which parts of an answer the model reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import ConfigError
from plait.langchain.tools.content import OutputHandling

TYPES = ["text", "image", "audio", "resource", "resource_link"]


def test_only_embedded_resources_are_set_aside_by_default() -> None:
    handling = OutputHandling.of()

    assert {name: getattr(handling, name) for name in TYPES} == {
        "text": "content",
        "image": "content",
        "audio": "content",
        "resource": "artifact",
        "resource_link": "content",
    }
    assert handling.structured_content == "auto"
    assert OutputHandling.of(None, {}, None) == handling


def test_one_word_routes_everything() -> None:
    for route in ("content", "artifact"):
        handling = OutputHandling.of(route)

        assert {getattr(handling, name) for name in [*TYPES, "structured_content"]} == {route}


def test_a_later_layer_wins_only_where_it_says_something() -> None:
    client = {"image": "artifact", "audio": "artifact"}
    camera = {"image": "content", "audio": None}

    handling = OutputHandling.of(client, camera)  # pyright: ignore[reportArgumentType]

    assert handling == OutputHandling(audio="artifact")


def test_a_word_in_a_later_layer_replaces_single_routes() -> None:
    assert OutputHandling.of({"text": "artifact"}, "content").text == "content"
    assert OutputHandling.of("artifact", {"structured_content": "auto"}) == OutputHandling(
        text="artifact", image="artifact", audio="artifact", resource_link="artifact"
    )


@pytest.mark.parametrize(
    "layer",
    [
        "auto",
        "Content",
        7,
        {"text": "auto"},
        {"text": "nowhere"},
        {"picture": "content"},
        {"image": True},
    ],
)
def test_a_type_or_route_that_does_not_exist_is_refused(layer: Any) -> None:
    with pytest.raises(ConfigError):
        OutputHandling.of(layer)


def test_a_misspelt_type_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="resource_link"):
        OutputHandling.of({"resourceLink": "content"})


layers = (
    st.none()
    | st.sampled_from(["content", "artifact"])
    | st.dictionaries(st.sampled_from(TYPES), st.sampled_from(["content", "artifact"]))
)


@given(st.lists(layers, max_size=4), st.sampled_from(TYPES))
def test_the_last_layer_that_mentions_a_type_decides(given_layers: list[Any], name: str) -> None:
    said = [
        layer if isinstance(layer, str) else layer[name]
        for layer in given_layers
        if isinstance(layer, str) or (layer and name in layer)
    ]

    handling = OutputHandling.of(*given_layers)

    assert getattr(handling, name) == (said[-1] if said else getattr(OutputHandling(), name))
