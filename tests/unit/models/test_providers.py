"""Which model is found where none was named."""

from __future__ import annotations

from plait.models.endpoints import Endpoint, may_look_for_ollama
from plait.models.providers import ANTHROPIC, OPENAI, find_model, keys_in

OLLAMA = Endpoint(base_url="http://127.0.0.1:11434/v1", models=("llama3.2", "other"))


def test_a_key_comes_before_an_endpoint_and_that_before_ollama() -> None:
    both, one = ("anthropic", "openai"), ("openai",)
    url = "http://localhost:1"
    found = [
        find_model(both, openai_url=url, endpoint=OLLAMA)[0],
        find_model(one, openai_url=url, endpoint=OLLAMA)[0],
        find_model(openai_url=url, endpoint=OLLAMA)[0],
        find_model(endpoint=OLLAMA)[0],
        find_model()[0],
    ]

    assert [(one.provider, one.model, one.base_url) if one else None for one in found] == [
        (ANTHROPIC, ANTHROPIC.model, None),
        (OPENAI, None, "http://localhost:1"),
        (None, None, "http://localhost:1"),
        (None, "llama3.2", OLLAMA.base_url),
        None,
    ]


def test_what_is_passed_over_is_noted() -> None:
    found = find_model(
        ("anthropic",),
        openai_url="https://far.example/v1",
        lacking={"anthropic": "x is not installed"},
    )

    assert found == (
        None,
        (
            "ANTHROPIC_API_KEY is not used, since x is not installed",
            "OPENAI_BASE_URL is not used, since OPENAI_API_KEY is not set",
        ),
    )


def test_a_variable_keeps_ollama_from_being_looked_for() -> None:
    answers = [may_look_for_ollama({"PLAIT_NO_OLLAMA": value}) for value in ("1", "yes", "0", " ")]

    assert answers == [False, False, True, True]
    assert may_look_for_ollama({})


def test_the_keys_of_an_environment_are_known() -> None:
    environ = {"ANTHROPIC_API_KEY": " a ", "OPENROUTER_API_KEY": "b", "OPENAI_API_KEY": " "}
    token = {"CLAUDE_CODE_OAUTH_TOKEN": "c"}

    assert sorted(keys_in({**environ, **token})) == ["a", "b", "c"]
