"""How to sign in, as files and programs say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError, OAuth, read_config
from plait.client import HttpServer, MemoryTokenStore, SseServer
from plait.client.config.oauth_settings import person_seconds
from plait.client.config.secrets import secret_values
from plait.client.config.servers import connect_seconds_of

URL = "https://example.com/mcp"


def auth_in(value: object, **environ: str) -> Any:
    server = read_config({"shop": {"url": URL, "auth": value}}, environ=environ).servers["shop"]
    assert isinstance(server, HttpServer)
    return server.auth


def problem_in(value: object) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        auth_in(value, SECRET="canary-77aa", HOME="/h")
    assert "canary-77aa" not in str(caught.value)
    (problem,) = caught.value.problems
    return problem.path, problem.code


def test_one_word_is_enough() -> None:
    assert auth_in("oauth") == auth_in({"type": "oauth"}) == OAuth()


def test_everything_can_be_said_in_json_and_variables_are_replaced() -> None:
    settings = auth_in(
        {
            "type": "oauth",
            "grantType": "client_credentials",
            "clientId": "robot",
            "clientSecret": "${SECRET}",
            "scope": "read write",
            "issuer": "https://auth.example.com",
            "user": "ann",
            "store": "keyring",
        },
        SECRET="canary-77aa",
    )

    assert settings == OAuth(
        grant="client_credentials",
        client_id="robot",
        client_secret="canary-77aa",
        scopes=("read", "write"),
        issuer="https://auth.example.com",
        user="ann",
        store="keyring",
    )
    assert "canary" not in repr(settings)


def test_the_javascript_spelling_of_the_key_is_understood() -> None:
    store = MemoryTokenStore()
    config = read_config(
        {
            "a": {"url": URL, "authProvider": {"scopes": ["read"], "store": store}},
            "b": {"url": URL, "type": "sse", "auth_provider": OAuth(user="ann")},
        }
    )
    first, second = config.servers.values()

    assert isinstance(first, HttpServer)
    assert isinstance(second, SseServer)
    assert first.auth == OAuth(scopes=("read",), store=store)
    assert second.auth == OAuth(user="ann")


def test_a_key_file_lies_beside_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"shop": {"url": "https://h/mcp", "auth": {"grant": "client_credentials", '
        '"client_id": "c", "private_key_file": "keys/a.pem"}}}'
    )
    server = read_config(file).servers["shop"]

    assert isinstance(server, HttpServer)
    assert server.auth.private_key_file == str(tmp_path / "keys" / "a.pem")


@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        ("canary-77aa", "shop.auth", "unknown_value"),
        ({"type": "basic", "password": "canary-77aa"}, "shop.auth.type", "unknown_value"),
        (
            {"type": "oauth", "client_sercet": "canary-77aa"},
            "shop.auth.client_sercet",
            "unknown_key",
        ),
        ({"type": "oauth", "client_secret": "${SECRET}"}, "shop.auth", "bad_value"),
        ({"type": "oauth", "scopes": 3}, "shop.auth.scopes", "wrong_type"),
        ({"type": "oauth", "store": "shelf"}, "shop.auth.store", "unknown_value"),
        ({"type": "oauth", "redirect_port": 99999}, "shop.auth", "bad_value"),
    ],
)
def test_mistakes_are_found_where_they_stand(value: object, path: str, code: str) -> None:
    assert problem_in(value) == (path, code)


@pytest.mark.parametrize(
    "wrong",
    [
        {"grant": "client_credentials"},
        {"grant": "client_credentials", "client_id": "c"},
        *(
            {"grant": "client_credentials", "client_id": "c", "private_key": "k", **more}
            for more in ({"client_secret": "s"}, {"private_key_file": "f"})
        ),
        {"private_key": "k"},
        {"client_secret": "s"},
        {"issuer": "auth.example.com"},
        {"client_metadata_url": "http://example.com/x"},
        {"client_metadata_url": "https://example.com/"},
        {"redirect_uri": "https://example.com/callback"},
        {"redirect_port": -1},
        {"on_callback": print},
    ],
)
def test_settings_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        OAuth(**wrong)


def test_secrets_are_known_to_whoever_hides_them() -> None:
    by_secret = OAuth(client_id="c", client_secret="sec-ret")
    by_key = OAuth(grant="client_credentials", client_id="c", private_key="pem-text")

    assert secret_values(HttpServer(url=URL, auth=by_secret)) == {"sec-ret"}
    assert secret_values(HttpServer(url=URL, auth=by_key)) == {"pem-text"}
    assert "sec-ret" not in repr(by_secret)
    assert "pem-text" not in repr(by_key)


def test_a_person_is_given_time_only_where_one_is_asked() -> None:
    asking = OAuth(interactive=True, wait_seconds=100)

    assert person_seconds(asking) == 100
    assert person_seconds(OAuth()) == person_seconds(None) == 0
    assert connect_seconds_of(HttpServer(url=URL, auth=asking)) == 120
    assert connect_seconds_of(HttpServer(url=URL, auth=OAuth())) == 20
