"""What is secret in a server's configuration is known, and is never shown."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp.server import MCPServer

from plait._support.redact import looks_secret
from plait.client.config.read import read_config
from plait.client.config.secrets import secret_values
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ServerConfig,
    SseServer,
    StdioServer,
    WebSocketServer,
)
from plait.client.config.urls import public_url


@pytest.mark.parametrize(
    "name",
    [
        *("API_KEY", "apiKey", "X-Api-Key", "GITHUBTOKEN", "AccessToken", "password", "DB_PASSWD"),
        *("Authorization", "auth", "sig", "Cookie", "--client-secret", "AWS_SECRET_ACCESS_KEY"),
        "GITHUB_PAT",
    ],
)
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["PATH", "author", "MONKEY", "keyboard", "design", "path", "X-Id"])
def test_other_names_are_not_secret(name: str) -> None:
    assert not looks_secret(name)


def test_headers_are_secret_with_and_without_their_scheme() -> None:
    basic = base64.b64encode(b"ann:pa55word").decode()
    server = HttpServer(
        url="https://example.com/mcp",
        headers={
            "Authorization": "Bearer abcdef123",
            "Proxy-Authorization": f"Basic {basic}",
            "X-Tenant": "acme-corp",
            "X-Retry": "1",
            "Accept": "application/json",
            "User-Agent": "my-agent/1.0",
        },
    )

    assert secret_values(server) == {
        *("Bearer abcdef123", "abcdef123", f"Basic {basic}", basic, "ann:pa55word", "pa55word"),
        "acme-corp",
    }


def test_environment_values_are_secret_unless_they_are_harmless() -> None:
    server = StdioServer(
        command="a",
        env={
            "API_KEY": "12345678",
            "OPTION": "some value",
            "SHORT": "abc",
            "COUNT": "1234567",
            "FLAG": "false",
            "PATH": "/usr/local/bin",
            "NODE_ENV": "production",
            "LOG_LEVEL": "warning",
            "PYTHONPATH": "/srv/python",
            "DATABASE_URL": "postgres://ann:pa55word@db/main",
        },
    )

    assert secret_values(server) == {
        *("12345678", "some value", "postgres://ann:pa55word@db/main", "ann:pa55word", "pa55word"),
    }


def test_arguments_are_secret_after_or_within_a_telling_flag() -> None:
    server = StdioServer(
        command="npx",
        args=(
            *("-y", "some-server", "--token", "tok-en-1", "--api-key=key-1", "--verbose"),
            *("--header", "Authorization: Bearer bea-rer-1", "-e", "GITHUB_TOKEN=gh-1"),
            *("postgresql://ann:pa55word@db/main", "ghp_0123456789abcdef"),
            *("--password", "--quiet", "--path", "/srv/data", "--secret"),
        ),
    )

    assert secret_values(server) == {
        *("tok-en-1", "key-1", "Bearer bea-rer-1", "bea-rer-1", "gh-1", "ann:pa55word", "pa55word"),
        "ghp_0123456789abcdef",
    }


@pytest.mark.parametrize("kind", [HttpServer, SseServer, WebSocketServer])
def test_user_and_telling_parameters_of_a_url_are_secret(kind: Any) -> None:
    server = kind(
        url="https://ann%40x:pa%2Fss@example.com/s/a1b2c3d4e5f6a7b8c9d0e1f2a3/mcp"
        "?api_key=k%2Dey123&mode=readonly&sig=short"
    )

    assert secret_values(server) == {
        *("ann%40x:pa%2Fss", "ann@x:pa/ss", "pa%2Fss", "pa/ss", "a1b2c3d4e5f6a7b8c9d0e1f2a3"),
        *("k%2Dey123", "k-ey123"),
    }
    assert public_url(server.url) == "https://example.com/s/…/mcp"


def test_credentials_given_as_data_are_secret() -> None:
    url = "https://example.com"
    mapping = {"client_id": "me", "client_secret": "sec-ret"}

    assert secret_values(HttpServer(url=url, auth=mapping)) == {"sec-ret"}
    assert secret_values(HttpServer(url=url, auth=("ann", "pa55word"))) == {"ann", "pa55word"}
    assert secret_values(HttpServer(url=url, auth="tok-en")) == {"tok-en"}
    assert secret_values(HttpServer(url=url, auth=object(), headers=dict)) == set()
    assert secret_values(InProcessServer(server=MCPServer("x"))) == set()


def test_values_of_secret_variables_are_secret_wherever_they_stand() -> None:
    config = read_config(
        {"a": {"command": "a", "args": ["${MY_TOKEN}"]}}, environ={"MY_TOKEN": "value-1"}
    )

    assert secret_values(config.servers["a"]) == {"value-1"}


CANARY = "CANARY-4242"


@pytest.mark.parametrize(
    "server",
    [
        StdioServer(command=f"npx --token {CANARY}", args=(CANARY,), env={"A": CANARY}),
        HttpServer(url=f"https://u:{CANARY}@h/p?key={CANARY}#{CANARY}", headers={"A": CANARY}),
        SseServer(url=f"https://{CANARY}@h/p", auth=CANARY, client_options={"a": CANARY}),
        WebSocketServer(url=f"wss://h/?t={CANARY}", secrets=frozenset({CANARY})),
    ],
)
def test_a_server_shows_no_secret(server: ServerConfig) -> None:
    assert CANARY not in repr(server)
    assert CANARY not in str({"a": server})


def test_a_server_shows_where_it_is_and_what_is_set() -> None:
    assert repr(StdioServer(command="npx", args=("a",), required=True)) == (
        "StdioServer(command='npx', required=True)"
    )
    assert repr(HttpServer(url="https://u:p@h:1/mcp?x=y", idle_seconds=None)) == (
        "HttpServer(url='https://h:1/mcp', idle_seconds=None)"
    )
    assert repr(HttpServer(url="https://[broken")) == "HttpServer(url='(not a URL)')"


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("xKqPzRmWbYtLcNvHsDfGjAeU", "…"),
        ("Zq9xCanary01mW4t", "…"),
        ("NzA5YjYtYWJjZC00ZjU2", "…"),
        ("modelContextProtocolServer", "modelContextProtocolServer"),
        ("streamable-http-v2", "streamable-http-v2"),
        ("GetUserProfile", "GetUserProfile"),
    ],
)
def test_a_key_in_a_path_is_known_by_its_letters(step: str, shown: str) -> None:
    assert (
        public_url(f"https://example.com/hooks/{step}/mcp")
        == f"https://example.com/hooks/{shown}/mcp"
    )
