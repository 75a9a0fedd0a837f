"""A server program gets few variables of its parent, and all of its own."""

from __future__ import annotations

import os
from typing import Any

import pytest
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from plait.client.config.secrets import child_environment
from plait.client.config.servers import StdioServer

PARENT = {
    "HOME": "/home/ann",
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TMPDIR": "/tmp",
    "https_proxy": "http://proxy",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/ca.pem",
    "SSL_CERT_DIR": "/certs",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
    "npm_config_registry": "http://registry",
    "UV_CACHE_DIR": "/cache",
    "XDG_CACHE_HOME": "/cache",
    "TERM": "() { :; }; echo unsafe",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu",
    "OTHER": "x",
    "home": "not HOME",
}

USUAL = {
    name: value
    for name, value in PARENT.items()
    if name not in ("TERM", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "OTHER", "home")
}


def test_only_the_usual_variables_are_passed_on() -> None:
    assert child_environment(StdioServer(command="a"), PARENT, windows=False) == USUAL


@pytest.mark.parametrize(
    "name",
    [
        *("UV_PUBLISH_TOKEN", "UV_PUBLISH_PASSWORD", "UV_PUBLISH_USERNAME"),
        *("UV_INDEX_PRIVATE_PASSWORD", "UV_INDEX_PRIVATE_USERNAME", "NPM_CONFIG__AUTH"),
        *("npm_config__auth", "npm_config__authToken", "npm_config__password"),
        "npm_config_//registry.example.com/:_authToken",
        *("npm_config_//registry.example.com/:_password", "npm_config_otp", "npm_config_key"),
        *("LC_API_TOKEN", "XDG_SECRET", "XDG_CREDS", "LC_PW", "UV_INDEX_PRIVATE_LOGIN"),
        "npm_config_//registry.example.com/:username",
    ],
)
def test_no_token_or_password_slips_through_a_wildcard(name: str) -> None:
    parent = {**PARENT, name: "secret"}
    named = StdioServer(command="a", inherit_env=(name,))

    assert child_environment(StdioServer(command="a"), parent, windows=False) == USUAL
    assert child_environment(named, parent, windows=False) == {**USUAL, name: "secret"}


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("https://index.example/simple?token=s3cret-value", False),
        ("corp=https://index.example/simple?sig=s3cret-value", False),
        ("ghp_0123456789abcdefghij", False),
        ("npm_0123456789abcdefghij", False),
        ("https://pkgs.example/8f14e45f-ceea-467f-a9f1-2b5d0c6f1a11/simple", True),
        ("/nix/store/0c5v3z4k5h8a9b1c2d3e4f5g6h7j8k9l-links", True),
    ],
)
def test_a_token_under_a_harmless_name_is_not_passed_on_but_an_id_in_a_path_is(
    value: str, passed: bool
) -> None:
    links = {"UV_FIND_LINKS": value}

    passed_on = child_environment(StdioServer(command="a"), PARENT | links, windows=False)

    assert passed_on == (USUAL | links if passed else USUAL)


@pytest.mark.parametrize("name", ["UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "npm_config_registry"])
def test_an_index_with_a_password_in_its_url_is_not_passed_on(name: str) -> None:
    private = {name: "https://index.example/simple https://me:secret@index.example/simple"}
    public = {name: "https://index.example/simple"}

    assert child_environment(StdioServer(command="a"), private, windows=False) == {}
    assert child_environment(StdioServer(command="a"), public, windows=False) == public


def test_everything_the_sdk_passes_on_is_passed_on() -> None:
    parent = dict.fromkeys(DEFAULT_INHERITED_ENV_VARS, "x")

    assert child_environment(StdioServer(command="a"), parent, windows=os.name == "nt") == parent


AWS = {"AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu"}


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"inherit_env": ("OTHER", "MISSING")}, {**USUAL, "OTHER": "x"}),
        ({"inherit_env": ("AWS_*",)}, USUAL | AWS),
        pytest.param(
            {"inherit_env": True},
            {name: value for name, value in PARENT.items() if name != "TERM"},
            id="all variables but no shell functions",
        ),
        ({"env": {"PATH": "/own", "NEW": "1"}}, {**USUAL, "PATH": "/own", "NEW": "1"}),
    ],
)
def test_variables_that_are_asked_for_and_the_servers_own_are_passed_on(
    options: dict[str, Any], environment: dict[str, str]
) -> None:
    server = StdioServer(command="a", **options)

    assert child_environment(server, PARENT, windows=False) == environment


def test_names_have_no_case_on_windows() -> None:
    parent = {"Path": "p", "SystemRoot": "r", "Secret": "s", "USER": "u"}

    environment = child_environment(
        StdioServer(command="a", inherit_env=("secret",)), parent, windows=True
    )

    assert environment == {"Path": "p", "SystemRoot": "r", "Secret": "s"}
