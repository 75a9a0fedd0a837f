"""Which backend is chosen, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import BackendError, ConfigError
from plait.models.endpoints import Endpoint
from plait.reasoning.backends.choose import (
    AvailableModels,
    BackendChoice,
    choose,
    completer_for,
    key_for_endpoint,
    key_for_model,
)
from plait.reasoning.backends.port import Completion, Prompt, SamplingCompleter
from plait.reasoning.backends.settings import BackendName, BackendPreference, read_settings

OLLAMA = Endpoint(base_url="http://127.0.0.1:11434/v1", models=("llama3.2:3b", "other"))
ALL = AvailableModels(endpoint=OLLAMA, has_anthropic=True)
NOTHING = AvailableModels()


def chosen(
    environ: dict[str, str], around: AvailableModels = NOTHING, *, sampling: bool | None = None
) -> BackendChoice:
    return choose(read_settings(environ), around, sampling=sampling)


def test_the_first_that_applies_is_taken_in_the_order_of_the_docs() -> None:
    """Take away one reason after another, from the strongest on."""
    environ = {
        "PLAIT_REASONING_MODEL": "groq:x",
        "LANGBASE_API_KEY": "k",
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "http://localhost:8080/v1",
    }
    seen: list[tuple[BackendName, str]] = []
    names = [*environ]
    for taken in range(len(names) + 1):
        left = {name: environ[name] for name in names[taken:]}
        choice = chosen(left, ALL, sampling=True)
        seen.append((choice.backend, choice.reason))
    seen.append(((last := chosen({}, NOTHING, sampling=True)).backend, last.reason))
    seen.append(((last := chosen({}, NOTHING)).backend, last.reason))

    assert seen == [
        ("model", "it was asked for"),
        ("langbase", "LANGBASE_API_KEY is set"),
        ("model", "ANTHROPIC_API_KEY is set"),
        ("openai", "OPENAI_API_KEY is set"),
        ("openai", "OPENAI_BASE_URL is on this machine"),
        ("openai", "Ollama runs on this machine"),
        ("sampling", "the client offers sampling"),
        ("host", "no model is configured"),
    ]


def test_a_choice_says_which_model_and_where() -> None:
    claude = chosen({"ANTHROPIC_API_KEY": "k"}, ALL)
    openai = chosen({"OPENAI_API_KEY": "k"})
    other = chosen({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://op.example/v1"})
    ollama = chosen({}, ALL)

    assert (claude.model, claude.base_url) == ("anthropic:claude-haiku-5-5", None)
    assert (openai.model, openai.base_url) == ("gpt-4o-mini", "https://api.openai.com/v1")
    assert (other.model, other.base_url) == (None, "https://op.example/v1")
    assert (ollama.model, ollama.base_url) == ("llama3.2:3b", OLLAMA.base_url)


def test_a_key_without_its_package_is_passed_over_with_a_note() -> None:
    alone = chosen({"ANTHROPIC_API_KEY": "k"})
    both = chosen({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"})

    assert (alone.backend, both.backend) == ("host", "openai")
    for choice in (alone, both):
        (note,) = choice.notes
        assert "langchain-anthropic is not installed" in note


def test_an_endpoint_elsewhere_needs_a_key() -> None:
    choice = chosen({"OPENAI_BASE_URL": "https://op.example/v1"}, ALL, sampling=True)

    assert (choice.backend, choice.base_url) == ("openai", OLLAMA.base_url)
    assert "OPENAI_API_KEY is not set" in choice.notes[0]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "LANGBASE_API_KEY": st.just("k"),
            "ANTHROPIC_API_KEY": st.just("k"),
            "OPENAI_API_KEY": st.just("k"),
            "OPENAI_BASE_URL": st.sampled_from(["http://localhost:1", "https://op.example"]),
        },
    ),
    st.builds(
        AvailableModels,
        endpoint=st.sampled_from([None, OLLAMA]),
        has_anthropic=st.booleans(),
    ),
)
def test_sampling_only_takes_the_place_of_the_host(
    environ: dict[str, str], around: AvailableModels
) -> None:
    without = chosen(environ, around)

    assert chosen(environ, around, sampling=False) == without
    offered = chosen(environ, around, sampling=True)
    if without.backend == "host":
        assert offered.backend == "sampling"
    else:
        assert offered == without
    assert without.backend != "scripted"


ASKED = [
    # The variables beside PLAIT_REASONING_…; then backend, model and base URL of the choice.
    ({"BACKEND": "host"}, ("host", None, None)),
    ({"BACKEND": "sampling"}, ("sampling", None, None)),
    ({"MODEL": "openai:gpt-x"}, ("model", "openai:gpt-x", None)),
    ({"BACKEND": "model", "MODEL": "gpt-x"}, ("model", "gpt-x", None)),
    ({"BASE_URL": "http://localhost:1"}, ("openai", None, "http://localhost:1")),
    ({"BASE_URL": "http://localhost:1", "MODEL": "l:3b"}, ("openai", "l:3b", "http://localhost:1")),
    ({"BACKEND": "openai"}, ("openai", "llama3.2:3b", OLLAMA.base_url)),
    ({"BACKEND": "openai", "MODEL": "other"}, ("openai", "other", OLLAMA.base_url)),
    ({"BACKEND": "scripted", "SCRIPT": "s.json"}, ("scripted", None, None)),
]


def test_what_is_asked_for_is_taken_whatever_else_there_is() -> None:
    for asked, expected in ASKED:
        choice = chosen({f"PLAIT_REASONING_{name}": value for name, value in asked.items()}, ALL)
        assert (choice.backend, choice.model, choice.base_url) == expected
    openai = chosen({"PLAIT_REASONING_BACKEND": "openai", "OPENAI_API_KEY": "k"}, ALL)
    assert (openai.model, openai.base_url) == ("gpt-4o-mini", "https://api.openai.com/v1")
    assert chosen({"PLAIT_REASONING_BACKEND": "host", "LANGBASE_API_KEY": "k"}).backend == "host"


@pytest.mark.parametrize(
    ("variable", "value", "missing"),
    [
        ("BACKEND", "langbase", "LANGBASE_API_KEY"),
        ("BACKEND", "model", "provider:name"),
        ("BACKEND", "openai", "base URL"),
        ("BACKEND", "local", "local model"),
        ("BACKEND", "scripted", "replies"),
        ("MODEL", "gpt-x", "provider:name"),
        ("SCRIPT", "s.json", "scripted"),
    ],
)
def test_what_is_asked_for_and_lacks_something_is_an_error_never_another_backend(
    variable: str, value: str, missing: str
) -> None:
    with pytest.raises(ConfigError, match=missing):
        chosen({f"PLAIT_REASONING_{variable}": value}, NOTHING, sampling=True)


def test_sampling_that_is_asked_for_and_not_offered_is_an_error() -> None:
    environ = {"PLAIT_REASONING_BACKEND": "sampling"}

    with pytest.raises(BackendError) as failed:
        chosen(environ, ALL, sampling=False)

    assert failed.value.backend == "sampling"
    assert chosen(environ, ALL, sampling=True).backend == "sampling"


@pytest.mark.parametrize(
    ("variable", "value", "described"),
    [
        ("LANGBASE_API_KEY", "k", "Langbase pipes at https://api.langbase.com"),
        ("OPENAI_API_KEY", "k", "gpt-4o-mini at https://api.openai.com"),
        ("PLAIT_REASONING_BASE_URL", "http://localhost:1", "the first model at http://localhost:1"),
        ("PLAIT_REASONING_MODEL", "groq:x", "langchain model groq:x"),
        ("PLAIT_REASONING_BACKEND", "host", "the calling model writes the thoughts"),
    ],
)
@pytest.mark.anyio
async def test_the_backend_that_was_chosen_is_made(
    variable: str, value: str, described: str
) -> None:
    settings = read_settings({variable: value})
    choice = choose(settings, NOTHING)

    completer = completer_for(choice, settings)

    assert (completer.name, completer.describe()) == (choice.backend, described)
    await completer.aclose()


@pytest.mark.parametrize(
    ("backend", "missing"), [("sampling", "request"), ("local", "local model")]
)
def test_what_a_choice_needs_and_is_not_there_is_an_error(
    backend: BackendName, missing: str
) -> None:
    with pytest.raises(ConfigError, match=missing):
        completer_for(BackendChoice(backend=backend, reason="test"), read_settings({}))


def test_a_key_goes_only_to_the_models_of_its_provider() -> None:
    settings = read_settings({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    keys = {"anthropic:x": "a", "openai:x": "o", "groq:x": None, "anthropic": "a"}

    assert {model: key_for_model(model, settings) for model in keys} == keys


@pytest.mark.parametrize(
    ("url", "key", "expected"),
    [
        (None, None, "openai-key"),
        ("http://localhost:1", None, None),
        ("http://localhost:1", "own-key", "own-key"),
        ("https://api.openai.com/v1", None, None),
    ],
)
def test_a_key_is_not_sent_to_another_endpoint_than_its_own(
    url: str | None, key: str | None, expected: str | None
) -> None:
    wish = BackendPreference(base_url=url, key=key)
    settings = read_settings({"OPENAI_API_KEY": "openai-key"}, preference=wish)
    assert key_for_endpoint(choose(settings, NOTHING), settings) == expected

    found = read_settings({"PLAIT_REASONING_API_KEY": "own-key"})
    assert key_for_endpoint(choose(found, ALL), found) is None


def test_sampling_says_that_the_model_of_the_client_answers() -> None:
    async def sample(prompt: Prompt) -> Completion:
        return Completion(text=prompt.user)

    described = SamplingCompleter(sample).describe()
    assert described == "the model of the connected client, through MCP sampling"
