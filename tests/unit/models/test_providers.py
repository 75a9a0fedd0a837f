"""Which model is found where none was named."""

from __future__ import annotations

from plait.models.endpoints import Endpoint, may_look_for_ollama
from plait.models.providers import ANTHROPIC, OPENAI, Clues, find_model, keys_in

OLLAMA = Endpoint(base_url="http://127.0.0.1:11434/v1", models=("llama3.2", "other"))


def test_a_key_comes_before_an_endpoint_and_that_before_ollama() -> None:
    everything = Clues(
        keys=frozenset({"anthropic", "openai"}), openai_url="http://localhost:1", endpoint=OLLAMA
    )
    by_openai = Clues(keys=frozenset({"openai"}), openai_url="http://localhost:1", endpoint=OLLAMA)
    by_url = Clues(openai_url="http://localhost:1", endpoint=OLLAMA)
    by_ollama = Clues(endpoint=OLLAMA)

    found = [find_model(clues)[0] for clues in (everything, by_openai, by_url, by_ollama, Clues())]

    assert [(one.provider, one.model, one.base_url) if one else None for one in found] == [
        (ANTHROPIC, ANTHROPIC.model, None),
        (OPENAI, None, "http://localhost:1"),
        (None, None, "http://localhost:1"),
        (None, "llama3.2", OLLAMA.base_url),
        None,
    ]


def test_what_is_passed_over_is_noted() -> None:
    clues = Clues(
        keys=frozenset({"anthropic"}),
        openai_url="https://far.example/v1",
        lacking={"anthropic": "x is not installed"},
    )

    assert find_model(clues) == (
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

    assert keys_in(environ) == ["a", "b"]
