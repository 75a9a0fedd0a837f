"""URLs of endpoints, and where Ollama would be."""

from __future__ import annotations

import pytest

from plait.models.endpoints import (
    endpoint_fault,
    is_loopback,
    ollama_url,
    origin_of,
    texts_at,
    with_version,
    writing_models,
)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.8.9.1", True),
        ("https://localhost/v1", True),
        ("http://LOCALHOST", True),
        ("http://[::1]:8080", True),
        ("http://127.0.0.1.example.com", False),
        ("http://localhost.example.com", False),
        ("http://user@127.0.0.1@example.com", False),
        ("http://0.0.0.0", False),
        ("http://192.0.2.1", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(url: str, here: bool) -> None:
    assert is_loopback(url) is here


@pytest.mark.parametrize(
    ("url", "secret", "fine"),
    [
        ("https://api.example/v1", True, True),
        ("http://127.0.0.1:1/v1", True, True),
        ("http://api.example/v1", True, False),
        ("http://api.example/v1", False, True),
        ("ws://api.example", False, False),
        ("/v1", False, False),
        ("https://me@api.example", False, False),
        ("https://api.example?x=1", False, False),
        ("https://api.example:0", False, False),
        ("https://api.example:x", False, False),
    ],
)
def test_a_url_is_checked_before_a_key_is_sent_to_it(url: str, secret: bool, fine: bool) -> None:
    fault = endpoint_fault(url, secret=secret)

    assert (fault is None) is fine
    assert fault is None or url not in fault


def test_the_origin_holds_no_secret() -> None:
    assert origin_of("https://me:pw@api.example:8443/key/v1?token=x") == "https://api.example:8443"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://localhost:1", "http://localhost:1/v1"),
        ("http://localhost:1/", "http://localhost:1/v1"),
        ("http://localhost:1/v1/", "http://localhost:1/v1"),
        ("https://api.example/openai/v2", "https://api.example/openai/v2"),
    ],
)
def test_a_version_is_added_only_where_there_is_no_path(given: str, used: str) -> None:
    assert with_version(given) == used


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":8080", "http://127.0.0.1:8080"),
        ("localhost", "http://localhost:11434"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("https://localhost:8443/", "https://localhost:8443"),
        ("http://192.0.2.1:11434", None),
        ("example.com", None),
        ("http://[::1", None),
        ("127.0.0.1:port", None),
    ],
)
def test_ollama_is_looked_for_on_this_machine_only(host: str | None, url: str | None) -> None:
    assert ollama_url(host) == url


def test_models_that_only_embed_are_left_out() -> None:
    names = ["nomic-embed-text", "llama3", "mxbai-Embed-large", "qwen"]

    assert writing_models(names) == ("llama3", "qwen")


@pytest.mark.parametrize(
    "items", [None, 1, "text", {"id": "a"}, ["a"], [{"id": 1}], [{}], [None]], ids=repr
)
def test_lists_of_models_may_hold_anything(items: object) -> None:
    assert texts_at(items, "id") == []
    assert texts_at([{"id": "a"}, 3, {"id": None}, {"id": "b"}], "id") == ["a", "b"]
