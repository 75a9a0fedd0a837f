"""Settings from variables and a `.env` file."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.errors import ConfigError
from plait.reasoning.backends.http import PipeNames, RetryPolicy
from plait.reasoning.backends.settings import (
    BackendPreference,
    GotLimits,
    ReasoningSettings,
    read_settings,
)

CANARY = "canary-8d02c4"


def problems(environ: dict[str, str]) -> dict[str, str]:
    """Return what is wrong, by variable."""
    with pytest.raises(ConfigError) as refused:
        read_settings(environ)
    assert CANARY not in str(refused.value)
    return {problem.path: problem.message for problem in refused.value.problems}


def halves(pair: str) -> tuple[str, str, str]:
    return pair.partition("=")


def test_without_variables_or_with_blank_ones_everything_is_as_usual(tmp_path: Path) -> None:
    settings = read_settings({}, dotenv=tmp_path / "missing.env")

    blank = {"LANGBASE_API_KEY": " ", "MAX_RETRIES": "", "PIPE_LINEAR": "", "LOG_LEVEL": " "}
    assert settings == ReasoningSettings() == read_settings(blank)
    assert settings.langbase_url == "https://api.langbase.com"
    assert (settings.database, settings.database_connections) == (None, 5)
    assert (settings.log_level, settings.log_format) == ("info", "pretty")
    assert (settings.detect_ollama, settings.detect_local) == (True, True)
    assert (settings.include_snapshots, settings.output_schemas) == (True, True)
    assert settings.got == GotLimits(max_nodes=100, max_depth=10, default_k=3, prune_threshold=0.3)
    assert settings.pipes == PipeNames()
    usual = RetryPolicy(timeout_seconds=30, max_retries=3, first_delay_seconds=1)
    assert settings.retry_policy(30) == usual


def test_every_variable_is_read() -> None:
    environ = """
        LANGBASE_API_KEY=lb LANGBASE_BASE_URL=https://lb.example/ ANTHROPIC_API_KEY=an
        OPENAI_API_KEY=op OPENAI_BASE_URL=https://op.example/v1/ OLLAMA_HOST=localhost:1
        PLAIT_NO_OLLAMA=1 PLAIT_NO_LOCAL=1 DATABASE_PATH=./data/reasoning.db LOG_FORMAT=json
        DATABASE_MAX_CONNECTIONS=7 LOG_LEVEL=DEBUG REQUEST_TIMEOUT_MS=1500 MAX_RETRIES=0
        RETRY_DELAY_MS=250 GOT_MAX_NODES=10 GOT_MAX_DEPTH=20 GOT_DEFAULT_K=1 GOT_PRUNE_THRESHOLD=0
        PLAIT_REASONING_BACKEND=openai PLAIT_REASONING_MODEL=tiny PLAIT_REASONING_API_KEY=own
        PLAIT_REASONING_BASE_URL=http://localhost:8080 PLAIT_REASONING_SCRIPT=script.json
        PLAIT_REASONING_PROFILE=Compact PLAIT_REASONING_SNAPSHOTS=0 PLAIT_REASONING_OUTPUT_SCHEMAS=0
    """
    settings = read_settings({name: value for name, _, value in map(halves, environ.split())})

    keys = settings.keys
    assert (keys.langbase, keys.anthropic, keys.openai) == ("lb", "an", "op")
    assert settings.langbase_url == "https://lb.example"
    assert settings.openai_url == "https://op.example/v1"
    assert (settings.ollama_host, settings.detect_ollama) == ("localhost:1", False)
    assert (settings.detect_local, settings.profile) == (False, "compact")
    assert (settings.include_snapshots, settings.output_schemas) == (False, False)
    assert (settings.database, settings.database_connections) == ("./data/reasoning.db", 7)
    assert (settings.log_level, settings.log_format) == ("debug", "json")
    assert settings.got == GotLimits(max_nodes=10, max_depth=20, default_k=1, prune_threshold=0.0)
    slow = RetryPolicy(timeout_seconds=1.5, max_retries=0, first_delay_seconds=0.25)
    assert settings.retry_policy(30) == slow
    url = "http://localhost:8080"
    assert settings.preference == BackendPreference(
        backend="openai", model="tiny", base_url=url, key="own", script="script.json"
    )


def test_pipes_have_names_of_their_own_and_graphs_may_share_one() -> None:
    modes = ("linear", "tree", "divergent", "reflection", "auto")
    environ = {f"PIPE_{mode.upper()}": f"my-{mode}" for mode in modes}

    settings = read_settings(
        {**environ, "PIPE_BACKTRACKING": "b", "PIPE_GOT": "got", "PIPE_GOT_SCORE": "score"}
    )

    shared = dict.fromkeys(("got_generate", "got_aggregate", "got_refine"), "got")
    own = {mode: f"my-{mode}" for mode in modes}
    assert settings.pipes == PipeNames(**own, **shared, backtracking="b", got_score="score")


INVALID = {
    ("MAX_RETRIES", CANARY): "a whole number from 0 to 20, and is a text",
    ("MAX_RETRIES", "-1"): "a whole number from 0 to 20, and is a number outside of it",
    ("DATABASE_MAX_CONNECTIONS", "1.5"): "a whole number from 1 to 1000, and is a fraction",
    ("REQUEST_TIMEOUT_MS", "0"): "a whole number from 1 to 86400000, and is a number outside of it",
    ("RETRY_DELAY_MS", "1s"): "a whole number from 0 to 86400000, and is a text",
    ("GOT_MAX_NODES", "9"): "a whole number from 10 to 1000, and is a number outside of it",
    ("GOT_PRUNE_THRESHOLD", "nan"): "a number from 0 to 1, and is not a finite number",
    ("GOT_PRUNE_THRESHOLD", CANARY): "a number from 0 to 1, and is a text",
    ("LOG_FORMAT", CANARY): "one of pretty, json, and is another word",
    ("LOG_LEVEL", "3"): "one of trace, debug, info, warn, error, and is another word",
    ("PLAIT_REASONING_SNAPSHOTS", CANARY): "0 or 1, and is another word",
    ("PLAIT_REASONING_BACKEND", "magic"): (
        "one of langbase, model, openai, sampling, local, host, scripted, and is another word"
    ),
}


def test_a_value_that_cannot_be_used_is_refused_without_being_quoted_and_all_are_told() -> None:
    for (name, value), message in INVALID.items():
        assert problems({name: value}) == {name: f"must be {message}"}
    several: dict[str, str] = {"MAX_RETRIES": "x", "LOG_LEVEL": "x", "LANGBASE_BASE_URL": "x"}
    assert set(problems(several)) == set(several)


@pytest.mark.parametrize(
    "url",
    [
        *("http://api.langbase.com", "ftp://api.langbase.com", "api.langbase.com", "https://"),
        *("https://[::1", "https://x:99999", f"https://user:{CANARY}@api.langbase.com"),
        f"https://api.langbase.com?key={CANARY}",
    ],
)
def test_the_url_of_langbase_must_be_https_and_hold_no_secret(url: str) -> None:
    assert set(problems({"LANGBASE_BASE_URL": url})) == {"LANGBASE_BASE_URL"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:8091", "http://localhost", "http://[::1]:80"])
def test_this_machine_needs_no_https(url: str) -> None:
    assert read_settings({"LANGBASE_BASE_URL": url}).langbase_url == url


def test_a_key_is_not_sent_in_the_open() -> None:
    lan = "http://192.0.2.7:11434"

    assert read_settings({"PLAIT_REASONING_BASE_URL": lan}).preference.base_url == lan
    for name in ("PLAIT_REASONING", "OPENAI"):
        environ = {f"{name}_BASE_URL": lan, f"{name}_API_KEY": CANARY}
        assert set(problems(environ)) == {f"{name}_BASE_URL"}


def test_a_file_fills_in_what_the_environment_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text('# keys\nLANGBASE_API_KEY="from file"\nexport MAX_RETRIES=5\n')

    settings = read_settings({"MAX_RETRIES": "1"}, dotenv=path)

    assert settings.keys.langbase == "from file"
    assert settings.times.max_retries == 1


@pytest.mark.parametrize("name", ["OPENAI", "LANGBASE", "PLAIT_REASONING"])
def test_a_file_never_redirects_a_key_from_elsewhere(name: str, tmp_path: Path) -> None:
    address, key, path = f"{name}_BASE_URL", f"{name}_API_KEY", tmp_path / ".env"
    path.write_text(f"{address}=https://evil.example/v1\n{key}=theirs\nLOG_LEVEL=debug\n")

    settings = read_settings({key: "mine"}, dotenv=path)

    without = read_settings({key: "mine", "LOG_LEVEL": "debug"})
    assert settings.model_copy(update={"notes": ()}) == without
    sets, ignored = settings.notes
    assert sets == f"{path} sets LOG_LEVEL"
    assert ignored.startswith(f"{address} in {path} is ignored, because {key} is not from there")


@pytest.mark.parametrize(
    ("database", "is_used"),
    [
        ("postgresql://evil.example/plait", False),
        ("postgresql://user@evil.example/plait", False),
        ("postgresql://user:own@db.example/plait", True),
        ("thoughts.db", True),
    ],
)
def test_a_file_names_no_database_that_gets_a_password_from_elsewhere(
    database: str, is_used: bool, tmp_path: Path
) -> None:
    path = tmp_path / ".env"
    path.write_text(f"DATABASE_PATH={database}\n")

    settings = read_settings({"PGPASSWORD": "mine"}, dotenv=path)

    assert settings.database == (database if is_used else None)
    assert read_settings({}, dotenv=path).database == database


def test_a_file_may_name_an_address_for_its_own_key_or_for_none(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("OPENAI_BASE_URL=https://own.example/v1\nOPENAI_API_KEY=own\n")
    both = read_settings({}, dotenv=path)
    path.write_text("OPENAI_BASE_URL=http://localhost:8080/v1\n")
    no_key = read_settings({"ANTHROPIC_API_KEY": "other"}, dotenv=path)

    assert (both.openai_url, both.keys.openai) == ("https://own.example/v1", "own")
    assert both.notes == (f"{path} sets OPENAI_BASE_URL, OPENAI_API_KEY",)
    assert (no_key.openai_url, no_key.keys.openai) == ("http://localhost:8080/v1", None)


@pytest.mark.parametrize("content", [f"KEY {CANARY}".encode(), b"A=\xff\xfe"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".env"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as refused:
        read_settings({}, dotenv=path)

    assert str(path) in str(refused.value)
    assert CANARY not in str(refused.value)


def test_what_is_wished_wins_over_the_variables() -> None:
    environ = {"PLAIT_REASONING_BACKEND": "host", "PLAIT_REASONING_MODEL": "a:b"}
    wish = BackendPreference(backend="model")

    settings = read_settings(environ, preference=wish)

    assert settings.preference == BackendPreference(backend="model", model="a:b")


def test_settings_do_not_show_their_keys() -> None:
    names = ("LANGBASE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PLAIT_REASONING_API_KEY")
    url = f"postgresql://me:{CANARY}@db/plait"

    assert CANARY not in repr(read_settings({**dict.fromkeys(names, CANARY), "DATABASE_PATH": url}))
